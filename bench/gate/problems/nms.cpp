// SPDX-License-Identifier: Apache-2.0
// NMS and soft-NMS of clustered detections.
#include "../../plain/nms.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/nms.hpp>
#include <vecdet/soft_nms.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

struct detections {
  std::vector<float> boxes, scores;
  std::vector<std::int64_t> classes;

  explicit detections(std::int64_t count)
      : boxes(clustered_boxes(count)), scores(uniform<float>(count, 0.05f, 1.0f)) {
    for (std::int64_t i = 0; i < count; ++i) classes.push_back(i * 7 % 91);
  }
  boxes_view<const float> b() const { return boxes; }
  vector_view<const float> s() const { return scores; }
  nms_groups by_class() const {
    nms_groups groups;
    groups.classes = classes;
    return groups;
  }
};

const problems added{
    {"nms/clustered/f32/1000", make<detections>(1000),
     VECDET_GATE_CALL(nms(d.b(), d.s(), nms_params{}, own<nms_workspace>(), sequential)),
     VECDET_GATE_CALL(bench::native::plain_nms(d.boxes.data(), d.scores.data(), 1000, 0.5f,
                                               own<bench::plain_nms_memory>()))},
    {"nms/clustered/f32/10000", make<detections>(10000),
     VECDET_GATE_CALL(nms(d.b(), d.s(), nms_params{}, own<nms_workspace>(), sequential))},
    {"batched_nms/clustered91/f32/5000", make<detections>(5000),
     VECDET_GATE_CALL(
         batched_nms(d.b(), d.s(), d.by_class(), nms_params{}, own<nms_workspace>(), sequential))},
    {"soft_nms/linear/f32/1000", make<detections>(1000),
     VECDET_GATE_CALL(soft_nms(d.b(), d.s(), d.by_class(), soft_nms_params{},
                               own<soft_nms_workspace<float>>(), sequential))},
};

}  // namespace
}  // namespace vecdet::gate

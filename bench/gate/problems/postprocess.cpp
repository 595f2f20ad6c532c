// SPDX-License-Identifier: Apache-2.0
// From the head outputs of a small picture to its detections.
#include "../../plain/functions.hpp"
#include "../module/problem.hpp"
#include "random.hpp"
#include <vecdet/postprocess.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet {
namespace gate {
namespace {

/// Some 1 logit in 80 is above a score of 0.05.
struct head {
  std::int64_t anchor_count, classes;
  std::vector<float> logits, deltas, centerness, anchors;

  head(std::int64_t head_anchors, std::int64_t head_classes)
      : anchor_count(head_anchors),
        classes(head_classes),
        logits(normal<float>(anchor_count * classes, -5.2f, 1.0f)),
        deltas(uniform<float>(4 * anchor_count, 0.1f, 0.9f)),
        centerness(normal<float>(anchor_count, 0.0f, 1.0f)),
        anchors(clustered_boxes(anchor_count)) {}

  head_outputs<float> outputs(bool with_centerness) const {
    return {{logits.data(), anchor_count, classes},
            deltas,
            with_centerness ? vector_view<const float>(centerness) : vector_view<const float>()};
  }
  boxes_view<const float> boxes() const { return anchors; }
};

/// One image of 800 x 800 and one level.
template <class Data>
detections_view run(const Data& d, postprocess_params params) {
  static const image_size size{800, 800};
  if (params.detector != dense_detector::rpn) params.score_threshold = 0.05;
  return postprocess(d.outputs(params.detector == dense_detector::fcos), d.boxes(), {},
                     vector_view<const image_size>(&size, 1), params, own<postprocess_workspace>(),
                     execution::sequential);
}

void run_plain(const head& d, bench::plain_detector detector, const postprocess_params& params) {
  const bench::plain_level level{d.logits.data(), d.deltas.data(), d.centerness.data(), 1,
                                 d.classes,       d.anchor_count};
  bench::native::plain_postprocess(
      &level, 1, d.anchors.data(),
      {detector, false, 0.05f, static_cast<float>(params.iou_threshold),
       static_cast<float>(params.min_size), params.max_candidates, params.max_detections, 800, 800},
      own<bench::plain_postprocess_memory>());
}

const problems added{
    {"postprocess/retinanet/f32/1024x91", make<head>(1024, 91),
     VECDET_GATE_CALL(run(d, postprocess_params::retinanet())),
     VECDET_GATE_CALL(
         run_plain(d, bench::plain_detector::retinanet, postprocess_params::retinanet()))},
    {"postprocess/fcos/f32/1024x91", make<head>(1024, 91),
     VECDET_GATE_CALL(run(d, postprocess_params::fcos())),
     VECDET_GATE_CALL(run_plain(d, bench::plain_detector::fcos, postprocess_params::fcos()))},
    {"postprocess/ssd/f32/1024x91", make<head>(1024, 91),
     VECDET_GATE_CALL(run(d, postprocess_params::ssd()))},
    {"postprocess/rpn/f32/8192x1", make<head>(8192, 1),
     VECDET_GATE_CALL(run(d, postprocess_params::rpn())),
     VECDET_GATE_CALL(run_plain(d, bench::plain_detector::rpn, postprocess_params::rpn()))},
};

}  // namespace
}  // namespace gate
}  // namespace vecdet

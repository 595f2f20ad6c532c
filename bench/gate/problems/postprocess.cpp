// SPDX-License-Identifier: Apache-2.0
// From the head outputs of a small picture to its detections.
#include "../../plain/postprocess.hpp"

#include "../module/problem.hpp"
#include "image.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/postprocess.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
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

/// torchvision's parameters, member by member: older revisions have different names for their
/// presets.
postprocess_params with(dense_detector detector, double iou_threshold, std::int64_t candidates,
                        std::int64_t detections, double min_size = 0) {
  postprocess_params params;
  params.detector = detector;
  params.iou_threshold = iou_threshold;
  params.max_candidates = candidates;
  params.max_detections = detections;
  params.min_size = min_size;
  if (detector == dense_detector::rpn) params.score_threshold = 0;
  return params;
}

/// One image of 800 x 800 and one level.
template <class Data>
detections_view run(const Data& d, postprocess_params params) {
  static const image_size size = square_image(800);
  if (params.detector != dense_detector::rpn) params.score_threshold = 0.05;
  return postprocess(d.outputs(params.detector == dense_detector::fcos), d.boxes(), {},
                     vector_view<const image_size>(&size, 1), params, own<postprocess_workspace>(),
                     sequential);
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
     VECDET_GATE_CALL(run(d, with(dense_detector::retinanet, 0.5, 1000, 300))),
     VECDET_GATE_CALL(run_plain(d, bench::plain_detector::retinanet,
                                with(dense_detector::retinanet, 0.5, 1000, 300)))},
    {"postprocess/fcos/f32/1024x91", make<head>(1024, 91),
     VECDET_GATE_CALL(run(d, with(dense_detector::fcos, 0.6, 1000, 100))),
     VECDET_GATE_CALL(
         run_plain(d, bench::plain_detector::fcos, with(dense_detector::fcos, 0.6, 1000, 100)))},
    {"postprocess/ssd/f32/1024x91", make<head>(1024, 91),
     VECDET_GATE_CALL(run(d, with(dense_detector::ssd, 0.45, 400, 200)))},
    {"postprocess/rpn/f32/8192x1", make<head>(8192, 1),
     VECDET_GATE_CALL(run(d, with(dense_detector::rpn, 0.7, 2000, 2000, 1e-3))),
     VECDET_GATE_CALL(run_plain(d, bench::plain_detector::rpn,
                                with(dense_detector::rpn, 0.7, 2000, 2000, 1e-3)))},
};

}  // namespace
}  // namespace vecdet::gate

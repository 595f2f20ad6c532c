// SPDX-License-Identifier: Apache-2.0
// The detections of postprocess_yolo() for rotated boxes: NMS by ProbIoU, ultralytics' regular
// angles, the letterbox undone.
#pragma once

#include <vecdet/impl/candidates.hpp>
#include <vecdet/impl/rotated_nms.hpp>
#include <vecdet/impl/yolo_detections.hpp>
#include <vecdet/yolo_postprocess.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Replaces the angle of a box (centre, width, height, radians) by its remainder of pi / 2, in
/// [0, pi / 2], as ultralytics' regularize_rboxes does in float. Width and height are exchanged if
/// the remainder of pi is pi / 2 or more. fmod is exact.
inline void regularise_rotated(float* box) {
  const auto remainder = [](float x, float of) {
    const float rest = std::fmod(x, of);
    return rest < 0 ? rest + of : rest;
  };
  constexpr float half_turn = 3.14159265358979323846f, quarter_turn = 1.57079632679489661923f;
  if (remainder(box[4], half_turn) >= quarter_turn) std::swap(box[2], box[3]);
  box[4] = remainder(box[4], quarter_turn);
}

/// Converts `count` rows of centre, width, height and angle to another form.
inline void convert_clockwise_radians(const float* boxes, index_t count, rotated_form to,
                                      index_t numbers, float* out, isa target) {
  const rotated_convert_args<float> args{boxes,        5, out, numbers, rotated_form::centre, to,
                                         {false, true}};
  kernels<rotated_boxes_kernels<float>>(target).convert(args, 0, count);
}

/// As find_detections(). The rotated boxes take the place of extras.
template <class Call>
yolo_detections_view find_rotated_detections(const Call& call, yolo_buffers& buffers,
                                             const yolo_postprocess_params& params, bool is_moved,
                                             isa target, threading policy) {
  const index_t images = call.images();
  collect_candidates(buffers, images, policy,
                     [&](index_t i, auto& out, threading inner) { call.collect(i, out, inner); });
  const index_t candidates = concatenate_candidates(buffers, images, policy);
  float* const rotated = grown(buffers.rotated, 5 * candidates);
  const index_t* const first = buffers.offsets.data();
  const auto source_of = [&](index_t image, index_t candidate) {
    const auto& found = buffers.images[static_cast<std::size_t>(image)];
    return found.sources[static_cast<std::size_t>(candidate - first[image])];
  };
  for (index_t image = 0; image < images; ++image)
    for (index_t i = first[image]; i < first[image + 1]; ++i)
      call.read_rotated(image, source_of(image, i), rotated + 5 * i);

  vector_view<const index_t> kept;
  if (params.suppresses) {
    nms_params rule = nms_params::ultralytics_obb(params.iou_threshold);
    rule.order = nms_order::image_score;
    rule.max_per_image = params.max_detections;
    rule.class_groups = params.class_groups;
    kept = run_rotated_nms<float>("prob_iou_nms", rotated_nms_overlap::prob,
                                  {rotated, candidates, 5}, {buffers.scores.data(), candidates},
                                  candidate_groups(buffers, images, params.class_agnostic),
                                  angle_convention::ultralytics, rule, buffers.nms, target, policy);
  } else {
    kept = best_candidates(buffers, images, params.max_detections);
  }
  gather_kept(buffers, images, kept);

  const index_t count = kept.size(), *const offsets = buffers.kept_offsets.data();
  index_t* const sources = grown(buffers.kept_sources, count);
  float* const boxes = grown(buffers.kept_rotated, 5 * count);
  for (index_t image = 0; image < images; ++image) {
    for (index_t i = offsets[image]; i < offsets[image + 1]; ++i) {
      float* const box = boxes + 5 * i;
      std::copy_n(rotated + 5 * kept[i], 5, box);
      sources[i] = source_of(image, kept[i]);
      regularise_rotated(box);
      if (!is_moved) continue;
      const letterbox_transform& to_input = call.transform(image);
      const auto scale = static_cast<float>(to_input.scale_x);
      box[0] = quotient(box[0] - static_cast<float>(to_input.pad_x), scale);
      box[1] = quotient(box[1] - static_cast<float>(to_input.pad_y), scale);
      box[2] = quotient(box[2], scale), box[3] = quotient(box[3], scale);
    }
  }
  float* const upright = buffers.kept_boxes.data();
  convert_clockwise_radians(boxes, count, rotated_form::upright, 4, upright, target);
  for (index_t i = 0; i < count; ++i) format_corners(params.results, upright + 4 * i);
  const float* results = boxes;
  const bool wants_corners = params.rotated_results == rotated_format::xyxyxyxy;
  if (wants_corners) {
    float* const corners = grown(buffers.kept_extras, 8 * count);
    convert_clockwise_radians(boxes, count, rotated_form::corners, 8, corners, target);
    results = corners;
  }
  return {{upright, count},
          {buffers.kept_scores.data(), count},
          {buffers.kept_labels.data(), count},
          {sources, count},
          {results, count, wants_corners ? 8 : 5},
          {offsets, images + 1}};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Turns raw outputs of YOLO models into detections in plain scalars, for one image whose numbers
// are given box by box: threshold, best or all classes, best candidates, NMS, inverse letterbox.
// Rotated boxes: only their five numbers, as extras.
// Scores and boxes are computed in float, as in the frameworks, because this affects which boxes
// are detected.
#pragma once

#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/reference/nms.hpp>
#include <vecdet/reference/prob_iou.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// ultralytics' regularize_rboxes in float, whose remainders are those of Python.
inline void regularise_rotated(std::vector<float>& five) {
  const float pi = 3.14159265358979323846f, half_pi = 1.57079632679489661923f;
  const auto modulo = [](float x, float m) {
    const float rest = std::fmod(x, m);
    return rest < 0 ? rest + m : rest;
  };
  if (modulo(five[4], pi) >= half_pi) std::swap(five[2], five[3]);
  five[4] = modulo(five[4], half_pi);
}

struct yolo_detection {
  float box[4];
  float score;
  index_t label, source;
  std::vector<float> extras;
};

/// The detections of an image. Each element of `rows` has the numbers of one box. `to_input` may be
/// null.
inline std::vector<yolo_detection> postprocess_yolo(const std::vector<std::vector<float>>& rows,
                                                    const letterbox_transform* to_input,
                                                    const postprocess_yolo_params& params) {
  const bool has_objectness = params.scores == yolo_scores::objectness;
  const bool has_label = params.scores == yolo_scores::score_and_class;
  const auto extras =
      params.rotated ? 1 : static_cast<std::size_t>(std::max(params.extras, index_t{0}));
  // Of a class, and the lowest one of the wanted classes.
  const auto is_wanted = [&](index_t label) {
    return params.classes.empty() ||
           std::find(params.classes.begin(), params.classes.end(), label) != params.classes.end();
  };
  const auto threshold_of = [&](index_t label) {
    return static_cast<float>(params.class_thresholds.empty() ? params.score_threshold
                                                              : params.class_thresholds[label]);
  };
  float threshold = params.class_thresholds.empty() ? threshold_of(0) : 1;
  for (index_t c = 0; c < params.class_thresholds.size(); ++c)
    if (is_wanted(c)) threshold = std::min(threshold, threshold_of(c));

  std::vector<yolo_detection> candidates;
  const auto add = [&](const yolo_detection& found) {
    if (is_wanted(found.label) && found.score > threshold_of(found.label))
      candidates.push_back(found);
  };
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const std::vector<float>& row = rows[b];
    yolo_detection found{};
    found.source = static_cast<index_t>(b);
    found.extras.assign(row.end() - static_cast<std::ptrdiff_t>(extras), row.end());
    for (std::size_t k = 0; k < 2; ++k) {
      const float at = row[k], size = row[k + 2];
      found.box[k] = params.model_format == box_format::cxcywh ? at - size / 2 : at;
      found.box[k + 2] = params.model_format == box_format::xyxy   ? size
                         : params.model_format == box_format::xywh ? at + size
                                                                   : at + size / 2;
    }
    if (has_label) {
      found.score = row[4];
      found.label = row[5] >= 0 && row[5] <= 16777216 ? static_cast<index_t>(row[5]) : -1;
      add(found);
      continue;
    }
    const float objectness = has_objectness ? row[4] : 1;
    if (has_objectness && !(objectness > threshold)) continue;
    const std::size_t first = has_objectness ? 5 : 4, classes = row.size() - first - extras;
    const auto score = [&](std::size_t c) { return row[first + c] * objectness; };
    index_t best = -1;
    for (std::size_t c = 0; c < classes; ++c) {
      found.score = score(c);
      found.label = static_cast<index_t>(c);
      if (!(found.score > threshold)) continue;
      if (params.multi_label) add(found);
      if (best < 0 || found.score > score(static_cast<std::size_t>(best))) best = found.label;
    }
    if (params.multi_label || best < 0) continue;
    found.score = score(static_cast<std::size_t>(best));
    found.label = best;
    add(found);
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const yolo_detection& a, const yolo_detection& b) { return a.score > b.score; });
  if (static_cast<index_t>(candidates.size()) > params.max_candidates)
    candidates.resize(static_cast<std::size_t>(params.max_candidates));

  const auto group_of = [&](const yolo_detection& c) {
    return params.class_agnostic         ? 0
           : params.class_groups.empty() ? c.label
                                         : params.class_groups[c.label];
  };
  std::vector<index_t> kept;
  if (params.rotated) {
    for (yolo_detection& c : candidates) {
      const std::vector<float>& row = rows[static_cast<std::size_t>(c.source)];
      c.extras = {row[0], row[1], row[2], row[3], row.back()};
    }
    const auto turned = [](const yolo_detection& c) {
      return load_rotated_box(matrix_view<const float>(c.extras.data(), 1, 5), 0,
                              angle_convention::ultralytics);
    };
    for (auto c = candidates.begin(); c != candidates.end(); ++c)
      if (!params.suppress ||
          std::none_of(candidates.begin(), c, [&](const yolo_detection& better) {
            return group_of(better) == group_of(*c) &&
                   prob_iou(turned(better), turned(*c)) >=
                       static_cast<double>(static_cast<float>(params.iou_threshold));
          }))
        kept.push_back(c - candidates.begin());
  } else if (params.suppress) {
    std::vector<float> boxes, scores;
    std::vector<index_t> labels;
    for (const yolo_detection& c : candidates) {
      boxes.insert(boxes.end(), c.box, c.box + 4);
      scores.push_back(c.score);
      labels.push_back(group_of(c));
    }
    kept = nms(boxes_view<const float>(boxes), vector_view<const float>(scores),
               nms_params::torchvision(params.iou_threshold),
               {vector_view<const index_t>(labels), {}});
  } else {
    for (std::size_t i = 0; i < candidates.size(); ++i) kept.push_back(static_cast<index_t>(i));
  }
  if (static_cast<index_t>(kept.size()) > params.max_detections)
    kept.resize(static_cast<std::size_t>(params.max_detections));

  const auto to_image = [&](std::size_t axis, float x) {
    const double scale = axis == 0 ? to_input->scale_x : to_input->scale_y;
    const double pad = axis == 0 ? to_input->pad_x : to_input->pad_y;
    const double most = axis == 0 ? to_input->size.width : to_input->size.height;
    const float at = params.normalised ? x * static_cast<float>(most)
                                       : (x - static_cast<float>(pad)) / static_cast<float>(scale);
    return at < 0 ? 0 : at > static_cast<float>(most) ? static_cast<float>(most) : at;
  };
  std::vector<yolo_detection> detections;
  for (const index_t i : kept) {
    yolo_detection d = candidates[static_cast<std::size_t>(i)];
    if (params.rotated) {
      regularise_rotated(d.extras);
      for (std::size_t k = 0; to_input != nullptr && k < 4; ++k) {
        const double pad = k > 1 ? 0 : k == 0 ? to_input->pad_x : to_input->pad_y;
        d.extras[k] =
            (d.extras[k] - static_cast<float>(pad)) / static_cast<float>(to_input->scale_x);
      }
      detections.push_back(d);
      continue;
    }
    if (to_input != nullptr) {
      for (std::size_t k = 0; k < 4; ++k) d.box[k] = to_image(k % 2, d.box[k]);
      const auto size = static_cast<std::size_t>(params.keypoint_size);
      for (std::size_t k = 0; size > 0 && k < extras; ++k)
        if (k % size < 2) d.extras[k] = to_image(k % size, d.extras[k]);
    }
    for (std::size_t k = 0; k < 2 && params.result_format != box_format::xyxy; ++k) {
      const float low = d.box[k], high = d.box[k + 2];
      d.box[k + 2] = high - low;
      if (params.result_format == box_format::cxcywh) d.box[k] = (low + high) / 2;
    }
    detections.push_back(d);
  }
  return detections;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

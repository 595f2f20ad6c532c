// SPDX-License-Identifier: Apache-2.0
// Shared by postprocess_yolo() and postprocess_detr(): box formats, letterboxes, and detections
// from candidates. A call has images(), collect(), extras(), extra() and transform().
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/candidates.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/yolo_postprocess.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Writes the corners of a box.
inline void write_corners(box_format format, const float* box, float* corners) {
  for (int k = 0; k < 2; ++k) {
    const float at = box[k], size = box[k + 2];
    corners[k] = format == box_format::cxcywh ? at - size / 2 : at;
    corners[k + 2] = format == box_format::cxcywh ? at + size / 2
                     : format == box_format::xywh ? at + size
                                                  : size;
  }
}

/// Converts corners to another format in place.
inline void format_corners(box_format format, float* box) {
  if (format == box_format::xyxy) return;
  for (int k = 0; k < 2; ++k) {
    const float low = box[k], high = box[k + 2];
    box[k + 2] = high - low;
    if (format == box_format::cxcywh) box[k] = (low + high) / 2;
  }
}

/// Converts coordinates of an input to coordinates of its image.
class letterbox_inverse {
 public:
  letterbox_inverse(const letterbox_transform& to_input, bool is_normalised)
      : is_normalised_(is_normalised),
        scale_{static_cast<float>(to_input.scale_x), static_cast<float>(to_input.scale_y)},
        pad_{static_cast<float>(to_input.pad_x), static_cast<float>(to_input.pad_y)},
        most_{static_cast<float>(to_input.size.width), static_cast<float>(to_input.size.height)} {}

  /// Converts a coordinate of axis 0 (x) or 1 (y) and clips it to the image. NaN stays NaN.
  float operator()(int axis, float x) const {
    const float at =
        is_normalised_ ? rounded(x * most_[axis]) : quotient(x - pad_[axis], scale_[axis]);
    if (is_nan(at)) return at;
    return at < 0 ? 0 : at > most_[axis] ? most_[axis] : at;
  }

 private:
  bool is_normalised_;
  float scale_[2], pad_[2], most_[2];
};

inline void check_transforms(const char* function, vector_view<const letterbox_transform> list,
                             index_t images) {
  check(list.empty() || list.size() == images, function, "transforms.size()", list.size(),
        "0 or the number of images");
  for (index_t i = 0; i < list.size(); ++i) {
    const letterbox_transform& t = list[i];
    for (const double x : {t.scale_x, t.scale_y, t.size.width, t.size.height})
      check_element(is_image_side(x), function, "transforms", i, x,
                    "scales and sides above 0 that fit a float");
    for (const double x : {t.pad_x, t.pad_y})
      check_element(fits_float(x), function, "transforms", i, x, "padding that fits a float");
  }
}

/// Sorts indices by descending score(index); ties are broken by lower index.
template <class Score>
void sort_by_score(std::uint64_t* first, std::uint64_t* last, const Score& score) {
  std::sort(first, last, [&](std::uint64_t a, std::uint64_t b) {
    const float x = score(static_cast<index_t>(a)), y = score(static_cast<index_t>(b));
    return x > y || (is_equal(x, y) && a < b);
  });
}

/// The best candidates of each image.
inline vector_view<const index_t> best_candidates(yolo_buffers& buffers, index_t images,
                                                  index_t max_per_image) {
  const index_t* const offsets = buffers.offsets.data();
  index_t* const kept = grown(buffers.kept, offsets[images]);
  index_t total = 0;
  for (index_t i = 0; i < images; ++i) {
    const index_t last = offsets[i] + std::min(max_per_image, offsets[i + 1] - offsets[i]);
    for (index_t at = offsets[i]; at < last; ++at) kept[total++] = at;
  }
  return {kept, total};
}

/// The candidates that become detections, image by image, best score first.
inline vector_view<const index_t> keep_detections(yolo_buffers& buffers, index_t images,
                                                  const yolo_postprocess_params& params, isa target,
                                                  threading policy) {
  if (params.suppresses)
    return suppress_candidates(buffers, images, params.iou_threshold, params.max_detections,
                               params.class_agnostic, params.class_groups, target, policy);
  return best_candidates(buffers, images, params.max_detections);
}

/// The detections of all images, from the candidates that call.collect() finds in each. If there
/// are transforms, `is_moved`, boxes and keypoints are converted to the image's pixels.
template <class Call>
yolo_detections_view find_detections(const Call& call, yolo_buffers& buffers,
                                     const yolo_postprocess_params& params, bool is_moved,
                                     isa target, threading policy) {
  const index_t images = call.images(), extras = call.extras();
  collect_candidates(buffers, images, policy,
                     [&](index_t i, auto& out, threading inner) { call.collect(i, out, inner); });
  concatenate_candidates(buffers, images, policy);
  const vector_view<const index_t> kept = keep_detections(buffers, images, params, target, policy);
  gather_kept(buffers, images, kept);
  const index_t count = kept.size();
  float* const boxes = buffers.kept_boxes.data();
  const index_t* const offsets = buffers.kept_offsets.data();
  index_t* const sources = grown(buffers.kept_sources, count);
  float* const extra = grown(buffers.kept_extras, extras * count);
  for (index_t image = 0; image < images; ++image) {
    const auto& found = buffers.images[static_cast<std::size_t>(image)];
    const index_t first_candidate = buffers.offsets[static_cast<std::size_t>(image)];
    const letterbox_inverse to_image(is_moved ? call.transform(image) : letterbox_transform{},
                                     params.normalised);
    for (index_t i = offsets[image]; i < offsets[image + 1]; ++i) {
      float* const box = boxes + 4 * i;
      if (is_moved)
        for (int k = 0; k < 4; ++k) box[k] = to_image(k % 2, box[k]);
      format_corners(params.results, box);
      sources[i] = found.sources[static_cast<std::size_t>(kept[i] - first_candidate)];
      for (index_t k = 0; k < extras; ++k) {
        const float x = call.extra(image, sources[i], k);
        const index_t axis = params.keypoint_size == 0 ? 2 : k % params.keypoint_size;
        extra[i * extras + k] = is_moved && axis < 2 ? to_image(static_cast<int>(axis), x) : x;
      }
    }
  }
  return {{boxes, count},
          {buffers.kept_scores.data(), count},
          {buffers.kept_labels.data(), count},
          {sources, count},
          {extra, count, extras},
          {offsets, images + 1}};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Shared by postprocess_yolo() and postprocess_detr(): box formats, letterboxes, and detections
// from candidates. A call has images(), collect(), extras(), extra() and transform().
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detections_view.hpp>
#include <vecdet/impl/candidates.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/letterbox_transform.hpp>

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

/// Sets the number of candidates, which put_candidate() then writes.
inline void set_candidates(postprocess_buffers::candidates& out, index_t count) {
  const index_t capacity = grown_capacity(count);
  grown(out.boxes, 4 * capacity);
  grown(out.scores, capacity);
  grown(out.labels, capacity);
  grown(out.sources, capacity);
  out.count = count;
}

/// Writes a candidate, whose box has this format and is number `source` in its image's output.
inline void put_candidate(postprocess_buffers::candidates& out, index_t at, box_format format,
                          const float* box, index_t label, float score, index_t source) {
  const auto i = static_cast<std::size_t>(at);
  write_corners(format, box, out.boxes.data() + 4 * i);
  out.scores[i] = score;
  out.labels[i] = label;
  out.sources[i] = source;
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
inline vector_view<const index_t> best_candidates(postprocess_buffers& buffers, index_t images,
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

/// The candidates of all images, which call.collect() finds in each; returns their number.
template <class Call>
index_t find_candidates(const Call& call, postprocess_buffers& buffers, threading policy) {
  collect_candidates(buffers, call.images(), policy,
                     [&](index_t i, auto& out, threading inner) { call.collect(i, out, inner); });
  return concatenate_candidates(buffers, call.images(), policy);
}

/// What becomes of a candidate's numbers.
struct detection_form {
  bool is_moved;       ///< boxes and key points are converted to the image's pixels
  bool is_normalised;  ///< before that, they are fractions of the image's size
  box_format format;
  index_t keypoint_size = 0;
};

/// The detections of all images from the kept candidates.
template <class Call>
detections_view detections_from(const Call& call, postprocess_buffers& buffers,
                                vector_view<const index_t> kept, const detection_form& form) {
  const index_t images = call.images(), extras = call.extras();
  gather_kept(buffers, images, kept);
  const index_t count = kept.size();
  float* const boxes = buffers.kept_boxes.data();
  const index_t* const offsets = buffers.kept_offsets.data();
  index_t* const sources = grown(buffers.kept_sources, count);
  float* const extra = grown(buffers.kept_extras, extras * count);
  for (index_t image = 0; image < images; ++image) {
    const auto& found = buffers.images[static_cast<std::size_t>(image)];
    const index_t first_candidate = buffers.offsets[static_cast<std::size_t>(image)];
    const letterbox_inverse to_image(form.is_moved ? call.transform(image) : letterbox_transform{},
                                     form.is_normalised);
    for (index_t i = offsets[image]; i < offsets[image + 1]; ++i) {
      float* const box = boxes + 4 * i;
      if (form.is_moved)
        for (int k = 0; k < 4; ++k) box[k] = to_image(k % 2, box[k]);
      format_corners(form.format, box);
      sources[i] = found.sources[static_cast<std::size_t>(kept[i] - first_candidate)];
      for (index_t k = 0; k < extras; ++k) {
        const float x = call.extra(image, sources[i], k);
        const index_t axis = form.keypoint_size == 0 ? 2 : k % form.keypoint_size;
        extra[i * extras + k] = form.is_moved && axis < 2 ? to_image(static_cast<int>(axis), x) : x;
      }
    }
  }
  return {{boxes, count},
          {buffers.kept_scores.data(), count},
          {buffers.kept_labels.data(), count},
          {offsets, images + 1},
          {sources, count},
          {extra, count, extras}};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Shared by postprocess_yolo() and postprocess_detr(): boxes, letterboxes, and the selection of
// detections from candidates. A call has images(), collect(), extra() and transform().
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/yolo_postprocess.hpp>

#include <algorithm>

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
    const float at = is_normalised_ ? x * most_[axis] : (x - pad_[axis]) / scale_[axis];
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
      check_element(is_image_side(x) && static_cast<float>(x) > 0, function, "transforms", i, x,
                    "scales and sides above 0 that fit a float");
    for (const double x : {t.pad_x, t.pad_y})
      check_element(fits_float(x), function, "transforms", i, x, "padding that fits a float");
  }
}

/// Concatenates the candidates of all images to one list with offsets.
inline index_t concatenate(yolo_buffers& buffers, index_t images) {
  index_t* const offsets = grown(buffers.offsets, images + 1);
  offsets[0] = 0;
  for (index_t i = 0; i < images; ++i)
    offsets[i + 1] = offsets[i] + buffers.images[static_cast<std::size_t>(i)].count;
  const index_t count = offsets[images];
  float* const boxes = grown(buffers.boxes, 4 * count);
  float* const scores = grown(buffers.scores, count);
  index_t* const labels = grown(buffers.labels, count);
  index_t* const sources = grown(buffers.sources, count);
  for (index_t i = 0; i < images; ++i) {
    const auto& found = buffers.images[static_cast<std::size_t>(i)];
    std::copy_n(found.boxes.data(), 4 * found.count, boxes + 4 * offsets[i]);
    std::copy_n(found.scores.data(), found.count, scores + offsets[i]);
    std::copy_n(found.labels.data(), found.count, labels + offsets[i]);
    std::copy_n(found.sources.data(), found.count, sources + offsets[i]);
  }
  return count;
}

/// Selects the candidates that become detections, image by image, best score first.
inline vector_view<const index_t> keep_detections(yolo_buffers& buffers, index_t images,
                                                  const yolo_postprocess_params& params, isa target,
                                                  threading policy) {
  const index_t count = concatenate(buffers, images);
  const index_t* const offsets = buffers.offsets.data();
  if (!params.suppresses) {
    index_t* const kept = grown(buffers.kept, count);
    index_t total = 0;
    for (index_t i = 0; i < images; ++i) {
      const index_t last =
          offsets[i] + std::min(params.max_detections, offsets[i + 1] - offsets[i]);
      for (index_t at = offsets[i]; at < last; ++at) kept[total++] = at;
    }
    return {kept, total};
  }
  nms_params suppression = nms_params::torchvision(params.iou_threshold);
  suppression.order = nms_order::image_score;
  suppression.max_per_image = params.max_detections;
  nms_groups groups;
  if (!params.class_agnostic)
    groups.classes = vector_view<const index_t>(buffers.labels.data(), count);
  groups.image_offsets = {offsets, images + 1};
  return run_nms<float, float>("batched_nms", target, {buffers.boxes.data(), count},
                               {buffers.scores.data(), count}, groups, suppression, buffers.nms,
                               policy);
}

/// Calls call.collect() for each image.
template <class Call>
void collect_candidates(const Call& call, yolo_buffers& buffers, threading policy) {
  const index_t images = call.images();
  if (static_cast<index_t>(buffers.images.size()) < images)
    buffers.images.resize(static_cast<std::size_t>(images));
  // With few images, the boxes of each are spread over the threads instead.
  const bool image_by_thread = images >= policy.threads();
  const threading inner = image_by_thread ? threading::sequential : policy;
  for_each_chunk(image_by_thread ? policy : threading::sequential, chunking(images, 1),
                 [&](index_t, index_t first, index_t last) {
                   for (index_t i = first; i < last; ++i)
                     call.collect(i, buffers.images[static_cast<std::size_t>(i)], inner);
                 });
}

/// Gathers the detections and, if there are transforms, converts them to the image's pixels.
template <class Call>
yolo_detections_view gather_detections(const Call& call, yolo_buffers& buffers,
                                       const vector_view<const index_t>& kept,
                                       const yolo_postprocess_params& params, bool is_moved) {
  const index_t count = kept.size(), images = call.images(), extras = params.extras;
  float* const boxes = grown(buffers.kept_boxes, 4 * count);
  float* const scores = grown(buffers.kept_scores, count);
  index_t* const labels = grown(buffers.kept_labels, count);
  index_t* const sources = grown(buffers.kept_sources, count);
  float* const extra = grown(buffers.kept_extras, extras * count);
  index_t* const offsets = grown(buffers.kept_offsets, images + 1);
  index_t i = 0;
  offsets[0] = 0;
  for (index_t image = 0; image < images; ++image) {
    const auto end = buffers.offsets[static_cast<std::size_t>(image) + 1];
    const letterbox_inverse to_image(is_moved ? call.transform(image) : letterbox_transform{},
                                     params.normalised);
    for (; i < count && kept[i] < end; ++i) {
      const auto at = static_cast<std::size_t>(kept[i]);
      float* const box = boxes + 4 * i;
      for (int k = 0; k < 4; ++k) {
        const float x = buffers.boxes[4 * at + static_cast<std::size_t>(k)];
        box[k] = is_moved ? to_image(k % 2, x) : x;
      }
      format_corners(params.results, box);
      scores[i] = buffers.scores[at];
      labels[i] = buffers.labels[at];
      sources[i] = buffers.sources[at];
      for (index_t k = 0; k < extras; ++k) {
        const float x = call.extra(image, sources[i], k);
        const index_t axis = params.keypoint_size == 0 ? 2 : k % params.keypoint_size;
        extra[i * extras + k] = is_moved && axis < 2 ? to_image(static_cast<int>(axis), x) : x;
      }
    }
    offsets[image + 1] = i;
  }
  return {{boxes, count},   {scores, count},        {labels, count},
          {sources, count}, {extra, count, extras}, {offsets, images + 1}};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

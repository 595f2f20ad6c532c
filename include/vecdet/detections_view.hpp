// SPDX-License-Identifier: Apache-2.0
// The detections that postprocess(), postprocess_box_head(), postprocess_yolo() and
// postprocess_detr() return, and the memory that holds them.
#pragma once

#include <vecdet/impl/postprocess_buffers.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The detections of one image, in descending score.
struct image_detections {
  boxes_view<const float> boxes;
  vector_view<const float> scores;
  vector_view<const index_t> labels;
};

/// The detections of all images. Those of image k are [offsets[k], offsets[k + 1]), in descending
/// score. The memory belongs to the workspace and is valid until its next use.
struct detections_view {
  /// x1 y1 x2 y2 in pixels; postprocess_yolo() and postprocess_detr(): in the format
  /// params.result_format. For models of rotated boxes, the upright boxes that enclose them.
  boxes_view<const float> boxes;
  vector_view<const float> scores;
  /// Columns of the logits, or classes. RPN: levels. -1 if a YOLO output's class is not in
  /// [0, 2^24].
  vector_view<const index_t> labels;
  vector_view<const index_t> offsets;
  /// postprocess_yolo(), postprocess_detr(): indices of the boxes in their image's output. Among
  /// equal scores, the lower index comes first; for sigmoids of postprocess_detr(), among equal
  /// logits. Otherwise empty.
  vector_view<const index_t> sources{};
  /// postprocess_yolo(): detections x params.extras. For models of rotated boxes, detections x 5 or
  /// 8: the rotated boxes themselves, in the format params.rotated_result_format. Otherwise without
  /// columns.
  matrix_view<const float> extras{};

  /// The detections of image k, which must be less than the number of images.
  image_detections image(index_t k) const {
    const index_t first = offsets[k], count = offsets[k + 1] - first;
    return {{boxes.data() + 4 * first, count},
            {scores.data() + first, count},
            {labels.data() + first, count}};
  }
};

/// Scratch memory of these functions. It grows to the needs of the largest call and is reused. Only
/// one call at a time may use it.
class postprocess_workspace {
  friend detail::workspace_access;
  detail::postprocess_buffers buffers_;
};

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The buffers of postprocess_workspace.
#pragma once

#include <vecdet/impl/filter_topk_buffers.hpp>
#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct postprocess_buffers {
  /// A level of one image: its first anchor, and where its candidates end.
  struct level {
    index_t first_anchor, end;
  };
  /// The candidates of one image. Those of a dense detector are first elements of levels with their
  /// scores or logits, then deltas and anchors, then decoded boxes. Those of other models are
  /// corners in the input's pixels, best score first.
  struct candidates {
    filter_topk_buffers search;
    std::vector<level> levels;
    std::vector<float> anchors, boxes, scores;
    std::vector<index_t> elements, labels, sources, per_class, kept_before;
    index_t count = 0;
  };
  std::vector<candidates> images;
  std::vector<float> rotated, kept_rotated;  ///< centre, width, height, angle
  std::vector<float> boxes, scores, kept_boxes, kept_scores, kept_extras, class_limits;
  std::vector<index_t> labels, offsets, kept, kept_labels, kept_sources, kept_offsets;
  nms_buffers nms;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

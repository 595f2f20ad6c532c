// SPDX-License-Identifier: Apache-2.0
// The buffers of postprocess_workspace.
#pragma once

#include <vecdet/impl/filter_topk_buffers.hpp>
#include <vecdet/impl/nms_buffers.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct postprocess_buffers {
  /// A level of one image: its first anchor, and where its candidates end.
  struct level {
    index_t first_anchor, end;
  };
  /// The candidates of one image: first elements of levels and their scores or logits, then deltas
  /// and anchors, then decoded boxes.
  struct candidates {
    filter_topk_buffers search;
    std::vector<level> levels;
    std::vector<float> anchors, boxes, scores;
    std::vector<index_t> elements, labels, per_class, kept_before;
    index_t count = 0;
  };
  std::vector<candidates> images;
  std::vector<float> boxes, scores, kept_boxes, kept_scores, class_limits;
  std::vector<index_t> labels, offsets, kept_labels, kept_offsets;
  nms_buffers nms;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

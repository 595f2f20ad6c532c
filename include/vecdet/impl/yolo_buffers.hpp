// SPDX-License-Identifier: Apache-2.0
// The buffers of yolo_postprocess_workspace.
#pragma once

#include <vecdet/impl/filter_topk_buffers.hpp>
#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct yolo_buffers {
  /// The candidates of one image: corners in the input's pixels, best score first.
  struct candidates {
    filter_topk_buffers search;
    std::vector<float> boxes, scores;
    std::vector<index_t> labels, sources;
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

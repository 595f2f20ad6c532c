// SPDX-License-Identifier: Apache-2.0
// The variants of box losses in problem names.
#pragma once

#include <vecdet/box_loss.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/iou_kind.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// What the boxes of a call are: one array, bfloat16 with float targets, or levels of a layout.
enum class box_source { boxes, mixed, nhwc, nchw };

inline box_source source_of(head_layout layout) noexcept {
  return layout == head_layout::nhwc ? box_source::nhwc : box_source::nchw;
}

inline const char* box_loss_name(box_loss loss, box_source source = box_source::boxes) noexcept {
  static constexpr const char* names[][4] = {
      {"smooth_l1", "float_smooth_l1", "levels_smooth_l1", "nchw_smooth_l1"},
      {"giou", "float_giou", "levels_giou", "nchw_giou"},
      {"diou", "float_diou", "levels_diou", "nchw_diou"},
      {"ciou", "float_ciou", "levels_ciou", "nchw_ciou"},
  };
  return names[static_cast<int>(loss)][static_cast<int>(source)];
}

/// The box loss with the IoU loss of a kind other than iou.
inline box_loss box_loss_of(iou_kind kind) noexcept {
  return kind == iou_kind::giou   ? box_loss::giou
         : kind == iou_kind::diou ? box_loss::diou
                                  : box_loss::ciou;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The measures of overlap.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Intersection over union and its kin; see iou.hpp.
enum class iou_kind { iou, giou, diou, ciou };

/// The IoU of boxes whose intersection is empty.
enum class empty_iou {
  nan,  ///< as the division gives it, 0/0 where both have no area: torchvision
  zero  ///< always 0: detectron2
};

}  // namespace VECDET_ABI
}  // namespace vecdet

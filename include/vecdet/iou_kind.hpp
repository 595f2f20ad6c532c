// SPDX-License-Identifier: Apache-2.0
// The measures of overlap.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Intersection over union and its variants; see iou.hpp.
enum class iou_kind { iou, giou, diou, ciou };

/// The IoU of two boxes without area, which is 0/0.
enum class empty_iou {
  nan,  ///< NaN, the result of the division, as in torchvision
  zero  ///< 0, as in detectron2
};

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The meaning of a rotated box's numbers, which differs between frameworks.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The unit of angles and the direction in which they turn a box, as seen in an image (x to the
/// right, y down), named after the framework. There is no default: a wrong choice gives other boxes
/// without an error.
enum class angle_convention {
  torchvision,             ///< degrees, counter-clockwise
  detectron2,              ///< degrees, counter-clockwise
  opencv,                  ///< degrees, clockwise
  ultralytics,             ///< radians, clockwise
  mmcv,                    ///< radians, clockwise: mmcv's default
  mmcv_counter_clockwise,  ///< radians, counter-clockwise: mmcv with clockwise=False
};

/// The numbers of a rotated box. The width is the side along the angle.
enum class rotated_format {
  cxcywhr,   ///< centre, width, height, angle
  xywhr,     ///< with torchvision: first corner, width, height, angle. With ultralytics: centre,
             ///< width, height, angle. The other frameworks do not use the name
  xyxyxyxy,  ///< corners: top left, top right, bottom right, bottom left before turning
  xyxy,      ///< the enclosing upright box; as input, an upright box
};

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// What the four numbers of a box are, and the size of an image.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

enum class box_format {
  xyxy,    ///< two corners
  xywh,    ///< the corner of least coordinates, width and height: COCO's files
  cxcywh,  ///< centre, width and height: SSD's priors
};

/// Width and height in pixels; 0 or more.
struct image_size {
  double width, height;
};

}  // namespace VECDET_ABI
}  // namespace vecdet

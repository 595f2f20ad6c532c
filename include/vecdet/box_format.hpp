// SPDX-License-Identifier: Apache-2.0
// The meaning of a box's four numbers, and the size of an image.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The meaning of a box's four numbers.
enum class box_format {
  xyxy,    ///< two corners
  xywh,    ///< top left corner, width and height, as in COCO's files
  cxcywh,  ///< centre, width and height, as in SSD's priors
};

/// The size of an image in pixels; 0 or more.
struct image_size {
  double height = 0, width = 0;

  constexpr image_size() noexcept = default;

  /// Height first, as in PyTorch's shapes and grid_size; image_size{800, 600} does not compile.
  static constexpr image_size height_width(double height, double width) noexcept {
    return image_size(height, width);
  }

 private:
  constexpr image_size(double h, double w) noexcept : height(h), width(w) {}
};

}  // namespace VECDET_ABI
}  // namespace vecdet

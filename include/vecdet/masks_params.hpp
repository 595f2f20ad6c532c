// SPDX-License-Identifier: Apache-2.0
// The rules of masks from prototypes, and of pasted masks.
#pragma once

#include <vecdet/masks_view.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Which comes first: the cropping of logits to the object's box, or their enlargement. The names
/// in parentheses are ultralytics' functions.
enum class mask_rule {
  /// enlarged to the picture, without a letterbox's padding, then cropped (process_mask_native)
  native,
  /// cropped, then enlarged (process_mask with upsample=True): a mask may reach beyond its box
  upsampled,
  cropped  ///< cropped only (process_mask): masks have the size of the prototypes
};

struct prototype_masks_params {
  mask_rule rule = mask_rule::native;      ///< the order of steps
  mask_pixels pixels = mask_pixels::bits;  ///< how the result is stored
};

struct paste_masks_params {
  double threshold = 0.5;  ///< a pixel belongs to the object if its number is above this
  mask_pixels pixels = mask_pixels::bits;  ///< how the result is stored
};

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The position of an image in the input of a network, after it was resized and padded. A point
// (x, y) of the image is at (x scale_x + pad_x, y scale_y + pad_y) in the input.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/detail/check.hpp>

#include <algorithm>
#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {

struct letterbox_transform {
  double scale_x = 1, scale_y = 1;  ///< Input pixels per image pixel, above 0.
  double pad_x = 0, pad_y = 0;      ///< Input pixels to the left of the image and above it.
  image_size size;                  ///< The size of the image.

  /// The letterbox of ultralytics: both sides have the scale min(input.width / image.width,
  /// input.height / image.height), and the image is centred. An odd pixel of padding goes to the
  /// right or below. Sizes must be above 0.
  static letterbox_transform centred(image_size image, image_size input);
  /// The letterbox of YOLOX: the same scale, with the image in the upper left corner.
  static letterbox_transform top_left(image_size image, image_size input);
};

namespace detail {

/// Sides are used in float, where those below about 7e-46 would be 0.
inline bool is_image_side(double side) { return fits_float(side) && static_cast<float>(side) > 0; }

inline void check_sides(const char* function, const char* argument, image_size size) {
  for (const double side : {size.width, size.height})
    check(is_image_side(side), function, argument, side, "sides above 0 that fit a float");
}

inline double letterbox_scale(const char* function, image_size image, image_size input) {
  check_sides(function, "image", image);
  check_sides(function, "input", input);
  return std::min(input.height / image.height, input.width / image.width);
}

/// The padding to the left of (or above) an image whose side becomes `resized` pixels of `input`.
inline double centred_padding(double input, double resized) {
  return std::nearbyint((input - resized) / 2 - 0.1);
}

}  // namespace detail

inline letterbox_transform letterbox_transform::centred(image_size image, image_size input) {
  const double scale = detail::letterbox_scale("letterbox_transform::centred", image, input);
  return {scale, scale, detail::centred_padding(input.width, std::nearbyint(image.width * scale)),
          detail::centred_padding(input.height, std::nearbyint(image.height * scale)), image};
}

inline letterbox_transform letterbox_transform::top_left(image_size image, image_size input) {
  const double scale = detail::letterbox_scale("letterbox_transform::top_left", image, input);
  return {scale, scale, 0, 0, image};
}

}  // namespace VECDET_ABI
}  // namespace vecdet

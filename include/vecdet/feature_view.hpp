// SPDX-License-Identifier: Apache-2.0
// A view of the feature maps of a batch of images, or of the features pooled for boxes: images (or
// boxes) x channels x height x width elements without gaps, in one of the two usual layouts.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/contiguous.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <limits>

namespace vecdet {
inline namespace VECDET_ABI {

/// The index of channel c of image n at (y, x).
enum class feature_layout {
  nchw,  ///< ((n C + c) H + y) W + x: one plane per channel
  nhwc   ///< ((n H + y) W + x) C + c: PyTorch's channels_last
};

/// As in other views, it is an error if a size is negative or more than memory can address, or if
/// data is null although there are elements. It is also an error if height or width is above 2^31 -
/// 1.
template <class T>
class feature_view : detail::has_shape {
 public:
  constexpr feature_view() noexcept = default;

  template <class Pointer, detail::require_pointers<T, Pointer> = 0>
  feature_view(Pointer data, index_t images, index_t channels, index_t height, index_t width,
               feature_layout layout)
      : data_(data),
        images_(images),
        channels_(channels),
        height_(height),
        width_(width),
        layout_(layout) {
    constexpr index_t longest = std::numeric_limits<std::int32_t>::max();
    detail::check(images >= 0, "feature_view", "images", images, "0 or more");
    detail::check(channels >= 0, "feature_view", "channels", channels, "0 or more");
    detail::check(height >= 0 && height <= longest, "feature_view", "height", height,
                  "0 to 2^31 - 1");
    detail::check(width >= 0 && width <= longest, "feature_view", "width", width, "0 to 2^31 - 1");
    index_t left = detail::max_elements<T> / 8;
    for (const index_t size : {images, channels, height, width}) {
      detail::check(size <= left, "feature_view", "images", images,
                    "at most as many elements as memory can address");
      if (size > 0) left /= size;
    }
    detail::check(data != nullptr || size() == 0, "feature_view", "data", "null",
                  "memory of all elements");
  }

  template <class U, detail::require_seen_as<U, T> = 0>
  constexpr feature_view(const feature_view<U>& other) noexcept
      : data_(other.data()),
        images_(other.images()),
        channels_(other.channels()),
        height_(other.height()),
        width_(other.width()),
        layout_(other.layout()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr index_t images() const noexcept { return images_; }
  constexpr index_t channels() const noexcept { return channels_; }
  constexpr index_t height() const noexcept { return height_; }
  constexpr index_t width() const noexcept { return width_; }
  constexpr feature_layout layout() const noexcept { return layout_; }
  constexpr index_t size() const noexcept { return images_ * channels_ * height_ * width_; }

 private:
  T* data_ = nullptr;
  index_t images_ = 0, channels_ = 0, height_ = 0, width_ = 0;
  feature_layout layout_ = feature_layout::nchw;
};

}  // namespace VECDET_ABI
}  // namespace vecdet

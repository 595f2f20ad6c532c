// SPDX-License-Identifier: Apache-2.0
// The sizes of a batch's images, an argument of decoding and postprocessing.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// One size per image, or one image_size for all images. A list must outlive the view; a single
/// size is copied. Everything that converts to vector_view<const image_size> converts to it.
class image_sizes_view {
 public:
  /// No sizes.
  image_sizes_view() noexcept = default;
  image_sizes_view(const image_size& all_images) noexcept : all_(all_images), is_same_(true) {}

  template <class Size, detail::require_sizes<Size> = 0>
  image_sizes_view(const image_size* one_per_image, Size images) : list_(one_per_image, images) {}
  template <class List, detail::require_convertible<List, vector_view<const image_size>> = 0,
            detail::require_lasting<List> = 0>
  image_sizes_view(List&& one_per_image) : list_(one_per_image) {}
  template <class List, detail::require_convertible<List, vector_view<const image_size>> = 0,
            detail::require_temporary_owner<List> = 0>
  image_sizes_view(List&& one_per_image VECDET_LIFETIMEBOUND) : list_(one_per_image) {}

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  image_sizes_view& operator=(Owner&& ends_with_the_statement) = delete;

  bool empty() const noexcept { return size() == 0; }
  /// The number of sizes that were given: 1 if all images have the same.
  index_t size() const noexcept { return is_same_ ? 1 : list_.size(); }
  bool is_same_for_all() const noexcept { return is_same_; }
  const image_size& operator[](index_t image) const noexcept {
    return is_same_ ? all_ : list_[image];
  }

 private:
  vector_view<const image_size> list_;
  image_size all_;
  bool is_same_ = false;
};

}  // namespace VECDET_ABI
}  // namespace vecdet

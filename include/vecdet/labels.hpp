// SPDX-License-Identifier: Apache-2.0
// Integer class labels, one per row or anchor. Labels 0 to classes - 1 are foreground. By default,
// -1 is background and -2 is ignored, as in torchvision's Matcher. Labels are compared by value: an
// unsigned 32-bit 4294967295 is not -1.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

struct labels_access;

/// Integers of 64 or 32 bits, signed or not.
template <class Label>
constexpr bool is_label = std::is_integral<Label>::value &&
                          (sizeof(Label) == 8 || sizeof(Label) == 4);
template <class Label>
using require_label = std::enable_if_t<is_label<Label>, int>;

/// A container of other numbers, including std::vector<bool>.
template <class Container>
using require_no_labels = std::enable_if_t<
    std::is_arithmetic<value_in<Container>>::value && !is_label<value_in<Container>>, int>;

}  // namespace detail

/// A view of 64-bit or 32-bit labels, signed or unsigned. It is made from a pointer and a size, and
/// converts from any contiguous container of such integers.
class labels_view {
 public:
  constexpr labels_view() noexcept = default;

  template <class Label, class Size, detail::require_label<Label> = 0,
            detail::require_sizes<Size> = 0>
  labels_view(const Label* data, Size size)
      : data_(data),
        size_(static_cast<index_t>(size)),
        is_wide_(sizeof(Label) == 8),
        is_unsigned_(std::is_unsigned<Label>::value) {
    detail::check(size_ >= 0 && size_ <= detail::max_elements<Label>, "labels_view", "size", size_,
                  "0 or more, and at most what memory can address");
    detail::check(data != nullptr || size_ == 0, "labels_view", "data", "null",
                  "memory of `size` labels");
  }

  template <class Container, detail::require_contiguous<Container> = 0,
            detail::require_label<std::remove_const_t<detail::element_of<Container>>> = 0,
            detail::require_lasting<Container> = 0>
  labels_view(Container&& labels) : labels_view(labels.data(), labels.size()) {}
  template <class Container, detail::require_contiguous<Container> = 0,
            detail::require_label<std::remove_const_t<detail::element_of<Container>>> = 0,
            detail::require_temporary_owner<Container> = 0>
  labels_view(Container&& labels VECDET_LIFETIMEBOUND)
      : labels_view(labels.data(), labels.size()) {}
  template <class Container, detail::require_strided<Container> = 0>
  labels_view(Container&& has_strides) = delete;
  template <class Container, detail::require_no_labels<Container> = 0>
  labels_view(Container&& needs_integers_of_32_or_64_bits) = delete;

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  labels_view& operator=(Owner&& ends_with_the_statement) = delete;

  VECDET_INLINE constexpr index_t size() const noexcept { return size_; }

  /// Label i, or 2^63 - 1 if it is larger.
  index_t operator[](index_t i) const noexcept;
  /// Whether label i is 2^63 or more; such a label is neither a class nor background nor ignored.
  bool is_too_large(index_t i) const noexcept;
  /// Whether labels of this type can have the value.
  bool can_be(index_t value) const noexcept;

 private:
  friend detail::labels_access;
  const void* data_ = nullptr;
  index_t size_ = 0;
  bool is_wide_ = true, is_unsigned_ = false;
};

/// The number of labels that are neither background nor ignored. Trainers scale the focal loss by
/// 1 / max(1, count_foreground(labels)).
index_t count_foreground(labels_view labels, index_t background = -1, index_t ignore = -2);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/label_bits.hpp>

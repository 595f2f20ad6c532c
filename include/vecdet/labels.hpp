// SPDX-License-Identifier: Apache-2.0
// Integer class labels, one a row or an anchor: 0 .. classes-1 is foreground; two values, -1 and -2
// unless said otherwise, stand for background and for rows to be ignored (as torchvision's Matcher
// marks them).
#pragma once

#include <vecdet/views.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {

namespace detail {

/// Integers of 64 or 32 bits, signed or not.
template <class Label>
constexpr bool is_label = std::is_integral<Label>::value &&
                          (sizeof(Label) == 8 || sizeof(Label) == 4);

}  // namespace detail

/// A view of 64-bit or 32-bit labels. Converts from a pointer and a size, a vector_view, or any
/// contiguous container of either.
class labels_view {
 public:
  constexpr labels_view() noexcept = default;

  labels_view(vector_view<const std::int64_t> labels) noexcept
      : wide_(labels.data()), size_(labels.size()) {}
  labels_view(vector_view<const std::int32_t> labels) noexcept
      : narrow_(labels.data()), size_(labels.size()) {}

  template <class Label, class = std::enable_if_t<detail::is_label<Label>>>
  labels_view(const Label* data, index_t size)
      : labels_view(vector_view<const integer_like<Label>>(
            reinterpret_cast<const integer_like<Label>*>(data), size)) {}

  template <
      class Container, class Label = std::remove_const_t<detail::element_of<Container>>,
      class = std::enable_if_t<!std::is_base_of<labels_view, std::decay_t<Container>>::value &&
                               detail::is_label<Label>>>
  labels_view(Container&& labels)
      : labels_view(labels.data(), static_cast<index_t>(labels.size())) {}

  constexpr index_t size() const noexcept { return size_; }
  constexpr index_t operator[](index_t i) const noexcept {
    return wide_ != nullptr ? wide_[i] : narrow_[i];
  }
  /// The labels if they are of 64 bits, else null; and those of 32 bits.
  constexpr const std::int64_t* wide() const noexcept { return wide_; }
  constexpr const std::int32_t* narrow() const noexcept { return narrow_; }

 private:
  // long and long long are two types of the same 64 bits.
  template <class Label>
  using integer_like = std::conditional_t<sizeof(Label) == 8, std::int64_t, std::int32_t>;

  const std::int64_t* wide_ = nullptr;
  const std::int32_t* narrow_ = nullptr;
  index_t size_ = 0;
};

/// How many labels are neither background nor ignored. Trainers scale the focal loss by
/// 1 / max(1, count_foreground(labels)).
inline index_t count_foreground(labels_view labels, index_t background = -1, index_t ignore = -2) {
  index_t count = 0;
  for (index_t i = 0; i < labels.size(); ++i) {
    count += static_cast<index_t>(labels[i] != background && labels[i] != ignore);
  }
  return count;
}

}  // namespace vecdet

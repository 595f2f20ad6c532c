// SPDX-License-Identifier: Apache-2.0
// Integer class labels, one a row or an anchor: 0 to classes - 1 is foreground; two values, -1 and
// -2 unless said otherwise, stand for background and for rows to be ignored (as torchvision's
// Matcher marks them). A label counts by its value: 4294967295 of 32 unsigned bits is no -1.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// Integers of 64 or 32 bits, signed or not.
template <class Label>
using require_label =
    std::enable_if_t<std::is_integral<Label>::value && (sizeof(Label) == 8 || sizeof(Label) == 4),
                     int>;

/// The bits of labels of one width, Bits being std::int64_t or std::int32_t. They are read as
/// bytes: the same 64 bits may be a long, a long long or an unsigned long, and whoever reads one as
/// another need not see what was written.
template <class Bits>
class label_bits {
 public:
  explicit label_bits(const void* data) noexcept : data_(static_cast<const unsigned char*>(data)) {}

  VECDET_INLINE const void* at(index_t i) const noexcept {
    return data_ + i * index_t{sizeof(Bits)};
  }
  VECDET_INLINE Bits operator[](index_t i) const noexcept {
    Bits bits;
    std::memcpy(&bits, at(i), sizeof bits);
    return bits;
  }

 private:
  const unsigned char* data_;
};

}  // namespace detail

/// A view of 64-bit or 32-bit labels, signed or not. Converts from a pointer and a size, or any
/// contiguous container of either.
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
                  "0 or more, and so many that they have addresses");
    detail::check(data != nullptr || size_ == 0, "labels_view", "data", "null",
                  "memory of `size` labels");
  }

  template <class Container, detail::require_contiguous<Container> = 0,
            detail::require_label<std::remove_const_t<detail::element_of<Container>>> = 0>
  labels_view(Container&& labels) : labels_view(labels.data(), labels.size()) {}
  template <class Container, detail::require_strided<Container> = 0>
  labels_view(Container&& has_strides) = delete;

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  labels_view& operator=(Owner&& ends_with_the_statement) = delete;

  VECDET_INLINE constexpr index_t size() const noexcept { return size_; }

  /// Label i; 2^63 - 1 where it is more.
  VECDET_INLINE index_t operator[](index_t i) const noexcept {
    if (is_wide_) {
      return is_too_large(i) ? std::numeric_limits<index_t>::max() : bits<std::int64_t>()[i];
    }
    const std::int32_t label = bits<std::int32_t>()[i];
    return is_unsigned_ ? index_t{static_cast<std::uint32_t>(label)} : index_t{label};
  }
  /// Whether label i is 2^63 or more: it is no class, and neither background nor ignored.
  VECDET_INLINE bool is_too_large(index_t i) const noexcept {
    return is_wide_ && is_unsigned_ && bits<std::int64_t>()[i] < 0;
  }
  /// Whether labels of this type have the value.
  VECDET_INLINE bool can_be(index_t value) const noexcept {
    if (is_wide_) return !is_unsigned_ || value >= 0;
    return is_unsigned_ ? static_cast<index_t>(static_cast<std::uint32_t>(value)) == value
                        : static_cast<index_t>(static_cast<std::int32_t>(value)) == value;
  }

  // What follows is for vecdet's own functions.
  VECDET_INLINE constexpr bool is_wide() const noexcept { return is_wide_; }
  VECDET_INLINE constexpr bool is_unsigned() const noexcept { return is_unsigned_; }
  template <class Bits>
  VECDET_INLINE detail::label_bits<Bits> bits() const noexcept {
    return detail::label_bits<Bits>(data_);
  }

 private:
  const void* data_ = nullptr;
  index_t size_ = 0;
  bool is_wide_ = true, is_unsigned_ = false;
};

namespace detail {

/// use(bits) with the labels, of whichever width.
template <class Use>
VECDET_INLINE auto with_bits(const labels_view& labels, const Use& use) {
  return labels.is_wide() ? use(labels.bits<std::int64_t>()) : use(labels.bits<std::int32_t>());
}

/// Background and ignore as the bits of such labels; both are the one where the other is no value
/// of theirs.
template <class Bits>
struct skipped_labels {
  bool none;
  Bits a, b;

  VECDET_INLINE skipped_labels(const labels_view& labels, index_t background, index_t ignore) {
    const bool has_background = labels.can_be(background), has_ignore = labels.can_be(ignore);
    none = !has_background && !has_ignore;
    a = static_cast<Bits>(has_background ? background : ignore);
    b = static_cast<Bits>(has_ignore ? ignore : background);
  }
};

/// Label i in messages.
inline std::string label_text(const labels_view& labels, index_t i) {
  return labels.is_too_large(i)
             ? std::to_string(static_cast<std::uint64_t>(labels.bits<std::int64_t>()[i]))
             : std::to_string(labels[i]);
}

}  // namespace detail

/// How many labels are neither background nor ignored. Trainers scale the focal loss by
/// 1 / max(1, count_foreground(labels)).
inline index_t count_foreground(labels_view labels, index_t background = -1, index_t ignore = -2) {
  return detail::with_bits(labels, [&](auto bits) {
    const detail::skipped_labels<decltype(bits[0])> skipped(labels, background, ignore);
    if (skipped.none) return labels.size();
    index_t count = 0;
    for (index_t i = 0; i < labels.size(); ++i)
      count += static_cast<index_t>(bits[i] != skipped.a && bits[i] != skipped.b);
    return count;
  });
}

}  // namespace VECDET_ABI
}  // namespace vecdet

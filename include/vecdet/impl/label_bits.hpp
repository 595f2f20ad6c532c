// SPDX-License-Identifier: Apache-2.0
// Labels as vecdet's functions and kernels read them, by their bits; and what labels.hpp declares.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

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

VECDET_INLINE bool labels_view::is_too_large(index_t i) const noexcept {
  return is_wide_ && is_unsigned_ && detail::label_bits<std::int64_t>(data_)[i] < 0;
}

VECDET_INLINE index_t labels_view::operator[](index_t i) const noexcept {
  if (is_wide_) {
    return is_too_large(i) ? std::numeric_limits<index_t>::max()
                           : detail::label_bits<std::int64_t>(data_)[i];
  }
  const std::int32_t label = detail::label_bits<std::int32_t>(data_)[i];
  return is_unsigned_ ? index_t{static_cast<std::uint32_t>(label)} : index_t{label};
}

VECDET_INLINE bool labels_view::can_be(index_t value) const noexcept {
  if (is_wide_) return !is_unsigned_ || value >= 0;
  return is_unsigned_ ? static_cast<index_t>(static_cast<std::uint32_t>(value)) == value
                      : static_cast<index_t>(static_cast<std::int32_t>(value)) == value;
}

namespace detail {

/// The type of labels and their memory, which users of a view need not know.
struct labels_access {
  VECDET_INLINE static bool are_wide(const labels_view& labels) noexcept { return labels.is_wide_; }
  VECDET_INLINE static bool are_unsigned(const labels_view& labels) noexcept {
    return labels.is_unsigned_;
  }
  template <class Bits>
  VECDET_INLINE static label_bits<Bits> bits(const labels_view& labels) noexcept {
    return label_bits<Bits>(labels.data_);
  }
};

/// use(bits) with the labels, of whichever width.
template <class Use>
VECDET_INLINE auto with_bits(const labels_view& labels, const Use& use) {
  return labels_access::are_wide(labels) ? use(labels_access::bits<std::int64_t>(labels))
                                         : use(labels_access::bits<std::int32_t>(labels));
}

/// Background and ignore in the labels' type. Where the type cannot hold one of them, both are the
/// other; `none` where it can hold neither.
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
  return labels.is_too_large(i) ? std::to_string(static_cast<std::uint64_t>(
                                      labels_access::bits<std::int64_t>(labels)[i]))
                                : std::to_string(labels[i]);
}

}  // namespace detail

inline index_t count_foreground(labels_view labels, index_t background, index_t ignore) {
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

// SPDX-License-Identifier: Apache-2.0
// Lines of bits, the lowest of a byte first, as words of 64. Shared by the host and the kernels, so
// everything is inlined.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <cstring>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Bits [64 k, 64 k + 64) of a line of `size` bits; 0 beyond its end. Nothing is read beyond the
/// line's bytes.
VECDET_INLINE std::uint64_t line_word(const std::uint8_t* line, index_t size, index_t k) noexcept {
  const index_t left = size - 64 * k;
  std::uint64_t word = 0;
  if (left >= 64) {
    std::memcpy(&word, line + 8 * k, 8);
    return word;
  }
  if (left <= 0) return 0;
  const index_t bytes = (size + 7) / 8;
  if (bytes >= 8) {  // the last 8 bytes of the line
    std::memcpy(&word, line + bytes - 8, 8);
    word >>= 64 - 8 * (bytes - 8 * k);
  } else {
    for (index_t i = bytes - 1; i >= 0; --i) word = word << 8 | line[i];
  }
  return word & ((std::uint64_t{1} << left) - 1);
}

VECDET_INLINE index_t count_bits(std::uint64_t word) noexcept {
#if defined(__POPCNT__)
  return index_t{__builtin_popcountll(word)};
#else
  word -= (word >> 1) & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<index_t>((word * 0x0101010101010101u) >> 56);
#endif
}

/// Bit i: whether byte i of a word is not 0.
VECDET_INLINE std::uint64_t bits_of_8_bytes(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7fu;
  const std::uint64_t ones = ((((bytes & low) + low) | bytes) & ~low) >> 7;
  return (ones * 0x0102040810204080u) >> 56;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Rows of a map, enlarged between its locations, and their pixels.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/near.hpp>
#include <vecdet/simd/pack.hpp>

#include <cstdint>
#include <cstring>

namespace vecdet {
namespace VECDET_TARGET {

/// Writes the lower 16 bits as pixels, or as many as the row has `left`. Nothing is written beyond
/// the row: the next may be another thread's.
template <mask_pixels Kind>
VECDET_INLINE void write_mask_pixels(std::uint32_t bits, index_t left, std::uint8_t* to) {
  if (left >= row_lanes) {
    if constexpr (Kind == mask_pixels::bits) {
      to[0] = static_cast<std::uint8_t>(bits);
      to[1] = static_cast<std::uint8_t>(bits >> 8);
    } else {
      write_bits_as_bytes(bits, to);
    }
    return;
  }
  if constexpr (Kind == mask_pixels::bits) {
    bits &= (1u << left) - 1;
    to[0] = static_cast<std::uint8_t>(bits);
    if (left > 8) to[1] = static_cast<std::uint8_t>(bits >> 8);
  } else {
    for (index_t i = 0; i < left; ++i) to[i] = (bits >> i) & 1;
  }
}

/// Where 16 pixels begin in a row.
template <mask_pixels Kind>
constexpr index_t mask_byte(index_t pixel) {
  return Kind == mask_pixels::bits ? pixel / 8 : pixel;
}

/// Interpolates a row of locations, `row`, which begins at location `first`, at the pixels in `x`.
/// Its last location is there twice. Whole rows of 16 are read and written.
VECDET_INLINE void enlarge_row(const float* row, index_t first, const detail::mask_axis& axis,
                               const detail::mask_span& x, float* to) {
  constexpr int N = row_pack<float>::batches;
  for (index_t i = x.begin; i < x.end; i += row_lanes) {
    const std::int32_t* const location = axis.location + i;
    const float* const from = row + (location[0] - first);
    const auto before = load_near(from, location), after = load_near(from + 1, location);
    store_pack<N>(to + (i - x.begin), fma(load_pack<N>(axis.weight + i), after - before, before));
  }
}

/// Writes `count` rows of `width` pixels that lie between the enlarged rows `above` and `below`,
/// at `weights` of the way. Numbers above 0 belong to the mask.
template <mask_pixels Kind>
VECDET_INLINE void write_rows_between(const float* above, const float* below, const float* weights,
                                      index_t count, index_t width, std::uint8_t* to,
                                      index_t row_bytes) {
  constexpr int N = row_pack<float>::batches;
  using row = row_pack<float>;
  for (index_t i = 0; i < width; i += row_lanes) {
    const row from = load_pack<N>(above + i), way = load_pack<N>(below + i) - from;
    std::uint8_t* at = to + mask_byte<Kind>(i);
    for (index_t k = 0; k < count; ++k, at += row_bytes)
      write_mask_pixels<Kind>(to_bits(fma(row(weights[k]), way, from) > row(0.0f)), width - i, at);
  }
}

/// The same numbers themselves.
VECDET_INLINE void write_numbers_between(const float* above, const float* below,
                                         const float* weights, index_t count, index_t width,
                                         float* to, index_t stride) {
  constexpr int N = row_pack<float>::batches;
  using row = row_pack<float>;
  for (index_t i = 0; i < width; i += row_lanes) {
    const row from = load_pack<N>(above + i), way = load_pack<N>(below + i) - from;
    const index_t left = width - i;
    float* at = to + i;
    for (index_t k = 0; k < count; ++k, at += stride) {
      const row numbers = fma(row(weights[k]), way, from);
      if (left >= row_lanes) {
        store_pack<N>(at, numbers);
      } else {  // nothing is written beyond the row
        float last[row_lanes];
        store_pack<N>(last, numbers);
        for (index_t j = 0; j < left; ++j) at[j] = last[j];
      }
    }
  }
}

/// The pixels of a row of numbers.
template <mask_pixels Kind>
VECDET_INLINE void write_row(const float* from, index_t width, std::uint8_t* to) {
  constexpr int N = row_pack<float>::batches;
  for (index_t i = 0; i < width; i += row_lanes)
    write_mask_pixels<Kind>(to_bits(load_pack<N>(from + i) > row_pack<float>(0.0f)), width - i,
                            to + mask_byte<Kind>(i));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

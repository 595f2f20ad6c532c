// SPDX-License-Identifier: Apache-2.0
// Bilinear resizing of bytes, bit-identical to OpenCV's, directly into planes of floats. Each row
// of the image is resized once into three planes of 16-bit numbers; the last two resized rows are
// kept. A row of the input is a blend of two of them:
//
//   h = (first w0 + second w1) >> 4                    along the row, w in 2048ths
//   pixel = ((h0 v0 >> 16) + (h1 v1 >> 16) + 2) >> 2    across rows
#pragma once

#include <vecdet/args/letterbox.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/sixteens.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/pixels.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::letterbox_args;
using std::uint16_t;
using std::uint32_t;

/// Rounds a number from -1 to 2048 to the nearest integer, ties to even.
VECDET_INLINE uint32_t nearest_even(float x) {
  constexpr float ones = 8388608.0f;  // from here on, floats are whole numbers
  return static_cast<uint32_t>(rounded(x + ones) - ones);
}

inline void weigh_axis(index_t from, index_t to, detail::axis_weights* axis) {
  const double ratio = rounded(static_cast<double>(to) / static_cast<double>(from));
  const double scale = 1 / ratio;
  for (index_t i = 0; i < to; ++i) {
    const double centre = rounded((static_cast<double>(i) + 0.5) * scale);
    const auto x = static_cast<float>(centre - 0.5);
    auto at = static_cast<index_t>(x);
    at -= static_cast<float>(at) > x;
    const float part = x - static_cast<float>(at);
    axis[i].at = static_cast<std::int32_t>(at);
    axis[i].weights = nearest_even((1 - part) * 2048) | nearest_even(part * 2048) << 16;
  }
}

/// Planes begin at multiples of 64 bytes.
constexpr index_t plane_size(index_t cols) { return (cols + 31) / 32 * 32; }

inline index_t letterbox_scratch_size(index_t cols) { return 2 * 3 * plane_size(cols); }

/// Two resized rows, each of three planes.
class resized_rows {
 public:
  resized_rows(const letterbox_args& args, uint16_t* scratch) : args_(args) {
    for (int slot = 0; slot < 2; ++slot)
      for (int c = 0; c < 3; ++c)
        planes_[slot][c] = scratch + (3 * slot + c) * plane_size(args.cols);
  }

  /// Returns the planes of a row; the other row requested last is kept.
  VECDET_INLINE uint16_t* const* operator()(index_t row) {
    const int slot = static_cast<int>(row & 1);
    if (row_[slot] != row) {
      row_[slot] = row;
      resize(args_.image + row * args_.stride, planes_[slot]);
    }
    return planes_[slot];
  }

 private:
  VECDET_NOINLINE void resize(const std::uint8_t* row, uint16_t* const planes[3]) const {
    uint16_t *const plane0 = planes[0], *const plane1 = planes[1], *const plane2 = planes[2];
    const detail::axis_weights* const x = args_.x;
    const index_t vector_cols = args_.vector_cols, last = 3 * (args_.width - 1);
    index_t i = 0;
    for (; i < vector_cols; i += 8) weigh_8_pixels(row, x + i, plane0 + i, plane1 + i, plane2 + i);
    for (; i < args_.cols; ++i) {
      const index_t first = x[i].at, second = first < last ? first + 3 : first;
      for (int c = 0; c < 3; ++c)
        planes[c][i] = weighed(row[first + c], row[second + c], x[i].weights);
    }
  }

  const letterbox_args& args_;
  uint16_t* planes_[2][3];
  index_t row_[2] = {-1, -1};
};

VECDET_INLINE void fill_with(float* to, index_t size, float value) {
  for_each_by_sixteens(0, size, [&](index_t i) VECDET_INLINE_LAMBDA { to[i] = value; });
}

/// Blends a row of a plane from two resized rows.
VECDET_INLINE void join_rows(const uint16_t* first, const uint16_t* second, uint32_t weights,
                             index_t cols, float scale, float shift, float* to) {
  const row_join join(weights, scale, shift);
  index_t i = 0;
  for (; i + 16 <= cols; i += 16) join(first + i, second + i, to + i);
  for (; i < cols; ++i) to[i] = joined_pixel(first[i], second[i], weights) * scale + shift;
}

inline void fill_letterbox_rows(const letterbox_args& args, index_t first, index_t last,
                                uint16_t* scratch) {
  resized_rows resized(args, scratch);
  for (index_t row = first; row < last; ++row) {
    const index_t inside = row - args.top;
    const bool is_padding = inside < 0 || inside >= args.rows;
    const index_t left = is_padding ? args.out_width : args.left;
    const index_t right = args.left + args.cols;
    for (int c = 0; c < 3; ++c) {
      float* const to = args.planes[c] + row * args.out_width;
      fill_with(to, left, args.fill[c]);
      if (!is_padding) fill_with(to + right, args.out_width - right, args.fill[c]);
    }
    if (is_padding) continue;
    const detail::axis_weights& y = args.y[inside];
    const index_t most = args.height - 1;
    const auto within = [&](index_t at) { return at < 0 ? 0 : at > most ? most : at; };
    uint16_t* const* const upper = resized(within(y.at));
    uint16_t* const* const lower = resized(within(index_t{y.at} + 1));
    for (int c = 0; c < 3; ++c)
      join_rows(upper[c], lower[c], y.weights, args.cols, args.scale[c], args.shift[c],
                args.planes[c] + row * args.out_width + args.left);
  }
}

template <>
struct kernels_of<detail::letterbox_kernels> {
  static constexpr detail::letterbox_kernels get() {
    detail::letterbox_kernels kernels{};
    kernels.weigh_axis = weigh_axis;
    kernels.scratch_size = letterbox_scratch_size;
    kernels.fill_rows = fill_letterbox_rows;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(letterbox_kernels)

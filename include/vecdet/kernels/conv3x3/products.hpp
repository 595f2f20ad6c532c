// SPDX-License-Identifier: Apache-2.0
// Products of transformed tiles: a matrix of rows x depth times one of depth x conv_panel. The sums
// of a block of rows and columns stay in registers. On AVX-512, a block has up to 14 x 32 numbers:
// 28 registers hold sums, two hold columns and one holds a number of a row. A block has 6 x 16
// numbers on AVX2 and 6 x 8 on the baseline: 12 of the 16 registers hold sums, two hold columns and
// one holds a number of a row.
//
// Each sum is one chain of multiply-adds in the order of the depth, even if it is continued from
// memory. Its bits therefore depend neither on the blocks nor on the width of vectors.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/simd/batch.hpp>

namespace vecdet {
namespace VECDET_TARGET {

#if defined(VECDET_TARGET_AVX512) || defined(__aarch64__)
constexpr int product_rows = 14;
#else
constexpr int product_rows = 6;
#endif
/// The number of columns in a block.
constexpr int product_columns = 2 * batch_lanes<float>;

/// A block of rows at a distance of `stride`; the numbers of a row are adjacent. One pointer serves
/// three rows, because an address may be a register plus once or twice another register.
template <int Rows>
struct rows_apart {
  static constexpr int most_rows = product_rows;
  static constexpr int pointers = (Rows + 2) / 3;
  const float* at[pointers];
  index_t stride;

  VECDET_INLINE rows_apart(const float* first, index_t between) : stride(between) {
    VECDET_UNROLL
    for (int i = 0; i < pointers; ++i) {
      at[i] = first + 3 * i * between;
#if defined(__GNUC__)
      // Without this, compilers keep one pointer per row, and registers do not suffice.
      __asm__("" : "+r"(at[i]));
#endif
    }
  }
  VECDET_INLINE f32_batch number(int row, int step) const {
    return f32_batch(at[row / 3][row % 3 * stride + step]);
  }
  template <int Steps>
  VECDET_INLINE void advance() {
    VECDET_UNROLL
    for (int i = 0; i < pointers; ++i) at[i] += Steps;
  }
};

/// A block of adjacent rows; the numbers of a row are at a distance of `stride`. The rows are those
/// of a group of conv_lanes, so a block has half of them if the registers suffice.
template <int Rows>
struct rows_adjacent {
  static constexpr int half = static_cast<int>(detail::conv_lanes) / 2;
  static constexpr int most_rows = half < product_rows ? half : product_rows;
  const float* at;
  index_t stride;

  VECDET_INLINE rows_adjacent(const float* first, index_t between) : at(first), stride(between) {}
  VECDET_INLINE f32_batch number(int row, int step) const {
    return f32_batch(at[step * stride + row]);
  }
  template <int Steps>
  VECDET_INLINE void advance() {
    at += Steps * stride;
  }
};

/// Prefetches the cache line of an address into the second-level cache. The address may be invalid.
VECDET_INLINE void fetch(const float* line) {
#if defined(__GNUC__)
  __builtin_prefetch(line, 0, 2);
#else
  static_cast<void>(line);
#endif
}

/// Computes the products of `depth` steps and stores them to `sums`, rows of conv_panel numbers, or
/// adds them if `continues`. `Columns` is a number of batches. Meanwhile, it prefetches one cache
/// line from `next` on per two steps; more would delay the products.
template <template <int> class Layout, int Rows, int Columns>
VECDET_NOINLINE void add_block(const float* rows, index_t stride, const float* columns,
                               index_t depth, bool continues, float* sums, const float* next) {
  constexpr int lanes = batch_lanes<float>, panel = static_cast<int>(detail::conv_panel);
  f32_batch sum[Rows][Columns];
  if (continues) {
    VECDET_UNROLL
    for (int r = 0; r < Rows; ++r) VECDET_UNROLL
    for (int c = 0; c < Columns; ++c) sum[r][c] = load(sums + r * panel + c * lanes);
  } else {
    VECDET_UNROLL
    for (int r = 0; r < Rows; ++r) VECDET_UNROLL
    for (int c = 0; c < Columns; ++c) sum[r][c] = f32_batch(0.0f);
  }
  Layout<Rows> block(rows, stride);
  const auto step = [&](int s) VECDET_INLINE_LAMBDA {
    f32_batch column[Columns];
    VECDET_UNROLL
    for (int c = 0; c < Columns; ++c) column[c] = load(columns + s * panel + c * lanes);
    VECDET_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const f32_batch number = block.number(r, s);
      VECDET_UNROLL
      for (int c = 0; c < Columns; ++c)
        sum[r][c] = VECDET_TARGET::fma(number, column[c], sum[r][c]);
    }
  };
  index_t d = 0;
  for (; d + 2 <= depth; d += 2) {
    step(0);
    step(1);
    fetch(next);
    next += 16;
    block.template advance<2>();
    columns += 2 * panel;
  }
  if (d < depth) step(0);
  VECDET_UNROLL
  for (int r = 0; r < Rows; ++r) VECDET_UNROLL
  for (int c = 0; c < Columns; ++c) store(sums + r * panel + c * lanes, sum[r][c]);
}

using add_block_function = void (*)(const float* rows, index_t stride, const float* columns,
                                    index_t depth, bool continues, float* sums, const float* next);

/// The function for a block of `rows` rows and `columns` batches of columns.
template <template <int> class Layout, int Rows = Layout<1>::most_rows>
VECDET_INLINE add_block_function block_function(int rows, int columns) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return block_function<Layout, Rows - 1>(rows, columns);
  }
  return columns == 1 ? add_block<Layout, Rows, 1> : add_block<Layout, Rows, 2>;
}

/// The product of rows with a panel of columns.
struct panel_product {
  const float* rows;
  index_t row_count;
  index_t row_step;  ///< distance between rows
  index_t stride;    ///< of the layout
  const float* columns;
  index_t channels;  ///< columns that count, at most conv_panel
  index_t depth;
  bool continues;  ///< adds to `sums` instead of overwriting them
  float* sums;
  const float* next;  ///< memory that is needed next
};

template <template <int> class Layout>
void add_panel(const panel_product& p) {
  constexpr int lanes = batch_lanes<float>, panel = static_cast<int>(detail::conv_panel);
  // Blocks of nearly the same height.
  constexpr int most_rows = Layout<1>::most_rows;
  const index_t blocks = (p.row_count + most_rows - 1) / most_rows;
  const index_t calls = blocks * ((p.channels + product_columns - 1) / product_columns);
  index_t call = 0;
  for (index_t k = 0; k < p.channels; k += product_columns) {
    const int batches = p.channels - k > lanes ? 2 : 1;
    index_t first = 0;
    for (index_t b = 0; b < blocks; ++b) {
      const index_t last = p.row_count * (b + 1) / blocks;
      block_function<Layout>(static_cast<int>(last - first), batches)(
          p.rows + first * p.row_step, p.stride, p.columns + k, p.depth, p.continues,
          p.sums + first * panel + k, p.next + p.depth * panel * call++ / calls);
      first = last;
    }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

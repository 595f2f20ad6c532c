// SPDX-License-Identifier: Apache-2.0
// Products of transformed tiles: rows x depth times depth x conv_panel numbers, summed over the
// depth. The sums of a block of rows and columns stay in registers: on AVX-512 14 x 32, with 28
// registers for sums, two for columns and one for a row's number; on AVX2 6 x 16 and on the
// baseline 6 x 8, with 12, two and one of 16.
//
// Each sum is one chain of multiply-adds in the order of the depth, also where it is continued from
// memory: its bits depend neither on blocks nor on the width of vectors.
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
/// Numbers in the columns of a block.
constexpr int product_columns = 2 * batch_lanes<float>;

/// A block of rows that lie `stride` apart, each with its depth adjacent. One pointer serves three
/// rows, as addresses are a register, and once or twice another.
template <int Rows>
struct rows_apart {
  static constexpr int pointers = (Rows + 2) / 3;
  const float* at[pointers];
  index_t stride;

  VECDET_INLINE rows_apart(const float* first, index_t between) : stride(between) {
    VECDET_UNROLL
    for (int i = 0; i < pointers; ++i) {
      at[i] = first + 3 * i * between;
#if defined(__GNUC__)
      // Otherwise compilers keep one pointer for each row, more than there are registers.
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

/// A block of adjacent rows, whose steps in depth lie `stride` apart.
template <int Rows>
struct rows_adjacent {
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

/// Brings the line of an address, which need not be valid, to the second-level cache.
VECDET_INLINE void fetch(const float* line) {
#if defined(__GNUC__)
  __builtin_prefetch(line, 0, 2);
#else
  static_cast<void>(line);
#endif
}
/// Lines that a block fetches in two steps: all blocks of a panel together fetch all of the next.
constexpr int fetched_lines = product_rows > 6 ? 2 : 1;

/// sums, rows of conv_panel numbers, become, or grow by, the products of `depth` steps. `Columns`
/// is in batches. Lines from `next` and `next_sums` on are fetched meanwhile, as they are used
/// soon.
template <template <int> class Layout, int Rows, int Columns>
VECDET_NOINLINE void add_block(const float* rows, index_t stride, const float* columns,
                               index_t depth, bool continues, float* sums, const float* next,
                               const float* next_sums) {
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
    VECDET_UNROLL
    for (int line = 0; line < fetched_lines; ++line) fetch(next + line * 16);
    next += fetched_lines * 16;
    fetch(next_sums);
    next_sums += 16;
    block.template advance<2>();
    columns += 2 * panel;
  }
  if (d < depth) step(0);
  VECDET_UNROLL
  for (int r = 0; r < Rows; ++r) VECDET_UNROLL
  for (int c = 0; c < Columns; ++c) store(sums + r * panel + c * lanes, sum[r][c]);
}

using add_block_function = void (*)(const float* rows, index_t stride, const float* columns,
                                    index_t depth, bool continues, float* sums, const float* next,
                                    const float* next_sums);

/// The function for so many rows and batches of columns.
template <template <int> class Layout, int Rows = product_rows>
VECDET_INLINE add_block_function block_function(int rows, int columns) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return block_function<Layout, Rows - 1>(rows, columns);
  }
  return columns == 1 ? add_block<Layout, Rows, 1> : add_block<Layout, Rows, 2>;
}

/// Products of a panel of columns.
struct panel_product {
  const float* rows;
  index_t row_count;
  index_t row_step;  ///< from one row to the next
  index_t stride;    ///< the layout's
  const float* columns;
  index_t channels;  ///< columns that count, at most conv_panel
  index_t depth;
  bool continues;  ///< the sums that are there
  float* sums;
  const float* next;       ///< the columns of the next panel
  const float* next_sums;  ///< its sums
};

template <template <int> class Layout>
void add_panel(const panel_product& p) {
  constexpr int lanes = batch_lanes<float>, panel = static_cast<int>(detail::conv_panel);
  // Blocks of nearly the same height.
  const index_t blocks = (p.row_count + product_rows - 1) / product_rows;
  const index_t calls = blocks * ((p.channels + product_columns - 1) / product_columns);
  index_t call = 0;
  for (index_t k = 0; k < p.channels; k += product_columns) {
    const int batches = p.channels - k > lanes ? 2 : 1;
    index_t first = 0;
    for (index_t b = 0; b < blocks; ++b) {
      const index_t last = p.row_count * (b + 1) / blocks;
      block_function<Layout>(static_cast<int>(last - first), batches)(
          p.rows + first * p.row_step, p.stride, p.columns + k, p.depth, p.continues,
          p.sums + first * panel + k, p.next + p.depth * panel * call++ / calls,
          b + 1 < blocks ? p.sums + last * panel + k : p.next_sums);
      first = last;
    }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

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
  /// Cache lines that are prefetched per two steps. More would delay the products.
  static constexpr int lines_ahead = 1;
  const float* at[pointers];
  index_t stride;

  /// Where the prefetches of a block begin: its blocks share those of a panel of columns.
  static index_t ahead(index_t depth, index_t block, index_t blocks) {
    return depth * detail::conv_panel * block / blocks;
  }
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
  /// A cache line per step: those of the next part's rows.
  static constexpr int lines_ahead = 2;
  const float* at;
  index_t stride;

  static index_t ahead(index_t, index_t, index_t) { return 0; }
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

/// Some steps of a product.
struct product_part {
  const float *rows, *columns;
  index_t depth;
  const float* next;  ///< memory that is needed next
};

/// Computes the products of all parts, one after the other, and stores their sums to `sums`, rows
/// of conv_panel numbers, or adds them if `continues`. The block begins `first_row` numbers after
/// the parts' rows and `first_column` numbers after their columns. `Columns` is a number of
/// batches. Meanwhile, it prefetches cache lines from `ahead` numbers after `next` on.
template <template <int> class Layout, int Rows, int Columns>
VECDET_NOINLINE void add_block(const product_part* part, index_t parts, index_t first_row,
                               index_t stride, index_t first_column, bool continues, float* sums,
                               index_t ahead) {
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
  for (const product_part* const end = part + parts; part != end; ++part) {
    Layout<Rows> block(part->rows + first_row, stride);
    const float* columns = part->columns + first_column;
    const float* next = part->next + ahead;
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
    const index_t depth = part->depth;
    index_t d = 0;
    for (; d + 2 <= depth; d += 2) {
      step(0);
      step(1);
      VECDET_UNROLL
      for (int line = 0; line < Layout<Rows>::lines_ahead; ++line) fetch(next + line * 16);
      next += Layout<Rows>::lines_ahead * 16;
      block.template advance<2>();
      columns += 2 * panel;
    }
    if (d < depth) step(0);
  }
  VECDET_UNROLL
  for (int r = 0; r < Rows; ++r) VECDET_UNROLL
  for (int c = 0; c < Columns; ++c) store(sums + r * panel + c * lanes, sum[r][c]);
}

using add_block_function = void (*)(const product_part* part, index_t parts, index_t first_row,
                                    index_t stride, index_t first_column, bool continues,
                                    float* sums, index_t ahead);

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
  const product_part* parts;  ///< added to the sums one after the other
  index_t part_count;
  index_t row_count;
  index_t row_step;  ///< distance between rows
  index_t stride;    ///< of the layout
  index_t channels;  ///< columns that count, at most conv_panel
  bool continues;    ///< adds to `sums` instead of overwriting them
  float* sums;
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
          p.parts, p.part_count, first * p.row_step, p.stride, k, p.continues,
          p.sums + first * panel + k, Layout<1>::ahead(p.parts->depth, call++, calls));
      first = last;
    }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

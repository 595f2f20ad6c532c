// SPDX-License-Identifier: Apache-2.0
// The softmax of rows with few columns: distributions of boxes' sides, and the classes of SSD and
// of two-stage detectors. 16 rows are computed together, one per lane. No reduction crosses lanes,
// no row has a remainder, and every sum goes column by column on every instruction set.
//
// Rows become lanes four columns at a time. If the number of columns is not a multiple of four, the
// last four overlap those before; the overlap is read and written twice.
#pragma once

#include <vecdet/kernels/boxes.hpp>
#include <vecdet/simd/math.hpp>
#include <vecdet/simd/math_boxes.hpp>
#include <vecdet/simd/transpose.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using float_row = row_pack<float>;

/// 16 rows of a matrix. If there are fewer, the last row is repeated: it is computed and written
/// several times.
struct row_group {
  const float* in[row_lanes];
  float* out[row_lanes];
};

/// The rows row_of(0) to row_of(count - 1), and the destination of their results, if any.
template <class RowOf>
VECDET_INLINE void set_rows(row_group& rows, const float* in, index_t in_stride, float* out,
                            index_t out_stride, int count, const RowOf& row_of) {
  for (int r = 0; r < row_lanes; ++r) {
    const index_t row = row_of(r < count ? r : count - 1);
    rows.in[r] = in + row * in_stride;
    rows.out[r] = out != nullptr ? out + row * out_stride : nullptr;
  }
}

/// Calls use(first, count) for [first, last) in groups of 16; the last group may be smaller.
template <class Use>
VECDET_INLINE void for_row_groups(index_t first, index_t last, const Use& use) {
  for (; first < last; first += row_lanes)
    use(first, static_cast<int>(last - first < row_lanes ? last - first : row_lanes));
}

/// Keeps the first `count` lanes.
VECDET_INLINE void store_lanes(float* to, const float_row& x, int count) {
  if (count == row_lanes) return store_pack<float_row::batches>(to, x);
  alignas(64) float lane[row_lanes];
  store_pack<float_row::batches>(lane, x);
  for (int r = 0; r < count; ++r) to[r] = lane[r];
}

/// Columns that are kept at once; longer rows are read again for each use.
constexpr index_t softmax_panel = 128;

/// Columns whose exponentials are computed together: four batches.
constexpr int columns_in_flight = float_row::batches >= 4 ? 1 : 4 / float_row::batches;

/// The start of the next four of `count` columns, after those before `column`.
VECDET_INLINE index_t quad_at(index_t column, index_t count) {
  return column + 4 <= count ? column : count - 4;
}

/// Loads columns [first, first + count) of the rows into `panel`, one row of lanes each. Returns
/// the maximum of each row and of `greatest`.
VECDET_INLINE float_row load_panel(const row_group& rows, index_t first, index_t count,
                                   float (*panel)[row_lanes], float_row greatest) {
  constexpr int N = float_row::batches, lanes = batch_lanes<float>;
  if (count < 4) {
    for (index_t c = 0; c < count; ++c) {
      for (int r = 0; r < row_lanes; ++r) panel[c][r] = rows.in[r][first + c];
      greatest = max(load_pack<N>(panel[c]), greatest);
    }
    return greatest;
  }
  for (index_t column = 0; column < count; column += 4) {
    const index_t c = quad_at(column, count);
    VECDET_UNROLL
    for (int b = 0; b < N; ++b) {
      f32_batch quad[4];
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k)
        quad[k] = load_quads([&](int i) { return rows.in[b * lanes + k + 4 * i] + first + c; });
      transpose4(quad);
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k) store(panel[c + k] + b * lanes, quad[k]);
      const f32_batch pairs = VECDET_TARGET::max(VECDET_TARGET::max(quad[0], quad[1]),
                                                 VECDET_TARGET::max(quad[2], quad[3]));
      greatest.v[b] = VECDET_TARGET::max(pairs, f32_batch(greatest.v[b]));
    }
  }
  return greatest;
}

/// Writes number(c, panel entry) to column first + c of the rows.
template <class Number>
VECDET_INLINE void store_panel(const row_group& rows, index_t first, index_t count,
                               const float (*panel)[row_lanes], const Number& number) {
  constexpr int N = float_row::batches, lanes = batch_lanes<float>;
  if (count < 4) {
    for (index_t c = 0; c < count; ++c) {
      alignas(64) float lane[row_lanes];
      store_pack<N>(lane, number(c, load_pack<N>(panel[c])));
      for (int r = 0; r < row_lanes; ++r) rows.out[r][first + c] = lane[r];
    }
    return;
  }
  for (index_t column = 0; column < count; column += 4) {
    const index_t c = quad_at(column, count);
    float_row x[4];
    VECDET_UNROLL
    for (int k = 0; k < 4; ++k) x[k] = number(c + k, load_pack<N>(panel[c + k]));
    VECDET_UNROLL
    for (int b = 0; b < N; ++b) {
      f32_batch quad[4] = {x[0].v[b], x[1].v[b], x[2].v[b], x[3].v[b]};
      transpose4(quad);
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k)
        store_quads([&](int i) { return rows.out[b * lanes + k + 4 * i] + first + c; }, quad[k]);
    }
  }
}

/// The number of columns added in float before the total takes their sum.
constexpr index_t summed_columns = 16;

/// A sum of few or very many terms: rounding errors are accumulated and added at the end.
struct long_sum {
  float_row sum{0.0f}, rounded_off{0.0f};

  VECDET_INLINE void add(const float_row& x) {
    const float_row before = sum;
    sum = VECDET_ORDERED(before + x);
    const float_row added = VECDET_ORDERED(sum - before);
    rounded_off = rounded_off + (VECDET_ORDERED(before - VECDET_ORDERED(sum - added)) +
                                 VECDET_ORDERED(x - added));
  }
  VECDET_INLINE float_row total() const { return sum + rounded_off; }
};

/// The softmax of 16 rows: exp(x - max) column by column, and its divisor.
class softmax_group {
 public:
  float_row greatest, sum;

  /// Computes `cols` columns, at least 1. If a logit is NaN or +infinity, or all are -infinity, the
  /// sum is NaN.
  VECDET_INLINE softmax_group(const row_group& rows, index_t cols)
      : greatest(-largest<float>), sum(0.0f), rows_(rows), cols_(cols) {
    // No x - max is above 0, so their sum is NaN if one of them is; exp_minus_abs would lose the
    // NaN.
    float_row differences(0.0f);
    long_sum exponentials;
    for (index_t first = 0; first < cols; first += softmax_panel)
      greatest = load_panel(rows_, first, panel_columns(first), panel_, greatest);
    for (index_t first = 0; first < cols; first += softmax_panel) {
      const index_t count = panel_columns(first);
      if (cols > softmax_panel) load_panel(rows_, first, count, panel_, greatest);
      for (index_t begin = 0; begin < count; begin += summed_columns) {
        const index_t end = count - begin < summed_columns ? count : begin + summed_columns;
        // Even and odd columns have separate sums: a single one would wait for each addition.
        float_row sums[2] = {0.0f, 0.0f};
        take_exponentials(begin, end,
                          [&](int k, const float_row& d, const float_row& e) VECDET_INLINE_LAMBDA {
                            differences = differences + d;
                            sums[k & 1] = sums[k & 1] + e;
                          });
        exponentials.add(sums[0] + sums[1]);
      }
    }
    sum = exponentials.total();
    sum = select(differences == differences, sum, float_row(not_a_number<float>()));
    // The maximum adds exp(0) = 1; if all logits are -infinity, there is no such term.
    sum = select(sum >= float_row(0.5f), sum, float_row(not_a_number<float>()));
  }

  /// log(sum of exp(x)) - max.
  VECDET_INLINE float_row log_sum() const {
    const float_row log = log_ratio(sum, float_row(0.0f), float_row(1.0f), float_row(0.0f));
    return select(sum == sum, log, sum);
  }

  /// Calls use(first, count, panel) for all columns; `panel` has exp(x - max) of [first, first +
  /// count).
  template <class Use>
  VECDET_INLINE void for_each_panel(const Use& use) {
    for (index_t first = 0; first < cols_; first += softmax_panel) {
      const index_t count = panel_columns(first);
      if (cols_ > softmax_panel) {
        load_panel(rows_, first, count, panel_, greatest);
        take_exponentials(0, count,
                          [](int, const float_row&, const float_row&) VECDET_INLINE_LAMBDA {});
      }
      use(first, count, panel_);
    }
  }

 private:
  static constexpr int N = float_row::batches;

  VECDET_INLINE index_t panel_columns(index_t first) const {
    return cols_ - first < softmax_panel ? cols_ - first : softmax_panel;
  }

  /// Replaces x by exp(x - max) in columns [c, end) of the panel, and calls take(k, x - max, exp(x
  /// - max)) for each; k is even in even columns and odd in odd ones.
  template <class Take>
  VECDET_INLINE void take_exponentials(index_t c, index_t end, const Take& take) {
    constexpr int together = columns_in_flight;
    for (; c + together <= end; c += together)
      take_some<together>(panel_[c], static_cast<int>(c & 1), take);
    for (; c < end; ++c) take_some<1>(panel_[c], static_cast<int>(c & 1), take);
  }
  template <int Columns, class Take>
  VECDET_INLINE void take_some(float* x, int column, const Take& take) const {
    pack<float, Columns* N> d = load_pack<Columns * N>(x);
    VECDET_UNROLL
    for (int b = 0; b < Columns * N; ++b) d.v[b] = d.v[b] - greatest.v[b % N];
    const auto e = exp_minus_abs(d);
    store_pack<Columns * N>(x, e);
    VECDET_UNROLL
    for (int k = 0; k < Columns; ++k) take(column + k, slice<N>(d, k * N), slice<N>(e, k * N));
  }

  const row_group& rows_;
  index_t cols_;
  alignas(64) float panel_[softmax_panel][row_lanes];
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

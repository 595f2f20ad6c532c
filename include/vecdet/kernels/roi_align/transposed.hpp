// SPDX-License-Identifier: Apache-2.0
// RoIAlign forward in NCHW by transposition, for many boxes: lanes are 16 channels, as in NHWC.
//
// Boxes are visited in the order of their first rows, so the rows of the map needed at a time form
// a window as high as the highest box. Each row is transposed once, into a ring of that many rows.
// For each row of bins, the rows of the map are added up first, for every column that its bins
// touch. Then each bin takes its columns from these sums.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/kernels/roi_align/plan.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/transpose.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// Adds the first Count rows, in each touched column, to the sums; the sums are 0 before the first
/// call.
template <int Count, class Real>
VECDET_INLINE void add_rows_of_channels(const weighted_rows<const Real>& rows, bool is_first,
                                        const std::int32_t* touched, std::int32_t touched_count,
                                        std::int32_t first_column, Real* sums) {
  constexpr int N = row_pack<Real>::batches;
  row_pack<Real> weight[Count];
  VECDET_UNROLL
  for (int r = 0; r < Count; ++r) weight[r] = row_pack<Real>(rows.weight[r]);
  for (std::int32_t i = 0; i < touched_count; ++i) {
    const index_t at = index_t{touched[i] - first_column} * row_lanes;
    row_pack<Real> sum(Real(0));
    if (!is_first) sum = load_pack<N>(sums + at);
    VECDET_UNROLL
    for (int r = 0; r < Count; ++r) sum = fma(weight[r], load_pack<N>(rows.row[r] + at), sum);
    store_pack<N>(sums + at, sum);
  }
}

/// The ring of transposed rows of the map, with the columns that any box touches.
template <class Real>
struct transposed_rows {
  Real* rows;
  index_t size, width;  ///< the number of rows, and the numbers in each
  index_t ready;        ///< all rows before it that are still needed have been transposed

  VECDET_INLINE Real* at(index_t row) const { return rows + row % size * width; }
};

/// Computes the bins of 16 channels of a box, in rows of 16. `first_column` is the ring's.
template <class Real>
VECDET_NOINLINE void bins_of_channels(const detail::roi_plan& plan, const roi_tables<Real>& t,
                                      index_t bins_rows, index_t bins_columns,
                                      const transposed_rows<Real>& ring, std::int32_t first_column,
                                      Real* sums, Real* bins) {
  constexpr int N = row_pack<Real>::batches;
  const Real* const first = ring.at(plan.first_row);
  const Real* const end = ring.rows + ring.size * ring.width;
  const index_t in_row = index_t{plan.first_column - first_column} * row_lanes;
  for (index_t p = 0; p < bins_rows; ++p) {
    const std::int32_t first_entry = t.row_begin[p], last_entry = t.row_begin[p + 1];
    for (std::int32_t e = first_entry; e < last_entry; e += roi_rows_at_once) {
      weighted_rows<const Real> rows;
      const int count = last_entry - e < roi_rows_at_once ? last_entry - e : roi_rows_at_once;
      for (int r = 0; r < count; ++r) {
        const Real* row = first + (t.row[e + r].at - plan.first_row) * ring.width;
        if (row >= end) row -= ring.size * ring.width;
        rows.row[r] = row + in_row;
        rows.weight[r] = t.row[e + r].weight;
      }
      with_row_count(count, [&](auto all) VECDET_INLINE_LAMBDA {
        add_rows_of_channels<decltype(all)::value>(rows, e == first_entry, t.touched, plan.touched,
                                                   plan.first_column, sums);
      });
    }
    for (index_t q = 0; q < bins_columns; ++q) {
      row_pack<Real> sum(Real(0));
      if (first_entry < last_entry)
        for (std::int32_t e = t.column_begin[q]; e < t.column_begin[q + 1]; ++e) {
          const index_t at = index_t{t.column[e].at - plan.first_column} * row_lanes;
          sum = fma(row_pack<Real>(t.column[e].weight), load_pack<N>(sums + at), sum);
        }
      store_pack<N>(bins + (p * bins_columns + q) * row_lanes, sum);
    }
  }
}

/// Computes at most 16 channels.
template <class T>
void roi_align_transposed(const detail::roi_align_args<T>& a, const detail::roi_task& task,
                          compute_type<T>* memory) {
  using real = compute_type<T>;
  const auto& level = a.levels[task.level];
  const index_t plane_size = level.height * level.width, bins_size = a.rows * a.columns;
  std::int32_t first_column = static_cast<std::int32_t>(level.width), end_column = 0;
  index_t highest = 0;
  for (index_t k = task.first_plan; k < task.last_plan; ++k) {
    const detail::roi_plan& plan = a.plans[k];
    if (plan.row_entries == 0) continue;
    if (plan.first_column < first_column) first_column = plan.first_column;
    if (plan.end_column > end_column) end_column = plan.end_column;
    if (plan.end_row - plan.first_row > highest) highest = plan.end_row - plan.first_row;
  }
  const index_t width = end_column > first_column ? end_column - first_column : 0;

  real* const sums = next_line(memory);
  real* const bins = sums + level.width * row_lanes;
  transposed_rows<real> ring{bins + bins_size * row_lanes, highest, width * row_lanes, 0};
  const index_t channels = task.last_channel - task.first_channel;
  const T* const planes =
      level.features + (task.image * a.channels + task.first_channel) * plane_size;
  for (index_t k = task.first_plan; k < task.last_plan; ++k) {
    const detail::roi_plan& plan = a.plans[k];
    T* const out = a.out + (plan.box * a.channels + task.first_channel) * bins_size;
    if (plan.row_entries == 0) {
      for (index_t i = 0; i < channels * bins_size; ++i) out[i] = T(real(0));
      continue;
    }
    if (ring.ready < plan.first_row) ring.ready = plan.first_row;
    for (; ring.ready < plan.end_row; ++ring.ready)
      to_channel_rows(planes + ring.ready * level.width + first_column, plane_size, channels, width,
                      ring.at(ring.ready));
    bins_of_channels(plan, tables_of(a, plan), a.rows, a.columns, ring, first_column, sums, bins);
    from_channel_rows(bins, bins_size, channels, out, bins_size);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

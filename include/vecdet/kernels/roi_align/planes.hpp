// SPDX-License-Identifier: Apache-2.0
// RoIAlign in NCHW by planes, for few channels or few boxes: a plane stays in the cache for all
// boxes. The rows of a bin are added up first, 16 neighbouring columns at a time, over the whole
// width of the box; then the lanes are bins, and take their columns from these sums.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/kernels/roi_align/plan.hpp>
#include <vecdet/simd/gather.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/transpose.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// Count x 16 columns of the sum of a bin's rows.
template <int Count, class Real>
VECDET_INLINE void add_rows(const detail::roi_entry<Real>* row, const detail::roi_entry<Real>* end,
                            const Real* columns, index_t width, Real* to) {
  constexpr int N = Count * row_pack<Real>::batches;
  using reals = pack<Real, N>;
  reals sum(Real(0));
  for (; row != end; ++row) {
    sum = fma(reals(row->weight), load_pack<N>(columns + row->at * width), sum);
  }
  store_pack<N>(to, sum);
}

/// The bins of a box in a plane of `width` columns, 15 numbers after which may be read.
template <class Real>
void bins_of_plane(const detail::roi_plan& plan, const roi_tables<Real>& t, index_t bins_rows,
                   index_t bins_columns, const Real* plane, index_t width, Real* sums, Real* bins) {
  constexpr int N = row_pack<Real>::batches;
  const bin_lanes lanes(bins_columns);
  const index_t taken = columns_taken(plan), stride = taken + row_lanes;
  const Real* const columns = plane + plan.first_column;
  store_pack<N>(sums + taken, row_pack<Real>(Real(0)));
  for (index_t p = 0; p < bins_rows; p += lanes.rows) {
    const index_t end = p + lanes.rows < bins_rows ? p + lanes.rows : bins_rows;
    for (index_t r = p; r < end; ++r) {
      Real* const to = sums + (r - p) * stride;
      const auto* const first = t.row + t.row_begin[r];
      const auto* const last = t.row + t.row_begin[r + 1];
      index_t x = 0;
      for (; x + 2 * row_lanes <= taken; x += 2 * row_lanes)
        add_rows<2>(first, last, columns + x, width, to + x);
      if (x < taken) add_rows<1>(first, last, columns + x, width, to + x);
    }
    for (index_t g = 0; g < lanes.groups; ++g) {
      const index_t table = g * plan.steps * row_lanes;
      row_pack<Real> sum(Real(0));
      for (std::int32_t j = 0; j < plan.steps; ++j) {
        const index_t at = table + j * row_lanes;
        sum = fma(load_pack<N>(t.lane_weight + at), gather_row(sums, t.lane_index + at), sum);
      }
      // Lanes beyond the row's last bin are overwritten by the next row; the last ones lie in
      // memory to spare.
      store_pack<N>(bins + p * bins_columns + g * row_lanes, sum);
    }
  }
}

template <class T>
void roi_align_planes(const detail::roi_align_args<T>& a, const detail::roi_task& task,
                      compute_type<T>* memory) {
  using real = compute_type<T>;
  const auto& level = a.levels[task.level];
  const index_t plane_size = level.height * level.width, bins_size = a.rows * a.columns;
  const index_t tensor_size = a.images * a.channels * plane_size;
  real* const sums = next_line(memory);
  real* const bins = sums + 17 * (detail::roi_padded(level.width) + 2 * row_lanes);
  real* const copies = bins + detail::roi_padded(bins_size) + row_lanes;

  index_t first_row = level.height, end_row = 0;
  for (index_t k = task.first_plan; k < task.last_plan; ++k) {
    const detail::roi_plan& plan = a.plans[k];
    if (plan.row_entries == 0) continue;
    if (plan.first_row < first_row) first_row = plan.first_row;
    if (plan.end_row > end_row) end_row = plan.end_row;
  }
  const index_t first_used = first_row * level.width, used = (end_row - first_row) * level.width;

  const index_t block = detail::roi_channel_block(plane_size);
  for (index_t c0 = task.first_channel; c0 < task.last_channel; c0 += block) {
    const index_t c_end = c0 + block < task.last_channel ? c0 + block : task.last_channel;
    const real* planes[detail::roi_max_channel_block];
    real* copy = copies;
    for (index_t c = c0; c < c_end; ++c) {
      const index_t first = (task.image * a.channels + c) * plane_size;
      const T* const plane = level.features + first;
      if constexpr (std::is_same<T, real>::value) {
        planes[c - c0] = plane;
        if (first + plane_size + row_lanes <= tensor_size) continue;
      }
      planes[c - c0] = copy;
      if (used > 0) convert(plane + first_used, used, copy + first_used);
      copy += plane_size + row_lanes;
    }
    for (index_t k = task.first_plan; k < task.last_plan; ++k) {
      const detail::roi_plan& plan = a.plans[k];
      T* const out = a.out + (plan.box * a.channels + c0) * bins_size;
      if (plan.row_entries == 0) {
        for (index_t i = 0; i < (c_end - c0) * bins_size; ++i) out[i] = T(real(0));
        continue;
      }
      const roi_tables<real> t = tables_of(a, plan);
      for (index_t c = c0; c < c_end; ++c) {
        bins_of_plane(plan, t, a.rows, a.columns, planes[c - c0], level.width, sums, bins);
        convert_back(bins, bins_size, out + (c - c0) * bins_size);
      }
    }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// RoIAlign's gradient, by tiles of the map that stay in the cache. Lanes are channels: in NHWC in
// place, in NCHW transposed. For each row of bins, the gradients of the bins that each column
// belongs to are added up first; then these sums are added to the rows.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/kernels/roi_align/nhwc.hpp>
#include <vecdet/kernels/roi_align/plan.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/transpose.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// Adds the sums of the touched columns to the first Count of these columns, in order.
template <int Count, int N, class Real>
VECDET_INLINE void add_to_rows(const weighted_rows<Real>& rows, const std::int32_t* touched,
                               std::int32_t touched_count, std::int32_t first_column,
                               const Real* sums, index_t channels) {
  using reals = pack<Real, N>;
  reals weight[Count];
  VECDET_UNROLL
  for (int r = 0; r < Count; ++r) weight[r] = reals(rows.weight[r]);
  for (std::int32_t i = 0; i < touched_count; ++i) {
    const reals sum = load_pack<N>(sums + index_t{touched[i] - first_column} * reals::lanes);
    VECDET_UNROLL
    for (int r = 0; r < Count; ++r) {
      Real* const to = rows.row[r] + touched[i] * channels;
      store_pack<N>(to, fma(weight[r], sum, load_pack<N>(to)));
    }
  }
}

/// Adds some channels of a box's part of the gradient to a tile. From is the type of the upstream
/// gradient.
template <class T, class From>
struct add_to_channels {
  using real = compute_type<T>;
  const detail::roi_align_args<T>& a;
  const detail::roi_plan& plan;
  const roi_tables<real>& t;
  const detail::roi_task& task;
  const From* upstream;  ///< of the box; the tile's channels of a bin are adjacent
  index_t bin_stride;    ///< from one bin to the next
  real* tile;
  index_t width, channels;  ///< of the tile; channels are a multiple of 16
  real* sums;

  template <int N, bool IsWhole>
  VECDET_INLINE void run(index_t c, index_t size) const {
    for (index_t p = 0; p < a.rows; ++p) {
      // The rows ascend except for rounding; use those in the tile.
      std::int32_t first = t.row_begin[p], last = t.row_begin[p + 1];
      while (first < last && t.row[first].at < task.first_row) ++first;
      while (first < last && t.row[last - 1].at >= task.last_row) --last;
      if (first == last) continue;
      add_up_columns<N, IsWhole>(upstream + p * a.columns * bin_stride + c, size);
      weighted_rows<real> rows;
      int count = 0;
      for (; first < last; ++first) {
        const index_t row = t.row[first].at - task.first_row;
        if (row < 0 || row >= task.last_row - task.first_row) continue;
        rows.row[count] = tile + row * width * channels + c;
        rows.weight[count++] = t.row[first].weight;
        if (count == roi_rows_at_once) add<N>(rows, count);
      }
      add<N>(rows, count);
    }
  }

 private:
  template <int N, bool IsWhole>
  VECDET_INLINE void add_up_columns(const From* bins, index_t size) const {
    using reals = pack<real, N>;
    for (std::int32_t i = 0; i < plan.touched; ++i)
      store_pack<N>(sums + index_t{t.touched[i] - plan.first_column} * reals::lanes,
                    reals(real(0)));
    for (index_t q = 0; q < a.columns; ++q) {
      const reals bin = load_channels<N, IsWhole>(bins + q * bin_stride, size);
      for (std::int32_t e = t.column_begin[q]; e < t.column_begin[q + 1]; ++e) {
        real* const to = sums + index_t{t.column[e].at - plan.first_column} * reals::lanes;
        store_pack<N>(to, fma(reals(t.column[e].weight), bin, load_pack<N>(to)));
      }
    }
  }

  /// Adds the sums to the rows and clears them.
  template <int N>
  VECDET_INLINE void add(const weighted_rows<real>& rows, int& count) const {
    if (count == 0) return;
    with_row_count(count, [&](auto all) VECDET_INLINE_LAMBDA {
      add_to_rows<decltype(all)::value, N>(rows, t.touched, plan.touched, plan.first_column, sums,
                                           channels);
    });
    count = 0;
  }
};

/// Calls use(plan) for the boxes of a task that touch rows of its tile.
template <class T, class Use>
VECDET_INLINE void for_each_box_of_tile(const detail::roi_align_args<T>& a,
                                        const detail::roi_task& task, const Use& use) {
  for (index_t k = task.first_plan; k < task.last_plan; ++k) {
    const detail::roi_plan& plan = a.plans[k];
    if (plan.first_row < task.last_row && plan.end_row > task.first_row) use(plan);
  }
}

template <class T>
void roi_align_grad_nhwc(const detail::roi_align_args<T>& a, const detail::roi_task& task,
                         compute_type<T>* memory) {
  using real = compute_type<T>;
  const auto& level = a.levels[task.level];
  const index_t size = task.last_channel - task.first_channel;
  const index_t channels = detail::roi_padded(size);
  const index_t locations = (task.last_row - task.first_row) * level.width;
  real* const tile = next_line(memory);
  T* const grad = level.grad +
                  ((task.image * level.height + task.first_row) * level.width) * a.channels +
                  task.first_channel;
  if (a.add) {
    for (index_t i = 0; i < locations; ++i)
      convert(grad + i * a.channels, size, tile + i * channels);
  } else {
    for (index_t i = 0; i < locations * channels; i += row_lanes)
      store_pack<row_pack<real>::batches>(tile + i, row_pack<real>(real(0)));
  }
  for_each_box_of_tile(a, task, [&](const detail::roi_plan& plan) {
    const roi_tables<real> t = tables_of(a, plan);
    const add_to_channels<T, T> box{
        a,
        plan,
        t,
        task,
        a.upstream + plan.box * a.rows * a.columns * a.channels + task.first_channel,
        a.channels,
        tile,
        level.width,
        channels,
        tile + locations * channels};
    for_each_channel_pack<real>(0, size, box);
  });
  for (index_t i = 0; i < locations; ++i)
    convert_back(tile + i * channels, size, grad + i * a.channels);
}

/// Computes at most 16 channels.
template <class T>
void roi_align_grad_nchw(const detail::roi_align_args<T>& a, const detail::roi_task& task,
                         compute_type<T>* memory) {
  using real = compute_type<T>;
  constexpr int N = row_pack<real>::batches;
  const auto& level = a.levels[task.level];
  const index_t channels = task.last_channel - task.first_channel;
  const index_t bins_size = a.rows * a.columns, plane_size = level.height * level.width;
  const index_t locations = (task.last_row - task.first_row) * level.width;
  real* const tile = next_line(memory);
  real* const sums = tile + locations * row_lanes;
  real* const bins = sums + level.width * row_lanes;
  T* const grad = level.grad + (task.image * a.channels + task.first_channel) * plane_size +
                  task.first_row * level.width;
  if (a.add) {
    to_channel_rows(grad, plane_size, channels, locations, tile);
  } else {
    for (index_t i = 0; i < locations; ++i)
      store_pack<N>(tile + i * row_lanes, row_pack<real>(real(0)));
  }
  for_each_box_of_tile(a, task, [&](const detail::roi_plan& plan) {
    const roi_tables<real> t = tables_of(a, plan);
    to_channel_rows(a.upstream + (plan.box * a.channels + task.first_channel) * bins_size,
                    bins_size, channels, bins_size, bins);
    // Lanes of missing channels are 0 and are not stored.
    const add_to_channels<T, real> box{a,         plan, t,           task,      bins,
                                       row_lanes, tile, level.width, row_lanes, sums};
    box.template run<N, true>(0, row_lanes);
  });
  from_channel_rows(tile, locations, channels, grad, plane_size);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

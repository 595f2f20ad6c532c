// SPDX-License-Identifier: Apache-2.0
// RoIAlign in NCHW: a plane at a time, which stays in the cache for all boxes.
//
// Forward, the rows of a bin are added up first, 16 neighbouring columns at a time, over the whole
// width of the box; then the lanes are bins, and take their columns from these sums. Backward is
// the same from the end: lanes are columns, and add up the gradients of the bins that they are part
// of; these sums are added to the rows.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/kernels/roi_align/plan.hpp>
#include <vecdet/simd/lookup.hpp>
#include <vecdet/simd/pack.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// The next multiple of 64 bytes, which lies within the memory of a task.
template <class Real>
VECDET_INLINE Real* next_line(Real* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return at + (roi_line - address % roi_line) % roi_line / sizeof(Real);
}

template <class T, class Real>
VECDET_INLINE void convert(const T* from, index_t size, Real* to) {
  constexpr int N = row_pack<Real>::batches;
  index_t i = 0;
  for (; i + row_lanes <= size; i += row_lanes) store_pack<N>(to + i, load_pack<N>(from + i));
  for (; i < size; ++i) to[i] = static_cast<Real>(from[i]);
}
/// Rounds where T is bfloat16.
template <class T, class Real>
VECDET_INLINE void convert_back(const Real* from, index_t size, T* to) {
  constexpr int N = row_pack<Real>::batches;
  index_t i = 0;
  for (; i + row_lanes <= size; i += row_lanes) store_pack<N>(to + i, load_pack<N>(from + i));
  for (; i < size; ++i) to[i] = T(from[i]);
}

// ---- forward

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
template <class T, class Real>
void bins_of_plane(const detail::roi_align_args<T>& a, const detail::roi_plan& plan,
                   const roi_tables<Real>& t, const Real* plane, index_t width, Real* sums,
                   Real* bins) {
  constexpr int N = row_pack<Real>::batches;
  const bin_lanes lanes(a.columns);
  const index_t taken = columns_taken(plan), stride = taken + row_lanes;
  const Real* const columns = plane + plan.first_column;
  store_pack<N>(sums + taken, row_pack<Real>(Real(0)));
  for (index_t p = 0; p < a.rows; p += lanes.rows) {
    const index_t end = p + lanes.rows < a.rows ? p + lanes.rows : a.rows;
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
      // Lanes after the last bin of the row are overwritten, or lie after all.
      store_pack<N>(bins + p * a.columns + g * row_lanes, sum);
    }
  }
}

template <class T>
void roi_align_nchw(const detail::roi_align_args<T>& a, const detail::roi_task& task,
                    compute_type<T>* memory) {
  using real = compute_type<T>;
  const auto& level = a.levels[task.level];
  const index_t plane_size = level.height * level.width, bins_size = a.rows * a.columns;
  const index_t of_tensor = a.images * a.channels * plane_size;
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
        if (first + plane_size + row_lanes <= of_tensor) continue;
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
        bins_of_plane(a, plan, t, planes[c - c0], level.width, sums, bins);
        convert_back(bins, bins_size, out + (c - c0) * bins_size);
      }
    }
  }
}

// ---- backward

/// Adds a box's part of the gradient to rows [task.first_row, task.last_row) of a plane. `upstream`
/// has rows of bins from multiples of 16 on, with zeros after them.
template <class T, class Real>
void add_to_plane(const detail::roi_align_args<T>& a, const detail::roi_plan& plan,
                  const roi_tables<Real>& t, const detail::roi_task& task, const Real* upstream,
                  Real* tile, index_t width) {
  constexpr int N = row_pack<Real>::batches;
  const index_t stride = detail::roi_padded(a.columns + 1), taken = columns_taken(plan);
  const index_t tile_rows = task.last_row - task.first_row;
  for (index_t x = 0; x < taken; x += row_lanes) {
    const std::int32_t* const index = t.lane_index + x * plan.steps;
    const Real* const weight = t.lane_weight + x * plan.steps;
    Real* const columns = tile + plan.first_column + x;
    for (index_t p = 0; p < a.rows; ++p) {
      row_pack<Real> of_bins(Real(0));
      for (std::int32_t j = 0; j < plan.steps; ++j) {
        const Real* const bins = upstream + p * stride;
        const std::int32_t* const at = index + j * row_lanes;
        of_bins = fma(load_pack<N>(weight + j * row_lanes),
                      stride == row_lanes ? lookup_row(bins, at) : gather_row(bins, at), of_bins);
      }
      for (std::int32_t e = t.row_begin[p]; e < t.row_begin[p + 1]; ++e) {
        const index_t row = t.row[e].at - task.first_row;
        if (row < 0 || row >= tile_rows) continue;
        Real* const to = columns + row * width;
        store_pack<N>(to, fma(row_pack<Real>(t.row[e].weight), of_bins, load_pack<N>(to)));
      }
    }
  }
}

/// The gradient by a box's bins of one channel, in rows from multiples of 16 on. Whole vectors are
/// read where that many numbers follow, `left` in all, and what lies after a row is masked.
template <class T, class Real>
VECDET_INLINE void load_bins(const T* bins, index_t left, index_t rows, index_t columns,
                             const pack<Real, row_pack<Real>::batches>& mask, Real* to) {
  constexpr int N = row_pack<Real>::batches;
  const index_t stride = detail::roi_padded(columns + 1);
  for (index_t p = 0; p < rows; ++p) {
    if (stride == row_lanes && p * columns + row_lanes <= left) {
      store_pack<N>(to + p * stride, load_pack<N>(bins + p * columns) & mask);
    } else {
      for (index_t q = 0; q < columns; ++q)
        to[p * stride + q] = static_cast<Real>(bins[p * columns + q]);
    }
  }
}

template <class T>
void roi_align_grad_nchw(const detail::roi_align_args<T>& a, const detail::roi_task& task,
                         compute_type<T>* memory) {
  using real = compute_type<T>;
  constexpr int N = row_pack<real>::batches;
  const auto& level = a.levels[task.level];
  const index_t stride = detail::roi_padded(a.columns + 1), bins_size = a.rows * a.columns;
  const index_t width = detail::roi_row_stride(level.width);
  const index_t tile_rows = task.last_row - task.first_row;
  real* const upstream = next_line(memory);
  real* const tiles = upstream + a.rows * stride;
  for (index_t i = 0; i < a.rows * stride; ++i) upstream[i] = 0;
  alignas(64) bits_of<real> bits[row_lanes];
  for (index_t i = 0; i < row_lanes; ++i) bits[i] = i < a.columns ? -1 : 0;
  const row_pack<real> mask = bit_cast<real>(load_pack<N>(bits));

  const auto for_each_row = [&](const auto& use) {
    for (index_t c = task.first_channel; c < task.last_channel; ++c)
      for (index_t y = 0; y < tile_rows; ++y)
        use(level.grad +
                ((task.image * a.channels + c) * level.height + task.first_row + y) * level.width,
            tiles + ((c - task.first_channel) * tile_rows + y) * width);
  };
  for_each_row([&](const T* grad, real* tile) {
    if (a.add) {
      convert(grad, level.width, tile);
    } else {
      for (index_t x = 0; x < width; x += row_lanes)
        store_pack<N>(tile + x, row_pack<real>(real(0)));
    }
  });
  for (index_t k = task.first_plan; k < task.last_plan; ++k) {
    const detail::roi_plan& plan = a.plans[k];
    if (plan.first_row >= task.last_row || plan.end_row <= task.first_row) continue;
    const roi_tables<real> t = tables_of(a, plan);
    for (index_t c = task.first_channel; c < task.last_channel; ++c) {
      const index_t channel = plan.box * a.channels + c;
      load_bins(a.upstream + channel * bins_size,
                (a.boxes_count * a.channels - channel) * bins_size, a.rows, a.columns, mask,
                upstream);
      add_to_plane(a, plan, t, task, upstream, tiles + (c - task.first_channel) * tile_rows * width,
                   width);
    }
  }
  for_each_row([&](T* grad, const real* tile) { convert_back(tile, level.width, grad); });
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

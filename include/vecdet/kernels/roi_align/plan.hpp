// SPDX-License-Identifier: Apache-2.0
// The rows and columns that the samples of a box touch, each with the mean of the weights that a
// bin's samples give it. A location's weight in a bin is the product of its row's
// weight and its column's.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/simd/pack.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

VECDET_INLINE double bounded(double x, double least, double most) {
  return x > least ? (x < most ? x : most) : least;
}

/// The samples of a box along one axis, rounded as in torchvision, in double.
struct roi_axis {
  double start, bin, samples;
  std::int32_t size;

  roi_axis(double low, double high, double scale, index_t bins, index_t sampling_ratio,
           bool aligned, index_t map_size)
      : size(static_cast<std::int32_t>(map_size)) {
    const double offset = aligned ? 0.5 : 0;
    start = low * scale - offset;
    double extent = (high * scale - offset) - start;
    if (!aligned && extent < 1) extent = 1;
    bin = extent / static_cast<double>(bins);
    samples = sampling_ratio > 0 ? static_cast<double>(sampling_ratio) : -__builtin_floor(-bin);
    if (!detail::is_finite(start) || !detail::is_finite(bin) || size == 0) samples = 0;
  }

  /// Calls take(row or column, weight) for what the samples of a bin touch. The order ascends
  /// except for rounding; weights of 0 are left out.
  template <class Take>
  VECDET_INLINE void for_each_entry(index_t bin_index, const Take& take) const {
    if (!(samples > 0)) return;
    const double from = start + static_cast<double>(bin_index) * bin;
    const double step = bin / samples, most = static_cast<double>(size);
    // An adaptive bin may be far larger than the map. Only the samples near the map are visited:
    // those with numbers [first, first + count).
    double first = 0, last = samples;
    if (step != 0) {
      const double a = (-1 - from) / step - 0.5, b = (most - from) / step - 0.5;
      first = bounded(__builtin_floor(a < b ? a : b) - 1, 0, samples);
      last = bounded(__builtin_floor(a < b ? b : a) + 2, 0, samples);
    }
    // A fixed number of samples is at most 1024. Adaptive samples, if several, are at least half a
    // location apart, so about 2 * most are near the map. At most twice as many are visited,
    // however coarsely large coordinates are rounded.
    const index_t count = static_cast<index_t>(bounded(last - first, 0, 4 * most + 2048));
    // The pending weights of `low` and of the location after it.
    std::int32_t low = 0;
    double low_weight = 0, next_weight = 0;
    for (index_t k = 0; k < count; ++k) {
      const double i = bin < 0 ? last - 1 - static_cast<double>(k) : first + static_cast<double>(k);
      double at = from + (i + 0.5) * bin / samples;
      if (!(at >= -1 && at <= most)) continue;
      if (at < 0) at = 0;
      if (at > most - 1) at = most - 1;
      const auto cell = static_cast<std::int32_t>(at);
      const double upper = at - static_cast<double>(cell);
      if (cell != low) {
        if (low_weight != 0) take(low, low_weight / samples);
        if (cell != low + 1) {
          if (next_weight != 0) take(low + 1, next_weight / samples);
          next_weight = 0;
        }
        low_weight = next_weight;
        next_weight = 0;
        low = cell;
      }
      low_weight += 1 - upper;
      next_weight += upper;
    }
    if (low_weight != 0) take(low, low_weight / samples);
    if (next_weight != 0) take(low + 1, next_weight / samples);
  }
};

template <class T>
VECDET_INLINE roi_axis axis_of(const detail::roi_align_args<T>& a, const detail::roi_plan& plan,
                               int axis) {
  const auto& level = a.levels[plan.level];
  const auto* box = a.boxes + 4 * plan.box;
  return {static_cast<double>(box[axis]),
          static_cast<double>(box[axis + 2]),
          level.scale,
          axis == 0 ? a.columns : a.rows,
          a.sampling_ratio,
          a.aligned,
          axis == 0 ? level.width : level.height};
}

constexpr index_t roi_line = 64;
VECDET_INLINE index_t in_lines(index_t bytes) {
  return (bytes + roi_line - 1) / roi_line * roi_line;
}

/// Rounds up to a multiple of 64 bytes, which is within the memory of a task.
template <class Real>
VECDET_INLINE Real* next_line(Real* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return at + (roi_line - address % roi_line) % roi_line / sizeof(Real);
}

/// How 16 lanes hold bins: as many whole rows of bins as fit, or part of a row.
struct bin_lanes {
  index_t rows;    ///< rows of bins per group
  index_t groups;  ///< groups per row of bins, 16 bins each
  VECDET_INLINE explicit bin_lanes(index_t columns)
      : rows(columns < row_lanes ? row_lanes / columns : 1),
        groups((columns + row_lanes - 1) / row_lanes) {}
};

/// Columns that a box takes in the forward pass's memory: a multiple of 16.
VECDET_INLINE index_t columns_taken(const detail::roi_plan& plan) {
  return detail::roi_padded(plan.end_column - plan.first_column);
}

/// The tables of a box.
template <class Real>
struct roi_tables {
  std::int32_t* row_begin;       ///< bins' rows + 1
  detail::roi_entry<Real>* row;  ///< entries of bin p: [row_begin[p], row_begin[p + 1])
  std::int32_t* column_begin;
  detail::roi_entry<Real>* column;
  std::int32_t* touched;     ///< columns touched by any bin, ascending: plan.touched of them
  std::int32_t* lane_index;  ///< by group and step, 16 each
  Real* lane_weight;
  index_t bytes;

  VECDET_INLINE roi_tables(unsigned char* at, const detail::roi_plan& plan, index_t bins_rows,
                           index_t bins_columns) {
    index_t offset = 0;
    const auto take = [&](index_t size) {
      unsigned char* const from = at != nullptr ? at + offset : nullptr;
      offset += in_lines(size);
      return from;
    };
    constexpr index_t entry = sizeof(detail::roi_entry<Real>);
    const index_t lanes = bin_lanes(bins_columns).groups * plan.steps * row_lanes;
    const index_t between = plan.end_column - plan.first_column;
    const index_t columns = between < plan.column_entries ? between : plan.column_entries;
    row_begin = reinterpret_cast<std::int32_t*>(take((bins_rows + 1) * 4));
    row = reinterpret_cast<detail::roi_entry<Real>*>(take(plan.row_entries * entry));
    column_begin = reinterpret_cast<std::int32_t*>(take((bins_columns + 1) * 4));
    column = reinterpret_cast<detail::roi_entry<Real>*>(take(plan.column_entries * entry));
    touched = reinterpret_cast<std::int32_t*>(take(columns * 4));
    lane_index = reinterpret_cast<std::int32_t*>(take(lanes * 4));
    lane_weight = reinterpret_cast<Real*>(take(lanes * index_t{sizeof(Real)}));
    bytes = offset;
  }
};

template <class T>
VECDET_INLINE roi_tables<compute_type<T>> tables_of(const detail::roi_align_args<T>& a,
                                                    const detail::roi_plan& plan) {
  return {a.tables + plan.offset, plan, a.rows, a.columns};
}

/// Rows of locations and their weights in a row of bins; as many at a time as fit the registers.
constexpr int roi_rows_at_once = 4;
template <class Number>
struct weighted_rows {
  Number* row[roi_rows_at_once];
  value_of<Number> weight[roi_rows_at_once];
};

/// Calls use(std::integral_constant<int, count>()) for a count of 1 to roi_rows_at_once.
template <class Use>
VECDET_INLINE void with_row_count(int count, const Use& use) {
  static_assert(roi_rows_at_once == 4, "a case for each count");
  switch (count) {
    case 1:
      return use(std::integral_constant<int, 1>());
    case 2:
      return use(std::integral_constant<int, 2>());
    case 3:
      return use(std::integral_constant<int, 3>());
    default:
      return use(std::integral_constant<int, 4>());
  }
}

/// What the bins of a box touch along an axis: the total number of entries, the `most` of a single
/// bin, and their range [least, end).
struct roi_extent {
  std::int32_t entries, most, least, end;
};
VECDET_NOINLINE inline roi_extent extent_of(const roi_axis& axis, index_t bins) {
  roi_extent extent{};
  for (index_t b = 0; b < bins; ++b) {
    std::int32_t bin_index = 0;
    axis.for_each_entry(b, [&](std::int32_t at, double) {
      if (extent.entries + bin_index == 0 || at < extent.least) extent.least = at;
      if (at >= extent.end) extent.end = at + 1;
      ++bin_index;
    });
    extent.entries += bin_index;
    if (bin_index > extent.most) extent.most = bin_index;
  }
  return extent;
}

template <class T>
void measure_rois(const detail::roi_align_args<T>& a, index_t first, index_t last) {
  for (index_t k = first; k < last; ++k) {
    detail::roi_plan& plan = a.plans[k];
    roi_extent x = extent_of(axis_of(a, plan, 0), a.columns);
    roi_extent y = extent_of(axis_of(a, plan, 1), a.rows);
    // Without samples along one axis, there are none at all.
    if (x.entries == 0 || y.entries == 0) x = y = {};
    plan.column_entries = x.entries;
    plan.row_entries = y.entries;
    plan.first_column = x.least;
    plan.end_column = x.end;
    plan.first_row = y.least;
    plan.end_row = y.end;
    plan.touched = 0;
    plan.steps = plan.by_planes ? x.most : 0;
    plan.bytes = roi_tables<compute_type<T>>(nullptr, plan, a.rows, a.columns).bytes;
  }
}

/// Lane i of a group is bin i; if a group has bin_lanes.rows rows of bins, it is bin i % columns of
/// row i / columns. The numbers of consecutive rows are columns_taken + 16 apart, and the last of
/// them is 0: missing steps of a bin read it.
template <class Real>
VECDET_NOINLINE void fill_bin_lanes(const roi_tables<Real>& t, const detail::roi_plan& plan,
                                    index_t columns) {
  const bin_lanes lanes(columns);
  const index_t stride = columns_taken(plan) + row_lanes;
  for (index_t g = 0; g < lanes.groups; ++g)
    for (index_t j = 0; j < plan.steps; ++j)
      for (index_t i = 0; i < row_lanes; ++i) {
        const index_t row = lanes.groups == 1 ? i / columns : 0;
        const index_t bin = lanes.groups == 1 ? i % columns : g * row_lanes + i;
        const bool is_one = row < lanes.rows && bin < columns;
        const index_t entry = is_one ? t.column_begin[bin] + j : 0;
        const bool has_step = is_one && entry < t.column_begin[bin + 1];
        const index_t to = (g * plan.steps + j) * row_lanes + i;
        t.lane_index[to] = static_cast<std::int32_t>(
            has_step ? row * stride + t.column[entry].at - plan.first_column : stride - 1);
        t.lane_weight[to] = has_step ? t.column[entry].weight : Real(0);
      }
}

/// Completes the plan of a box whose entries are filled. `is_touched` is scratch memory with one
/// number per column of the map.
template <class Real>
VECDET_NOINLINE void fill_touched(const roi_tables<Real>& t, detail::roi_plan& plan,
                                  std::int32_t* is_touched) {
  for (std::int32_t c = plan.first_column; c < plan.end_column; ++c) is_touched[c] = 0;
  for (std::int32_t e = 0; e < plan.column_entries; ++e) is_touched[t.column[e].at] = 1;
  plan.touched = 0;
  for (std::int32_t c = plan.first_column; c < plan.end_column; ++c)
    if (is_touched[c] != 0) t.touched[plan.touched++] = c;
}

/// The entries of all bins along an axis; those of bin b begin at begin[b].
template <class Real>
VECDET_NOINLINE void fill_entries(const roi_axis& axis, index_t bins, std::int32_t* begin,
                                  detail::roi_entry<Real>* entries) {
  std::int32_t n = 0;
  for (index_t b = 0; b < bins; ++b) {
    begin[b] = n;
    axis.for_each_entry(b, [&](std::int32_t at, double weight) {
      entries[n++] = {at, static_cast<Real>(weight)};
    });
  }
  begin[bins] = n;
}

template <class T>
void fill_rois(const detail::roi_align_args<T>& a, index_t first, index_t last,
               std::int32_t* is_touched) {
  using real = compute_type<T>;
  for (index_t k = first; k < last; ++k) {
    detail::roi_plan& plan = a.plans[k];
    const roi_tables<real> t = tables_of(a, plan);
    if (plan.row_entries == 0) {
      for (index_t b = 0; b <= a.rows; ++b) t.row_begin[b] = 0;
      for (index_t b = 0; b <= a.columns; ++b) t.column_begin[b] = 0;
      continue;
    }
    fill_entries(axis_of(a, plan, 1), a.rows, t.row_begin, t.row);
    fill_entries(axis_of(a, plan, 0), a.columns, t.column_begin, t.column);
    fill_touched(t, plan, is_touched);
    if (plan.by_planes) fill_bin_lanes(t, plan, a.columns);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

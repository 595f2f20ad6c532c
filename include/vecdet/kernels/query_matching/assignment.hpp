// SPDX-License-Identifier: Apache-2.0
// The assignment of rows to columns by shortest augmenting paths: Crouse, "On implementing 2D
// rectangular assignment algorithms", 2016. A path begins at an unassigned row and takes the
// columns in the order of their distance, each followed by its row, until a column is unassigned.
//
// A column that the path has taken is closed: its distance is +infinity and its potential
// -infinity, which excludes it from later scans without a test. Both are restored afterwards; only
// closed columns change their potential.
#pragma once

#include <vecdet/args/query_matching.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/pack.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

/// Batches of doubles that are scanned together.
constexpr int assignment_batches = has_fma ? row_pack<double>::batches : 2;
using costs_pack = pack<double, assignment_batches>;

template <class T>
VECDET_INLINE costs_pack load_costs(const T* from) {
  if constexpr (std::is_same<T, double>::value) {
    return load_pack<assignment_batches>(from);
  } else {
    return widen(load_pack<assignment_batches / 2>(from));
  }
}

template <class T>
class assignment {
 public:
  explicit assignment(const detail::assignment_args<T>& args)
      : args_(args),
        padded_(detail::padded_columns(args.cols)),
        column_potential_(args.scratch),
        distance_(column_potential_ + padded_),
        before_(distance_ + padded_),
        row_potential_(before_ + padded_),
        closed_distance_(row_potential_ + args.rows),
        closed_potential_(closed_distance_ + args.rows) {}

  bool run() {
    for (index_t j = 0; j < padded_; ++j) {
      column_potential_[j] = 0;
      args_.row_of[j] = -1;
    }
    for (index_t i = 0; i < args_.rows; ++i) {
      row_potential_[i] = 0;
      args_.columns[i] = -1;
    }
    for (index_t i = 0; i < args_.rows; ++i)
      if (!assign_row(i)) return false;
    return true;
  }

 private:
  static constexpr int lanes = costs_pack::lanes;

  bool assign_row(index_t row) {
    closed_count_ = 0;
    double lowest = scan<true>(row, 0);
    index_t column;
    for (;;) {
      if (!(lowest < infinity<double>())) return false;
      column = column_at(lowest);
      const index_t next = args_.row_of[column];
      if (next < 0) break;
      close(column, lowest);
      lowest = scan<false>(next, lowest);
    }
    row_potential_[row] += lowest;
    for (index_t k = 0; k < closed_count_; ++k) {
      const index_t j = args_.closed[k];
      const double step = lowest - closed_distance_[k];
      row_potential_[args_.row_of[j]] += step;
      column_potential_[j] = closed_potential_[k] - step;
    }
    for (index_t i = -1; i != row;) {
      i = static_cast<index_t>(before_[column]);
      args_.row_of[column] = i;
      const index_t freed = args_.columns[i];
      args_.columns[i] = column;
      column = freed;
    }
    return true;
  }

  void close(index_t column, double distance) {
    args_.closed[closed_count_] = column;
    closed_distance_[closed_count_] = distance;
    closed_potential_[closed_count_] = column_potential_[column];
    ++closed_count_;
    column_potential_[column] = -infinity<double>();
    distance_[column] = infinity<double>();
  }

  /// Updates the distances with those through `row`, which is at distance `lowest`. Returns the
  /// lowest of the columns that are not closed.
  template <bool First>
  VECDET_INLINE double scan(index_t row, double lowest) {
    constexpr int N = assignment_batches;
    const T* const costs = args_.costs + row * padded_;
    const costs_pack base = lowest - row_potential_[row], number = static_cast<double>(row);
    costs_pack least = infinity<double>();
    for (index_t j = 0; j < padded_; j += lanes) {
      costs_pack distance = (base + load_costs(costs + j)) - load_pack<N>(column_potential_ + j);
      if constexpr (First) {
        store_pack<N>(before_ + j, number);
      } else {
        const costs_pack known = load_pack<N>(distance_ + j);
        const auto nearer = distance < known;
        store_pack<N>(before_ + j, select(nearer, number, load_pack<N>(before_ + j)));
        distance = select(nearer, distance, known);
      }
      store_pack<N>(distance_ + j, distance);
      least = min(distance, least);
    }
    alignas(64) double lane[batch_lanes<double>];
    store_pack<1>(lane, least_batch(least));
    double result = lane[0];
    for (int i = 1; i < batch_lanes<double>; ++i) result = lane[i] < result ? lane[i] : result;
    return result;
  }

  /// The first unassigned column at this distance, or the first column if all are assigned.
  VECDET_INLINE index_t column_at(double distance) const {
    index_t first = -1;
    for (index_t j = 0; j < padded_; j += lanes) {
      std::uint32_t bits =
          to_bits(load_pack<assignment_batches>(distance_ + j) == costs_pack(distance));
      for (; bits != 0; bits &= bits - 1) {
        const index_t column = j + lowest_bit(bits);
        if (args_.row_of[column] < 0) return column;
        if (first < 0) first = column;
      }
    }
    return first;
  }

  const detail::assignment_args<T>& args_;
  index_t padded_;
  double *column_potential_, *distance_, *before_, *row_potential_;
  double *closed_distance_, *closed_potential_;
  index_t closed_count_ = 0;
};

template <class T>
bool assign_rows(const detail::assignment_args<T>& args) {
  return assignment<T>(args).run();
}

template <class T>
index_t copy_costs(const T* costs, index_t stride, index_t rows, index_t cols, T* to) {
  constexpr T most = std::is_same<T, double>::value ? T(detail::largest_cost) : largest<T>;
  const bool transposed = rows > cols;
  const index_t long_side = transposed ? rows : cols, short_side = transposed ? cols : rows;
  const index_t padded = detail::padded_columns(long_side);
  const auto is_valid = [=](T cost) VECDET_INLINE_LAMBDA {
    const auto bits = detail::magnitude_bits(cost);
    return bits <= detail::magnitude_bits(most) ||
           (bits == detail::magnitude_bits(infinity<T>()) && __builtin_signbit(cost) == 0);
  };
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < cols; ++j) {
      const T cost = costs[i * stride + j];
      if (!is_valid(cost)) return i * cols + j;
      to[transposed ? j * padded + i : i * padded + j] = cost;
    }
  }
  for (index_t i = 0; i < short_side; ++i)
    for (index_t j = long_side; j < padded; ++j) to[i * padded + j] = infinity<T>();
  return rows * cols;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

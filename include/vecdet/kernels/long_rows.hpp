// SPDX-License-Identifier: Apache-2.0
// The softmax of rows with many columns, one row at a time: a pass over a row finds the largest
// logit, another computes the exponentials, a third scales them, while the row stays in the cache.
// softmax_rows.hpp computes 16 rows with few columns together.
#pragma once

#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/math.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// exp(d) for d <= 0. In float it is at least 2e-38.
template <int N>
VECDET_INLINE pack<float, N> exp_of_negative(const pack<float, N>& d) {
  return exp_minus_abs(d);
}
template <int N>
VECDET_INLINE pack<double, N> exp_of_negative(const pack<double, N>& d) {
  return exp_minus(pack<double, N>(0.0) - d);
}

/// The last 16 columns of a row. They overlap the rows of 16 before; if there are fewer than 16,
/// copies of the first come before them.
template <class T>
class last_columns {
 public:
  using row = row_pack<compute_type<T>>;
  static constexpr int N = row::batches;

  VECDET_INLINE last_columns(const T* x, index_t columns) {
    if (columns >= row_lanes) {
      value = load_pack<N>(x + columns - row_lanes);
      return;
    }
    T lane[row_lanes];
    for (int i = 0; i < row_lanes; ++i) {
      const index_t column = columns - row_lanes + i;
      lane[i] = x[column < 0 ? 0 : column];
    }
    value = load_pack<N>(lane);
  }

  template <class To>
  static VECDET_INLINE void store(To* to, index_t columns, const row& x) {
    if (columns >= row_lanes) return store_pack<N>(to + columns - row_lanes, x);
    To lane[row_lanes];
    store_pack<N>(lane, x);
    for (index_t column = 0; column < columns; ++column)
      to[column] = lane[row_lanes - columns + column];
  }

  row value;
};

/// The largest logit of a row and the sum of exp(x - the largest).
struct row_divisor {
  double greatest, sum;
};

/// The rows of 16 that are added up before the total takes their sum.
constexpr index_t added_rows = 16;

/// Writes exp(x - the largest) to e, which may be the row itself, unless e is null. The sum is NaN
/// if a logit is NaN or +infinity, or if all are -infinity.
template <class T>
VECDET_INLINE row_divisor exponentials_of_row(const T* x, index_t columns, compute_type<T>* e) {
  using real = compute_type<T>;
  using row = row_pack<real>;
  constexpr int N = row::batches;
  const index_t whole = columns / row_lanes * row_lanes;
  const last_columns<T> last(x, columns);
  row greatest = max(last.value, row(-largest<real>));
  index_t c = 0;
  for (; c + 4 * row_lanes <= whole; c += 4 * row_lanes) {
    const row a = max(load_pack<N>(x + c + row_lanes), max(load_pack<N>(x + c), greatest));
    greatest =
        max(load_pack<N>(x + c + 3 * row_lanes), max(load_pack<N>(x + c + 2 * row_lanes), a));
  }
  for (; c < whole; c += row_lanes) greatest = max(load_pack<N>(x + c), greatest);
  alignas(64) real lane[row_lanes];
  store_pack<N>(lane, greatest);
  const real most = greatest16(lane);

  lane_sums total;
  row differences(real(0));
  for (c = 0; c < whole;) {
    const index_t end = whole - c < added_rows * row_lanes ? whole : c + added_rows * row_lanes;
    row sum(real(0));
    for (; c < end; c += row_lanes) {
      const row d = load_pack<N>(x + c) - row(most);
      const row exponential = exp_of_negative(d);
      differences = differences + d;
      sum = sum + exponential;
      if (e != nullptr) store_pack<N>(e + c, exponential);
    }
    total.add(sum);
  }
  if (whole < columns) {
    const row d = last.value - row(most), exponential = exp_of_negative(d);
    const auto is_new =
        load_pack<N>(lane_numbers<real>) >= row(static_cast<real>(row_lanes - (columns - whole)));
    differences = differences + d;
    total.add(select(is_new, exponential, row(real(0))));
    if (e != nullptr) last_columns<compute_type<T>>::store(e, columns, exponential);
  }
  store_pack<N>(lane, differences);
  real difference = 0;
  for (const real d : lane) difference += d;
  const double sum = total.total();
  // The largest adds 1; if all logits are -infinity, there is no such term.
  const bool is_valid = !detail::is_nan(difference) && sum >= 0.5;
  return {static_cast<double>(most), is_valid ? sum : not_a_number<double>()};
}

/// Writes e times a factor. `to` may be e.
template <class T>
VECDET_INLINE void scale_row(const compute_type<T>* e, index_t columns, compute_type<T> factor,
                             T* to) {
  using row = row_pack<compute_type<T>>;
  constexpr int N = row::batches;
  const last_columns<compute_type<T>> last(e, columns);
  const index_t whole = columns / row_lanes * row_lanes;
  for (index_t c = 0; c < whole; c += row_lanes)
    store_pack<N>(to + c, load_pack<N>(e + c) * row(factor));
  if (whole < columns) last_columns<T>::store(to, columns, last.value * row(factor));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Runs: up to eight steps in which each lane of CTC's states keeps one exponent. Its numbers are
// plain doubles, which are added and multiplied as they are. All that is left of wide numbers is a
// factor for what comes from the lane before or after, 2^(64 x the difference of the exponents).
//
// The results have the bits of wide numbers, because every factor is a power of 2 and no double
// leaves its range. Before a run, numbers are 0 or in [2^-191, 2), because the exponents of a lane
// differ by at most 2. A step multiplies by e^-19 or more, so that a number that is not 0 stays
// above 2^-411 in eight steps. One that was 0 gets its value from its lane or from the neighbour,
// whose exponent is at most 4 less, and stays above 2^-667. Sums grow by 2^14, and by what comes
// from up to eight lanes away, whose exponents are at most 5 more: they stay below 2^336.
// Exponents of a run are at least -2^52, so that sums of exponents are exact.
#pragma once

#include <vecdet/kernels/ctc_loss/scratch.hpp>
#include <vecdet/kernels/ctc_loss/wide_numbers.hpp>
#include <vecdet/simd/bits.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

/// In a run, potentials are 0 or at least e to this power.
constexpr double least_difference = -19;

/// 2^(step n) for whole n, for steps of 64 or 32 and results that are normal numbers.
template <int Shift>
VECDET_INLINE double_row power_of_two(const double_row& n) {
  using bits = pack<std::uint64_t, double_row::batches>;
  const double_row whole = VECDET_ORDERED(n + double_row(6755399441055744.0));
  return bit_cast<double>((bit_cast<std::uint64_t>(whole) << Shift) + bits(0x3ff0000000000000));
}
VECDET_INLINE double_row power_of_step(const double_row& n) { return power_of_two<58>(n); }
VECDET_INLINE double_row power_of_half_step(const double_row& n) { return power_of_two<57>(n); }

/// Consecutive plain numbers: the v of wide ones.
struct plain_array {
  double* v;

  VECDET_INLINE double_row load(index_t i) const { return load_pack<double_row::batches>(v + i); }
  VECDET_INLINE void store(index_t i, const double_row& x) const {
    store_pack<double_row::batches>(v + i, x);
  }
};

/// The variables of a step in a run. `factors` are those of what comes from a neighbouring lane.
struct plain_states {
  plain_array blanks, labels;
  const double* factors;

  plain_states(const ctc_states& states, const double* factors_)
      : blanks{states.blanks.v}, labels{states.labels.v}, factors(factors_) {}
  VECDET_INLINE double_row label_before(index_t s) const {
    return labels.load(s - 1) * load_pack<double_row::batches>(factors + s);
  }
  VECDET_INLINE double_row label_after(index_t s) const {
    return labels.load(s + 1) * load_pack<double_row::batches>(factors + s);
  }
  VECDET_INLINE double_row blank_after(index_t s) const {
    return blanks.load(s + 1) * load_pack<double_row::batches>(factors + s);
  }
};

/// Makes numbers with one exponent per lane of those of lanes [first, last), whole rows, in their
/// memory. Returns false, and changes no number, if that could leave the range of double.
/// @param exponents of each lane; with room for 16 before and after them
/// @param factors of what comes from the lane at `source`: -1 is the lane before, 1 the one after
inline bool make_plain(const ctc_states& states, index_t first, index_t last, index_t source,
                       double* exponents, double* factors) {
  constexpr int N = double_row::batches;
  const wide_array &blanks = states.blanks, &labels = states.labels;
  for (index_t s = first; s < last; s += row_lanes)
    store_pack<N>(exponents + s, max(load_pack<N>(blanks.k + s), load_pack<N>(labels.k + s)));
  // Lanes at either end whose numbers are 0 take the exponent of their neighbour.
  index_t low = first, high = last - 1;
  while (low < last && !(exponents[low] > exponent_of_zero)) ++low;
  if (low == last) return false;
  while (!(exponents[high] > exponent_of_zero)) --high;
  for (index_t s = first - row_lanes; s < low; ++s) exponents[s] = exponents[low];
  for (index_t s = high + 1; s < last + row_lanes; ++s) exponents[s] = exponents[high];

  double_row worst = 0.0;
  for (index_t s = first; s < last; s += row_lanes) {
    const double_row k = load_pack<N>(exponents + s);
    const auto rise = [&](index_t lanes) VECDET_INLINE_LAMBDA {
      return load_pack<N>(exponents + s + lanes * source) - k;
    };
    const auto below = [&](const wide_array& array) VECDET_INLINE_LAMBDA {
      const wide_row x = array.load(s);
      return select(x.v > double_row(0.0), k - x.k, double_row(0.0));
    };
    worst = max(worst, max(below(blanks), below(labels)));
    worst = max(worst, max(rise(4), double_row(2.0) * rise(1)));
    worst = max(worst, double_row(-0.5) * rise(1));
    // Below -2^53, the exponents of wide numbers round in each step.
    worst = max(worst, double_row(-0x1p-51) * k);
  }
  alignas(64) double lane[row_lanes];
  store_pack<N>(lane, worst);
  if (!(greatest16(lane) <= 2)) return false;

  for (index_t s = first; s < last; s += row_lanes) {
    const double_row k = load_pack<N>(exponents + s);
    const auto convert = [&](const wide_array& array) VECDET_INLINE_LAMBDA {
      const wide_row x = array.load(s);
      store_pack<N>(array.v + s, x.v * power_of_step(max(x.k - k, double_row(-2.0))));
    };
    convert(blanks);
    convert(labels);
    store_pack<N>(factors + s, power_of_step(load_pack<N>(exponents + s + source) - k));
  }
  // Nothing comes from beyond the lanes.
  factors[source < 0 ? first : last - 1] = 0;
  return true;
}

/// Makes normalized numbers of lanes [first, last) of an array with these exponents.
inline void make_wide(const wide_array& array, index_t at, index_t first, index_t last,
                      const double* exponents) {
  constexpr int N = double_row::batches;
  for (index_t s = first; s < last; s += row_lanes)
    array.store(at + s, normalized(load_pack<N>(array.v + at + s), load_pack<N>(exponents + s)));
}

// What both kinds of numbers need.

/// x, where `mask` (1 or 0) is 1, and otherwise y.
VECDET_INLINE wide_row choose(const double_row& mask, const wide_row& x, const wide_row& y) {
  const auto is_set = mask > double_row(0.5);
  return {select(is_set, x.v, y.v), select(is_set, x.k, y.k)};
}
VECDET_INLINE double_row choose(const double_row& mask, const double_row& x, const double_row& y) {
  return select(mask > double_row(0.5), x, y);
}

VECDET_INLINE wide_row same_number(const wide_array& array, index_t i) {
  return {double_row(array.v[i]), double_row(array.k[i])};
}
VECDET_INLINE double_row same_number(const plain_array& array, index_t i) { return array.v[i]; }

/// Occupancies of at most 1. Below 2^-100 they are 0: as floats they would be denormal, or the
/// gradient would.
VECDET_INLINE double_row limited(const double_row& x) {
  const double_row most = min(x, double_row(1.0));
  return select(most >= double_row(0x1p-100), most, double_row(0.0));
}

/// forward backward / all, of wide numbers, where 1 / all is factor 2^(-64 exponent).
struct wide_occupancies {
  double factor, exponent;

  VECDET_INLINE double_row of(index_t, const wide_row& forward, const wide_row& backward) const {
    const double_row k = max(forward.k + backward.k - double_row(exponent), double_row(-4.0));
    return limited(forward.v * backward.v * double_row(factor) *
                   power_of_step(min(k, double_row(2.0))));
  }
};
/// The same in a run. The square of a lane's root is 2^(64 (the exponents of both - exponent)).
struct plain_occupancies {
  double factor;
  const double* roots;

  VECDET_INLINE double_row of(index_t s, const double_row& forward,
                              const double_row& backward) const {
    const double_row root = load_pack<double_row::batches>(roots + s);
    // Root times root may be infinite.
    return limited(VECDET_ORDERED(forward * root) * VECDET_ORDERED(backward * root) *
                   double_row(factor));
  }
};

/// Steps [first, last), of which the first is step `i` of its block.
struct ctc_run {
  index_t first, last, i;
};

/// What is kept of the steps of a block, each with `lanes` numbers.
template <class Array>
struct ctc_block {
  Array potentials, blank_potentials, blanks, labels;
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The best path of CTC: the most probable class of each step, without repetitions and blanks.
#pragma once

#include <vecdet/args/ctc_decoding.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/long_rows.hpp>
#include <vecdet/simd/bits.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using detail::ctc_best_args;

/// The first column that equals `value`. If there is none, all are -infinity or NaN: the first that
/// is not NaN, or 0.
template <class T>
VECDET_INLINE index_t find_column(const T* x, index_t columns, compute_type<T> value) {
  using row = row_pack<compute_type<T>>;
  index_t c = 0;
  for (; c + row_lanes <= columns; c += row_lanes) {
    const std::uint32_t equal = to_bits(load_pack<row::batches>(x + c) == row(value));
    if (equal != 0) return c + lowest_bit(equal);
  }
  for (; c < columns; ++c)
    if (static_cast<compute_type<T>>(x[c]) == value) return c;
  for (c = 0; c < columns; ++c)
    if (!detail::is_nan(static_cast<compute_type<T>>(x[c]))) return c;
  return 0;
}

template <class T>
void ctc_best_classes(const ctc_best_args<T>& args, index_t first, index_t last) {
  const index_t inner = args.steps_are_inner ? args.steps : args.samples;
  index_t outer = first / inner, k = first % inner;
  for (index_t row = first; row < last; ++row) {
    const index_t step = args.steps_are_inner ? k : outer;
    const index_t sample = args.steps_are_inner ? outer : k;
    if (++k == inner) k = 0, ++outer;
    if (step >= args.length(sample)) continue;
    const T* const x = args.logits + step * args.step_stride + sample * args.sample_stride;
    const row_divisor divisor = exponentials_of_row<T>(x, args.classes, nullptr);
    const index_t i = sample * args.steps + step;
    args.best[i] = find_column(x, args.classes, static_cast<compute_type<T>>(divisor.greatest));
    args.sums[i] = divisor.sum;
  }
}

template <class T>
index_t ctc_merge(const ctc_best_args<T>& args, index_t sample, detail::ctc_best_path& path) {
  using real = row_pack<double>;
  constexpr int N = real::batches;
  const index_t steps = args.length(sample);
  const index_t* const best = args.best + sample * args.steps;
  const double* const sum = args.sums + sample * args.steps;
  index_t count = 0;
  bool has_nan = false;
  lane_sums logs;
  for (index_t t = 0; t < steps; t += row_lanes) {
    alignas(64) double divisors[row_lanes], inverse[row_lanes];
    for (int i = 0; i < row_lanes; ++i) divisors[i] = t + i < steps ? sum[t + i] : 1;
    const real probability = real(1.0) / load_pack<N>(divisors);
    logs.add(minus_log(probability));
    store_pack<N>(inverse, probability);
    for (index_t k = t; k < steps && k < t + row_lanes; ++k) {
      has_nan = has_nan || detail::is_nan(sum[k]);
      if (best[k] == args.blank || (k > 0 && best[k] == best[k - 1])) continue;
      path.classes[count] = best[k];
      path.steps[count] = k;
      path.probabilities[count] = static_cast<float>(inverse[k - t]);
      ++count;
    }
  }
  const double total = logs.total();
  // No sum is below 1, but its logarithm may be rounded.
  path.log_probability = has_nan ? not_a_number<double>() : total > 0 ? 0 - total : 0;
  return count;
}

template <class T>
struct kernels_of<detail::ctc_decoding_kernels<T>> {
  static constexpr detail::ctc_decoding_kernels<T> get() {
    detail::ctc_decoding_kernels<T> kernels{};
    kernels.best = ctc_best_classes<T>;
    kernels.merge = ctc_merge<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(ctc_decoding_kernels)

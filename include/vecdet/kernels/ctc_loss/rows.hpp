// SPDX-License-Identifier: Apache-2.0
// CTC's gradient, the softmax of each row minus the occupancies, and the losses, from the divisors
// of the rows.
#pragma once

#include <vecdet/args/ctc_loss.hpp>
#include <vecdet/kernels/long_rows.hpp>
#include <vecdet/simd/math.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
void ctc_row(const detail::ctc_args<T>& args, index_t sample, index_t step, void* scratch) {
  using real = compute_type<T>;
  T* const grad = args.grad == nullptr
                      ? nullptr
                      : args.grad + step * args.grad_step_stride + sample * args.grad_sample_stride;
  const double log_paths = args.log_paths[sample];
  if (step >= args.input_lengths[sample] || detail::is_minus_infinity(log_paths)) {
    for (index_t c = 0; grad != nullptr && c < args.classes; ++c) grad[c] = T(real(0));
    return;
  }
  const T* const x = args.logits + step * args.step_stride + sample * args.sample_stride;
  real* e = nullptr;
  if (grad != nullptr) {
    if constexpr (std::is_same<T, real>::value)
      e = grad;
    else
      e = static_cast<real*>(scratch);
  }
  const row_divisor divisor = exponentials_of_row(x, args.classes, e);
  const index_t row = args.row_number(sample, step);
  args.sums[row] = divisor.sum;
  args.offsets[row] =
      detail::is_nan(divisor.sum) ? divisor.sum : divisor.greatest - args.offsets[row];
  if (grad == nullptr) return;
  const index_t count = args.label_counts[sample];
  const index_t* const label = args.labels + args.first_label[sample];
  const real* const occupancy = args.occupancies + row * args.lanes;
  const real sum = static_cast<real>(divisor.sum);
  const double factor = detail::is_nan(log_paths) ? log_paths : args.factor(sample) / divisor.sum;
  if (!detail::is_nan(log_paths)) {
    for (index_t s = 0; s < count; ++s) e[label[s]] -= occupancy[s] * sum;
    e[args.blank] -= occupancy[count] * sum;
  }
  scale_row(e, args.classes, static_cast<real>(factor), grad);
}

template <class T>
void ctc_rows(const detail::ctc_args<T>& args, index_t first, index_t last, void* scratch) {
  const index_t inner = args.steps_are_inner ? args.steps : args.samples;
  index_t i = first / inner, k = first % inner;
  for (index_t row = first; row < last; ++row) {
    if (args.steps_are_inner)
      ctc_row(args, i, k, scratch);
    else
      ctc_row(args, k, i, scratch);
    if (++k == inner) k = 0, ++i;
  }
}

/// The unscaled loss: the logarithm of the product of the divisors, minus that of the paths.
template <class T>
double ctc_loss_of_sample(const detail::ctc_args<T>& args, index_t sample) {
  using real = row_pack<double>;
  constexpr int N = real::batches;
  const double log_paths = args.log_paths[sample];
  if (detail::is_minus_infinity(log_paths)) return infinity<double>();
  const index_t steps = args.input_lengths[sample];
  const double* const sum = args.sums + args.row_number(sample, 0);
  const double* const offset = args.offsets + args.row_number(sample, 0);
  lane_sums total;
  for (index_t t = 0; t < steps; t += row_lanes) {
    alignas(64) double divisors[row_lanes], offsets[row_lanes];
    for (int i = 0; i < row_lanes; ++i) {
      divisors[i] = t + i < steps ? sum[t + i] : 1;
      offsets[i] = t + i < steps ? offset[t + i] : 0;
    }
    const real log = minus_log(real(1.0) / load_pack<N>(divisors));
    total.add(load_pack<N>(offsets) + log);
  }
  const double loss = total.total() - log_paths;
  // A probability may round to more than 1.
  return detail::is_nan(loss) || loss > 0 ? loss : 0;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

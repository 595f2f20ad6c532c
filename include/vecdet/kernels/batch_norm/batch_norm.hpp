// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with an activation, and its gradient: two passes over memory each.
#pragma once

#include <vecdet/args/batch_norm.hpp>
#include <vecdet/kernels/batch_norm/coefficients.hpp>
#include <vecdet/kernels/batch_norm/passes.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Runs the pass of the call's activation.
template <template <class, batch_norm_activation> class Pass, class T>
void run_activated(const detail::batch_norm_args<T>& a, index_t first, index_t last) {
  switch (a.activation) {
    case batch_norm_activation::none:
      return run_pieces<Pass<T, batch_norm_activation::none>>(a, first, last);
    case batch_norm_activation::relu:
      return run_pieces<Pass<T, batch_norm_activation::relu>>(a, first, last);
    case batch_norm_activation::silu:
      return run_pieces<Pass<T, batch_norm_activation::silu>>(a, first, last);
  }
}

template <class T>
struct kernels_of<detail::batch_norm_kernels<T>> {
  static constexpr detail::batch_norm_kernels<T> get() {
    detail::batch_norm_kernels<T> kernels{};
    kernels.sum_deviations = run_pieces<deviation_pass<T>, T>;
    kernels.finish_statistics = finish_statistics<T>;
    kernels.prepare = prepare_coefficients<T>;
    kernels.normalize = run_activated<normalizing_pass, T>;
    kernels.sum_gradients = run_activated<gradient_sum_pass, T>;
    kernels.finish_gradients = finish_gradients<T>;
    kernels.grad = run_activated<gradient_pass, T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(batch_norm_kernels)

// SPDX-License-Identifier: Apache-2.0
// Smooth L1 over N x 4 deltas. Coordinates do not meet, so 16 boxes are four rows of 16 elements as
// they lie in memory.
#pragma once

#include <vecdet/args/smooth_l1.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/smooth_l1/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T, class Output>
struct smooth_l1_of_boxes {
  using real = compute_type<T>;
  static constexpr bool adds_up = true, lanes_are_boxes = false;
  smooth_l1_curve<real> curve;
  real scale;
  Output output;

  VECDET_INLINE row_pack<real> operator()(const box_streams<T>& at) const {
    return at.weights != nullptr ? compute<true>(at) : compute<false>(at);
  }

  template <bool Weighted>
  VECDET_INLINE row_pack<real> compute(const box_streams<T>& at) const {
    constexpr int N = row_pack<real>::batches;
    alignas(64) real weight[4 * box_group];  // one an element
    if (Weighted) {
      for (int i = 0; i < box_group; ++i)
        for (int k = 0; k < 4; ++k) weight[4 * i + k] = static_cast<real>(at.weights[i]);
    }
    row_pack<real> sum(real(0));
    VECDET_UNROLL
    for (int i = 0; i < 4 * box_group; i += row_lanes) {
      auto terms = curve(load_pack<N>(at.in + i) - load_pack<N>(at.boxes[0] + i));
      row_pack<real> factor(scale);
      if constexpr (Weighted) {
        const row_pack<real> w = load_pack<N>(weight + i);
        terms.loss = terms.loss * w;
        factor = factor * w;
      }
      sum = sum + terms.loss;
      if (output == box_loss_output::grad) store_pack<N>(at.out + i, terms.slope * factor);
      if (output == box_loss_output::loss) {
        store_pack<N>(at.out + i, terms.loss * row_pack<real>(scale));
      }
    }
    return sum;
  }
};

template <class T>
box_streams<T> streams_of(const detail::smooth_l1_args<T>& a) {
  return {a.predictions, {a.targets, nullptr}, a.box_weights, a.out, nullptr};
}

/// run(operation): the training case is compiled by itself, the others share one copy of the code.
template <class T, class Run>
double with_smooth_l1(const detail::smooth_l1_args<T>& a, const Run& run) {
  const smooth_l1_curve<compute_type<T>> curve(a.beta);
  const auto scale = static_cast<compute_type<T>>(a.scale);
  if (a.output == box_loss_output::grad) {
    using grad = known_box_output<box_loss_output::grad>;
    return run(smooth_l1_of_boxes<T, grad>{curve, scale, {}});
  }
  return run(smooth_l1_of_boxes<T, box_loss_output>{curve, scale, a.output});
}

template <class T>
double smooth_l1_all(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  return with_smooth_l1(a,
                        [&](const auto& op) { return run_boxes(op, streams_of(a), first, last); });
}
template <class T>
double smooth_l1_labelled(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  return with_smooth_l1(a, [&](const auto& op) {
    return run_labelled(op, streams_of(a), a.selected, nullptr, first, last);
  });
}
template <class T>
double smooth_l1_listed(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  return with_smooth_l1(a, [&](const auto& op) {
    return run_listed(op, streams_of(a), a.selected, nullptr, first, last);
  });
}
template <class T>
void smooth_l1_clear(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  clear_boxes(streams_of(a), first, last);
}

template <class T>
struct kernels_of<detail::smooth_l1_kernels<T>> {
  static constexpr detail::smooth_l1_kernels<T> get() {
    detail::smooth_l1_kernels<T> kernels{};
    kernels.all = smooth_l1_all<T>;
    kernels.labelled = smooth_l1_labelled<T>;
    kernels.listed = smooth_l1_listed<T>;
    kernels.clear = smooth_l1_clear<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

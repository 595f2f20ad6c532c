// SPDX-License-Identifier: Apache-2.0
// Smooth L1 over N x 4 deltas. Each number is computed by itself, so 16 boxes are four rows of 16
// elements as they lie in memory.
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
    constexpr int N = row_pack<real>::batches;
    const row_pack<real> factor(scale);
    row_pack<real> sum(real(0));
    VECDET_UNROLL_ROWS
    for (int i = 0; i < 4 * box_group; i += row_lanes) {
      const auto terms = curve(load_pack<N>(at.in + i) - load_pack<N>(at.boxes[0] + i));
      sum = sum + terms.loss;
      if (output == box_loss_output::grad) store_pack<N>(at.out + i, terms.slope * factor);
      if (output == box_loss_output::loss) store_pack<N>(at.out + i, terms.loss * factor);
    }
    return sum;
  }
};

/// The same with weights of the boxes, or with a scale of 0, which acts as a weight of 0 does.
template <class T>
struct weighted_smooth_l1_of_boxes {
  using real = compute_type<T>;
  static constexpr bool adds_up = true, lanes_are_boxes = false;
  smooth_l1_curve<real> curve;
  real scale;
  box_loss_output output;

  VECDET_INLINE row_pack<real> operator()(const box_streams<T>& at) const {
    if (at.weights == nullptr || !are_plain_weights(scale, row_of_weights(at.weights))) {
      return with_special_weights(at);
    }
    const element_weights weight(at.weights);
    row_pack<real> sum(real(0));
    VECDET_UNROLL_ROWS
    for (int i = 0; i < 4 * box_group; i += row_lanes) {
      sum = sum + row(at, i, weight,
                      [](const row_pack<real>& x, const row_pack<real>& y)
                          VECDET_INLINE_LAMBDA { return x * y; });
    }
    return sum;
  }

 private:
  /// One an element; 1 where there are none.
  struct element_weights {
    alignas(64) real of[4 * box_group];

    VECDET_INLINE explicit element_weights(const float* of_boxes) {
      for (int i = 0; i < box_group; ++i)
        for (int k = 0; k < 4; ++k)
          of[4 * i + k] = of_boxes != nullptr ? static_cast<real>(of_boxes[i]) : real(1);
    }
  };

  VECDET_NOINLINE row_pack<real> with_special_weights(const box_streams<T>& at) const {
    const element_weights weight(at.weights);
    row_pack<real> sum(real(0));
    VECDET_NO_UNROLL
    for (int i = 0; i < 4 * box_group; i += row_lanes) {
      sum = sum + row(at, i, weight, vanishing_row);
    }
    return sum;
  }

  static VECDET_NOINLINE row_pack<real> vanishing_row(const row_pack<real>& x,
                                                      const row_pack<real>& y) {
    return vanishing_product(x, y);
  }

  static VECDET_INLINE row_pack<real> row_of_weights(const float* weights) {
    constexpr int N = row_pack<float>::batches;
    if constexpr (std::is_same<real, double>::value) {
      return widen(load_pack<N>(weights));
    } else {
      return load_pack<N>(weights);
    }
  }

  /// Writes what is asked for of 16 elements from i on, and returns their losses.
  template <class Times>
  VECDET_INLINE row_pack<real> row(const box_streams<T>& at, int i, const element_weights& weight,
                                   const Times& times) const {
    constexpr int N = row_pack<real>::batches;
    const row_pack<real> factor(scale);
    const auto terms = curve(load_pack<N>(at.in + i) - load_pack<N>(at.boxes[0] + i));
    const row_pack<real> w = load_pack<N>(weight.of + i);
    const row_pack<real> loss = times(terms.loss, w);
    if (output == box_loss_output::grad) {
      store_pack<N>(at.out + i, times(terms.slope, times(factor, w)));
    }
    if (output == box_loss_output::loss) store_pack<N>(at.out + i, times(loss, factor));
    return loss;
  }
};

template <class T>
box_streams<T> streams_of(const detail::smooth_l1_args<T>& a) {
  return {a.predictions, {a.targets, nullptr}, a.box_weights, a.out, nullptr};
}

template <class T, class Op>
double smooth_l1_with(const Op& op, const detail::smooth_l1_args<T>& a, index_t first,
                      index_t last) {
  return run_selected(as_operation<T>(op), streams_of(a), a.selected, nullptr, first, last);
}

/// The training case is compiled by itself, the others share one copy of the code.
template <class T>
double smooth_l1(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  const smooth_l1_curve<compute_type<T>> curve(a.beta);
  const auto scale = static_cast<compute_type<T>>(a.scale);
  if (a.box_weights != nullptr || scale == 0) {
    return smooth_l1_with(weighted_smooth_l1_of_boxes<T>{curve, scale, a.output}, a, first, last);
  }
  if (a.output == box_loss_output::grad) {
    using grad = known_box_output<box_loss_output::grad>;
    return smooth_l1_with(smooth_l1_of_boxes<T, grad>{curve, scale, {}}, a, first, last);
  }
  return smooth_l1_with(smooth_l1_of_boxes<T, box_loss_output>{curve, scale, a.output}, a, first,
                        last);
}
template <class T>
void smooth_l1_clear(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  clear_boxes(streams_of(a), first, last);
}

template <class T>
struct kernels_of<detail::smooth_l1_kernels<T>> {
  static constexpr detail::smooth_l1_kernels<T> get() {
    detail::smooth_l1_kernels<T> kernels{};
    kernels.run = smooth_l1<T>;
    kernels.clear = smooth_l1_clear<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

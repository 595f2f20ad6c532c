// SPDX-License-Identifier: Apache-2.0
// Weights of box losses: one per box, times a scale. A weight of 0 hides infinite losses and
// gradients, but not NaN.
#pragma once

#include <vecdet/kernels/boxes.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// x times a weight, with 0 times infinity = 0: NaN only if x or the weight is NaN.
template <class Real, int N>
VECDET_INLINE pack<Real, N> vanishing_product(const pack<Real, N>& x, const pack<Real, N>& weight) {
  using real = pack<Real, N>;
  const auto finite = [](const real& y) VECDET_INLINE_LAMBDA {
    return max(real(-largest<Real>), min(real(largest<Real>), y));  // in this order NaN stays NaN
  };
  const real product = finite(x) * finite(weight);
  return select(product == real(Real(0)), product, x * weight);
}

/// Whether plain products give the results of weigh_boxes: neither the scale nor a weight is 0,
/// infinite or NaN.
template <class Real, int N>
VECDET_INLINE bool are_plain_weights(Real scale, const pack<Real, N>& weight) {
  using real = pack<Real, N>;
  const real factor = abs(real(scale) * weight);
  return all((factor > real(Real(0))) & (factor <= real(largest<Real>)));
}

/// One weight per box, from box `first` on, in the lane order of load_boxes; 1 if there are no
/// weights.
template <class Real, int N>
VECDET_INLINE pack<Real, N> load_box_weights(const float* from, int first) {
  if (from == nullptr) return Real(1);
  if constexpr (std::is_same<Real, float>::value) {
    return to_lane_order(load_pack<N>(from + first));
  } else {
    alignas(64) Real weight[pack<Real, N>::lanes];
    for (int k = 0; k < pack<Real, N>::lanes; ++k) weight[k] = static_cast<Real>(from[first + k]);
    return to_lane_order(load_pack<N>(weight));
  }
}

/// weigh_boxes for a weight or scale that is 0, infinite or NaN.
template <class Real, int N>
VECDET_NOINLINE void weigh_specially(box_loss_terms<Real, N>& terms, Real scale,
                                     const pack<Real, N>& weight) {
  const auto factor = vanishing_product(pack<Real, N>(scale), weight);
  terms.loss = vanishing_product(terms.loss, weight);
  auto& g = terms.grad;
  g = {vanishing_product(g.x1, factor), vanishing_product(g.y1, factor),
       vanishing_product(g.x2, factor), vanishing_product(g.y2, factor)};
}

/// Multiplies the losses of boxes from `first` on by their weights, and the gradients, if wanted,
/// by weights and scale.
template <bool Grad, class Real, int N>
VECDET_INLINE void weigh_boxes(box_loss_terms<Real, N>& terms, Real scale, const float* weights,
                               int first) {
  pack<Real, N> factor = scale;
  if (weights != nullptr || scale == 0) {
    const auto w = load_box_weights<Real, N>(weights, first);
    if (__builtin_expect(!are_plain_weights(scale, w), 0)) {
      box_loss_terms<Real, N> copy;  // its address is taken, so that `terms` stays in registers
      copy.loss = terms.loss;
      if constexpr (Grad) copy.grad = terms.grad;
      weigh_specially(copy, scale, w);
      terms = copy;
      return;
    }
    terms.loss = terms.loss * w;
    factor = factor * w;
  }
  if constexpr (Grad) {
    auto& g = terms.grad;
    g = {g.x1 * factor, g.y1 * factor, g.x2 * factor, g.y2 * factor};
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

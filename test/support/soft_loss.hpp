// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels by their kind, and their exact numbers.
#pragma once

#include <vecdet/focal_loss.hpp>
#include <vecdet/reference/focal_loss.hpp>
#include <vecdet/soft_target_loss.hpp>

#include <algorithm>
#include <cmath>

namespace vecdet::test {

/// The largest term of a gradient with target t.
inline double terms_of_gradient(double x, double t, const focal_loss_params& params) {
  if (t == 0 || t == 1 || std::isnan(x)) return 0;
  const reference::soft_focal_terms terms(x, t, params.alpha);
  const double p = reference::sigmoid(x), q = reference::sigmoid(-x);
  const double focusing = params.gamma * std::abs(1 - 2 * t) *
                          reference::vanishing_product(p * q, terms.cross_entropy) / terms.miss;
  return std::abs(params.scale * terms.weight) * std::pow(terms.miss, params.gamma) *
         std::max({p * (1 - t), q * t, focusing});
}

enum class soft_kind { focal, quality, varifocal, varifocal_constant, bce };

/// One of the four losses, with the parameters that they share.
struct soft_loss {
  explicit soft_loss(soft_kind which, double a = 0.75, double g = 2, double s = 1)
      : of(which), alpha(a), gamma(g), scale(s) {}

  soft_kind of;
  double alpha, gamma, scale;
  vector_view<const float> row_weights;
  vecdet::reduction reduction = reduction::sum;

  template <class Params>
  Params shared() const {
    Params params;
    params.scale = scale;
    params.row_weights = row_weights;
    params.reduction = reduction;
    return params;
  }
  focal_loss_params focal() const {
    auto params = shared<focal_loss_params>();
    params.alpha = alpha;
    params.gamma = gamma;
    return params;
  }
  quality_focal_params quality() const {
    auto params = shared<quality_focal_params>();
    params.beta = gamma;
    return params;
  }
  varifocal_params varifocal() const {
    auto params = shared<varifocal_params>();
    params.alpha = alpha;
    params.gamma = gamma;
    params.grad_through_factor = of == soft_kind::varifocal;
    return params;
  }

  template <class T>
  double sum(matrix_view<const T> x, const scored_labels& targets, threading policy) const {
    if (of == soft_kind::focal) return sigmoid_focal_loss(x, targets, focal(), policy);
    if (of == soft_kind::quality) return quality_focal_loss(x, targets, quality(), policy);
    if (of == soft_kind::bce) return bce_loss(x, targets, shared<bce_params>(), policy);
    return varifocal_loss(x, targets, varifocal(), policy);
  }
  template <class T>
  void unreduced(matrix_view<const T> x, const scored_labels& targets, matrix_view<T> loss,
                 threading policy = threading::parallel) const {
    if (of == soft_kind::focal)
      return sigmoid_focal_loss_unreduced(x, targets, loss, focal(), policy);
    if (of == soft_kind::quality)
      return quality_focal_loss_unreduced(x, targets, loss, quality(), policy);
    if (of == soft_kind::bce)
      return bce_loss_unreduced(x, targets, loss, shared<bce_params>(), policy);
    varifocal_loss_unreduced(x, targets, loss, varifocal(), policy);
  }
  template <class T>
  double sum_and_grad(matrix_view<const T> x, const scored_labels& targets, matrix_view<T> grad,
                      threading policy = threading::parallel) const {
    if (of == soft_kind::focal)
      return sigmoid_focal_loss_and_grad(x, targets, grad, focal(), policy);
    if (of == soft_kind::quality)
      return quality_focal_loss_and_grad(x, targets, grad, quality(), policy);
    if (of == soft_kind::bce)
      return bce_loss_and_grad(x, targets, grad, shared<bce_params>(), policy);
    return varifocal_loss_and_grad(x, targets, grad, varifocal(), policy);
  }

  /// The exact loss, its gradient, and the largest term of the gradient.
  struct element {
    double loss, grad, terms;
  };
  element exact(double x, bool labelled, double t) const {
    using namespace reference;
    if (of == soft_kind::focal) {
      const double target = labelled ? t : 0;
      return {soft_focal_loss(x, target, alpha, gamma),
              soft_focal_loss_grad(x, target, alpha, gamma),
              labelled ? terms_of_gradient(x, target, focal()) / std::abs(scale) : 0};
    }
    const double cross_entropy = of == soft_kind::bce ? 0 : gamma;
    if (!labelled) {
      const double weight = of == soft_kind::quality || of == soft_kind::bce ? 1 : alpha;
      const double grad = of == soft_kind::varifocal_constant
                              ? constant_factor_grad(x, gamma)
                              : -focal_cross_entropy_grad(-x, cross_entropy);
      return {vanishing_product(weight, focal_cross_entropy(-x, cross_entropy)), weight * grad, 0};
    }
    if (of == soft_kind::quality)
      return {quality_focal_loss(x, t, gamma), quality_focal_loss_grad(x, t, gamma), 0};
    if (of == soft_kind::bce)
      return {soft_focal_loss(x, t, -1, 0), soft_focal_loss_grad(x, t, -1, 0), 1};
    return {varifocal_loss(x, t), varifocal_loss_grad(x, t), t};
  }
};

constexpr soft_kind all_soft_losses[] = {soft_kind::focal, soft_kind::quality, soft_kind::varifocal,
                                         soft_kind::varifocal_constant, soft_kind::bce};

}  // namespace vecdet::test

// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss in plain scalar double: the reference for the kernels.
//
// Lin, Goyal, Girshick, He, Dollar: "Focal Loss for Dense Object Detection", arXiv 1708.02002,
// equation 5, with p = sigmoid(x) and cross entropy -log(p) = softplus(-x):
//
//   positive   L = alpha (1-p)^gamma softplus(-x)
//              dL/dx = -alpha (1-p)^gamma (gamma p softplus(-x) + 1-p)
//   negative   the same at -x with weight 1-alpha, and the opposite sign of the gradient
//
// At infinite logits the functions take their limits instead of a formula's inf * 0. NaN gives NaN.
// Relative errors are a few 1e-16 and grow with gamma. For soft targets they are relative to the
// largest of the gradient's terms p (1-t), (1-p) t and the focusing term, which may cancel.
#pragma once

#include <vecdet/reference/sum.hpp>
#include <vecdet/views.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

struct focal_loss_params {
  double alpha = 0.25;      ///< Weight of positives, 1-alpha of negatives; < 0: no weights.
  double gamma = 2;         ///< Focusing exponent, >= 0.
  double scale = 1;         ///< Factor on loss and gradient.
  index_t background = -1;  ///< The label of rows in which every class is negative.
  index_t ignore = -2;      ///< The label of rows whose loss and gradient are 0.
};

/// 1 / (1 + exp(-x)), accurate in both tails.
inline double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

/// log(1 + exp(x)), accurate in both tails.
inline double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::abs(x))); }

inline double positive_weight(double alpha) { return alpha < 0 ? 1 : alpha; }
inline double negative_weight(double alpha) { return alpha < 0 ? 1 : 1 - alpha; }

/// The loss of a positive without its weight: (1-p)^gamma softplus(-x).
inline double focal_cross_entropy(double x, double gamma) {
  if (std::isnan(x)) return x;  // pow(NaN, 0) is 1
  return std::pow(sigmoid(-x), gamma) * softplus(-x);
}

/// Its derivative: -(1-p)^gamma (gamma p softplus(-x) + 1-p).
inline double focal_cross_entropy_grad(double x, double gamma) {
  if (std::isnan(x)) return x;
  const double p = sigmoid(x);
  const double q = sigmoid(-x);
  return -std::pow(q, gamma) * (gamma * vanishing_product(p, softplus(-x)) + q);
}

/// Loss of one logit of the labelled class (`positive`) or of any other class.
inline double hard_focal_loss(double x, bool positive, double alpha, double gamma) {
  return positive ? vanishing_product(positive_weight(alpha), focal_cross_entropy(x, gamma))
                  : vanishing_product(negative_weight(alpha), focal_cross_entropy(-x, gamma));
}

/// Its derivative with respect to the logit. For a positive and any other class it is 0 and 1-alpha
/// at +inf, -alpha and 0 at -inf.
inline double hard_focal_loss_grad(double x, bool positive, double alpha, double gamma) {
  return positive ? positive_weight(alpha) * focal_cross_entropy_grad(x, gamma)
                  : -negative_weight(alpha) * focal_cross_entropy_grad(-x, gamma);
}

/// The factors of the loss for a soft target t in [0, 1], with p_t = p t + (1-p)(1-t):
/// L = weight * miss^gamma * cross_entropy. Each is exact at t = 0 and t = 1.
struct soft_focal_terms {
  double weight;         ///< alpha_t = alpha t + (1-alpha)(1-t)
  double miss;           ///< 1-p_t = p (1-t) + (1-p) t
  double cross_entropy;  ///< t softplus(-x) + (1-t) softplus(x)

  soft_focal_terms(double x, double t, double alpha)
      : weight(positive_weight(alpha) * t + negative_weight(alpha) * (1 - t)),
        miss(sigmoid(x) * (1 - t) + sigmoid(-x) * t),
        cross_entropy(vanishing_product(t, softplus(-x)) + vanishing_product(1 - t, softplus(x))) {}
};

/// Loss of one logit with a target in [0, 1], as torchvision defines it.
inline double soft_focal_loss(double x, double t, double alpha, double gamma) {
  if (std::isnan(x)) return x;
  const soft_focal_terms terms(x, t, alpha);
  return vanishing_product(terms.weight,
                           vanishing_product(std::pow(terms.miss, gamma), terms.cross_entropy));
}

/// Its derivative with respect to the logit,
/// alpha_t (1-p_t)^gamma (p - t + gamma (1-2t) p (1-p) / (1-p_t) cross_entropy).
inline double soft_focal_loss_grad(double x, double t, double alpha, double gamma) {
  if (std::isnan(x)) return x;
  const double p = sigmoid(x);
  const double q = sigmoid(-x);
  const soft_focal_terms terms(x, t, alpha);
  const double error = p * (1 - t) - q * t;                           // p - t
  const double slope = t == 0 ? q : t == 1 ? p : p * q / terms.miss;  // p (1-p) / (1-p_t)
  const double focusing = gamma * (1 - 2 * t) * vanishing_product(slope, terms.cross_entropy);
  return terms.weight * std::pow(terms.miss, gamma) * (error + focusing);
}

/// Quality focal loss of one logit with a target in [0, 1] (Li et al., arXiv 2006.04388):
/// |p - t|^beta ce.
inline double quality_focal_loss(double x, double t, double beta) {
  if (std::isnan(x)) return x;
  const soft_focal_terms terms(x, t, -1);
  const double error = sigmoid(x) * (1 - t) - sigmoid(-x) * t;  // p - t
  return vanishing_product(std::pow(std::abs(error), beta), terms.cross_entropy);
}

/// Its derivative with respect to the logit: |p - t|^beta (p - t + beta p (1-p) ce / (p - t)), 0 at
/// p = t.
inline double quality_focal_loss_grad(double x, double t, double beta) {
  if (std::isnan(x)) return x;
  const soft_focal_terms terms(x, t, -1);
  const double p = sigmoid(x), q = sigmoid(-x);
  const double error = p * (1 - t) - q * t;
  if (error == 0) return 0;
  return std::pow(std::abs(error), beta) *
         (error + beta * vanishing_product(p * q, terms.cross_entropy) / error);
}

/// Varifocal loss of the labelled class (Zhang et al., arXiv 2008.13367), t ce, and its derivative.
inline double varifocal_loss(double x, double t) {
  if (std::isnan(x)) return x;
  return vanishing_product(t, soft_focal_terms(x, t, -1).cross_entropy);
}
inline double varifocal_loss_grad(double x, double t) {
  return t * (sigmoid(x) * (1 - t) - sigmoid(-x) * t);
}
/// The gradient of p^gamma softplus(x) for the other classes, with p^gamma treated as constant.
inline double constant_factor_grad(double x, double gamma) {
  return std::pow(sigmoid(x), gamma) * sigmoid(x);
}

namespace detail {

/// The outputs for the losses and gradients of a whole tensor. Both may be empty views.
struct focal_loss_elements {
  matrix_view<double> grad;
  matrix_view<double> loss;
  compensated_sum sum;

  void put(index_t i, index_t j, double element_loss, double element_grad) {
    sum.add(element_loss);
    if (!loss.empty()) loss(i, j) = element_loss;
    if (!grad.empty()) grad(i, j) = element_grad;
  }
};

inline double row_scale(const focal_loss_params& params, vector_view<const double> weights,
                        index_t i) {
  return weights.empty() ? params.scale : vanishing_product(params.scale, weights[i]);
}

}  // namespace detail

/// The sum of the losses of rows x classes `logits` with one label per row: 0 .. classes-1,
/// params.background or params.ignore. Writes the sum's gradient and the losses to the views that
/// are not empty; they have the logits' shape. `row_weights` may be empty: all 1.
template <class T>
double sigmoid_focal_loss(matrix_view<T> logits, vector_view<const index_t> labels,
                          const focal_loss_params& params = {}, matrix_view<double> grad = {},
                          matrix_view<double> loss = {},
                          vector_view<const double> row_weights = {}) {
  detail::focal_loss_elements out{grad, loss, {}};
  for (index_t i = 0; i < logits.rows(); ++i) {
    const double scale = detail::row_scale(params, row_weights, i);
    for (index_t j = 0; j < logits.cols(); ++j) {
      if (labels[i] == params.ignore) {
        out.put(i, j, 0, 0);
        continue;
      }
      const double x = static_cast<double>(logits(i, j));
      const bool positive = labels[i] == j && labels[i] != params.background;
      out.put(
          i, j, vanishing_product(scale, hard_focal_loss(x, positive, params.alpha, params.gamma)),
          vanishing_product(scale, hard_focal_loss_grad(x, positive, params.alpha, params.gamma)));
    }
  }
  return out.sum.value();
}

/// The same with dense targets in [0, 1], of the logits' shape.
template <class T, class U>
double sigmoid_focal_loss(matrix_view<T> logits, matrix_view<U> targets,
                          const focal_loss_params& params = {}, matrix_view<double> grad = {},
                          matrix_view<double> loss = {},
                          vector_view<const double> row_weights = {}) {
  detail::focal_loss_elements out{grad, loss, {}};
  for (index_t i = 0; i < logits.rows(); ++i) {
    const double scale = detail::row_scale(params, row_weights, i);
    for (index_t j = 0; j < logits.cols(); ++j) {
      const double x = static_cast<double>(logits(i, j));
      const double t = static_cast<double>(targets(i, j));
      out.put(i, j, vanishing_product(scale, soft_focal_loss(x, t, params.alpha, params.gamma)),
              vanishing_product(scale, soft_focal_loss_grad(x, t, params.alpha, params.gamma)));
    }
  }
  return out.sum.value();
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Smooth L1 loss in plain scalar double. Girshick: "Fast R-CNN", arXiv 1504.08083, equation 3. The
// parabola meets the line at beta, as in torch.nn.functional.smooth_l1_loss:
//
//   L(d) = d^2 / (2 beta)      dL/dd = d / beta     where |d| < beta
//          |d| - beta / 2              sign(d)      elsewhere
#pragma once

#include <vecdet/reference/sum.hpp>
#include <vecdet/views.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The loss of a difference. beta >= 0; beta = 0 gives |d|.
inline double smooth_l1_loss(double d, double beta) {
  return std::abs(d) < beta ? 0.5 * d * d / beta : std::abs(d) - 0.5 * beta;
}

/// Its derivative; 0 at d = 0 for beta = 0 as well. NaN gives NaN.
inline double smooth_l1_loss_grad(double d, double beta) {
  if (std::isnan(d)) return d;
  if (std::abs(d) < beta) return d / beta;
  return d > 0 ? 1 : d < 0 ? -1 : 0;
}

/// Huber's loss: delta times the smooth L1 loss with beta = delta > 0.
inline double huber_loss(double d, double delta) { return delta * smooth_l1_loss(d, delta); }

namespace detail {

template <class T, class U>
void add_smooth_l1_row(matrix_view<T> predictions, matrix_view<U> targets, index_t i, double beta,
                       double scale, matrix_view<double> grad, matrix_view<double> loss,
                       compensated_sum& sum) {
  for (index_t j = 0; j < predictions.cols(); ++j) {
    const double d = static_cast<double>(predictions(i, j)) - static_cast<double>(targets(i, j));
    const double element = vanishing_product(scale, smooth_l1_loss(d, beta));
    sum.add(element);
    if (!loss.empty()) loss(i, j) = element;
    if (!grad.empty()) grad(i, j) = vanishing_product(scale, smooth_l1_loss_grad(d, beta));
  }
}

}  // namespace detail

/// The sum over all elements, times `scale` and the row's weight. Writes the sum's gradient with
/// respect to the predictions and the losses to the views that are not empty; they have the
/// predictions' shape. `row_weights` may be empty: all 1.
template <class T, class U>
double smooth_l1_loss(matrix_view<T> predictions, matrix_view<U> targets, double beta,
                      double scale = 1, matrix_view<double> grad = {},
                      matrix_view<double> loss = {}, vector_view<const double> row_weights = {}) {
  compensated_sum sum;
  for (index_t i = 0; i < predictions.rows(); ++i)
    detail::add_smooth_l1_row(
        predictions, targets, i, beta,
        row_weights.empty() ? scale : vanishing_product(scale, row_weights[i]), grad, loss, sum);
  return sum.value();
}

/// The same over the rows whose label is 0 or more. All other rows have loss and gradient 0.
template <class T, class U>
double smooth_l1_loss_foreground(matrix_view<T> predictions, matrix_view<U> targets,
                                 vector_view<const index_t> labels, double beta, double scale = 1,
                                 matrix_view<double> grad = {}, matrix_view<double> loss = {},
                                 vector_view<const double> row_weights = {}) {
  compensated_sum sum;
  for (index_t i = 0; i < predictions.rows(); ++i) {
    if (labels[i] >= 0) {
      detail::add_smooth_l1_row(
          predictions, targets, i, beta,
          row_weights.empty() ? scale : vanishing_product(scale, row_weights[i]), grad, loss, sum);
      continue;
    }
    for (index_t j = 0; j < predictions.cols(); ++j) {
      if (!loss.empty()) loss(i, j) = 0;
      if (!grad.empty()) grad(i, j) = 0;
    }
  }
  return sum.value();
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

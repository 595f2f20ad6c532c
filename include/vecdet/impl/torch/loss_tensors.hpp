// SPDX-License-Identifier: Apache-2.0
// Shared by losses of tensors: their results, and losses of the rows of a matrix.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstdint>
#include <limits>
#include <tuple>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

using loss_tensors = std::tuple<at::Tensor, at::Tensor>;

/// at::Reduction as a separate type, which identifies the losses that have a reduction.
enum class loss_reduction : std::int64_t {
  none = at::Reduction::None,
  mean = at::Reduction::Mean,
  sum = at::Reduction::Sum
};

/// The shape of unreduced losses. There is one per element of the input, with a gradient in the
/// input's memory format (matrix) or contiguous (elements); one per row, with a contiguous
/// gradient; or one per sample of steps x samples x classes, or of steps x classes, with a gradient
/// in the input's memory format.
enum class loss_shape { matrix, elements, rows, samples };

inline void check_reduction(const char* function, loss_reduction reduction) {
  check(reduction >= loss_reduction::none && reduction <= loss_reduction::sum, function,
        "reduction", static_cast<std::int64_t>(reduction), "0 (none), 1 (mean) or 2 (sum)");
}

/// The scale of a mean over `count` losses, from that of their sum; 0 for none.
inline double scale_of_mean(const char* function, double scale, index_t count) {
  check(fits_float(scale), function, "params.scale", scale, "a finite float");
  return count == 0 ? 0 : scale / static_cast<double>(count);
}

/// The type of a loss: that of the input, or at least float32, as autocast requires.
inline at::ScalarType loss_type(const at::Tensor& input, bool float_loss) {
  return float_loss && input.scalar_type() != at::kDouble ? at::kFloat : input.scalar_type();
}

/// Converts loss and gradient to their types, if they were computed in another.
inline loss_tensors as_type_of(const at::Tensor& input, const at::Tensor& loss,
                               const at::Tensor& grad, bool float_loss) {
  return {loss.to(loss_type(input, float_loss)), grad.to(input.scalar_type())};
}

/// A loss computed in `type`, with its gradient with respect to `input` if that is needed.
/// each(loss) fills the unreduced losses, a tensor of shape `losses`. sum() and sum_and_grad(grad)
/// return the reduced loss, which is NaN instead if `is_nan`; the latter also sets the gradient.
template <class Each, class Sum, class SumAndGrad>
loss_tensors loss_and_grad_of(const at::Tensor& input, at::ScalarType type, at::IntArrayRef losses,
                              loss_reduction reduction, bool is_nan, bool needs_grad,
                              bool float_loss, const Each& each, const Sum& sum,
                              const SumAndGrad& sum_and_grad) {
  at::Tensor loss, grad = at::empty({0}, type);
  if (reduction == loss_reduction::none) {
    loss = at::empty(losses, type);
    each(loss);
  }
  double total = 0;
  if (needs_grad)
    total = sum_and_grad(grad);
  else if (reduction != loss_reduction::none)
    total = sum();
  if (is_nan) total = std::numeric_limits<double>::quiet_NaN();
  if (reduction != loss_reduction::none) loss = scalar(total, loss_type(input, float_loss));
  return as_type_of(input, loss, grad, float_loss);
}

/// The loss of a matrix of logits, with its gradient if that is needed. `each` writes a matrix of
/// losses; `sum` and `sum_and_grad` return their sum.
template <class T, class Each, class Sum, class SumAndGrad>
loss_tensors loss_of_matrix(const at::Tensor& logits, const rows& x, loss_reduction reduction,
                            bool needs_grad, bool float_loss, const Each& each, const Sum& sum,
                            const SumAndGrad& sum_and_grad) {
  const at::ScalarType type = x.tensor.scalar_type();
  const auto in = [&](const at::Tensor& tensor) { return matrix<T>(tensor, x.count, x.size); };
  return loss_and_grad_of(
      logits, type, logits.sizes(), reduction, false, needs_grad, float_loss,
      [&](const at::Tensor& loss) { each(x.view<T>(), in(loss)); },
      [&] { return sum(x.view<T>()); },
      [&](at::Tensor& grad) {
        grad = gradient_like(logits, type);
        const at::Tensor lines = grad.is_contiguous() ? grad : at::empty(logits.sizes(), type);
        const double total = sum_and_grad(x.view<T>(), in(lines));
        if (!lines.is_same(grad)) grad.copy_(lines);
        return total;
      });
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

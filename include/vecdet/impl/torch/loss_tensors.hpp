// SPDX-License-Identifier: Apache-2.0
// What losses on tensors have in common: their results, and losses of the rows of a matrix.
#pragma once

#include <vecdet/impl/torch/tensor.hpp>

#include <cstdint>
#include <tuple>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

using loss_tensors = std::tuple<at::Tensor, at::Tensor>;

/// at::Reduction, as a type of its own: so losses are known to have a reduction.
enum class loss_reduction : std::int64_t {
  none = at::Reduction::None,
  mean = at::Reduction::Mean,
  sum = at::Reduction::Sum
};

/// The losses that are not reduced: one per element of the input, whose gradient lies as the input
/// does (matrix) or is contiguous (elements), or one per row, whose gradient is contiguous.
enum class loss_shape { matrix, elements, rows };

inline void check_reduction(const char* function, loss_reduction reduction) {
  check(reduction >= loss_reduction::none && reduction <= loss_reduction::sum, function,
        "reduction", static_cast<std::int64_t>(reduction), "0 (none), 1 (mean) or 2 (sum)");
}

/// The type of a loss: that of the input, or float32 at least, as autocast asks for.
inline at::ScalarType loss_type(const at::Tensor& input, bool float_loss) {
  return float_loss && input.scalar_type() != at::kDouble ? at::kFloat : input.scalar_type();
}

/// Loss and gradient in their types, which were computed in another one or not.
inline loss_tensors as_type_of(const at::Tensor& input, const at::Tensor& loss,
                               const at::Tensor& grad, bool float_loss) {
  return {loss.to(loss_type(input, float_loss)), grad.to(input.scalar_type())};
}

/// The loss of logits, a matrix that `each` computes into another of losses, or `sum` and
/// `sum_and_grad` add up; with its gradient where that is needed.
template <class T, class Each, class Sum, class SumAndGrad>
loss_tensors loss_of_matrix(const at::Tensor& logits, const rows& x, loss_reduction reduction,
                            bool needs_grad, bool float_loss, const Each& each, const Sum& sum,
                            const SumAndGrad& sum_and_grad) {
  const auto options = x.tensor.options();
  at::Tensor loss, grad = at::empty({0}, options);
  if (reduction == loss_reduction::none) {
    loss = at::empty(logits.sizes(), options);
    each(x.view<T>(), matrix<T>(loss, x.count, x.size));
  }
  double total = 0;
  if (needs_grad) {
    grad = at::empty_like(logits, options);
    const at::Tensor lines = grad.is_contiguous() ? grad : at::empty(logits.sizes(), options);
    total = sum_and_grad(x.view<T>(), matrix<T>(lines, x.count, x.size));
    if (!lines.is_same(grad)) grad.copy_(lines);
  } else if (reduction != loss_reduction::none) {
    total = sum(x.view<T>());
  }
  if (reduction != loss_reduction::none) loss = scalar(total, loss_type(logits, float_loss));
  return as_type_of(logits, loss, grad, float_loss);
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

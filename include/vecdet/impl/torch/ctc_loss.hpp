// SPDX-License-Identifier: Apache-2.0
// CTC of tensors: the loss of text and speech recognisers.
#pragma once

#include <vecdet/ctc_loss.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/loss_tensors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Logits, steps x samples x classes, or steps x classes of one sample, in the form that kernels
/// read: steps or samples first, without gaps.
struct sequences {
  at::Tensor tensor;
  index_t steps, samples, classes;
  bool are_samples_first = false;

  sequences(const at::Tensor& of, at::ScalarType type)
      : steps(of.size(0)), samples(of.dim() == 3 ? of.size(1) : 1), classes(of.size(-1)) {
    are_samples_first = has_samples_first(of);
    tensor = copied_unless(are_samples_first || of.is_contiguous(), "logits", of, type);
    are_samples_first = are_samples_first && has_samples_first(tensor);
  }

  template <class T>
  sequences_view<T> view(const at::Tensor& of) const {
    auto* const data = static_cast<T*>(of.data_ptr());
    return are_samples_first ? sequences_view<T>::samples_first(data, samples, steps, classes)
                             : sequences_view<T>::steps_first(data, steps, samples, classes);
  }
  bool has_samples_first(const at::Tensor& of) const {
    return of.dim() == 3 && !of.is_contiguous() && of.stride(2) == 1 && of.stride(0) == classes &&
           of.stride(1) == steps * classes;
  }
};

/// The factor of each sample for the mean: 1 / max(1, its target's length), times its weight.
inline std::vector<float> weights_of_mean(const vector_view<const index_t>& lengths,
                                          const vector_view<const float>& weights) {
  std::vector<float> factors;
  for (index_t n = 0; n < lengths.size(); ++n) {
    const float factor = 1 / static_cast<float>(std::max<index_t>(1, lengths[n]));
    factors.push_back(weights.empty() ? factor : factor * weights[n]);
  }
  return factors;
}

/// Calls body(). Errors name the arguments instead of the members that hold them.
template <class Body>
auto with_names_of_arguments(const Body& body) {
  try {
    return body();
  } catch (const std::invalid_argument& error) {
    std::string message = error.what();
    for (const auto& [member, argument] : {std::pair<std::string, const char*>("params.", ""),
                                           {"targets.lengths", "target_lengths"},
                                           {"targets.classes", "targets"}}) {
      const std::size_t at = message.find(member);
      if (at != std::string::npos) message.replace(at, member.size(), argument);
    }
    throw std::invalid_argument(message);
  }
}

namespace cpu {

/// CTC (ctc_loss.hpp) of `logits` or log probabilities, steps x samples x classes, or steps x
/// classes of a single sample. Returns the loss of each sample, or a scalar, depending on
/// `reduction`. For the mean, each loss is divided by its target's length, at least 1, and the sum
/// by the number of samples.
/// @param targets classes other than the blank, samples x labels; or one dimension, those of all
///     samples one after the other
/// @param input_lengths the steps of each sample, integers
/// @param target_lengths the labels of each sample, integers
/// @param sample_weights an additional factor per sample
inline loss_tensors ctc_loss(const at::Tensor& logits, const at::Tensor& targets,
                             const at::Tensor& input_lengths, const at::Tensor& target_lengths,
                             loss_reduction reduction, const ctc_params& params_,
                             const optional_tensor& sample_weights, bool needs_grad,
                             bool float_loss) {
  constexpr const char* function = "ctc_loss";
  const auto compute = [&] {
    check_dense(function, "logits", logits);
    check_reduction(function, reduction);
    check_shape(logits.dim() == 2 || logits.dim() == 3, function, "logits", logits,
                "[steps, samples, classes] or [steps, classes]");
    const sequences x(logits, computed_type(function, "logits", logits));
    check_dense(function, "targets", targets);
    check_shape(targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == x.samples),
                function, "targets", targets, "[samples, labels], or [labels of all samples]");
    const labels classes(function, "targets", targets, targets.numel(), "integers");
    labels steps(function, "input_lengths", input_lengths, x.samples, "one integer per sample");
    labels lengths(function, "target_lengths", target_lengths, x.samples, "one integer per sample");
    const weights weight_of(function, "sample_weights", sample_weights);

    ctc_targets in;
    in.classes = classes.view();
    in.lengths = lengths.indices();
    in.stride = targets.dim() == 2 ? targets.size(1) : 0;
    ctc_params params = params_;
    params.sample_weights = weight_of.view();
    const bool is_mean = reduction == loss_reduction::mean;
    std::vector<float> factors;
    if (is_mean) {
      check_optional_size(function, "sample_weights.size()", params.sample_weights.size(),
                          x.samples, "the number of samples");
      factors = weights_of_mean(in.lengths, params.sample_weights);
      params.sample_weights = factors;
      params.scale = scale_of_mean(function, params.scale, std::max<index_t>(1, x.samples));
    }

    const at::ScalarType type = x.tensor.scalar_type();
    at::Tensor loss, grad = at::empty({0}, x.tensor.options());
    double sum = 0;
    with_element(type, [&](auto element) {
      using T = decltype(element);
      auto& workspace = thread_workspace<ctc_workspace>();
      const sequences_view<const T> view = x.view<const T>(x.tensor);
      const vector_view<const index_t> used = steps.indices();
      if (reduction == loss_reduction::none) {
        loss = at::empty(logits.sizes().slice(1, logits.dim() - 2),
                         x.tensor.options().dtype(type == at::kDouble ? at::kDouble : at::kFloat));
        ctc_loss_unreduced(view, in, used, vector<compute_type<T>>(loss), params, workspace,
                           threads());
      }
      if (needs_grad) {
        grad = gradient_like(logits, type);
        const bool is_written =
            x.are_samples_first ? x.has_samples_first(grad) : grad.is_contiguous();
        const at::Tensor rows = is_written ? grad : at::empty_like(x.tensor);
        sum = ctc_loss_and_grad(view, in, used, x.view<T>(rows), params, workspace, threads());
        if (!is_written) grad.copy_(rows);
      } else if (reduction != loss_reduction::none) {
        sum = vecdet::ctc_loss(view, in, used, params, workspace, threads());
      }
    });
    if (is_mean && x.samples == 0) sum = std::numeric_limits<double>::quiet_NaN();
    if (reduction != loss_reduction::none) loss = scalar(sum, loss_type(logits, float_loss));
    return as_type_of(logits, loss, grad, float_loss);
  };
  return translated([&] { return with_names_of_arguments(compute); });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

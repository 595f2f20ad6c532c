// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with an activation, and its gradients.
#pragma once

#include <vecdet/batch_norm.hpp>
#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/channels_last.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Maps and parameters in the form that kernels read: weight and bias are double for maps of
/// double, else float.
class batch_norm_operands {
 public:
  batch_norm_operands(const char* function, const at::Tensor& input, const optional_tensor& weight,
                      const optional_tensor& bias)
      : function_(function) {
    check_dense(function, "input", input);
    check_shape(input.dim() == 4, function, "input", input, "[images, channels, height, width]");
    type = computed_type(function, "input", input);
    channels_last = are_channels_last(input);
    maps = contiguous("input", input, type, format());
    weights = parameter("weight", weight);
    biases = parameter("bias", bias);
  }

  at::MemoryFormat format() const { return feature_format(channels_last); }
  /// The statistics of a batch are two rows, the means and the variances.
  at::Tensor statistics_of(const at::Tensor& given) const {
    check_dense(function_, "statistics", given);
    check_shape(given.dim() == 2 && given.size(0) == 2 && given.size(1) == maps.size(1), function_,
                "statistics", given, "[2, channels]");
    check_floating_point("statistics", given);
    return contiguous("statistics", given, at::kDouble);
  }

  template <class T>
  feature_view<const T> input() const {
    return features_of<const T>(maps, channels_last);
  }
  template <class T>
  vector_view<const compute_type<T>> weight() const {
    return optional_vector<compute_type<T>>(weights);
  }
  template <class T>
  vector_view<const compute_type<T>> bias() const {
    return optional_vector<compute_type<T>>(biases);
  }

  at::ScalarType type = at::kFloat;
  bool channels_last = false;
  at::Tensor maps, weights, biases;

 private:
  void check_floating_point(const char* argument, const at::Tensor& tensor) const {
    computed_type(function_, argument, tensor);
  }
  at::Tensor parameter(const char* argument, const optional_tensor& tensor) const {
    if (!tensor.has_value() || !tensor->defined()) return {};
    check_dense(function_, argument, *tensor);
    check_shape(tensor->dim() == 1 && tensor->size(0) == maps.size(1), function_, argument, *tensor,
                "[channels]");
    check_floating_point(argument, *tensor);
    return contiguous(argument, *tensor, type == at::kDouble ? at::kDouble : at::kFloat);
  }
  template <class Real>
  static vector_view<const Real> optional_vector(const at::Tensor& tensor) {
    return tensor.defined() ? vector<const Real>(tensor) : vector_view<const Real>();
  }

  const char* function_;
};

inline batch_norm_params batch_norm_params_of(double epsilon, std::int64_t activation) {
  batch_norm_params params;
  params.epsilon = epsilon;
  params.activation = static_cast<batch_norm_activation>(activation);
  return params;
}

namespace cpu {

/// The outputs, and the statistics of the batch in double: the means, and the variances.
inline std::tuple<at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                     const optional_tensor& weight,
                                                     const optional_tensor& bias,
                                                     const batch_norm_params& params) {
  return translated([&] {
    const batch_norm_operands of("batch_norm", input, weight, bias);
    const at::Tensor output = at::empty(of.maps.sizes(), of.maps.options(), of.format());
    const at::Tensor statistics = at::empty({2, input.size(1)}, at::kDouble);
    with_element(of.type, [&](auto element) {
      using T = decltype(element);
      vecdet::batch_norm(of.input<T>(), of.weight<T>(), of.bias<T>(),
                         features_of<T>(output, of.channels_last), vector<double>(statistics),
                         params, thread_workspace<batch_norm_workspace>(), threads());
    });
    return std::make_tuple(output.to(input.scalar_type()), statistics);
  });
}

/// Normalisation of `input`, images x channels x height x width, with given statistics
/// (batch_norm.hpp), then the activation. The result has the layout and the type of the input. It
/// has no gradient.
/// @param statistics [2, channels]: means, and variances
inline at::Tensor batch_norm_inference(const at::Tensor& input, const at::Tensor& statistics,
                                       const optional_tensor& weight, const optional_tensor& bias,
                                       const batch_norm_params& params) {
  return translated([&] {
    const batch_norm_operands of("batch_norm_inference", input, weight, bias);
    const at::Tensor given = of.statistics_of(statistics);
    const at::Tensor output = at::empty(of.maps.sizes(), of.maps.options(), of.format());
    with_element(of.type, [&](auto element) {
      using T = decltype(element);
      vecdet::batch_norm_inference(of.input<T>(), of.weight<T>(), of.bias<T>(),
                                   vector<const double>(given),
                                   features_of<T>(output, of.channels_last), params,
                                   thread_workspace<batch_norm_workspace>(), threads());
    });
    return output.to(input.scalar_type());
  });
}

using batch_norm_grads = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The gradients with respect to input, weight and bias. Those of the parameters have no elements
/// unless they are needed.
inline batch_norm_grads batch_norm_grad(const at::Tensor& upstream, const at::Tensor& input,
                                        const optional_tensor& weight, const optional_tensor& bias,
                                        const at::Tensor& statistics,
                                        const batch_norm_params& params, bool needs_weight,
                                        bool needs_bias) {
  constexpr const char* function = "batch_norm_grad";
  return translated([&] {
    const batch_norm_operands of(function, input, weight, bias);
    const at::Tensor given = of.statistics_of(statistics);
    check_dense(function, "upstream", upstream);
    check_shape(upstream.sizes() == input.sizes(), function, "upstream", upstream,
                "the shape of input");
    const at::Tensor arriving = contiguous("upstream", upstream, of.type, of.format());
    const at::Tensor grad = gradient_of(input.sizes(), of.type, of.format());
    const auto parameters = [&](bool are_needed) {
      return at::empty({are_needed ? input.size(1) : 0},
                       of.type == at::kDouble ? at::kDouble : at::kFloat);
    };
    const at::Tensor weight_grad = parameters(needs_weight), bias_grad = parameters(needs_bias);
    with_element(of.type, [&](auto element) {
      using T = decltype(element);
      vecdet::batch_norm_grad(
          features_of<const T>(arriving, of.channels_last), of.input<T>(), of.weight<T>(),
          of.bias<T>(), vector<const double>(given), features_of<T>(grad, of.channels_last),
          vector<compute_type<T>>(weight_grad), vector<compute_type<T>>(bias_grad), params,
          thread_workspace<batch_norm_workspace>(), threads());
    });
    return batch_norm_grads{grad.to(input.scalar_type()), weight_grad, bias_grad};
  });
}

inline batch_norm_grads flat_batch_norm_grad(const at::Tensor& upstream, const at::Tensor& input,
                                             const optional_tensor& weight,
                                             const optional_tensor& bias,
                                             const at::Tensor& statistics, double epsilon,
                                             std::int64_t activation, bool needs_weight,
                                             bool needs_bias) {
  return batch_norm_grad(upstream, input, weight, bias, statistics,
                         batch_norm_params_of(epsilon, activation), needs_weight, needs_bias);
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline at::Tensor normalized_like(const char* function, const at::Tensor& input) {
  return translated([&] {
    check_shape(input.dim() == 4, function, "input", input, "[images, channels, height, width]");
    return at::empty_symint(input.sym_sizes(), input.options(),
                            feature_format(are_channels_last(input)));
  });
}

inline at::Tensor batch_norm_inference(const at::Tensor& input, const at::Tensor&,
                                       const optional_tensor&, const optional_tensor&,
                                       const batch_norm_params&) {
  return normalized_like("batch_norm_inference", input);
}

inline std::tuple<at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                     const optional_tensor&, const optional_tensor&,
                                                     const batch_norm_params&) {
  const at::Tensor output = normalized_like("batch_norm", input);
  const std::vector<c10::SymInt> sizes{2, input.sym_size(1)};
  return std::make_tuple(output, at::empty_symint(sizes, input.options().dtype(at::kDouble)));
}

inline cpu::batch_norm_grads flat_batch_norm_grad(const at::Tensor&, const at::Tensor& input,
                                                  const optional_tensor&, const optional_tensor&,
                                                  const at::Tensor&, double, std::int64_t,
                                                  bool needs_weight, bool needs_bias) {
  const at::ScalarType real = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto parameters = [&](bool are_needed) {
    const std::vector<c10::SymInt> sizes{are_needed ? input.sym_size(1) : c10::SymInt(0)};
    return at::empty_symint(sizes, input.options().dtype(real));
  };
  return {at::empty_symint(input.sym_sizes(), input.options(),
                           feature_format(are_channels_last(input))),
          parameters(needs_weight), parameters(needs_bias)};
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

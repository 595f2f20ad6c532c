// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution, and its gradients.
#pragma once

#include <vecdet/grouped_conv3x3.hpp>
#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/channels_last.hpp>
#include <vecdet/impl/torch/conv3x3_weights.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Throws unless the tensors have the dimensions and the type of a grouped convolution. Sizes may
/// be symbolic.
inline void check_grouped_conv3x3(const char* function, const at::Tensor& input,
                                  const at::Tensor& weight, const optional_tensor& bias) {
  const auto check_float = [&](const char* argument, const at::Tensor& tensor) {
    check(tensor.scalar_type() == at::kFloat, function, argument,
          c10::toString(tensor.scalar_type()), "float32");
  };
  check_shape(input.dim() == 4, function, "input", input, "[images, channels, height, width]");
  check_shape(weight.dim() == 4 && weight.sym_size(2) == 3 && weight.sym_size(3) == 3, function,
              "weight", weight, "[output channels, input channels of a group, 3, 3]");
  check_float("input.dtype", input);
  check_float("weight.dtype", weight);
  if (!bias.has_value() || !bias->defined()) return;
  check_shape(bias->dim() == 1 && bias->sym_size(0) == weight.sym_size(0), function, "bias", *bias,
              "[the weight's output channels]");
  check_float("bias.dtype", *bias);
}

inline grouped_conv3x3_params grouped_params_of(std::int64_t groups, std::int64_t stride) {
  grouped_conv3x3_params params;
  params.groups = groups;
  params.stride = stride;
  return params;
}

/// A height or width of the output. A stride that is not possible counts as 1.
template <class Size>
Size grouped_output_side(const Size& side, const grouped_conv3x3_params& params) {
  const std::int64_t stride = params.stride > 1 ? params.stride : 1;
  return (side + (stride - 1)) / stride;
}

namespace cpu {

inline at::Tensor grouped_conv3x3(const at::Tensor& input, const at::Tensor& weight,
                                  const optional_tensor& bias,
                                  const grouped_conv3x3_params& params) {
  constexpr const char* function = "grouped_conv3x3";
  return translated([&] {
    check_dense(function, "input", input);
    check_grouped_conv3x3(function, input, weight, bias);
    const bool is_nhwc = are_channels_last(input);
    const at::Tensor maps = contiguous("input", input, at::kFloat, feature_format(is_nhwc));
    const at::Tensor weights = dense_weight(weight);
    at::Tensor biases;
    if (bias.has_value() && bias->defined()) biases = contiguous("bias", *bias, at::kFloat);
    const at::Tensor output =
        at::empty({input.size(0), weight.size(0), grouped_output_side(input.size(2), params),
                   grouped_output_side(input.size(3), params)},
                  maps.options(), feature_format(is_nhwc));
    vecdet::grouped_conv3x3(
        features_of<const float>(maps, is_nhwc), weight_view<const float>(weights),
        biases.defined() ? vector<const float>(biases) : vector_view<const float>(),
        features_of<float>(output, is_nhwc), params, thread_workspace<grouped_conv3x3_workspace>(),
        threads());
    return output;
  });
}

using grouped_grads = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The gradients with respect to input, weight and bias. Those that are not needed have no
/// elements.
inline grouped_grads grouped_conv3x3_grad(const at::Tensor& upstream, const at::Tensor& input,
                                          const at::Tensor& weight, std::int64_t groups,
                                          std::int64_t stride, bool needs_input, bool needs_weight,
                                          bool needs_bias) {
  constexpr const char* function = "grouped_conv3x3_grad";
  return translated([&] {
    check_dense(function, "input", input);
    check_grouped_conv3x3(function, input, weight, {});
    check_shape(upstream.dim() == 4, function, "upstream", upstream,
                "[images, channels, height, width]");
    const grouped_conv3x3_params params = grouped_params_of(groups, stride);
    const bool is_nhwc = are_channels_last(input);
    const at::Tensor arriving =
        contiguous("upstream", upstream, at::kFloat, feature_format(is_nhwc));
    const auto arriving_view = features_of<const float>(arriving, is_nhwc);
    auto& workspace = thread_workspace<grouped_conv3x3_workspace>();
    const at::Tensor nothing = at::empty({0}, weight.options());
    grouped_grads grads{nothing, nothing, nothing};
    auto& [input_grad, weight_grad, bias_grad] = grads;
    if (needs_input) {
      input_grad = gradient_of(input.sizes(), at::kFloat, feature_format(is_nhwc));
      const at::Tensor weights = dense_weight(weight);
      vecdet::grouped_conv3x3_input_grad(arriving_view, weight_view<const float>(weights),
                                         features_of<float>(input_grad, is_nhwc), params, workspace,
                                         threads());
    }
    if (needs_weight || needs_bias) {
      const at::Tensor maps = contiguous("input", input, at::kFloat, feature_format(is_nhwc));
      const at::Tensor weight_out =
          gradient_of(weight.sizes(), at::kFloat, feature_format(is_nhwc_weight(weight)));
      if (needs_bias) bias_grad = at::empty({weight.size(0)}, weight_out.options());
      vecdet::grouped_conv3x3_weight_grad(
          features_of<const float>(maps, is_nhwc), arriving_view, weight_view<float>(weight_out),
          needs_bias ? vector<float>(bias_grad) : vector_view<float>(), params, workspace,
          threads());
      if (needs_weight) weight_grad = weight_out;
    }
    return grads;
  });
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline at::Tensor grouped_conv3x3(const at::Tensor& input, const at::Tensor& weight,
                                  const optional_tensor& bias,
                                  const grouped_conv3x3_params& params) {
  return translated([&] {
    constexpr const char* function = "grouped_conv3x3";
    check_grouped_conv3x3(function, input, weight, bias);
    check(params.groups >= 1, function, "params.groups", params.groups, "1 or more");
    check(params.stride == 1 || params.stride == 2, function, "params.stride", params.stride,
          "1 or 2");
    check_shape(input.sym_size(1) == weight.sym_size(1) * params.groups, function, "input", input,
                "[images, params.groups x the weight's input channels, height, width]");
    const std::vector<c10::SymInt> sizes{input.sym_size(0), weight.sym_size(0),
                                         grouped_output_side(input.sym_size(2), params),
                                         grouped_output_side(input.sym_size(3), params)};
    return at::empty_symint(sizes, input.options(), feature_format(are_channels_last(input)));
  });
}

inline cpu::grouped_grads grouped_conv3x3_grad(const at::Tensor&, const at::Tensor& input,
                                               const at::Tensor& weight, std::int64_t, std::int64_t,
                                               bool needs_input, bool needs_weight,
                                               bool needs_bias) {
  const at::Tensor nothing = at::empty({0}, weight.options());
  return {needs_input ? at::empty_symint(input.sym_sizes(), input.options(),
                                         feature_format(are_channels_last(input)))
                      : nothing,
          needs_weight ? at::empty_symint(weight.sym_sizes(), weight.options(),
                                          feature_format(is_nhwc_weight(weight)))
                       : nothing,
          needs_bias ? at::empty_symint({weight.sym_size(0)}, weight.options()) : nothing};
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

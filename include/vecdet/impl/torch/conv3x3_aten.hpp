// SPDX-License-Identifier: Apache-2.0
// ATen's 3x3 convolution and its gradients, for tensors that vecdet does not convolve. Both take
// the same arguments; this header checks them.
#pragma once

#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Throws unless the shapes are those of a 3x3 convolution. Sizes may be symbolic.
inline void check_conv3x3(at::TensorList inputs, const at::Tensor& weight,
                          const optional_tensor& bias) {
  constexpr const char* function = "conv3x3";
  check(!inputs.empty(), function, "inputs.size()", 0, "1 or more levels");
  check_shape(weight.dim() == 4 && weight.sym_size(2) == 3 && weight.sym_size(3) == 3, function,
              "weight", weight, "[output channels, input channels, 3, 3]");
  for (const at::Tensor& input : inputs) {
    check_shape(input.dim() == 4 && input.sym_size(1) == weight.sym_size(1) &&
                    input.sym_size(0) == inputs[0].sym_size(0),
                function, "input", input,
                "[images, the weight's input channels, height, width], the same images on all "
                "levels");
  }
  if (bias.has_value() && bias->defined()) {
    check_shape(bias->dim() == 1 && bias->sym_size(0) == weight.sym_size(0), function, "bias",
                *bias, "[the weight's output channels]");
  }
}

/// Throws unless all tensors have one type. Weight and bias of bfloat16 maps may be float32.
inline void check_conv3x3_types(at::TensorList inputs, const at::Tensor& weight,
                                const optional_tensor& bias) {
  constexpr const char* function = "conv3x3";
  const at::ScalarType type = inputs[0].scalar_type();
  for (const at::Tensor& input : inputs) {
    check(input.scalar_type() == type, function, "input.dtype", c10::toString(input.scalar_type()),
          "one type on all levels");
  }
  const auto check_type = [&](const char* argument, const at::Tensor& tensor) {
    const bool is_bfloat16 = type == at::kBFloat16;
    check(tensor.scalar_type() == type || (is_bfloat16 && tensor.scalar_type() == at::kFloat),
          function, argument, c10::toString(tensor.scalar_type()),
          is_bfloat16 ? "bfloat16 or float32, because the input is bfloat16"
                      : "the type of the input");
  };
  check_type("weight.dtype", weight);
  if (bias.has_value() && bias->defined()) check_type("bias.dtype", *bias);
}

/// The type in which gradients of weight and bias are summed.
inline at::ScalarType summed_type(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kBFloat16 ? at::kFloat : parameter.scalar_type();
}

/// ATen's convolution of each level, called as in nn.Conv2d: autocast knows only conv2d().
inline std::vector<at::Tensor> aten_conv3x3(at::TensorList inputs, const at::Tensor& weight,
                                            const optional_tensor& bias, bool relu) {
  const at::ScalarType type = inputs[0].scalar_type();
  // Other types stay as they are: autocast converts them, or they are errors.
  const auto as_maps = [&](const at::Tensor& parameter) {
    return type == at::kBFloat16 && parameter.scalar_type() == at::kFloat ? parameter.to(type)
                                                                          : parameter;
  };
  const at::Tensor used_weight = as_maps(weight);
  const optional_tensor used_bias =
      bias.has_value() && bias->defined() ? optional_tensor(as_maps(*bias)) : optional_tensor();
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& input : inputs) {
    const at::Tensor output = at::conv2d(input, used_weight, used_bias, 1, 1);
    outputs.push_back(relu ? at::relu(output) : output);
  }
  return outputs;
}

using conv3x3_grads = std::tuple<std::vector<at::Tensor>, at::Tensor, at::Tensor>;

/// The gradients of aten_conv3x3(); see cpu::conv3x3_grad().
inline conv3x3_grads aten_conv3x3_grad(at::TensorList upstream, at::TensorList relu_outputs,
                                       at::TensorList inputs, const at::Tensor& weight,
                                       bool needs_inputs, bool needs_weight, bool needs_bias) {
  const at::Tensor nothing = at::empty({0}, weight.options());
  conv3x3_grads grads{{}, nothing, nothing};
  auto& [input_grads, weight_grad, bias_grad] = grads;
  const at::Tensor used_weight = weight.to(inputs[0].scalar_type());
  for (std::size_t l = 0; l < inputs.size(); ++l) {
    const at::Tensor arriving = relu_outputs.empty()
                                    ? upstream[l]
                                    : at::threshold_backward(upstream[l], relu_outputs[l], 0);
    const auto level_grads = at::convolution_backward(
        arriving, inputs[l], used_weight, at::IntArrayRef(weight.size(0)), {1, 1}, {1, 1}, {1, 1},
        false, {0, 0}, 1, std::array<bool, 3>{needs_inputs, needs_weight, needs_bias});
    if (needs_inputs) input_grads.push_back(std::get<0>(level_grads));
    const auto add = [&](at::Tensor& sum, const at::Tensor& term) {
      const at::Tensor wide = term.to(summed_type(weight));
      sum = l == 0 ? wide : sum + wide;
    };
    if (needs_weight) add(weight_grad, std::get<1>(level_grads));
    if (needs_bias) add(bias_grad, std::get<2>(level_grads));
  }
  weight_grad = weight_grad.to(weight.scalar_type());
  return grads;
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

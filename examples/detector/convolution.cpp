// SPDX-License-Identifier: Apache-2.0
#include "convolution.hpp"

#include <vecdet/torch.hpp>

#include <ATen/ATen.h>

namespace detector {

const char* name_of(convolution_kind kind) {
  return kind == convolution_kind::torch ? "torch" : "vecdet";
}

std::vector<at::Tensor> convolve(convolution_kind kind, const std::vector<at::Tensor>& levels,
                                 const torch::nn::Conv2dImpl& conv, const at::Tensor& weight,
                                 const at::Tensor& bias, bool relu) {
  const auto& stride = conv.options.stride();
  const bool fits = weight.size(2) == 3 && stride->front() == 1 && conv.options.groups() == 1;
  if (kind == convolution_kind::vecdet && fits)
    return vecdet::ops::conv3x3_levels(levels, weight, bias, relu);
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& level : levels) {
    outputs.push_back(
        at::conv2d(level, weight, bias, stride, weight.size(2) / 2, 1, conv.options.groups()));
    if (relu) outputs.back().relu_();
  }
  return outputs;
}

at::Tensor convolve(convolution_kind kind, const at::Tensor& x, const torch::nn::Conv2dImpl& conv,
                    bool relu) {
  return convolve(kind, {x}, conv, conv.weight, conv.bias, relu)[0];
}

}  // namespace detector

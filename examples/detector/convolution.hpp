// SPDX-License-Identifier: Apache-2.0
// The network's convolutions, by ATen or by vecdet.
#pragma once

#include "options.hpp"

#include <vector>

#include <torch/nn.h>

namespace detector {

/// For each level, the convolution with the module's stride, padding and groups, and max(result, 0)
/// with `relu`. convolution_kind::vecdet makes one call for all levels if vecdet can compute them.
std::vector<at::Tensor> convolve(convolution_kind kind, const std::vector<at::Tensor>& levels,
                                 const torch::nn::Conv2dImpl& conv, const at::Tensor& weight,
                                 const at::Tensor& bias, bool relu);

/// The same for one map, with the module's own weight and bias.
at::Tensor convolve(convolution_kind kind, const at::Tensor& x, const torch::nn::Conv2dImpl& conv,
                    bool relu = false);

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
// Grouped convolution of one image in NCHW: each row times each tap of the weights. Gradients are
// overwritten.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    void plain_grouped_conv3x3(const float* input, std::int64_t inputs, std::int64_t height,
                               std::int64_t width, const float* weights, const float* bias,
                               std::int64_t outputs, std::int64_t groups, std::int64_t stride,
                               float* output);
    void plain_grouped_conv3x3_input_grad(const float* upstream, std::int64_t inputs,
                                          std::int64_t height, std::int64_t width,
                                          const float* weights, std::int64_t outputs,
                                          std::int64_t groups, std::int64_t stride, float* grad);
    void plain_grouped_conv3x3_weight_grad(const float* input, std::int64_t inputs,
                                           std::int64_t height, std::int64_t width,
                                           const float* upstream, std::int64_t outputs,
                                           std::int64_t groups, std::int64_t stride,
                                           float* weight_grad, float* bias_grad);)

}  // namespace vecdet::bench

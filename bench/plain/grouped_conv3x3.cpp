// SPDX-License-Identifier: Apache-2.0
#include "grouped_conv3x3.hpp"

#include <algorithm>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Calls work(tap, from, to, count) for each output row and tap: the tap connects `count`
/// consecutive outputs, from `to` on, with inputs `stride` apart, from `from` on.
template <class Work>
inline void for_each_run(std::int64_t height, std::int64_t width, std::int64_t stride,
                         const Work& work) {
  const std::int64_t rows = (height + stride - 1) / stride, columns = (width + stride - 1) / stride;
  for (std::int64_t i = -1; i <= 1; ++i)
    for (std::int64_t j = -1; j <= 1; ++j)
      for (std::int64_t y = i < 0 ? 1 : 0; y < rows && y * stride + i < height; ++y) {
        const std::int64_t x = j < 0 ? 1 : 0;
        const std::int64_t end = std::min(columns, (width - j + stride - 1) / stride);
        work(3 * (i + 1) + j + 1, (y * stride + i) * width + x * stride + j, y * columns + x,
             end - x);
      }
}

/// Calls work(k, input channel, index of the weights) for each pair of channels.
template <class Work>
inline void for_each_pair(std::int64_t inputs, std::int64_t outputs, std::int64_t groups,
                          const Work& work) {
  const std::int64_t group_inputs = inputs / groups, group_outputs = outputs / groups;
  for (std::int64_t k = 0; k < outputs; ++k)
    for (std::int64_t c = 0; c < group_inputs; ++c)
      work(k, k / group_outputs * group_inputs + c, (k * group_inputs + c) * 9);
}

}  // namespace

void plain_grouped_conv3x3(const float* input, std::int64_t inputs, std::int64_t height,
                           std::int64_t width, const float* weights, const float* bias,
                           std::int64_t outputs, std::int64_t groups, std::int64_t stride,
                           float* output) {
  const std::int64_t size = height * width;
  const std::int64_t out_size = ((height + stride - 1) / stride) * ((width + stride - 1) / stride);
  for (std::int64_t k = 0; k < outputs; ++k)
    std::fill(output + k * out_size, output + (k + 1) * out_size, bias[k]);
  for_each_pair(inputs, outputs, groups, [&](std::int64_t k, std::int64_t c, std::int64_t at) {
    float* const out = output + k * out_size;
    const float* const in = input + c * size;
    for_each_run(height, width, stride,
                 [&](std::int64_t tap, std::int64_t from, std::int64_t to, std::int64_t count) {
                   for (std::int64_t x = 0; x < count; ++x)
                     out[to + x] += weights[at + tap] * in[from + x * stride];
                 });
  });
}

void plain_grouped_conv3x3_input_grad(const float* upstream, std::int64_t inputs,
                                      std::int64_t height, std::int64_t width, const float* weights,
                                      std::int64_t outputs, std::int64_t groups,
                                      std::int64_t stride, float* grad) {
  const std::int64_t size = height * width;
  const std::int64_t out_size = ((height + stride - 1) / stride) * ((width + stride - 1) / stride);
  std::fill(grad, grad + inputs * size, 0.0f);
  for_each_pair(inputs, outputs, groups, [&](std::int64_t k, std::int64_t c, std::int64_t at) {
    const float* const up = upstream + k * out_size;
    float* const out = grad + c * size;
    for_each_run(height, width, stride,
                 [&](std::int64_t tap, std::int64_t from, std::int64_t to, std::int64_t count) {
                   for (std::int64_t x = 0; x < count; ++x)
                     out[from + x * stride] += weights[at + tap] * up[to + x];
                 });
  });
}

void plain_grouped_conv3x3_weight_grad(const float* input, std::int64_t inputs, std::int64_t height,
                                       std::int64_t width, const float* upstream,
                                       std::int64_t outputs, std::int64_t groups,
                                       std::int64_t stride, float* weight_grad, float* bias_grad) {
  const std::int64_t size = height * width;
  const std::int64_t out_size = ((height + stride - 1) / stride) * ((width + stride - 1) / stride);
  for (std::int64_t k = 0; k < outputs; ++k) {
    float sum = 0;
    for (std::int64_t i = 0; i < out_size; ++i) sum += upstream[k * out_size + i];
    bias_grad[k] = sum;
  }
  for_each_pair(inputs, outputs, groups, [&](std::int64_t k, std::int64_t c, std::int64_t at) {
    const float* const up = upstream + k * out_size;
    const float* const in = input + c * size;
    std::fill(weight_grad + at, weight_grad + at + 9, 0.0f);
    for_each_run(height, width, stride,
                 [&](std::int64_t tap, std::int64_t from, std::int64_t to, std::int64_t count) {
                   float sum = 0;
                   for (std::int64_t x = 0; x < count; ++x)
                     sum += in[from + x * stride] * up[to + x];
                   weight_grad[at + tap] += sum;
                 });
  });
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET

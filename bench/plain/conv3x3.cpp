// SPDX-License-Identifier: Apache-2.0
#include "conv3x3.hpp"

#include <algorithm>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Calls work(tap, from, to, count) for each row and tap: the tap connects `count` consecutive
/// inputs, from `from` on, with as many outputs, from `to` on.
template <class Work>
inline void for_each_run(std::int64_t height, std::int64_t width, const Work& work) {
  for (std::int64_t i = -1; i <= 1; ++i)
    for (std::int64_t j = -1; j <= 1; ++j)
      for (std::int64_t y = std::max<std::int64_t>(0, -i); y < std::min(height, height - i); ++y) {
        const std::int64_t x = std::max<std::int64_t>(0, -j);
        work(3 * (i + 1) + j + 1, (y + i) * width + x + j, y * width + x,
             std::min(width, width - j) - x);
      }
}

}  // namespace

void plain_conv3x3(const float* input, std::int64_t inputs, std::int64_t height, std::int64_t width,
                   const float* weights, const float* bias, std::int64_t outputs, float* output) {
  const std::int64_t size = height * width;
  for (std::int64_t k = 0; k < outputs; ++k) {
    float* const out = output + k * size;
    std::fill(out, out + size, bias[k]);
    for (std::int64_t c = 0; c < inputs; ++c) {
      const float* const in = input + c * size;
      const float* const w = weights + (k * inputs + c) * 9;
      for_each_run(height, width,
                   [&](std::int64_t tap, std::int64_t from, std::int64_t to, std::int64_t count) {
                     for (std::int64_t x = 0; x < count; ++x) out[to + x] += w[tap] * in[from + x];
                   });
    }
  }
}

void plain_conv3x3_input_grad(const float* upstream, std::int64_t inputs, std::int64_t height,
                              std::int64_t width, const float* weights, std::int64_t outputs,
                              float* grad) {
  const std::int64_t size = height * width;
  std::fill(grad, grad + inputs * size, 0.0f);
  for (std::int64_t c = 0; c < inputs; ++c)
    for (std::int64_t k = 0; k < outputs; ++k) {
      const float* const w = weights + (k * inputs + c) * 9;
      for_each_run(height, width,
                   [&](std::int64_t tap, std::int64_t to, std::int64_t from, std::int64_t count) {
                     float* const out = grad + c * size + to;
                     const float* const in = upstream + k * size + from;
                     for (std::int64_t x = 0; x < count; ++x) out[x] += w[tap] * in[x];
                   });
    }
}

void plain_conv3x3_weight_grad(const float* input, std::int64_t inputs, std::int64_t height,
                               std::int64_t width, const float* upstream, std::int64_t outputs,
                               float* weight_grad, float* bias_grad) {
  const std::int64_t size = height * width;
  for (std::int64_t k = 0; k < outputs; ++k) {
    const float* const up = upstream + k * size;
    float sum = 0;
    for (std::int64_t i = 0; i < size; ++i) sum += up[i];
    bias_grad[k] = sum;
    for (std::int64_t c = 0; c < inputs; ++c) {
      const float* const in = input + c * size;
      float* const w = weight_grad + (k * inputs + c) * 9;
      std::fill(w, w + 9, 0.0f);
      for_each_run(height, width,
                   [&](std::int64_t tap, std::int64_t from, std::int64_t at, std::int64_t count) {
                     float product = 0;
                     for (std::int64_t x = 0; x < count; ++x) product += in[from + x] * up[at + x];
                     w[tap] += product;
                   });
    }
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET

// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions on tensors, and the memory that operators keep.
#include "support.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace {

using namespace torch_test;

Tensor aten_conv(const Tensor& input, const Tensor& weight, const Tensor& bias, bool relu) {
  const Tensor output = at::conv2d(input, weight, bias, 1, 1);
  return relu ? at::relu(output) : output;
}

}  // namespace

TEST_CASE("torch: conv3x3 has the outputs and gradients of at::conv2d") {
  at::manual_seed(1);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const bool relu : {false, true}) {
      for (const bool has_bias : {false, true}) {
        const Tensor input = at::randn({2, 24, 24, 19}).contiguous(format).requires_grad_();
        const Tensor weight = at::randn({40, 24, 3, 3}).mul_(0.1).requires_grad_();
        const Tensor bias = has_bias ? at::randn({40}).requires_grad_() : Tensor();
        const Tensor ours = ops::conv3x3(input, weight, bias, relu);
        const Tensor theirs = aten_conv(input, weight, bias, relu);
        CHECK(near(ours, theirs));
        CHECK(ours.is_contiguous(format));
        const Tensor upstream = at::randn_like(theirs);
        std::vector<Tensor> leaves{input, weight};
        if (has_bias) leaves.push_back(bias);
        const auto grads = torch::autograd::grad({ours}, leaves, {upstream});
        const auto expected = torch::autograd::grad({theirs}, leaves, {upstream});
        for (std::size_t i = 0; i < leaves.size(); ++i) CHECK(near(grads[i], expected[i]));
      }
    }
  }
}

TEST_CASE("torch: conv3x3_levels equals conv3x3 of each level, without copies") {
  at::manual_seed(2);
  const Tensor weight = at::randn({32, 32, 3, 3}).mul_(0.1), bias = at::randn({32});
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    std::vector<Tensor> inputs, outputs;
    for (const std::int64_t side : {20, 14, 12})
      inputs.push_back(at::randn({1, 32, side, side + 1}).contiguous(format));
    CHECK(copies([&] { outputs = ops::conv3x3_levels(inputs, weight, bias, true); }) == 0);
    for (std::size_t l = 0; l < inputs.size(); ++l)
      CHECK(at::equal(outputs[l], ops::conv3x3(inputs[l], weight, bias, true)));
  }
}

TEST_CASE("torch: free_cached_memory() frees the memory of gradients and transformed weights") {
  ops::free_cached_memory();
  {
    const Tensor logits = at::randn({1 << 16, 8}).requires_grad_();
    ops::sigmoid_focal_loss(logits, at::zeros({1 << 16}, at::kLong), 0.25, 2, sum).backward();
  }
  CHECK(ops::free_cached_memory() == (1 << 16) * 8 * 4);
  const Tensor weight = at::randn({32, 32, 3, 3});
  const Tensor output = ops::conv3x3(at::randn({1, 32, 20, 20}), weight);
  CHECK(ops::free_cached_memory() >= 36 * 32 * 32 * 4);
  CHECK(ops::free_cached_memory() == 0);
}

TEST_CASE("torch: conv3x3 refuses shapes that differ") {
  const Tensor input = at::randn({1, 16, 9, 9}), weight = at::randn({16, 16, 3, 3});
  CHECK(error_of([&] { ops::conv3x3(input[0], weight); }).find("conv3x3: input.shape") !=
        std::string::npos);
  CHECK(error_of([&] {
          ops::conv3x3(input, at::randn({16, 16, 3, 5}));
        }).find("conv3x3: weight.shape") != std::string::npos);
  CHECK(error_of([&] {
          ops::conv3x3(input, weight, at::randn({3}));
        }).find("conv3x3: bias.shape") != std::string::npos);
}

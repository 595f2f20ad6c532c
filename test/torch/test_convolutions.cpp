// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions on tensors, and the memory that operators keep.
#include "support.hpp"
#include <vecdet/impl/torch/fingerprint.hpp>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace {

using namespace torch_test;

Tensor aten_conv(const Tensor& input, const Tensor& weight, const Tensor& bias, bool relu) {
  const Tensor output = at::conv2d(input, weight, bias, 1, 1);
  return relu ? at::relu(output) : output;
}

using values = std::vector<float>;

std::uint64_t fingerprint(const values& of) {
  return vecdet::detail::aten::fingerprint_key::get()(of.data(), of.size());
}

/// Normal numbers, one of them 0. The last block is not full.
values some_values() {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  values made(1001);
  for (float& value : made) value = normal(random);
  made[77] = 0;
  return made;
}

}  // namespace

TEST_CASE("torch: fingerprints of weights distinguish changes of one, two and three values") {
  values of = some_values();
  std::unordered_set<std::uint64_t> seen{fingerprint(of)};
  std::size_t changes = 1;
  const auto look = [&] {
    seen.insert(fingerprint(of));
    ++changes;
  };
  const auto flip = [&](std::size_t i) { of[i] = -of[i]; };
  const auto next = [&](std::size_t i, float to) { of[i] = std::nextafter(of[i], to); };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::size_t count = of.size();
  for (std::size_t i = 0; i < count; ++i) {
    flip(i);  // also of the 0
    look();
    for (std::size_t j = i + 1; j < std::min(count, i + 70); ++j) {
      flip(j);
      look();
      if (j + 1 < count && j < i + 20) {
        flip(j + 1);
        look();
        flip(j + 1);
      }
      flip(j);
    }
    flip(i);
    const float before = of[i];
    for (const float to : {-infinity, infinity}) {
      next(i, to);
      look();
      if (i + 1 < count) {  // the neighbour by as much, and by the opposite
        const float neighbour = of[i + 1];
        for (const float its : {-infinity, infinity}) {
          next(i + 1, its);
          look();
          of[i + 1] = neighbour;
        }
      }
      of[i] = before;
    }
    for (std::size_t j = i + 1; j < std::min(count, i + 40); ++j) {  // exchanged
      std::swap(of[i], of[j]);
      look();
      std::swap(of[i], of[j]);
    }
  }
  for (std::size_t first = 1; first + 8 < count; ++first) {  // every second value from here on
    for (std::size_t i = first; i < count; i += 2) flip(i);
    look();
    for (std::size_t i = first; i < count; i += 2) flip(i);
  }
  CHECK(seen.size() == changes);
}

TEST_CASE("torch: no search among flipped signs makes the fingerprints of weights alike") {
  const values of = some_values();
  const std::uint64_t fixed = fingerprint(of);
  std::size_t least = 64;
  // From one flipped sign, flips the pair of signs after which the fewest bits differ, again and
  // again.
  for (std::size_t begin = 100; begin < 140; ++begin) {
    constexpr std::size_t near = 24;
    values flipped = of;
    const auto flip = [&](std::size_t i) { flipped[i] = -flipped[i]; };
    const auto bits = [&] { return std::bitset<64>(fixed ^ fingerprint(flipped)).count(); };
    flip(begin + near / 2);
    for (std::size_t best = bits(), before = 65; best < before;) {
      before = best;
      std::pair<std::size_t, std::size_t> chosen;
      for (std::size_t i = begin; i < begin + near; ++i) {
        for (std::size_t j = begin; j < i; ++j) {
          flip(i);
          flip(j);
          if (flipped != of && bits() < best) {
            best = bits();
            chosen = {i, j};
          }
          flip(i);
          flip(j);
        }
      }
      if (best < before) {
        flip(chosen.first);
        flip(chosen.second);
      }
    }
    least = std::min<std::size_t>(least, bits());
  }
  // Of as many random words, the least has about 13 of 64 bits set.
  CHECK(least > 6);
}

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

// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions on tensors, and the memory that operators keep.
#include "support.hpp"
#include <vecdet/impl/torch/conv3x3_rule.hpp>
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

constexpr std::uint32_t bit(int n) { return std::uint32_t{1} << n; }

/// A simulated processor with x86-64-v4 and AMX.
struct amx_cpu {
  std::uint32_t instructions = bit(22) | bit(24);  // of leaf 7, edx: AMX-BF16, AMX-TILE
  std::uint32_t saved = 0x600e7;                   // XCR0: with the tiles and their configuration
  std::uint32_t v4 = ~0u;

  vecdet::detail::cpuid_registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) const {
    if (leaf == 7 && subleaf == 0) return {0, v4, 0, instructions};
    return {0, 0, leaf == 1 || leaf == 0x80000001u ? ~0u : 0, 0};
  }
  std::uint32_t xgetbv() const { return saved; }
};

/// Whether the bfloat16 numbers are the exact ones, rounded, except for float's error.
bool is_rounded(const Tensor& found, const Tensor& exact) {
  const Tensor error = (found.to(at::kDouble) - exact).abs() - exact.abs() / 256;
  return error.max().item<double>() <= 1e-5 * exact.abs().max().item<double>();
}

}  // namespace

TEST_CASE("torch: AMX needs its instructions, registers that are saved, and oneDNN's consent") {
  using vecdet::detail::aten::detect_amx_bfloat16;
  CHECK(detect_amx_bfloat16(amx_cpu{}));
  for (const int n : {22, 24}) {
    amx_cpu cpu;
    cpu.instructions &= ~bit(n);
    CHECK_FALSE(detect_amx_bfloat16(cpu));
  }
  for (const int n : {1, 5, 17, 18}) {
    amx_cpu cpu;
    cpu.saved &= ~bit(n);
    CHECK_FALSE(detect_amx_bfloat16(cpu));
  }
  amx_cpu without_avx512;
  without_avx512.v4 = 0;
  CHECK_FALSE(detect_amx_bfloat16(without_avx512));

  using vecdet::detail::aten::is_amx_within;
  for (const char* limit : {"", "ALL", "DEFAULT", "unknown", "AVX512_CORE_AMX", "avx10_1_512_amx"})
    CHECK(is_amx_within(limit));
  CHECK(is_amx_within(nullptr));
  for (const char* limit : {"SSE41", "avx2", "AVX512_CORE", "AVX512_CORE_BF16", "avx10_1_512"})
    CHECK_FALSE(is_amx_within(limit));
}

TEST_CASE("torch: the rule for 3x3 convolutions of bfloat16") {
  using vecdet::detail::aten::filled_locations;
  using vecdet::detail::aten::is_bfloat16_conv3x3_faster;
  for (const bool transforms : {false, true}) {
    CHECK(is_bfloat16_conv3x3_faster(false, 256, 256, 10000, transforms));
    CHECK_FALSE(is_bfloat16_conv3x3_faster(true, 256, 256, 10000, transforms));
    CHECK_FALSE(is_bfloat16_conv3x3_faster(false, 3, 64, 10000, transforms));
    CHECK_FALSE(is_bfloat16_conv3x3_faster(false, 64, 15, 10000, transforms));
  }
  CHECK(filled_locations(3, 8, 20) == 480);
  CHECK(filled_locations(1, 14, 8) == 14 * 8 * 14.0 / 16);
  CHECK(filled_locations(2, 1, 1) == 2 / 16.0);
  CHECK(filled_locations(1, 0, 9) == 0);
  struct limit {
    vecdet::index_t inputs, outputs;
    double training, inference;
  };
  // The least filled locations.
  for (const limit& each :
       {limit{16, 16, 36, 36}, limit{64, 64, 36, 36}, limit{128, 16, 400, 36},
        limit{128, 128, 400, 36}, limit{64, 129, 768, 320}, limit{512, 512, 768, 320}}) {
    for (const bool transforms : {false, true}) {
      const double least = transforms ? each.training : each.inference;
      const auto is_faster = [&](double filled) {
        return is_bfloat16_conv3x3_faster(false, each.inputs, each.outputs, filled, transforms);
      };
      CHECK(is_faster(least));
      CHECK_FALSE(is_faster(least - 0.1));
    }
  }
  const auto choose = [](at::ScalarType type, at::IntArrayRef sizes) {
    const Tensor weight = at::empty({128, 128, 3, 3});
    return vecdet::detail::aten::is_conv3x3_faster({at::empty(sizes, type)}, weight, true);
  };
  const bool is_ours = !vecdet::detail::aten::onednn_has_amx();
  CHECK(choose(at::kBFloat16, {1, 128, 20, 20}) == is_ours);
  CHECK_FALSE(choose(at::kBFloat16, {1, 128, 20, 21}));  // fills less of its tiles
  CHECK_FALSE(choose(at::kFloat, {1, 128, 20, 31}));
  CHECK(choose(at::kFloat, {1, 128, 20, 32}));
}

TEST_CASE("torch: conv3x3 of bfloat16, also under autocast, is that in float, rounded") {
  at::manual_seed(6);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const bool is_cast : {false, true}) {
      const Tensor input = at::randn({2, 24, 34, 19}).to(at::kBFloat16).contiguous(format);
      const Tensor given =
          (is_cast ? input.to(at::kFloat) : input.detach().clone()).requires_grad_();
      const Tensor weight = at::randn({40, 24, 3, 3}).mul_(0.1).requires_grad_();
      const Tensor bias = at::randn({40}).requires_grad_();
      const auto convolve = [&] { return ops::conv3x3(given, weight, bias, true); };
      const Tensor output = is_cast ? [&] { const autocast enabled; return convolve(); }()
                                    : convolve();
      const auto exact = [](const Tensor& tensor) {
        return tensor.detach().to(at::kDouble).requires_grad_();
      };
      const Tensor x = exact(input), w = exact(weight), b = exact(bias);
      const Tensor expected = aten_conv(x, w, b, true);
      CHECK((output.scalar_type() == at::kBFloat16));
      CHECK(output.is_contiguous(format));
      const bool is_ours = !vecdet::detail::aten::onednn_has_amx();
      if (is_ours) CHECK(is_rounded(output, expected));
      const Tensor upstream = at::randn_like(output);
      const auto grads = torch::autograd::grad({output}, {given, weight, bias}, {upstream});
      CHECK((grads[0].scalar_type() == given.scalar_type()));
      CHECK((grads[1].scalar_type() == at::kFloat));
      CHECK((grads[2].scalar_type() == at::kFloat));
      if (!is_ours) continue;
      const Tensor arriving = upstream.to(at::kDouble) * (output > 0);
      const auto exact_grads =
          torch::autograd::grad({aten_conv(x, w, b, false)}, {x, w, b}, {arriving});
      CHECK(is_rounded(grads[0], exact_grads[0]));
      for (const std::size_t i : {1u, 2u}) CHECK(near(grads[i], exact_grads[i].to(at::kFloat)));
    }
  }
}

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

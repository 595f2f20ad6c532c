// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution and its gradients against the reference: sizes around tiles and vectors, layouts,
// blocks, instruction sets; NaN and infinity; threads. test_conv3x3_bounds.cpp attacks the error
// bounds.
#include "support/check_affected.hpp"
#include "support/conv_problem.hpp"
#include "support/isa.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;
constexpr auto f4x4 = conv3x3_tile::f4x4, f2x2 = conv3x3_tile::f2x2;

template <class T>
double largest_difference(const std::vector<T>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = off <= worst ? worst : off;  // a NaN stays
  }
  return worst;
}

/// The tolerance on normally distributed numbers, relative to the standard deviation of a sum of as
/// many products.
template <class T>
double tolerance(conv3x3_tile tile) {
  return std::is_same<T, double>::value ? 1e-13 : tile == f4x4 ? 2.5e-5 : 4e-6;
}
double deviation(index_t products) { return std::sqrt(static_cast<double>(products)); }

template <class T>
void check_against(const conv_results<T>& actual, const conv_results<double>& exact,
                   const conv_problem<T>& p) {
  const double allowed = tolerance<T>(p.tile);
  const index_t locations = p.images * p.height * p.width;
  CHECK(largest_difference(actual.output, exact.output) <= allowed * deviation(9 * p.inputs + 1));
  CHECK(largest_difference(actual.input_grad, exact.input_grad) <=
        allowed * deviation(9 * p.outputs));
  // Rounding errors grow with the number of tiles that are summed.
  const index_t tile = p.tile == f4x4 ? 4 : 2, tiles = locations / (tile * tile);
  const double chain = std::max(1.0, deviation(tiles) / 16);
  CHECK(largest_difference(actual.weight_grad, exact.weight_grad) <=
        allowed * chain * deviation(locations));
  CHECK(largest_difference(actual.bias_grad, exact.bias_grad) <= 1e-6 * deviation(locations));
}

/// Every instruction set against the exact results, and AVX-512 bit by bit against AVX2.
template <class T>
void check_problem(const conv_problem<T>& p) {
  INFO(p.name());
  check_on_every_isa([&] { return p.run(); },
                     [&](const conv_results<T>& actual) {
                       // The mask comes from the computed outputs: near 0, their sign may differ
                       // from that of the exact ones.
                       check_against(actual, p.exact(actual.output), p);
                     });
}

template <class T = float>
conv_problem<T> problem(index_t images, index_t inputs, index_t height, index_t width,
                        index_t outputs) {
  return conv_problem<T>({images, inputs, height, width, outputs});
}

/// Problems whose transformed weights take more than 4 MiB, with more than 48 tiles: on few
/// threads, blocks are larger.
std::vector<conv_problem<float>> problems_of_large_blocks() {
  std::vector<conv_problem<float>> problems{problem(1, 256, 44, 44, 288),
                                            problem(1, 256, 22, 22, 288)};
  problems[0].tile = f4x4;
  problems[1].tile = f2x2;
  for (auto& p : problems) p.make(9);
  return problems;
}

#if defined(__linux__)
/// The flags of the mapping in which `address` is; empty without /proc.
std::string flags_of_mapping(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream mappings("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(mappings, line);) {
    std::uintptr_t first = 0, last = 0;
    char dash = 0;
    if (std::istringstream(line) >> std::hex >> first >> dash >> last && dash == '-')
      inside = first <= at && at < last;
    else if (inside && line.rfind("VmFlags:", 0) == 0)
      return line;
  }
  return "";
}
#endif

/// The bytes of a workspace's memory for conv3x3() and conv3x3_input_grad().
std::size_t scratch_bytes(conv3x3_workspace& workspace) {
  const auto& buffers = detail::workspace_access::buffers(workspace);
  return 64 * (buffers.scratch.capacity() + buffers.shared.capacity());
}

}  // namespace

TEST_CASE("3x3 convolution: heights and widths from 1 to 20") {
  for (index_t height = 1; height <= 20; height += under_sanitizer ? 4 : 1)
    for (index_t width = 1; width <= 20; ++width) {
      conv_problem<float> p = problem(1, 3, height, width, 2);
      p.input_layout = width % 2 == 0 ? nhwc : nchw;
      p.output_layout = height % 2 == 0 ? nhwc : nchw;
      p.relu = (height + width) % 3 == 0;
      p.make(static_cast<std::uint64_t>(100 * height + width));
      for (const conv3x3_tile tile : {f4x4, f2x2}) {
        p.tile = tile;
        check_problem(p);
      }
    }
}

TEST_CASE("3x3 convolution: channels from 1 to 70") {
  for (index_t channels = 1; channels <= 70; channels += under_sanitizer ? 5 : 1) {
    conv_problem<float> p = problem(1 + channels % 2, channels, 5, 5, (73 - channels) / 2);
    p.tile = channels % 4 < 2 ? f4x4 : f2x2;
    p.relu = channels % 3 == 0;
    p.has_bias = channels % 5 != 0;
    p.make(static_cast<std::uint64_t>(channels));
    for (const feature_layout layout : {nchw, nhwc}) {
      p.input_layout = p.output_layout = p.weight_layout = layout;
      check_problem(p);
    }
  }
}

TEST_CASE("3x3 convolution: more channels and tiles than a block") {
  for (const auto& p :
       {problem(1, 530, 6, 7, 5), problem(1, 3, 5, 9, 530), problem(1, 270, 3, 3, 270),
        problem(2, 3, 90, 100, 2), problem(1, 2, 4, 300, 3)})
    for (const conv3x3_tile tile : {f4x4, f2x2}) {
      conv_problem<float> of = p;
      of.tile = tile;
      of.make(static_cast<std::uint64_t>(of.inputs + of.width));
      check_problem(of);
    }
}

TEST_CASE("3x3 convolution: blocks of more than 48 tiles") {
  // Two output channels, in different blocks, and two input channels: all would take seconds.
  const index_t first_output = 255, first_input = 253, count = 2;
  for (const auto& p : problems_of_large_blocks()) {
    INFO(p.name());
    const index_t area = p.height * p.width;
    const feature_view<const float> upstream = p.out(p.upstream.data());
    const feature_view<const float> row(p.weights.data() + first_output * p.inputs * 9, count,
                                        p.inputs, 3, 3, nchw);
    std::vector<float> some_weights;
    for (index_t k = 0; k < p.outputs; ++k) {
      const auto from = p.weights.begin() + (k * p.inputs + first_input) * 9;
      some_weights.insert(some_weights.end(), from, from + count * 9);
    }
    const auto sized = [](index_t size) {
      return std::vector<double>(static_cast<std::size_t>(size));
    };
    auto output = sized(count * area), input_grad = sized(count * area),
         weight_grad = sized(count * count * 9);
    reference::conv3x3(p.in(p.input.data()), row,
                       vector_view<const float>(p.bias.data() + first_output, count), false,
                       {output.data(), 1, count, p.height, p.width, nchw});
    reference::conv3x3_input_grad(
        upstream, {}, feature_view<const float>(some_weights.data(), p.outputs, count, 3, 3, nchw),
        {input_grad.data(), 1, count, p.height, p.width, nchw});
    reference::conv3x3_weight_grad(
        feature_view<const float>(p.input.data() + first_input * area, 1, count, p.height, p.width,
                                  nchw),
        feature_view<const float>(p.upstream.data() + first_output * area, 1, count, p.height,
                                  p.width, nchw),
        {}, {weight_grad.data(), count, count, 3, 3, nchw}, {});
    const auto part = [](const std::vector<float>& of, index_t first, index_t size) {
      return std::vector<float>(of.begin() + first, of.begin() + first + size);
    };
    const double allowed = tolerance<float>(p.tile);
    for_each_isa([&](isa) {
      const auto actual = p.run();
      CHECK(largest_difference(part(actual.output, first_output * area, count * area), output) <=
            allowed * deviation(9 * p.inputs + 1));
      CHECK(largest_difference(part(actual.input_grad, first_input * area, count * area),
                               input_grad) <= allowed * deviation(9 * p.outputs));
      std::vector<float> some_grads;
      for (index_t k = first_output; k < first_output + count; ++k) {
        const auto grads = part(actual.weight_grad, (k * p.inputs + first_input) * 9, count * 9);
        some_grads.insert(some_grads.end(), grads.begin(), grads.end());
      }
      CHECK(largest_difference(some_grads, weight_grad) <= allowed * deviation(area));
    });
  }
}

TEST_CASE("3x3 convolution: the workspace is as small as documented") {
  const std::size_t mib = std::size_t{1024} * 1024;
  const auto run = [](const conv_problem<float>& p, conv3x3_workspace& workspace,
                      threading policy) {
    const std::vector<float> x(static_cast<std::size_t>(p.inputs * p.height * p.width));
    const std::vector<float> w(static_cast<std::size_t>(9 * p.inputs * p.outputs));
    std::vector<float> y(static_cast<std::size_t>(p.outputs * p.height * p.width));
    conv3x3(p.in(x.data()), conv3x3_weights<float>(p.kernel(w.data())), p.out(y.data()), {},
            workspace, policy);
  };
  // One block of the largest size per thread.
  const std::pair<index_t, std::size_t> tiles_and_mib[] = {
      {98, 8}, {98, 8}, {65, 8}, {49, 4}, {48, 4}};
  int threads = 0;
  for (const auto& [tiles, bound] : tiles_and_mib) {
    ++threads;
    conv3x3_workspace workspace;
    run(problem(1, 256, 4, 4 * tiles * threads, 256), workspace, threading::on(in_turn, threads));
    CHECK(scratch_bytes(workspace) <= static_cast<std::size_t>(threads) * bound * mib);
  }
  // Fewer tiles: threads share them.
  for (const int many : {3, 28, 128}) {
    CAPTURE(many);
    conv3x3_workspace workspace, past_cache;
    run(problem(1, 256, 4, 4 * 27 * many, 256), workspace, threading::on(in_turn, many));
    CHECK(scratch_bytes(workspace) <= static_cast<std::size_t>(many) * 4 * mib);
    run(problem(1, 928, 4, 4 * many, 256), past_cache, threading::on(in_turn, many));
    CHECK(scratch_bytes(past_cache) <= static_cast<std::size_t>(many) * 12 * mib);
  }
  // As many tiles as a pass has.
  for (const int many : {28, 128}) {
    conv3x3_workspace full;
    const index_t in_pass =
        detail::conv_pass_bytes(4 * 36 * 256 * 256, detail::filtering_of(f4x4), 8, many) /
        (36 * (detail::conv_row(256) + 256) * 4);
    run(problem(1, 256, 4, 4 * in_pass, 256), full, threading::on(in_turn, many));
    CHECK(scratch_bytes(full) <= static_cast<std::size_t>(many) * 4 * mib);
    CHECK(scratch_bytes(full) > static_cast<std::size_t>(many) * 4 * mib - 2 * mib);
  }
  conv3x3_workspace large, grown;
  run(problem(1, 256, 4, 4 * 144, 928), large, threading::sequential);
  CHECK(scratch_bytes(large) <= 12 * mib);
  // Weights below 4 MiB. The second call needs little more than the first.
  run(problem(1, 128, 4, 4 * 40, 224), grown, threading::sequential);
  run(problem(1, 128, 4, 4 * 48, 224), grown, threading::sequential);
  CHECK(scratch_bytes(grown) <= 4 * mib);
}

#if defined(__linux__)
TEST_CASE("3x3 convolution: large workspaces request huge pages") {
  static_assert(detail::madv_hugepage == MADV_HUGEPAGE, "the header has the number itself");
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) return;
  detail::aligned_vector<detail::cache_line> memory;
  detail::grown_in_huge_pages(memory, index_t{1} << 18);
  const std::string flags = flags_of_mapping(memory.data() + memory.capacity() / 2);
  if (flags.empty()) return;
  CHECK(flags.find(" hg") != std::string::npos);
}
#endif

TEST_CASE("3x3 convolution: double is exact") {
  for (const feature_layout layout : {nchw, nhwc})
    for (const bool relu : {false, true}) {
      conv_problem<double> p = problem<double>(2, 7, 6, 9, 35);
      p.input_layout = p.weight_layout = layout;
      p.output_layout = relu ? layout : nchw;
      p.relu = relu;
      p.make(1);
      check_problem(p);
    }
}

TEST_CASE("3x3 convolution: all layouts give the same bits") {
  conv_problem<float> p = problem(2, 37, 11, 18, 41);
  p.relu = true;
  p.make(2);
  for_each_isa([&](isa) {
    p.input_layout = p.output_layout = p.weight_layout = nchw;
    const auto expected = p.run();
    for (const feature_layout input : {nchw, nhwc})
      for (const feature_layout output : {nchw, nhwc})
        for (const feature_layout weights : {nchw, nhwc}) {
          p.input_layout = input;
          p.output_layout = output;
          p.weight_layout = weights;
          CHECK((p.run() == expected));
        }
  });
}

TEST_CASE("3x3 convolution: accuracy at 256 channels after a ReLU") {
  conv_problem<float> p = problem(1, 256, 12, 12, 24);
  p.has_bias = false;
  p.make(4);
  for (float& x : p.input) x = std::max(x, 0.0f);
  for (float& w : p.weights) w *= static_cast<float>(std::sqrt(2.0 / (9 * 256)));
  const auto exact = p.exact({});
  double mean = 0;
  for (const double y : exact.output)
    mean += std::abs(y) / static_cast<double>(exact.output.size());
  for_each_isa([&](isa) {
    p.tile = f4x4;
    CHECK(largest_difference(p.run().output, exact.output) < 2.5e-5 * mean);
    p.tile = f2x2;
    CHECK(largest_difference(p.run().output, exact.output) < 4e-6 * mean);
  });
}

TEST_CASE("3x3 convolution: NaN and infinity affect the documented outputs, and no others") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  // The first and last locations of tiles and of the map, and others.
  for (const conv3x3_tile tile : {f4x4, f2x2})
    for (const index_t at_y : {0, 3, 4, 6, 10})
      for (const index_t at_x : {0, 5, 7, 8, 12}) {
        conv_problem<float> p = problem(2, 5, 11, 13, 3);
        p.tile = tile;
        p.make(5);
        const index_t t = tile == f4x4 ? 4 : 2;
        const float special = (at_y + at_x) % 2 == 0 ? nan : at_y % 4 == 0 ? infinity : -infinity;
        const auto row_is_affected = [&](index_t of, index_t at) {
          return of / t == at / t || std::abs(of - at) <= 1;
        };
        const auto reached = [&](index_t n, index_t, index_t y, index_t x) {
          return n == 1 && row_is_affected(y, at_y) && row_is_affected(x, at_x);
        };
        const auto inputs = p.in<const float>(p.input.data()),
                   outputs = p.out<const float>(p.upstream.data()),
                   kernel = p.kernel<const float>(p.weights.data());
        for_each_isa([&](isa) {
          const auto before = p.run();
          conv_problem<float> q = p;
          q.input[static_cast<std::size_t>(((1 * 5 + 2) * 11 + at_y) * 13 + at_x)] = special;
          auto after = q.run();
          check_affected(before.output, after.output, outputs, reached);
          CHECK(same_bits(after.input_grad, before.input_grad));
          const auto of_input = [](index_t, index_t c, index_t, index_t) { return c == 2; };
          const auto of_output = [](index_t k, index_t, index_t, index_t) { return k == 1; };
          check_affected(before.weight_grad, after.weight_grad, kernel, of_input);
          q = p;
          q.upstream[static_cast<std::size_t>(((1 * 3 + 1) * 11 + at_y) * 13 + at_x)] = special;
          after = q.run();
          check_affected(before.input_grad, after.input_grad, inputs, reached);
          check_affected(before.weight_grad, after.weight_grad, kernel, of_output);
          q = p;
          q.weights[static_cast<std::size_t>((1 * 5 + 2) * 9 + at_y % 3 * 3 + at_x % 3)] = special;
          after = q.run();
          check_affected(before.output, after.output, outputs,
                         [](index_t, index_t k, index_t, index_t) { return k == 1; });
          check_affected(before.input_grad, after.input_grad, inputs, of_input);
        });
      }
}

TEST_CASE("3x3 convolution: large numbers overflow") {
  conv_problem<float> p = problem(1, 1, 4, 4, 1);
  p.has_bias = false;
  p.make(7);
  std::fill(p.weights.begin(), p.weights.end(), 0.0f);
  for_each_isa([&](isa) {
    std::fill(p.input.begin(), p.input.end(), 6e36f);
    for (const float y : p.run().output) CHECK(y == 0);
    std::fill(p.input.begin(), p.input.end(), 0.0f);
    p.input[2 * 4 + 2] = 3e38f;  // overflows in the transform; 0 times infinity is NaN
    bool has_nan = false;
    for (const float y : p.run().output) has_nan = has_nan || std::isnan(y);
    CHECK(has_nan);
  });
}

TEST_CASE("3x3 convolution: ReLU keeps NaN, and masked gradients are 0") {
  conv_problem<float> p = problem(1, 3, 6, 6, 4);
  p.relu = true;
  p.make(6);
  for_each_isa([&](isa) {
    conv_problem<float> q = p;
    q.bias[1] = std::numeric_limits<float>::quiet_NaN();
    const auto spoiled = q.run();
    for (std::size_t i = 0; i < spoiled.output.size(); ++i) {
      if (i / 36 == 1) CHECK(std::isnan(spoiled.output[i]));
      if (i / 36 != 1) CHECK(spoiled.output[i] >= 0);
    }
    // relu(-infinity) is 0.
    q.bias[1] = -std::numeric_limits<float>::infinity();
    const auto low = q.run().output;
    for (std::size_t i = 36; i < 72; ++i) CHECK(low[i] == 0);
    // Output 1 is not above 0 anywhere.
    CHECK(spoiled.bias_grad[1] == 0);
    for (std::size_t i = 0; i < 27; ++i) CHECK(spoiled.weight_grad[27 + i] == 0);
    // If the output is 0, the gradient counts as 0, even if it is NaN.
    const auto before = p.run();
    q = p;
    for (std::size_t i = 0; i < q.upstream.size(); ++i)
      if (before.output[i] == 0) q.upstream[i] = std::numeric_limits<float>::quiet_NaN();
    CHECK((q.run() == before));
  });
}

TEST_CASE("3x3 convolution: the same bits on any number of threads, for many channels") {
  for (const auto& shape : {problem(1, 40, 33, 47, 70), problem(1, 300, 5, 6, 300)})
    for (const feature_layout layout : {nchw, nhwc}) {
      conv_problem<float> p = shape;
      p.input_layout = p.output_layout = layout;
      p.relu = true;
      p.make(7);
      const auto expected = p.run();
      for_each_policy([&](threading policy) {
        p.policy = policy;
        CHECK((p.run() == expected));
      });
    }
}

TEST_CASE("3x3 convolution: passes of tiles that threads share give the same bits") {
  conv_problem<float> p = problem(1, 1200, 40, 80, 40);
  p.make(7);
  const auto filtering = detail::filtering_of(f4x4);
  const detail::conv3x3_blocks blocks(
      10 * 20, p.inputs, p.outputs,
      detail::conv_weights_bytes<float>(filtering, p.outputs, p.inputs), filtering, 8);
  CHECK(blocks.passes > 1);
  const auto expected = p.run();
  for (const int threads : {8, 28}) {
    p.policy = threading::on(backwards, threads);
    CHECK((p.run() == expected));
  }
}

TEST_CASE("3x3 convolution: tasks of some panels give the same bits") {
  // On two threads, no pass has room for the tiles; on three, the input has few channels.
  for (const index_t threads : {2, 3}) {
    conv_problem<float> p =
        threads == 2 ? problem(1, 1560, 24, 24, 128) : problem(1, 16, 25, 25, 1200);
    p.make(7);
    const auto filtering = detail::filtering_of(f4x4);
    const index_t bytes = detail::conv_weights_bytes<float>(filtering, p.outputs, p.inputs);
    const detail::conv3x3_blocks blocks(threads == 2 ? 6 * 6 : 7 * 7, p.inputs, p.outputs, bytes,
                                        filtering, threads);
    CHECK(blocks.passes == 0);
    CHECK(blocks.panel_parts == threads);
    const auto expected = p.run();
    p.policy = threading::on(backwards, static_cast<int>(threads));
    CHECK((p.run() == expected));
  }
}

TEST_CASE("3x3 convolution: every thread of a socket has work") {
  // The share of the threads' time that tasks or products of equal speed fill.
  const auto busy = [](const detail::conv3x3_blocks& blocks, index_t threads) {
    const bool shares = blocks.passes > 0;
    const index_t tiles = shares ? blocks.most_in_pass() : blocks.most_tiles();
    const index_t parts = shares ? blocks.product_parts : 1;
    const index_t items = shares ? 36 * blocks.panels * parts : blocks.count();
    const index_t all = shares ? 36 * blocks.panels * blocks.tiles : blocks.tiles;
    CHECK(blocks.panel_parts == 1);
    const index_t turns = (items + threads - 1) / threads * std::max(index_t{1}, blocks.passes);
    return static_cast<double>(all) /
           static_cast<double>(turns * ((tiles + parts - 1) / parts) * threads);
  };
  for (const index_t channels : {64, 128, 256, 512})
    for (const index_t tiles : {49, 169, 625, 2500}) {
      if (channels * tiles < 16000) continue;  // little work
      CAPTURE(channels);
      CAPTURE(tiles);
      const auto filtering = detail::filtering_of(f4x4);
      const index_t bytes = detail::conv_weights_bytes<float>(filtering, channels, channels);
      const detail::conv3x3_blocks on_28(tiles, channels, channels, bytes, filtering, 28);
      CHECK(busy(on_28, 28) >= 0.95);
      const detail::conv3x3_blocks on_128(tiles, channels, channels, bytes, filtering, 128);
      CHECK(busy(on_128, 128) >= 0.95);
    }
}

TEST_CASE("3x3 convolution: the same bits in blocks of any size") {
  for (auto& p : problems_of_large_blocks()) {
    INFO(p.name());
    const auto expected = p.run();
    // Blocks of 61 tiles on two threads, 41 on three and 31 on four. With more threads than 9
    // (f2x2: 4), the weight gradient's panels are divided too.
    for (const int threads : {2, 3, 4, 20, 64}) {
      p.policy = threading::on(in_turn, threads);
      CHECK((p.run() == expected));
    }
  }
}

TEST_CASE("3x3 convolution: weights serve every instruction set, and are copied and moved") {
  conv_problem<float> p = problem(1, 20, 9, 9, 50);
  p.make(8);
  const feature_view<const float> x = p.in(p.input.data()), w = p.kernel(p.weights.data());
  std::vector<std::vector<float>> all;
  conv3x3_weights<float> first;
  for_each_isa([&](isa set) {
    if (set == isa::baseline) return;
    if (all.empty()) first.assign(w);
    for (const conv3x3_weights<float>& weights :
         {first, conv3x3_weights<float>(w), conv3x3_weights<float>(conv3x3_weights<float>(w))}) {
      std::vector<float> y(p.upstream.size());
      conv3x3_workspace workspace;
      conv3x3(x, weights, p.out(y.data()), {}, workspace);
      all.push_back(y);
    }
  });
  for (const auto& y : all) CHECK(same_bits(y, all[0]));
}

// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution with stride 2 by minimal filtering, and its gradients, against the reference
// within the documented error bounds: channels, sizes around tiles, layouts, instruction sets,
// threads; attacks on the bounds; NaN and infinity; the rule that chooses it.
#include "support/check_affected.hpp"
#include "support/grouped_conv_problem.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;

using grouped_problem = grouped_conv_problem<>;

grouped_problem problem_of(index_t images, index_t inputs, index_t outputs, index_t height,
                           index_t width, std::uint64_t seed) {
  grouped_problem p({images, inputs, height, width, outputs, 1, 2});
  p.make(seed);
  return p;
}

/// Every instruction set against the exact results, and AVX-512 bit by bit against AVX2.
void check_problem(const grouped_problem& p) {
  INFO(p.name());
  REQUIRE(p.is_filtered());
  const auto exact = p.exact(), sizes = p.sizes();
  check_on_every_isa([&] { return p.run(); },
                     [&](const conv_results<float>& actual) {
                       CHECK(p.errors(actual, exact, sizes).worst() <= 1);
                     });
}

}  // namespace

TEST_CASE("3x3 convolution with stride 2: channels") {
  std::uint64_t seed = 0;
  for (const auto& [inputs, outputs] : std::vector<std::pair<index_t, index_t>>{
           {16, 16}, {17, 33}, {31, 16}, {64, 70}, {16, 300}, {300, 16}, {530, 17}}) {
    grouped_problem p = problem_of(1, inputs, outputs, 51, 55, ++seed);
    p.input_layout = seed % 2 == 0 ? nhwc : nchw;
    p.output_layout = seed % 4 < 2 ? nhwc : nchw;
    p.weight_layout = seed % 3 == 0 ? nhwc : nchw;
    check_problem(p);
  }
}

TEST_CASE("3x3 convolution with stride 2: heights and widths around tiles") {
  std::uint64_t seed = 100;
  for (index_t width = 1; width <= 34; width += under_sanitizer ? 11 : 1) {
    const index_t height = 1 + 7 * width % 18, columns = (width + 1) / 2, rows = (height + 1) / 2;
    grouped_problem p =
        problem_of((400 + rows * columns - 1) / (rows * columns), 16, 18, height, width, ++seed);
    p.has_bias = width % 3 != 0;
    p.make(seed);
    p.input_layout = p.output_layout = width % 2 == 0 ? nhwc : nchw;
    check_problem(p);
  }
  for (const auto& [height, width] :
       std::vector<std::pair<index_t, index_t>>{{1, 1300}, {1300, 2}, {7, 400}})
    check_problem(problem_of(1, 16, 16, height, width, ++seed));
}

TEST_CASE("3x3 convolution with stride 2: all layouts give the same bits") {
  grouped_problem p = problem_of(2, 19, 35, 41, 43, 7);
  REQUIRE(p.is_filtered());
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

TEST_CASE("3x3 convolution with stride 2: the same bits on any number of threads") {
  for (const auto& [inputs, outputs, side] : std::vector<std::array<index_t, 3>>{{16, 16, 51},
                                                                                 {40, 70, 97},
                                                                                 {300, 64, 52},
                                                                                 {20, 290, 60},
                                                                                 {530, 70, 42},
                                                                                 {300, 290, 44}}) {
    grouped_problem p = problem_of(1, inputs, outputs, side, side + 3, 8);
    REQUIRE(p.is_filtered());
    const auto expected = p.run();
    for_each_policy([&](threading policy) {
      p.policy = policy;
      CHECK((p.run() == expected));
    });
  }
}

TEST_CASE("3x3 convolution with stride 2: attacks do not break the error bounds") {
  // Hill climbing on the signs and sizes of the first tile's numbers, for each result on its own.
  // Other numbers are zeros, so that sums are short and errors are large relative to M.
  struct attacked {
    const char* name;
    double grouped_conv_errors::*error;
    double least;  ///< that the search finds, in units of 2^-23 M
  };
  for (const attacked& result :
       {attacked{"output", &grouped_conv_errors::output, 30},
        attacked{"input gradient", &grouped_conv_errors::input_grad, 20},
        attacked{"weight gradient", &grouped_conv_errors::weight_grad, 40}}) {
    CAPTURE(result.name);
    random_generator random(11);
    grouped_problem p = problem_of(1, 16, 16, 40, 40, 9);
    REQUIRE(p.is_filtered());
    const auto keep = [](std::vector<float>& values, index_t side, index_t last) {
      for (index_t i = 0; i < static_cast<index_t>(values.size()); ++i)
        if (i >= side * side || i % side > last || i / side > last)
          values[static_cast<std::size_t>(i)] = 0;
    };
    keep(p.input, 40, 7);
    keep(p.upstream, 20, result.error == &grouped_conv_errors::weight_grad ? 3 : 4);
    keep(p.weights, 3, 2);
    std::fill(p.bias.begin(), p.bias.end(), 0.0f);
    double worst = p.errors(p.run()).*result.error;
    const auto change = [&](std::vector<float>& values) {
      std::vector<float*> used;
      for (float& v : values)
        if (v != 0) used.push_back(&v);
      float& v = *used[static_cast<std::size_t>(random.below(static_cast<index_t>(used.size())))];
      const float size = 1 - static_cast<float>(random.below(64)) * 0x1p-24f;
      v = random.chance(0.5) ? size : -size;
    };
    for (int step = 0; step < (under_sanitizer ? 10 : 150); ++step) {
      grouped_problem q = p;
      for (int n = 0; n < (step == 0 ? 400 : 1 + static_cast<int>(random.below(3))); ++n) {
        if (result.error != &grouped_conv_errors::input_grad) change(q.input);
        if (result.error != &grouped_conv_errors::output) change(q.upstream);
        if (result.error != &grouped_conv_errors::weight_grad) change(q.weights);
      }
      const double error = q.errors(q.run()).*result.error;
      if (step > 0 && !(error > worst)) continue;
      worst = error;
      p = q;
    }
    CHECK(p.errors(p.run()).worst() <= 1);
    if (!under_sanitizer) CHECK(worst * p.bounds().*result.error >= 2 * result.least);
  }
}

TEST_CASE("3x3 convolution with stride 2: NaN and infinity stay in the documented results") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const index_t at : {0, 7, 8, 15, 23, 52}) {
    grouped_problem p = problem_of(1, 17, 20, 53, 54, 9);
    REQUIRE(p.is_filtered());
    p.input_layout = at % 2 == 0 ? nhwc : nchw;
    const grouped_conv_shape planes = p.with_layout(nchw);
    const index_t at_y = at, at_x = 53 - at, input = 3, output = 18;
    const float special = at % 3 == 0 ? nan : infinity;
    for_each_isa([&](isa) {
      const auto before = p.run();
      const auto reads = [](index_t of, index_t source) { return std::abs(2 * of - source) <= 1; };
      const auto tile_reads = [](index_t of, index_t source) {
        const index_t first = of / 4 * 8 - 1;
        return source >= first && source < first + 9;
      };
      grouped_problem q = p;
      q.input[static_cast<std::size_t>((input * p.height + at_y) * p.width + at_x)] = special;
      auto after = q.run();
      check_affected(
          before.output, after.output, planes.out<const float>(p.upstream.data()),
          [&](index_t, index_t, index_t y, index_t x) { return reads(y, at_y) && reads(x, at_x); },
          [&](index_t, index_t, index_t y, index_t x) {
            return tile_reads(y, at_y) && tile_reads(x, at_x);
          });
      CHECK(same_bits(after.input_grad, before.input_grad));
      const auto has_tap = [](index_t tap, index_t source) { return (source + tap) % 2 == 1; };
      check_affected(
          before.weight_grad, after.weight_grad, planes.kernel<const float>(p.weights.data()),
          [&](index_t, index_t c, index_t i, index_t j) {
            const auto has_output = [](index_t tap, index_t source, index_t outputs) {
              const index_t of = source + 1 - tap;
              return of >= 0 && of % 2 == 0 && of / 2 < outputs;
            };
            return c == input && has_output(i, at_y, p.output_height()) &&
                   has_output(j, at_x, p.output_width());
          },
          [&](index_t, index_t c, index_t i, index_t j) {
            return c == input && has_tap(i, at_y) && has_tap(j, at_x);
          });
      CHECK(same_bits(after.bias_grad, before.bias_grad));
      q = p;
      const index_t y = at_y / 2, x = at_x / 2;
      q.upstream[static_cast<std::size_t>((output * p.output_height() + y) * p.output_width() +
                                          x)] = special;
      after = q.run();
      check_affected(
          before.input_grad, after.input_grad, planes.in<const float>(p.input.data()),
          [&](index_t, index_t, index_t row, index_t column) {
            return reads(y, row) && reads(x, column);
          },
          [&](index_t, index_t, index_t row, index_t column) {
            const auto tile = [](index_t source, index_t of) {
              const index_t first = source / 8 * 4;
              return of >= first && of < first + 5;
            };
            return tile(row, y) && tile(column, x);
          });
      const auto of_channel = [&](index_t k, index_t, index_t, index_t) { return k == output; };
      check_affected(before.weight_grad, after.weight_grad,
                     planes.kernel<const float>(p.weights.data()), of_channel);
      const auto of_bias = [&](index_t, index_t k, index_t, index_t) { return k == output; };
      check_affected(before.bias_grad, after.bias_grad,
                     {before.bias_grad.data(), 1, p.outputs, 1, 1, nchw}, of_bias);
      for (const index_t tap : {0, 4, 5, 8}) {
        q = p;
        q.weights[static_cast<std::size_t>((output * p.inputs + input) * 9 + tap)] = special;
        after = q.run();
        check_affected(before.output, after.output, planes.out<const float>(p.upstream.data()),
                       of_bias);
        const auto has = [&](index_t, index_t c, index_t row, index_t column) {
          return c == input && has_tap(tap / 3, row) && has_tap(tap % 3, column);
        };
        check_affected(before.input_grad, after.input_grad, planes.in<const float>(p.input.data()),
                       has);
      }
    });
  }
}

TEST_CASE("3x3 convolution with stride 2: the rule that chooses minimal filtering") {
  const auto chooses = [](index_t groups, index_t stride, index_t inputs, index_t outputs,
                          index_t locations) {
    grouped_conv3x3_params params;
    params.groups = groups;
    params.stride = stride;
    return detail::is_filtered_stride2(params, inputs, outputs, locations);
  };
  CHECK(chooses(1, 2, 16, 16, 400));
  CHECK_FALSE(chooses(2, 2, 16, 16, 400));
  CHECK_FALSE(chooses(1, 1, 16, 16, 400));
  CHECK_FALSE(chooses(1, 2, 15, 16, 400));
  CHECK_FALSE(chooses(1, 2, 16, 15, 400));
  CHECK_FALSE(chooses(1, 2, 16, 16, 399));
  // Numbers whose transform overflows tell the two ways apart.
  const float huge = 2e38f;
  for (const index_t images : {3, 4}) {
    grouped_problem p = problem_of(images, 16, 16, 31, 15, 10);
    std::fill(p.input.begin(), p.input.end(), 0.0f);
    std::fill(p.weights.begin(), p.weights.end(), 0.0f);
    p.input[2 * 15 + 1] = p.input[2 * 15 + 5] = huge;
    for_each_isa([&](isa) {
      bool overflows = false;
      for (const float y : p.run().output) overflows |= !std::isfinite(y);
      CHECK(overflows == (images == 4));
      CHECK(overflows == p.is_filtered());
    });
  }
}

TEST_CASE("3x3 convolution with stride 2: the workspace is as small as documented") {
  const std::size_t mib = std::size_t{1024} * 1024;
  for (const auto& [inputs, outputs, side] : std::vector<std::array<index_t, 3>>{
           {16, 16, 52}, {16, 96, 52}, {64, 128, 160}, {256, 512, 56}, {300, 300, 80}})
    for (const int threads : {1, 3}) {
      grouped_problem p = problem_of(1, inputs, outputs, side, side, 1);
      REQUIRE(p.is_filtered());
      const auto up32 = [](index_t n) { return static_cast<std::size_t>((n + 31) / 32 * 32); };
      const auto weights = [&](index_t from, index_t to) {
        return 4 * 36 * up32(to) * static_cast<std::size_t>(from) + mib / 64;
      };
      const threading policy = threading::on(in_turn, threads);
      grouped_conv3x3_workspace forward, backward, weight_grad;
      const auto bytes = [](grouped_conv3x3_workspace& workspace) {
        const auto& buffers = detail::workspace_access::buffers(workspace);
        return 64 *
               (buffers.weights.capacity() + buffers.sums.capacity() + buffers.scratch.capacity() +
                buffers.filtering.scratch.capacity() + buffers.filtering.shared.capacity());
      };
      conv_results<float> results = p.room();
      p.forward(results, forward, policy);
      p.backward_input(results, backward, policy);
      p.backward_weight(results, weight_grad, policy);
      const std::size_t scratch = static_cast<std::size_t>(threads) * mib * 17;
      CHECK(bytes(forward) <= weights(inputs, outputs) + scratch);
      CHECK(bytes(backward) <= weights(outputs, inputs) + scratch);
      CHECK(bytes(weight_grad) <= 28 * mib);
    }
}

// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution and its gradients, computed directly, against the reference, within the
// documented error bounds: kinds of groups, strides, sizes around tiles and vectors, layouts,
// instruction sets; attacks on the bounds; NaN and infinity; threads; and every documented error.
// test_conv3x3_stride2.cpp tests minimal filtering.
#include "support/check_affected.hpp"
#include "support/grouped_conv_problem.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/grouped_conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;

using grouped_problem = grouped_conv_problem<>;

/// Every instruction set against the exact results, and AVX-512 bit by bit against AVX2.
void check_problem(const grouped_problem& p) {
  INFO(p.name());
  const auto exact = p.exact(), sizes = p.sizes();
  check_on_every_isa([&] { return p.run(); },
                     [&](const conv_results<float>& actual) {
                       CHECK(p.errors(actual, exact, sizes).worst() <= 1);
                     });
}

/// Groups x input channels x output channels of a group: all kinds.
const std::vector<std::vector<index_t>> all_groups = {
    {1, 4, 4},  {4, 4, 4},   {7, 4, 4},   {2, 8, 8},   {5, 8, 8},   {1, 1, 1},  {1, 3, 18},
    {1, 35, 2}, {3, 16, 16}, {2, 32, 16}, {2, 16, 48}, {1, 17, 33}, {2, 32, 32}};

grouped_problem problem_of(const std::vector<index_t>& groups, index_t images, index_t height,
                           index_t width, index_t stride) {
  return grouped_problem(
      {images, groups[0] * groups[1], height, width, groups[0] * groups[2], groups[0], stride});
}

}  // namespace

TEST_CASE("grouped convolution: kinds of groups, heights and widths, in all layouts") {
  std::uint64_t seed = 0;
  for (const auto& groups : all_groups)
    for (const index_t stride : {1, 2})
      for (index_t width = 1; width <= 26; width += under_sanitizer ? 5 : 1) {
        grouped_problem p = problem_of(groups, 1 + width % 2, 1 + (5 * width) % 11, width, stride);
        p.has_bias = width % 3 != 0;
        p.input_layout = width % 2 == 0 ? nhwc : nchw;
        p.output_layout = width % 4 < 2 ? nhwc : nchw;
        p.weight_layout = width % 8 < 4 ? nhwc : nchw;
        p.make(++seed);
        check_problem(p);
      }
}

TEST_CASE("grouped convolution: several tiles and parts") {
  for (const auto& groups : all_groups)
    for (const index_t stride : {1, 2}) {
      // The second is small enough to be computed directly for any groups.
      for (grouped_problem p :
           {problem_of(groups, 2, 19, 107, stride), problem_of(groups, 1, 11, 107, stride)}) {
        p.make(static_cast<std::uint64_t>(groups[1]));
        check_problem(p);
      }
    }
  // So many channels that tiles are smaller.
  for (const index_t stride : {1, 2}) {
    grouped_problem p = problem_of({1, 530, 20}, 1, 9, 21, stride);
    p.make(3);
    check_problem(p);
    std::swap(p.inputs, p.outputs);
    p.make(4);
    check_problem(p);
  }
}

TEST_CASE("grouped convolution: channels from 1 to 40 in one group") {
  for (index_t channels = 1; channels <= 40; channels += under_sanitizer ? 7 : 1) {
    grouped_problem p = problem_of({1, channels, 41 - channels}, 1, 5, 6, 1 + channels % 2);
    p.make(static_cast<std::uint64_t>(channels));
    for (const feature_layout layout : {nchw, nhwc}) {
      p.input_layout = p.output_layout = p.weight_layout = layout;
      check_problem(p);
    }
  }
}

TEST_CASE("grouped convolution: all layouts give the same bits") {
  for (const auto& groups : all_groups)
    for (const index_t stride : {1, 2}) {
      grouped_problem p = problem_of(groups, 2, 7, 19, stride);
      p.make(5);
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
}

TEST_CASE("grouped convolution: the same bits on any number of threads") {
  for (const auto& groups : all_groups)
    for (const feature_layout layout : {nchw, nhwc}) {
      grouped_problem p =
          layout == nchw ? problem_of(groups, 2, 33, 50, 1) : problem_of(groups, 2, 19, 35, 2);
      p.input_layout = p.output_layout = layout;
      p.make(6);
      const auto expected = p.run();
      for_each_policy([&](threading policy) {
        p.policy = policy;
        CHECK((p.run() == expected));
      });
    }
}

TEST_CASE("grouped convolution: attacks do not break the error bounds") {
  // Hill climbing over the numbers' last bits, signs and magnitudes, for each result on its own.
  struct attacked {
    const char* name;
    double grouped_conv_errors::*error;
  };
  const attacked results[] = {{"output", &grouped_conv_errors::output},
                              {"input gradient", &grouped_conv_errors::input_grad},
                              {"weight gradient", &grouped_conv_errors::weight_grad},
                              {"bias gradient", &grouped_conv_errors::bias_grad}};
  for (const auto& groups : {std::vector<index_t>{2, 4, 4}, std::vector<index_t>{1, 1, 1}})
    for (const attacked& result : results) {
      CAPTURE(result.name);
      random_generator random(11);
      grouped_problem p = problem_of(groups, 1, 3, 5, 1);
      p.make(8);
      double worst = p.errors(p.run()).*result.error;
      for (int step = 0; step < (under_sanitizer ? 50 : 600); ++step) {
        grouped_problem q = p;
        for (std::vector<float>* values : {&q.input, &q.weights, &q.bias, &q.upstream}) {
          float& v = (*values)[static_cast<std::size_t>(
              random.below(static_cast<index_t>(values->size())))];
          v = static_cast<float>(static_cast<double>(v) *
                                 (random.chance(0.2) ? -1 : random.uniform(0.5, 2)));
        }
        const double error = q.errors(q.run()).*result.error;
        if (!(error > worst)) continue;
        worst = error;
        p = q;
      }
      CHECK(worst > 0);
      CHECK(worst <= 1);
    }
}

TEST_CASE("grouped convolution: numbers that are rounded up throughout come near the bounds") {
  // Each sum begins with 1, and each further product is rounded up from a little more than half the
  // last place of 1.
  const float little = 0x1p-24f * (1 + 0x1p-9f);
  const auto fill = [](std::vector<float>& values, float with) {
    std::fill(values.begin(), values.end(), with);
  };
  for (const index_t stride : {1, 2}) {
    CAPTURE(stride);
    grouped_problem output = problem_of({1, 444, 1}, 1, 4, 4, stride);
    output.make(1);
    fill(output.input, 1);
    fill(output.weights, little);
    fill(output.bias, 1);
    // A sum for the input begins with the first output that reads it. With stride 2, at most four
    // outputs do.
    grouped_problem input_grad = problem_of({1, 1, 444}, 1, 4, 4, stride);
    input_grad.make(1);
    fill(input_grad.upstream, 1);
    fill(input_grad.weights, little);
    input_grad.weights[8] = 1;
    // Four tiles of 8 x 48, of which the first one has the 1: larger tiles would break the bound.
    grouped_problem weight_grad = problem_of({1, 1, 1}, 1, 16 * stride, 96 * stride, stride);
    weight_grad.make(1);
    fill(weight_grad.input, 1);
    fill(weight_grad.upstream, little);
    weight_grad.upstream[0] = 1;
    for_each_isa([&](isa) {
      const double of_output = output.errors(output.run()).output;
      CHECK(of_output > 0.997);
      CHECK(of_output <= 1);
      const double of_input_grad = input_grad.errors(input_grad.run()).input_grad;
      CHECK(of_input_grad > (stride == 1 ? 0.997 : 0.44));
      CHECK(of_input_grad <= 1);
      const double of_weight_grad = weight_grad.errors(weight_grad.run()).weight_grad;
      CHECK(of_weight_grad > 0.986);
      CHECK(of_weight_grad <= 1);
    });
  }
}

TEST_CASE("grouped convolution: NaN and infinity affect the documented results, and no others") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const auto& groups : {std::vector<index_t>{3, 4, 4}, std::vector<index_t>{2, 8, 8},
                             std::vector<index_t>{2, 16, 32}, std::vector<index_t>{1, 5, 3}})
    for (const index_t stride : {1, 2})
      for (const index_t at_x : {0, 7, 16, 17, 19, 20}) {
        grouped_problem p = problem_of(groups, 2, 5, 21, stride);
        p.input_layout = at_x % 2 == 0 ? nhwc : nchw;
        p.make(9);
        INFO(p.name());
        const grouped_conv_shape planes = p.with_layout(nchw);
        const index_t at_y = at_x % 5, special_group = p.groups - 1;
        const float special = at_x % 3 == 0 ? nan : infinity;
        for_each_isa([&](isa) {
          const auto before = p.run();
          // An input: the outputs that read it, and the weights of the taps by which they do.
          const auto reads = [&](index_t of, index_t at) {
            return std::abs(of * p.stride - at) <= 1;
          };
          grouped_problem q = p;
          const index_t input = p.inputs - 1, output = p.outputs - 1;
          q.input[static_cast<std::size_t>(((p.inputs + input) * p.height + at_y) * p.width +
                                           at_x)] = special;
          auto after = q.run();
          check_affected(before.output, after.output, planes.out<const float>(p.upstream.data()),
                         [&](index_t n, index_t k, index_t y, index_t x) {
                           return n == 1 && k / p.group_outputs() == special_group &&
                                  reads(y, at_y) && reads(x, at_x);
                         });
          CHECK(same_bits(after.input_grad, before.input_grad));
          const auto reads_by = [&](index_t tap, index_t at, index_t outputs) {
            const index_t of = at + 1 - tap;
            return of >= 0 && of % p.stride == 0 && of / p.stride < outputs;
          };
          check_affected(
              before.weight_grad, after.weight_grad, planes.kernel<const float>(p.weights.data()),
              [&](index_t k, index_t c, index_t i, index_t j) {
                return k / p.group_outputs() == special_group && c == p.group_inputs() - 1 &&
                       reads_by(i, at_y, p.output_height()) && reads_by(j, at_x, p.output_width());
              });
          CHECK(same_bits(after.bias_grad, before.bias_grad));
          // An upstream gradient: the gradients of the inputs that its output reads, and those of
          // all weights and the bias of its channel.
          q = p;
          const index_t y = at_y / stride, x = at_x / stride;
          q.upstream[static_cast<std::size_t>(
              ((p.outputs + output) * p.output_height() + y) * p.output_width() + x)] = special;
          after = q.run();
          check_affected(before.input_grad, after.input_grad,
                         planes.in<const float>(p.input.data()),
                         [&](index_t n, index_t c, index_t row, index_t column) {
                           return n == 1 && c / p.group_inputs() == special_group &&
                                  reads(y, row) && reads(x, column);
                         });
          check_affected(before.weight_grad, after.weight_grad,
                         planes.kernel<const float>(p.weights.data()),
                         [&](index_t k, index_t, index_t, index_t) { return k == output; });
          check_affected(before.bias_grad, after.bias_grad,
                         {before.bias_grad.data(), 1, p.outputs, 1, 1, nchw},
                         [&](index_t, index_t k, index_t, index_t) { return k == output; });
          // A weight: its output channel, and the gradients of the inputs that its tap can read.
          for (const index_t tap : {0, 4, 5, 8}) {
            q = p;
            q.weights[static_cast<std::size_t>(output * p.group_inputs() * 9 + tap)] = special;
            after = q.run();
            check_affected(before.output, after.output, planes.out<const float>(p.upstream.data()),
                           [&](index_t, index_t k, index_t, index_t) { return k == output; });
            check_affected(before.input_grad, after.input_grad,
                           planes.in<const float>(p.input.data()),
                           [&](index_t, index_t c, index_t row, index_t column) {
                             return c == special_group * p.group_inputs() &&
                                    (p.stride == 1 ||
                                     ((row + tap / 3) % 2 == 1 && (column + tap % 3) % 2 == 1));
                           });
          }
        });
      }
}

TEST_CASE("grouped convolution: empty maps and channels") {
  for (const std::vector<index_t>& shape :
       {std::vector<index_t>{0, 3, 4}, std::vector<index_t>{1, 0, 4},
        std::vector<index_t>{2, 3, 0}}) {
    grouped_problem p = problem_of({2, 4, 4}, shape[0], shape[1], shape[2], 2);
    p.make(1);
    for_each_isa([&](isa) {
      const auto r = p.run();
      for (const float g : r.weight_grad) CHECK(g == 0);
      for (const float g : r.bias_grad) CHECK(g == 0);
    });
  }
  // Without inputs, outputs are the bias, and the bias has a gradient.
  grouped_problem p = problem_of({1, 0, 3}, 1, 2, 5, 1);
  p.make(2);
  check_problem(p);
  p = problem_of({1, 3, 0}, 1, 2, 5, 1);
  p.make(2);
  check_problem(p);
}

TEST_CASE("grouped convolution: the workspace is as small as documented") {
  const std::size_t mib = std::size_t{1024} * 1024;
  for (const auto& groups : {std::vector<index_t>{32, 4, 4}, std::vector<index_t>{3, 32, 48},
                             std::vector<index_t>{1, 592, 16}, std::vector<index_t>{1, 3, 20}})
    for (const index_t stride : {1, 2})
      for (const int threads : {1, 3}) {
        grouped_problem p =
            stride == 1 ? problem_of(groups, 1, 40, 100, 1) : problem_of(groups, 1, 24, 64, 2);
        p.make(1);
        const auto up16 = [](index_t n) { return static_cast<std::size_t>((n + 15) / 16 * 16); };
        const std::size_t weights = 4 * 9 *
                                    std::max(up16(p.outputs) * up16(p.group_inputs()),
                                             up16(p.inputs) * up16(p.group_outputs()));
        const threading policy = threading::on(in_turn, threads);
        grouped_conv3x3_workspace forward, backward, weight_grad;
        const auto bytes = [](grouped_conv3x3_workspace& workspace) {
          const auto& buffers = detail::workspace_access::buffers(workspace);
          return 64 * (buffers.weights.capacity() + buffers.sums.capacity() +
                       buffers.scratch.capacity());
        };
        conv_results<float> results = p.room();
        p.forward(results, forward, policy);
        p.backward_input(results, backward, policy);
        p.backward_weight(results, weight_grad, policy);
        const std::size_t scratch = static_cast<std::size_t>(threads) * mib / 2;
        CHECK(bytes(forward) <= weights + scratch);
        CHECK(bytes(backward) <= weights + scratch);
        CHECK(bytes(weight_grad) <= 2 * weights + scratch + mib * 12 / 10);
      }
}

TEST_CASE("grouped convolution: errors name what is wrong, and nothing is written") {
  std::vector<float> x(4096, 1), w(4096, 1), b(64, 1), y(4096, 7), gx(4096, 7), gw(4096, 7),
      gb(64, 7);
  grouped_conv3x3_workspace workspace;
  const auto view = [](auto& data, index_t n, index_t c, index_t height, index_t width) {
    return feature_view<float>(data.data(), n, c, height, width, nchw);
  };
  grouped_conv3x3_params two;
  two.groups = 2;
  const auto rejects = [&](const auto& call, const std::string& text) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(text.c_str()), std::invalid_argument);
    for (const auto* values : {&y, &gx, &gw, &gb})
      for (const float v : *values) CHECK(v == 7);
  };
  const auto forward = [&](feature_view<float> input, feature_view<float> weights,
                           feature_view<float> output, const grouped_conv3x3_params& params,
                           index_t bias = 0) {
    return [=, &b, &workspace] {
      grouped_conv3x3(input, weights, vector_view<const float>(b.data(), bias), output, params,
                      workspace);
    };
  };
  const auto input = view(x, 1, 8, 3, 5), weights = view(w, 8, 4, 3, 3),
             output = view(y, 1, 8, 3, 5);
  const auto with = [&](index_t groups, index_t stride) {
    grouped_conv3x3_params params;
    params.groups = groups;
    params.stride = stride;
    return params;
  };
  rejects(forward(input, weights, output, with(0, 1)),
          "vecdet::grouped_conv3x3: params.groups is 0, expected 1 or more");
  rejects(forward(input, weights, output, with(2, 3)), "params.stride is 3, expected 1 or 2");
  rejects(forward(input, view(w, 7, 4, 3, 3), output, two),
          "weights.images() is 7, expected a multiple of params.groups");
  rejects(forward(view(x, 1, 7, 3, 5), weights, output, two),
          "input.channels() is 7, expected a multiple of params.groups");
  rejects(forward(input, view(w, 8, 3, 3, 3), output, two),
          "weights.channels() is 3, expected 4, the channels of a group of input");
  rejects(forward(input, view(w, 8, 4, 2, 3), output, two), "weights.height() is 2, expected 3");
  rejects(forward(input, view(w, 8, 4, 3, 1), output, two), "weights.width() is 1, expected 3");
  rejects(forward(view(x, 1, 4, 3, 5), view(w, 4, 2, 3, 3), view(y, 1, 4, 3, 5), two),
          "params.groups is 2, expected 1, or groups with 4 or 8 input and output channels, or "
          "multiples of 16; a group has 2 and 2 channels");
  rejects(forward(input, weights, view(y, 2, 8, 3, 5), two),
          "output.images() is 2, expected 1, the number of images of input");
  rejects(forward(input, weights, view(y, 1, 9, 3, 5), two),
          "output.channels() is 9, expected 8, the number of output channels of weights");
  rejects(forward(input, weights, view(y, 1, 8, 3, 5), with(2, 2)),
          "output.height() is 3, expected 2, the height of input by the stride, rounded up");
  rejects(forward(input, weights, view(y, 1, 8, 2, 5), with(2, 2)),
          "output.width() is 5, expected 3, the width of input by the stride, rounded up");
  rejects(forward(input, weights, output, two, 7),
          "bias.size() is 7, expected 0 or 8, the number of output channels of the weights");
  rejects(forward(view(y, 1, 8, 3, 5), weights, output, two),
          "output is in the memory of input, expected separate memory");
  rejects(forward(input, view(y, 8, 4, 3, 3), output, two), "output is in the memory of weights");
  rejects(
      [&] {
        grouped_conv3x3(input, weights, vector_view<const float>(y.data(), 8), output, two,
                        workspace);
      },
      "output is in the memory of bias");
  rejects(
      [&] {
        grouped_conv3x3_input_grad(view(x, 1, 8, 3, 4), weights, view(gx, 1, 8, 3, 5), two,
                                   workspace);
      },
      "vecdet::grouped_conv3x3_input_grad: upstream.width() is 4, expected 5, the width of grad by "
      "the stride, rounded up");
  rejects(
      [&] {
        grouped_conv3x3_input_grad(view(gx, 1, 8, 3, 5), weights, view(gx, 1, 8, 3, 5), two,
                                   workspace);
      },
      "grad is in the memory of upstream");
  rejects(
      [&] {
        grouped_conv3x3_input_grad(input, view(gx, 8, 4, 3, 3), view(gx, 1, 8, 3, 5), two,
                                   workspace);
      },
      "grad is in the memory of weights");
  const auto weight_grad = [&](feature_view<float> in, feature_view<float> up,
                               feature_view<float> to, vector_view<float> bias) {
    return [=, &workspace] { grouped_conv3x3_weight_grad(in, up, to, bias, two, workspace); };
  };
  const auto to = view(gw, 8, 4, 3, 3);
  const vector_view<float> none, all(gb.data(), 8);
  rejects(weight_grad(input, input, view(gw, 8, 2, 3, 3), none),
          "vecdet::grouped_conv3x3_weight_grad: weight_grad.channels() is 2, expected 4");
  rejects(weight_grad(input, input, to, vector_view<float>(gb.data(), 3)),
          "bias_grad.size() is 3, expected 0 or 8");
  rejects(weight_grad(view(gw, 1, 8, 3, 5), input, to, none),
          "weight_grad is in the memory of input");
  rejects(weight_grad(input, view(gw, 1, 8, 3, 5), to, none),
          "weight_grad is in the memory of upstream");
  rejects(weight_grad(view(gb, 1, 8, 1, 1), view(x, 1, 8, 1, 1), to, all),
          "bias_grad is in the memory of input");
  rejects(weight_grad(view(x, 1, 8, 1, 1), view(gb, 1, 8, 1, 1), to, all),
          "bias_grad is in the memory of upstream");
  rejects(weight_grad(input, input, to, vector_view<float>(gw.data(), 8)),
          "weight_grad is in the memory of bias_grad");
}

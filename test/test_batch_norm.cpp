// SPDX-License-Identifier: Apache-2.0
// Batch normalisation and its gradient against the reference within the stated bounds: activations,
// layouts, channels and locations around the vector width, parameters left out; large means, no
// variance, NaN, infinity; threads; running statistics; and every documented error.
#include "support/batch_norm_problem.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr batch_norm_activation activations[] = {
    batch_norm_activation::none, batch_norm_activation::relu, batch_norm_activation::silu};

/// Checks the bounds of batch_norm.hpp.
template <class T>
void check_problem(const batch_norm_problem<T>& p) {
  INFO(p.name(), ", weights ", p.weight.size(), ", biases ", p.bias.size());
  const auto channels = static_cast<std::size_t>(p.channels);
  const double count = static_cast<double>(p.images * p.height * p.width);
  const auto in = p.map(p.input.data());
  const auto exact = p.exact();
  for_each_isa([&](isa) {
    const auto found = p.run();
    CHECK(same_bits(found.output, found.inferred));
    for (std::size_t c = 0; c < channels; ++c) {
      const auto channel = static_cast<index_t>(c);
      const double mean = exact.statistics[c], variance = exact.statistics[channels + c];
      const double deviation = std::sqrt(variance);
      const double first = static_cast<double>(reference::feature_at(in, 0, channel, 0, 0));
      const double distance = variance == 0 ? 0 : (first - mean) / deviation;
      const double relative = (count + 100) * (1 + distance * distance) * 0x1p-52;
      // One unit of the computing type, and the rounding of the results.
      const double unit = std::is_same<T, double>::value ? relative : 0x1p-24;
      const double rounding = std::is_same<T, bfloat16>::value ? 0x1p-8 : unit;
      CHECK(std::abs(found.statistics[c] - mean) <=
            relative * deviation + 0x1p-50 * std::abs(mean));
      CHECK(std::abs(found.statistics[channels + c] - variance) <= relative * variance + 1e-300);
      const double inverse = 1 / std::sqrt(variance + p.epsilon);
      const double scale = std::abs(p.gamma(c)) * inverse;
      const auto at = [&](const auto& of, index_t n, index_t y, index_t x) {
        return static_cast<double>(reference::feature_at(p.map(of.data()), n, channel, y, x));
      };
      // |z|, and how large a gradient is, with all of its terms.
      const auto z = [&](index_t n, index_t y, index_t x) {
        return scale * std::abs(at(p.input, n, y, x) - mean) + std::abs(p.beta(c));
      };
      double sum = 0, weighted = 0;
      reference::for_each_location(in, [&](index_t n, index_t y, index_t x) {
        const double g = std::abs(at(p.upstream, n, y, x)) * (1 + z(n, y, x));
        sum += g;
        weighted += g * std::abs(at(p.input, n, y, x) - mean) * inverse;
      });
      double worst = 0, worst_grad = 0;
      reference::for_each_location(in, [&](index_t n, index_t y, index_t x) {
        const double output = at(exact.output, n, y, x), grad = at(exact.grad, n, y, x);
        // ReLU's gradient jumps at z = 0. No z here is so close to 0 that rounding changes its
        // sign.
        const double within =
            unit * (8 * (z(n, y, x) + scale * std::abs(mean) * 2 * unit) + 16 * std::abs(output)) +
            scale * 0x1p-50 * std::abs(mean) + rounding * std::abs(output) + 1e-36;
        worst = std::max(worst, std::abs(at(found.output, n, y, x) - output) / within);
        const double d = std::abs(at(p.input, n, y, x) - mean) * inverse;
        const double size = std::abs(at(p.upstream, n, y, x)) * (1 + z(n, y, x)) + sum / count +
                            d * weighted / count;
        const double grad_within = 32 * unit * scale * size + rounding * std::abs(grad) + 1e-36;
        worst_grad = std::max(worst_grad, std::abs(at(found.grad, n, y, x) - grad) / grad_within);
      });
      CHECK(worst <= 1);
      CHECK(worst_grad <= 1);
      const double unit_out = std::is_same<T, double>::value ? unit : 0x1p-24;
      CHECK(std::abs(static_cast<double>(found.bias_grad[c]) - exact.bias_grad[c]) <=
            32 * unit * sum + unit_out * std::abs(exact.bias_grad[c]));
      CHECK(std::abs(static_cast<double>(found.weight_grad[c]) - exact.weight_grad[c]) <=
            32 * unit * weighted + unit_out * std::abs(exact.weight_grad[c]));
    }
  });
}

template <class T>
void check_all(index_t images, index_t channels, index_t height, index_t width) {
  std::uint64_t seed = static_cast<std::uint64_t>(channels * 1000 + height * 100 + width);
  for (const feature_layout layout : {nchw, nhwc})
    for (const batch_norm_activation activation : activations) {
      batch_norm_problem<T> p({images, channels, height, width, activation, layout});
      p.make(++seed);
      check_problem(p);
      p.make(seed + 50, 100, seed % 2 == 0, seed % 2 != 0);
      check_problem(p);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("batch norm: locations", T, float, bfloat16, double) {
  for (const index_t width : {2, 3, 15, 16, 17, 31, 32, 33, 70}) check_all<T>(1, 2, 1, width);
  check_all<T>(3, 1, 5, 7);
  check_all<T>(2, 3, 1, 1);
}

TEST_CASE_TEMPLATE("batch norm: channels", T, float, bfloat16, double) {
  for (const index_t channels : {1, 2, 15, 16, 17, 31, 32, 40, 260})
    check_all<T>(2, channels, 3, 5);
}

TEST_CASE("batch norm: several pieces") {
  check_all<float>(1, 2, 181, 190);
  check_all<bfloat16>(3, 40, 33, 31);
}

TEST_CASE("batch norm: no images or channels") {
  for (const feature_layout layout : {nchw, nhwc}) {
    batch_norm_problem<float> p({2, 0, 3, 3, batch_norm_activation::silu, layout});
    p.make(1);
    CHECK(p.run().statistics.empty());
    float weight = 1;
    double statistics[2] = {0, 1};
    batch_norm_workspace workspace;
    const feature_view<const float> nothing(nullptr, 0, 1, 3, 3, layout);
    batch_norm_inference(nothing, vector_view<const float>(&weight, 1), {},
                         vector_view<const double>(statistics, 2),
                         feature_view<float>(nullptr, 0, 1, 3, 3, layout), {}, workspace);
  }
}

TEST_CASE("batch norm: the variance survives a mean of 1e8, and a first number far from the mean") {
  for (const feature_layout layout : {nchw, nhwc}) {
    batch_norm_problem<float> p({2, 19, 9, 20, batch_norm_activation::none, layout});
    p.make(3);
    const auto inputs = p.map(p.input.data());
    reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
      // Steps of 8, which float has there.
      for (index_t c = 0; c < 19; ++c)
        reference::feature_at(inputs, n, c, y, x) =
            1e8f + 8 * std::round(8 * reference::feature_at(inputs, n, c, y, x));
    });
    check_problem(p);
    const auto found = p.run();
    // The outputs have mean 0 and variance 1.
    batch_norm_problem<float> plain = p;
    plain.weight.clear();
    plain.bias.clear();
    const auto again = plain.run();
    std::vector<double> of(38);
    reference::batch_statistics(plain.map<const float>(again.output.data()), of.data());
    for (std::size_t c = 0; c < 19; ++c) {
      CHECK(std::abs(of[c]) < 1e-6);
      CHECK(std::abs(of[19 + c] - 1) < 1e-5);
    }
    for (index_t c = 0; c < 19; ++c) reference::feature_at(inputs, 0, c, 0, 0) = -3e30f;
    check_problem(p);
  }
}

TEST_CASE_TEMPLATE("batch norm: no variance", T, float, bfloat16, double) {
  for (const feature_layout layout : {nchw, nhwc}) {
    batch_norm_problem<T> p({2, 17, 3, 4, batch_norm_activation::none, layout});
    p.make(1);
    std::fill(p.input.begin(), p.input.end(), to<T>(1234.5));
    for_each_isa([&](isa) {
      const auto found = p.run();
      for (index_t c = 0; c < 17; ++c) {
        CHECK(found.statistics[static_cast<std::size_t>(c)] == static_cast<double>(to<T>(1234.5)));
        CHECK(found.statistics[static_cast<std::size_t>(17 + c)] == 0);
        const T expected = T(p.bias[static_cast<std::size_t>(c)]);
        const auto output = p.map(found.output.data());
        CHECK(static_cast<double>(reference::feature_at(output, 1, c, 2, 3)) ==
              static_cast<double>(expected));
      }
    });
    check_problem(p);
  }
}

TEST_CASE_TEMPLATE("batch norm: a NaN or infinity makes its channel NaN, and no other", T, float,
                   bfloat16, double) {
  for (const feature_layout layout : {nchw, nhwc})
    for (const batch_norm_activation activation : activations)
      for (const double special : {std::nan(""), infinity, -infinity})
        for (const index_t at : {0, 7}) {  // the first number of the channel, and another
          batch_norm_problem<T> p({2, 18, 3, 6, activation, layout});
          p.make(4);
          const auto expected = p.run();
          const auto inputs = p.map(p.input.data());
          reference::feature_at(inputs, 0, index_t{5}, at / 6, at % 6) = to<T>(special);
          for_each_isa([&](isa) {
            const auto found = p.run();
            bool all_nan = std::isnan(found.statistics[5]) && std::isnan(found.statistics[18 + 5]);
            bool others_finite = true;
            for (index_t c = 0; c < 18; ++c)
              reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
                for (const std::vector<T>* numbers : {&found.output, &found.grad}) {
                  const bool is_nan = std::isnan(static_cast<double>(
                      reference::feature_at(p.map(numbers->data()), n, c, y, x)));
                  if (c == 5)
                    all_nan = all_nan && is_nan;
                  else
                    others_finite = others_finite && !is_nan;
                }
              });
            CHECK(all_nan);
            CHECK(others_finite);
          });
          CHECK(expected.statistics[4] == p.run().statistics[4]);
        }
}

TEST_CASE("batch norm: activations at their ends") {
  // Statistics that leave the numbers as they are.
  const std::vector<double> statistics{0, 1};
  const std::vector<float> numbers{0,     -0.0f, 1e-30f, -1e-30f,
                                   50,    -50,   -88,    88,
                                   -1e4f, 1e30f, -3e38f, static_cast<float>(infinity)};
  const float minus_infinity = -static_cast<float>(infinity);
  batch_norm_params params;
  params.epsilon = 0;
  batch_norm_workspace workspace;
  const auto count = static_cast<index_t>(numbers.size());
  const auto run = [&](const float* from, index_t size, float* to) {
    batch_norm_inference(feature_view<const float>(from, 1, 1, 1, size, nchw), {}, {}, statistics,
                         feature_view<float>(to, 1, 1, 1, size, nchw), params, workspace);
  };
  for_each_isa([&](isa) {
    std::vector<float> found(numbers.size());
    params.activation = batch_norm_activation::relu;
    run(numbers.data(), count, found.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(found[i] == std::max(numbers[i], 0.0f));
    params.activation = batch_norm_activation::silu;
    run(numbers.data(), count, found.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double exact =
          reference::activated(static_cast<double>(numbers[i]), batch_norm_activation::silu);
      if (std::isinf(exact))
        CHECK(static_cast<double>(found[i]) == exact);
      else
        CHECK(std::abs(static_cast<double>(found[i]) - exact) <= 1e-6 * std::abs(exact) + 1e-35);
    }
    float limit = 7;
    run(&minus_infinity, 1, &limit);
    CHECK(std::abs(limit) < 1e-35f);
  });
}

TEST_CASE_TEMPLATE("batch norm: the same bits on any number of threads, on AVX2 and on AVX-512", T,
                   float, bfloat16, double) {
  for (const feature_layout layout : {nchw, nhwc})
    for (const batch_norm_activation activation : activations) {
      batch_norm_problem<T> p({2, 35, 61, 57, activation, layout});
      p.make(5);
      const auto expected = p.run();
      check_on_every_isa([&] { return p.run(); }, [](const auto&) {});
      for_each_policy([&](threading policy) {
        p.policy = policy;
        CHECK((p.run() == expected));
      });
    }
}

TEST_CASE("batch norm: running statistics") {
  std::vector<double> running{0, 10, 1, 1};
  const std::vector<double> batch{2, 20, 3, 6};
  update_running_statistics(batch, 4, 0.25, running);
  CHECK(running == std::vector<double>{0.5, 12.5, 1.75, 2.75});
  update_running_statistics(batch, 4, 1, running);
  CHECK(running == std::vector<double>{2, 20, 4, 8});
  const auto fails = [&](const std::vector<double>& of, index_t count, double momentum,
                         const char* message) {
    CHECK_THROWS_WITH_AS(update_running_statistics(of, count, momentum, running),
                         doctest::Contains(message), std::invalid_argument);
    CHECK(running == std::vector<double>{2, 20, 4, 8});
  };
  fails({1, 2}, 4, 0.1, "vecdet::update_running_statistics: running.size() is 4, expected 2");
  fails(batch, 1, 0.1, "count is 1, expected 2 or more");
  fails(batch, 4, -1, "momentum is -1, expected 0 to 1");
  fails(batch, 4, std::nan(""), "momentum is");
  CHECK_THROWS_AS(update_running_statistics(running, 4, 0.1, running), std::invalid_argument);
}

TEST_CASE("batch norm: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> input(2 * 3 * 4 * 5, 1), upstream = input, ones(3, 1);
  std::vector<float> output(input.size(), 7), parameters(6, 7);
  std::vector<double> statistics(6, 7);
  batch_norm_params params;
  batch_norm_workspace workspace;
  feature_view<const float> in(input.data(), 2, 3, 4, 5, nchw);
  feature_view<float> out(output.data(), 2, 3, 4, 5, nchw);
  vector_view<const float> weight = ones, bias;
  vector_view<double> to = statistics;
  const auto reset = [&] {
    params = {};
    in = {input.data(), 2, 3, 4, 5, nchw};
    out = {output.data(), 2, 3, 4, 5, nchw};
    weight = ones;
    bias = {};
    to = statistics;
    CHECK(std::count(output.begin(), output.end(), 7.0f) == 120);
    CHECK(std::count(statistics.begin(), statistics.end(), 7.0) == 6);
    CHECK(std::count(parameters.begin(), parameters.end(), 7.0f) == 6);
  };
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(batch_norm(in, weight, bias, out, to, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
    reset();
  };
  weight = {ones.data(), 2};
  fails("vecdet::batch_norm: weight.size() is 2, expected 0 or 3");
  bias = {ones.data(), 1};
  fails("bias.size() is 1, expected 0 or 3");
  to = {statistics.data(), 3};
  fails("statistics.size() is 3, expected 6");
  params.epsilon = -1;
  fails("params.epsilon is -1, expected 0 to 1e30");
  params.epsilon = std::nan("");
  fails("params.epsilon is");
  params.activation = static_cast<batch_norm_activation>(3);
  fails("params.activation is 3, expected none, relu or silu");
  out = {output.data(), 1, 3, 4, 5, nchw};
  fails("output.images() is 1, expected 2, as in input");
  out = {output.data(), 2, 2, 4, 5, nchw};
  fails("output.channels() is 2, expected 3, as in input");
  out = {output.data(), 2, 3, 5, 4, nchw};
  fails("output.height() is 5, expected 4, as in input");
  out = {output.data(), 2, 3, 4, 5, nhwc};
  fails("output.layout() is nhwc, expected nchw, as in input");
  in = {input.data(), 1, 3, 1, 1, nchw};
  out = {output.data(), 1, 3, 1, 1, nchw};
  fails("images * height * width of input is 1, expected 2 or more");
  in = {input.data(), 0, 3, 4, 5, nchw};
  out = {output.data(), 0, 3, 4, 5, nchw};
  fails("images * height * width of input is 0, expected 2 or more");
  out = {const_cast<float*>(input.data()), 2, 3, 4, 5, nchw};
  fails("output");
  to = {reinterpret_cast<double*>(output.data()), 6};
  fails("output");
  to = {reinterpret_cast<double*>(const_cast<float*>(input.data())), 6};
  fails("statistics");
  weight = {output.data(), 3};
  fails("output");

  feature_view<const float> arriving(upstream.data(), 2, 3, 4, 5, nchw);
  vector_view<float> weight_grad(parameters.data(), 3), bias_grad(parameters.data() + 3, 3);
  const auto grad_fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(batch_norm_grad(arriving, in, weight, bias, vector_view<const double>(to),
                                         out, weight_grad, bias_grad, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
    arriving = {upstream.data(), 2, 3, 4, 5, nchw};
    weight_grad = {parameters.data(), 3};
    bias_grad = {parameters.data() + 3, 3};
    reset();
  };
  arriving = {upstream.data(), 2, 3, 4, 6, nchw};
  grad_fails("vecdet::batch_norm_grad: upstream.width() is 6, expected 5, as in input");
  weight_grad = {parameters.data(), 2};
  grad_fails("weight_grad.size() is 2, expected 0 or 3");
  bias_grad = {parameters.data(), 2};
  grad_fails("bias_grad.size() is 2, expected 0 or 3");
  bias_grad = weight_grad;
  grad_fails("bias_grad");
  weight_grad = {output.data() + 9, 3};
  grad_fails("weight_grad");
  bias_grad = {const_cast<float*>(input.data()), 3};
  grad_fails("bias_grad");
  out = {const_cast<float*>(upstream.data()), 2, 3, 4, 5, nchw};
  grad_fails("grad");
  params.epsilon = infinity;
  grad_fails("params.epsilon is");
}

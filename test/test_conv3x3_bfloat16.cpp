// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution of bfloat16 maps: the bits of the results in float, rounded once, for sizes
// around tiles and vectors, layouts, any alignment, NaN and infinity; and the reference.
#include "support/conv_problem.hpp"
#include "support/isa.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/conv3x3.hpp>

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
constexpr auto f4x4 = conv3x3_tile::f4x4, f2x2 = conv3x3_tile::f2x2;

std::vector<float> widened(const std::vector<bfloat16>& values) {
  return {values.begin(), values.end()};
}
/// Rounds like bfloat16's constructor, one number at a time.
std::vector<bfloat16> rounded_once(const std::vector<float>& values) {
  std::vector<bfloat16> rounded;
  for (const float value : values) rounded.emplace_back(value);
  return rounded;
}

/// The same problem on maps of float.
conv_problem<float> in_float(const conv_problem<bfloat16>& p) {
  conv_problem<float> wide(static_cast<const conv_shape&>(p));
  wide.input = widened(p.input);
  wide.upstream = widened(p.upstream);
  wide.weights = p.weights;
  wide.bias = p.bias;
  return wide;
}

/// A NaN's sign and payload depend on the order of operands, which compilers choose.
template <class T>
bool same_numbers(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    if (std::isnan(x) ? !std::isnan(y) : !test::same_bits(&a[i], &b[i], 1)) return false;
  }
  return true;
}

/// The results in float, rounded, on every instruction set; the same bits on AVX2 and AVX-512.
void check_rounded(const conv_problem<bfloat16>& p) {
  INFO(p.name());
  check_on_every_isa([&] { return p.run(); },
                     [&](const conv_results<bfloat16>& actual) {
                       const auto exact = in_float(p).run();
                       CHECK(same_numbers(actual.output, rounded_once(exact.output)));
                       CHECK(same_numbers(actual.input_grad, rounded_once(exact.input_grad)));
                       CHECK(same_numbers(actual.weight_grad, exact.weight_grad));
                       CHECK(same_numbers(actual.bias_grad, exact.bias_grad));
                     });
}

conv_problem<bfloat16> problem(index_t images, index_t inputs, index_t height, index_t width,
                               index_t outputs) {
  return conv_problem<bfloat16>({images, inputs, height, width, outputs});
}

/// Numbers in memory that begins `offset` elements after a cache line.
template <class T>
struct shifted {
  std::vector<T> memory;
  T* data;
  shifted(const std::vector<T>& values, std::size_t offset)
      : memory(values.size() + 32 + offset), data(nullptr) {
    const auto past = reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
    data = memory.data() + (64 - past) % 64 / sizeof(T) + offset;
    std::copy(values.begin(), values.end(), data);
  }
};

}  // namespace

TEST_CASE("3x3 convolution of bfloat16: heights and widths from 1 to 20") {
  for (index_t height = 1; height <= 20; height += under_sanitizer ? 4 : 1)
    for (index_t width = 1; width <= 20; ++width) {
      auto p = problem(1, width % 3 == 0 ? 16 : 3, height, width, height % 3 == 0 ? 17 : 2);
      p.input_layout = width % 2 == 0 ? nhwc : nchw;
      p.output_layout = height % 2 == 0 ? nhwc : nchw;
      p.relu = (height + width) % 3 == 0;
      p.tile = (height + width) % 5 < 3 ? f4x4 : f2x2;
      p.make(static_cast<std::uint64_t>(100 * height + width));
      check_rounded(p);
    }
}

TEST_CASE("3x3 convolution of bfloat16: channels from 1 to 70") {
  for (index_t channels = 1; channels <= 70; channels += under_sanitizer ? 5 : 1) {
    auto p = problem(1 + channels % 2, channels, 5, 11, (73 - channels) / 2);
    p.tile = channels % 4 < 2 ? f4x4 : f2x2;
    p.relu = channels % 3 == 0;
    p.has_bias = channels % 5 != 0;
    p.make(static_cast<std::uint64_t>(channels));
    for (const feature_layout layout : {nchw, nhwc}) {
      p.input_layout = p.output_layout = p.weight_layout = layout;
      check_rounded(p);
    }
  }
}

TEST_CASE("3x3 convolution of bfloat16: more channels and tiles than a block") {
  for (auto p : {problem(1, 270, 3, 9, 270), problem(2, 16, 90, 100, 2), problem(1, 2, 4, 300, 32)})
    for (const feature_layout layout : {nchw, nhwc}) {
      p.input_layout = p.output_layout = layout;
      p.relu = layout == nhwc;
      p.make(static_cast<std::uint64_t>(p.inputs + p.width));
      check_rounded(p);
    }
}

TEST_CASE("3x3 convolution of bfloat16: the reference") {
  for (const feature_layout layout : {nchw, nhwc})
    for (const conv3x3_tile tile : {f4x4, f2x2}) {
      auto p = problem(2, 37, 11, 18, 41);
      p.input_layout = p.output_layout = layout;
      p.tile = tile;
      p.relu = tile == f4x4;
      p.make(3);
      // Half of the last digit, and the errors in float (test_conv3x3.cpp).
      const auto check = [](const auto& actual, const std::vector<double>& exact, double rounding,
                            double products) {
        REQUIRE(actual.size() == exact.size());
        for (std::size_t i = 0; i < exact.size(); ++i)
          CHECK(std::abs(static_cast<double>(actual[i]) - exact[i]) <=
                rounding * std::abs(exact[i]) + 2.6e-5 * std::sqrt(products));
      };
      for_each_isa([&](isa) {
        const auto actual = p.run();
        const auto exact = p.exact(actual.output);
        check(actual.output, exact.output, 0x1p-8, 9 * 37 + 1);
        check(actual.input_grad, exact.input_grad, 0x1p-8, 9 * 41);
        check(actual.weight_grad, exact.weight_grad, 0, 2 * 11 * 18);
        check(actual.bias_grad, exact.bias_grad, 0, 2 * 11 * 18);
      });
    }
}

TEST_CASE("3x3 convolution of bfloat16: accuracy at 256 channels after a ReLU") {
  if (under_sanitizer) return;  // takes a minute, and other cases read and write the same
  auto p = problem(1, 256, 24, 24, 64);
  p.has_bias = false;
  p.make(4);
  auto given = in_float(p);
  given.make(4);
  for (float& x : given.input) x = std::max(x, 0.0f);
  for (float& w : given.weights) w *= static_cast<float>(std::sqrt(2.0 / (9 * 256)));
  p.input = rounded_once(given.input);
  p.weights = given.weights;
  // The root mean square of the differences, relative to the mean magnitude.
  const auto error = [](const auto& output, const std::vector<double>& exact) {
    double sum = 0, mean = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double off = static_cast<double>(output[i]) - exact[i];
      sum += off * off;
      mean += std::abs(exact[i]);
    }
    return std::sqrt(sum * static_cast<double>(exact.size())) / mean;
  };
  const auto exact = p.exact({}).output, of_given = given.exact({}).output;
  const double rounding = error(rounded_once({exact.begin(), exact.end()}), exact);
  for (const conv3x3_tile tile : {f4x4, f2x2})
    for_each_isa([&](isa) {
      p.tile = tile;
      const auto output = p.run().output;
      CHECK(error(output, exact) < 2.2e-3);
      CHECK(error(output, exact) < 1.0001 * rounding);  // nothing but the rounding
      CHECK(error(output, of_given) < 3.1e-3);          // and that of the inputs
    });
}

TEST_CASE("3x3 convolution of bfloat16: NaN, infinity, zeros, denormals, the largest numbers") {
  const double specials[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             0.0,
                             -0.0,
                             1e-40,
                             -9.2e-41,
                             3.38e38,
                             -3.38e38,
                             1e30};
  std::uint64_t seed = 0;
  for (const double special : specials)
    for (const feature_layout layout : {nchw, nhwc})
      for (const bool relu : {false, true}) {
        auto p = problem(1, 16, 13, 21, 32);
        p.input_layout = p.output_layout = layout;
        p.relu = relu;
        p.make(++seed);
        p.input[seed * 37 % p.input.size()] = to<bfloat16>(special);
        p.upstream[seed * 53 % p.upstream.size()] = to<bfloat16>(special);
        check_rounded(p);
      }
  // A signalling NaN with an empty upper half of its fraction must not become infinity. Only one at
  // a time: which of two NaNs a product keeps depends on the compiler.
  for (const feature_layout layout : {nchw, nhwc})
    for (const bool in_upstream : {false, true}) {
      auto p = problem(1, 16, 9, 9, 16);
      p.input_layout = p.output_layout = layout;
      p.make(++seed);
      (in_upstream ? p.upstream : p.input)[40] = bfloat16::from_bits(in_upstream ? 0xff81 : 0x7f81);
      check_rounded(p);
      for_each_isa([&](isa) {
        const auto results = p.run();
        const auto& spoiled = in_upstream ? results.input_grad : results.output;
        CHECK(std::isnan(static_cast<float>(spoiled[40])));
      });
    }
  // Sums of zeros: 0 or -0 as in float.
  auto p = problem(1, 16, 9, 9, 16);
  p.has_bias = false;
  p.make(++seed);
  p.input.assign(p.input.size(), bfloat16(-0.0f));
  p.upstream.assign(p.upstream.size(), bfloat16(-0.0f));
  check_rounded(p);
}

TEST_CASE("3x3 convolution of bfloat16: outputs beyond its range are infinite, ties go to even") {
  auto p = problem(1, 1, 4, 4, 16);
  p.has_bias = true;
  for (const feature_layout layout : {nchw, nhwc}) {
    p.input_layout = p.output_layout = layout;
    p.make(1);
    p.weights.assign(p.weights.size(), 0.0f);
    // The output is the bias. 1 + 2^-8 and 1 + 3 * 2^-8 are ties.
    p.bias[0] = 1 + 0x1p-8f;
    p.bias[1] = 1 + 3 * 0x1p-8f;
    p.bias[2] = 1 + 0x1.002p-8f;
    p.bias[3] = std::numeric_limits<float>::max();
    p.bias[4] = -std::numeric_limits<float>::max();
    p.bias[5] = 3.3895e38f;
    for_each_isa([&](isa) {
      const auto output = p.run().output;
      const auto at = [&](std::size_t k, std::size_t i) {
        return static_cast<float>(output[16 * k + i]);
      };
      for (std::size_t i = 0; i < 16; ++i) {
        CHECK(at(0, i) == 1);
        CHECK(at(1, i) == 1 + 0x1p-6f);
        CHECK(at(2, i) == 1 + 0x1p-7f);
        CHECK(at(3, i) == std::numeric_limits<float>::infinity());
        CHECK(at(4, i) == -std::numeric_limits<float>::infinity());
        CHECK(std::isfinite(at(5, i)));
      }
    });
  }
}

TEST_CASE("3x3 convolution of bfloat16: maps at any address, and nothing else is written") {
  constexpr index_t height = 7, width = 13;
  for (const index_t channels : {16, 19})
    for (const feature_layout layout : {nchw, nhwc}) {
      auto p = problem(1, channels, height, width, channels);
      p.input_layout = p.output_layout = layout;
      p.make(4);
      for_each_isa([&](isa) {
        const auto expected = p.run();
        const conv_shape planes = p.with_layout(nchw);
        const auto x = relaid(p.input, planes.in(p.input.data()), layout);
        const auto gy = relaid(p.upstream, planes.out(p.upstream.data()), layout);
        const auto w = planes.kernel(p.weights.data());
        for (std::size_t offset = 0; offset < 33; offset += offset < 3 ? 1 : 5) {
          shifted<bfloat16> input(x, offset), upstream(gy, offset + 1);
          const std::vector<bfloat16> sentinels(x.size() + 2, bfloat16(7.0f));
          shifted<bfloat16> output(sentinels, offset), grad(sentinels, offset);
          std::vector<float> gw(p.weights.size()), gb(p.bias.size());
          conv3x3_params<float> params;
          params.bias = p.bias;
          conv3x3_workspace workspace;
          conv3x3(p.in<const bfloat16>(input.data), conv3x3_weights<float>(w),
                  p.out(output.data + 1), params, workspace);
          conv3x3_input_grad(p.out<const bfloat16>(upstream.data), {},
                             conv3x3_weights<float>(w, conv3x3_use::input_grad),
                             p.in(grad.data + 1), workspace);
          conv3x3_weight_grad(p.in<const bfloat16>(input.data),
                              p.out<const bfloat16>(upstream.data), {},
                              {planes.kernel(gw.data()), gb}, workspace);
          const auto check_map = [&](const bfloat16* actual, const std::vector<bfloat16>& right) {
            CHECK(actual[0] == 7.0f);
            CHECK(actual[1 + right.size()] == 7.0f);
            const std::vector<bfloat16> inside(actual + 1, actual + 1 + right.size());
            CHECK(test::same_bits(relaid(inside, 1, channels, height, width, layout, nchw), right));
          };
          check_map(output.data, expected.output);
          check_map(grad.data, expected.input_grad);
          CHECK(test::same_bits(gw, expected.weight_grad));
          CHECK(test::same_bits(gb, expected.bias_grad));
        }
      });
    }
}

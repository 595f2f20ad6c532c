// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient, bit by bit against the reference: windows, strides, padding,
// dilation and ceil mode, sizes around the vector width, both layouts, NaN, equal numbers,
// infinities, threads; nothing else is written; and every documented error.
#include "support/isa.hpp"
#include "support/max_pool_problem.hpp"
#include "support/random.hpp"
#include "support/relaid.hpp"
#include "support/values.hpp"
#include <vecdet/max_pool.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;
constexpr float infinity = std::numeric_limits<float>::infinity();

max_pool_params windows(index_t height, index_t width, index_t stride_height, index_t stride_width,
                        index_t padding_height, index_t padding_width, index_t dilation_height = 1,
                        index_t dilation_width = 1, bool ceil_mode = false) {
  max_pool_params params;
  params.window_height = height;
  params.window_width = width;
  params.stride_height = stride_height;
  params.stride_width = stride_width;
  params.padding_height = padding_height;
  params.padding_width = padding_width;
  params.dilation_height = dilation_height;
  params.dilation_width = dilation_width;
  params.ceil_mode = ceil_mode;
  return params;
}

/// Windows of all kinds: those of detectors first.
const std::vector<max_pool_params> all_windows = {
    max_pool_params::square(3, 2, 1),
    max_pool_params::square(2, 2),
    windows(2, 2, 2, 2, 0, 0, 1, 1, true),
    max_pool_params::square(5, 1, 2),
    max_pool_params::square(3, 1, 1),
    max_pool_params::square(1, 2),
    windows(3, 2, 1, 3, 1, 1),
    windows(2, 5, 3, 2, 1, 2, 1, 1, true),
    windows(3, 3, 2, 2, 1, 1, 2, 3),
    windows(2, 3, 1, 4, 1, 2, 3, 2, true),
    windows(1, 7, 5, 1, 0, 3),
    windows(16, 16, 3, 5, 8, 8),
    windows(2, 2, 7, 9, 0, 0, 1, 1, true),
};

template <class T>
void check_problem(const max_pool_problem<T>& p) {
  INFO(p.name());
  const auto expected = p.exact();
  const auto grad = p.exact_grad(expected.positions),
             sizes = p.exact_grad(expected.positions, true);
  for_each_isa([&](isa) {
    const auto found = p.run();
    CHECK(same_bits(found.output, expected.output));
    CHECK(same_bits(found.alone, expected.output));
    CHECK(found.positions == expected.positions);
    CHECK(p.grad_error(found, grad, sizes) <= 1);
  });
}

template <class T>
void check_all(index_t images, index_t channels, index_t height, index_t width,
               feature_layout layout) {
  std::uint64_t seed = static_cast<std::uint64_t>(height * 100 + width);
  for (const max_pool_params& params : all_windows) {
    max_pool_problem<T> p({images, channels, height, width, params, layout});
    p.make(++seed);
    check_problem(p);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("max pooling: sizes of planes", T, float, bfloat16, double) {
  for (const index_t width : {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 50, 70})
    check_all<T>(1, 2, width % 3 == 0 ? 3 : 9, width, nchw);
  for (const index_t height : {1, 2, 4, 20}) check_all<T>(2, 1, height, 35, nchw);
}

TEST_CASE_TEMPLATE("max pooling: channels", T, float, bfloat16, double) {
  for (const index_t channels : {1, 2, 3, 15, 16, 17, 31, 32, 40})
    check_all<T>(channels % 2 + 1, channels, 9, 7, nhwc);
  check_all<T>(1, 16, 1, 1, nhwc);
}

TEST_CASE("max pooling: no images, channels or windows") {
  for (const feature_layout layout : {nchw, nhwc})
    for (const auto& size : std::vector<std::vector<index_t>>{
             {0, 3, 9, 9}, {2, 0, 9, 9}, {2, 3, 0, 9}, {2, 3, 9, 0}, {2, 3, 1, 9}}) {
      max_pool_problem<float> p(
          {size[0], size[1], size[2], size[3], windows(2, 2, 1, 1, 0, 0), layout});
      p.make(1);
      CHECK(p.outputs() == 0);
      // No window: the gradient is 0.
      const auto found = p.run();
      CHECK(std::all_of(found.grad.begin(), found.grad.end(), [](float x) { return x == 0; }));
    }
}

TEST_CASE("max pooling: the sizes of outputs") {
  for (index_t inputs = 1; inputs <= 20; ++inputs)
    for (index_t size = 1; size <= 5; ++size)
      for (index_t stride = 1; stride <= 6; ++stride)
        for (index_t dilation = 1; dilation <= 3; ++dilation)
          for (index_t padding = 0; padding <= ((size - 1) * dilation + 1) / 2; ++padding)
            for (const bool ceil_mode : {false, true}) {
              const auto params = windows(1, size, 1, stride, 0, padding, 1, dilation, ceil_mode);
              const index_t expected =
                  reference::max_pool_outputs(inputs, size, stride, padding, dilation, ceil_mode);
              const grid_size found = max_pool_size({1, inputs}, params);
              CHECK(found.width == expected);
              CHECK(found.height == 1);
            }
  // torch.nn.functional.max_pool2d's sizes.
  CHECK(max_pool_size({75, 75}, windows(2, 2, 2, 2, 0, 0, 1, 1, true)).height == 38);
  CHECK(max_pool_size({400, 400}, max_pool_params::square(3, 2, 1)).width == 200);
  CHECK(max_pool_size({5, 5}, windows(2, 2, 3, 3, 1, 1, 1, 1, true)).width == 2);
}

TEST_CASE("max pooling: equal numbers, NaN, and windows without a number") {
  for_each_isa([&](isa) {
    max_pool_workspace workspace;
    const float nan = std::nanf("");
    // Ties: the first; NaN: the last.
    const std::vector<float> input{2, 2, nan, 1, 1, 2, 0, nan};  // 2 x 4
    std::vector<float> output(2);
    std::vector<std::uint8_t> positions(2);
    const auto params = windows(2, 2, 2, 2, 0, 0);
    max_pool(feature_view<const float>(input.data(), 1, 1, 2, 4, nchw),
             feature_view<float>(output.data(), 1, 1, 1, 2, nchw),
             feature_view<std::uint8_t>(positions.data(), 1, 1, 1, 2, nchw), params, workspace);
    CHECK(output[0] == 2);
    CHECK(std::isnan(output[1]));
    CHECK(positions == std::vector<std::uint8_t>{0, 3});
    // Both positions of the only window are in the padding.
    const std::vector<float> narrow{5, 6};
    float nothing = 0;
    std::uint8_t at = 9;
    const auto apart = windows(1, 2, 1, 1, 0, 1, 1, 3);
    max_pool(feature_view<const float>(narrow.data(), 1, 1, 1, 2, nchw),
             feature_view<float>(&nothing, 1, 1, 1, 1, nchw),
             feature_view<std::uint8_t>(&at, 1, 1, 1, 1, nchw), apart, workspace);
    CHECK(nothing == -infinity);
    std::vector<float> grad(2, 7);
    const float upstream = 3;
    max_pool_grad(feature_view<const float>(&upstream, 1, 1, 1, 1, nchw),
                  feature_view<const std::uint8_t>(&at, 1, 1, 1, 1, nchw),
                  feature_view<float>(grad.data(), 1, 1, 1, 2, nchw), apart, workspace);
    CHECK(grad == std::vector<float>{0, 0});
  });
}

TEST_CASE("max pooling: bytes that are no position are ignored") {
  for (const feature_layout layout : {nchw, nhwc})
    for (const max_pool_params& params : all_windows) {
      max_pool_problem<float> p({1, 3, 11, 21, params, layout});
      p.make(1);
      random_generator random(3);
      for (std::size_t i = 0; i < p.upstream.size(); ++i)
        p.grad_positions.push_back(static_cast<std::uint8_t>(random.below(256)));
      check_problem(p);
    }
}

TEST_CASE_TEMPLATE("max pooling: the same bits on any number of threads and in both layouts", T,
                   float, bfloat16) {
  for (const max_pool_params& params : all_windows) {
    max_pool_problem<T> p({2, 19, 67, 40, params, nchw});
    p.make(5);
    const auto expected = p.run();
    max_pool_problem<T> last = p;
    last.layout = nhwc;
    last.input = relaid(p.input, p.in(p.input.data()), nhwc);
    last.upstream = relaid(p.upstream, p.out(p.upstream.data()), nhwc);
    const auto in_last = last.run();
    CHECK(same_bits(in_last.output, relaid(expected.output, p.out(expected.output.data()), nhwc)));
    CHECK(in_last.positions == relaid(expected.positions, p.out(expected.positions.data()), nhwc));
    CHECK(same_bits(in_last.grad, relaid(expected.grad, p.in(expected.grad.data()), nhwc)));
    for_each_policy([&](threading policy) {
      p.policy = policy;
      CHECK((p.run() == expected));
    });
  }
}

TEST_CASE("max pooling: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> input(2 * 3 * 6 * 8, 1);
  std::vector<float> output(2 * 3 * 3 * 4, 7);
  std::vector<std::uint8_t> positions(output.size(), 7);
  max_pool_params params;
  max_pool_workspace workspace;
  const feature_view<const float> in(input.data(), 2, 3, 6, 8, nchw);
  feature_view<float> out(output.data(), 2, 3, 3, 4, nchw);
  feature_view<std::uint8_t> at(positions.data(), 2, 3, 3, 4, nchw);
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(max_pool(in, out, at, params, workspace), doctest::Contains(message),
                         std::invalid_argument);
    CHECK(std::count(output.begin(), output.end(), 7.0f) == 72);
    CHECK(std::count(positions.begin(), positions.end(), 7) == 72);
    params = {};
    out = {output.data(), 2, 3, 3, 4, nchw};
    at = {positions.data(), 2, 3, 3, 4, nchw};
  };
  params.window_height = 0;
  fails("vecdet::max_pool: params.window_height is 0, expected 1 to 2^31 - 1");
  params.window_width = -1;
  fails("params.window_width is -1");
  params.stride_height = 0;
  fails("params.stride_height is 0");
  params.stride_width = index_t{1} << 31;
  fails("params.stride_width is 2147483648");
  params.dilation_height = 0;
  fails("params.dilation_height is 0");
  params.dilation_width = 0;
  fails("params.dilation_width is 0");
  params.padding_height = -1;
  fails("params.padding_height is -1, expected 0 to 2^31 - 1");
  params.padding_width = 2;
  fails("params.padding_width is 2, expected at most 1, half of the window's reach");
  params.window_height = 16;
  params.window_width = 17;
  fails("params.window_height * window_width is 272, expected at most 256 positions");
  params.stride_width = 3;
  fails("output.width() is 4, expected 3, the output's width by max_pool_size()");
  out = {output.data(), 2, 3, 2, 4, nchw};
  fails("output.height() is 2, expected 3");
  out = {output.data(), 1, 3, 3, 4, nchw};
  fails("output.images() is 1, expected 2, as in input");
  at = {positions.data(), 2, 2, 3, 4, nchw};
  fails("positions.channels() is 2, expected 3, as in input");
  at = {positions.data(), 2, 3, 3, 4, nhwc};
  fails("positions.layout() is nhwc, expected nchw, as in input");
  out = {const_cast<float*>(input.data()) + 8, 2, 3, 3, 4, nchw};
  fails("output");
  at = {reinterpret_cast<std::uint8_t*>(output.data()), 2, 3, 3, 4, nchw};
  fails("positions");
  CHECK_THROWS_WITH_AS(max_pool_size({-1, 3}, params), doctest::Contains("map.height is -1"),
                       std::invalid_argument);

  std::vector<float> grad(input.size(), 7);
  const auto grad_fails = [&](feature_view<const float> upstream, feature_view<float> to,
                              const char* message) {
    CHECK_THROWS_WITH_AS(
        max_pool_grad(upstream, feature_view<const std::uint8_t>(at), to, params, workspace),
        doctest::Contains(message), std::invalid_argument);
    CHECK(std::count(grad.begin(), grad.end(), 7.0f) == 288);
  };
  const feature_view<float> whole(grad.data(), 2, 3, 6, 8, nchw);
  grad_fails({output.data(), 2, 3, 3, 5, nchw}, whole,
             "vecdet::max_pool_grad: upstream.width() is 5, expected 4");
  grad_fails({output.data(), 2, 3, 3, 4, nhwc}, whole, "upstream.layout() is nhwc");
  grad_fails({grad.data() + 5, 2, 3, 3, 4, nchw}, whole, "grad");
  grad_fails(out, {grad.data(), 2, 3, 9, 8, nchw}, "upstream.height() is 3, expected 4");
}

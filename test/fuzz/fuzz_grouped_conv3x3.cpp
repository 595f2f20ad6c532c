// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution of maps of any sizes, groups, strides, layouts and numbers, with its
// gradients, directly and by minimal filtering. On finite numbers, the error of every result must
// be within the documented bound. On others, instruction sets must agree.
#include "fuzz_input.hpp"
#include <vecdet/reference/grouped_conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

using namespace vecdet;

namespace {

struct kind {
  index_t groups, inputs, outputs;  ///< channels of a group
};

/// The results in double.
struct exact_results {
  std::vector<double> output, input_grad, weight_grad, bias_grad;
};

}  // namespace

void fuzz::target(input& in) {
  const kind of = in.one_of<kind>({{1, 1, 1},
                                   {1, 17, 3},
                                   {1, 5, 35},
                                   {1, 33, 35},
                                   {3, 4, 4},
                                   {5, 8, 8},
                                   {2, 16, 32},
                                   {3, 32, 16},
                                   {1, 0, 2},
                                   {1, 2, 0}});
  const index_t images = in.integer(0, 2), height = in.integer(0, 9);
  const index_t width = in.one_of<index_t>({1, 4, 5, 13, 33, 50, 0, 300});
  grouped_conv3x3_params params;
  params.groups = of.groups;
  params.stride = in.integer(1, 2);
  const index_t inputs = of.groups * of.inputs, outputs = of.groups * of.outputs;
  const index_t out_height = (height + params.stride - 1) / params.stride;
  const index_t out_width = (width + params.stride - 1) / params.stride;
  const auto any_layout = [&] { return in.flag() ? feature_layout::nchw : feature_layout::nhwc; };
  const feature_layout in_layout = any_layout(), out_layout = any_layout(),
                       weight_layout = any_layout();
  const bool is_finite = in.flag(), has_bias = in.flag();
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  const auto numbers = [&](index_t count) {
    auto values = in.numbers<float>(count);
    for (float& x : values)
      if (is_finite && !(std::abs(x) < 1e9f)) x = 1;
    return values;
  };
  const auto x = numbers(images * inputs * height * width);
  const auto up = numbers(images * outputs * out_height * out_width);
  const auto w = numbers(outputs * of.inputs * 9);
  const auto b = numbers(has_bias ? outputs : 0);
  const fuzz::tensor<float> output(up.size()), input_grad(x.size()), weight_grad(w.size()),
      bias_grad(outputs);
  const auto map = [&](auto* data) {
    return feature_view<std::remove_pointer_t<decltype(data)>>(data, images, inputs, height, width,
                                                               in_layout);
  };
  const auto out = [&](auto* data) {
    return feature_view<std::remove_pointer_t<decltype(data)>>(data, images, outputs, out_height,
                                                               out_width, out_layout);
  };
  const auto kernel = [&](auto* data) {
    return feature_view<std::remove_pointer_t<decltype(data)>>(data, outputs, of.inputs, 3, 3,
                                                               weight_layout);
  };
  const auto compute = [&](const float* xs, const float* ups, const float* ws, const float* bs) {
    exact_results r{std::vector<double>(static_cast<std::size_t>(up.size())),
                    std::vector<double>(static_cast<std::size_t>(x.size())),
                    std::vector<double>(static_cast<std::size_t>(w.size())),
                    std::vector<double>(static_cast<std::size_t>(outputs))};
    reference::grouped_conv3x3(map(xs), kernel(ws), vector_view<const float>(bs, b.size()), params,
                               out(r.output.data()));
    reference::grouped_conv3x3_input_grad(out(ups), kernel(ws), params, map(r.input_grad.data()));
    reference::grouped_conv3x3_weight_grad(map(xs), out(ups), params, kernel(r.weight_grad.data()),
                                           vector_view<double>(r.bias_grad));
    return r;
  };
  const auto magnitudes = [](const fuzz::tensor<float>& values) {
    std::vector<float> all(values.begin(), values.end());
    for (float& v : all) v = std::abs(v);
    return all;
  };
  const exact_results exact = compute(x.data(), up.data(), w.data(), b.data());
  exact_results sizes = compute(magnitudes(x).data(), magnitudes(up).data(), magnitudes(w).data(),
                                magnitudes(b).data());
  double output_bound = static_cast<double>(9 * of.inputs + 2),
         input_bound = static_cast<double>(9 * of.outputs + 2), weight_bound = 387;
  if (detail::is_filtered_stride2(params, inputs, outputs, images * out_height * out_width)) {
    // M is at most a sum of products of each channel's largest magnitudes.
    const auto largest = [](const feature_view<const float>& maps, index_t n, index_t c) {
      double most = 0;
      for (index_t y = 0; y < maps.height(); ++y)
        for (index_t column = 0; column < maps.width(); ++column)
          most = std::max(
              most, std::abs(static_cast<double>(reference::feature_at(maps, n, c, y, column))));
      return most;
    };
    const auto fill = [](const feature_view<double>& maps, index_t n, index_t c, double size) {
      for (index_t y = 0; y < maps.height(); ++y)
        for (index_t column = 0; column < maps.width(); ++column)
          reference::feature_at(maps, n, c, y, column) = size;
    };
    const auto xs = map(x.data()), ups = out(up.data()), ws = kernel(w.data());
    const index_t tiles = (out_height + 3) / 4 * ((out_width + 3) / 4);
    for (index_t n = 0; n < images; ++n) {
      for (index_t k = 0; k < outputs; ++k) {
        double size = has_bias ? std::abs(static_cast<double>(b[k])) : 0;
        for (index_t c = 0; c < inputs; ++c) size += largest(ws, k, c) * largest(xs, n, c);
        fill(out(sizes.output.data()), n, k, size);
      }
      for (index_t c = 0; c < inputs; ++c) {
        double size = 0;
        for (index_t k = 0; k < outputs; ++k) size += largest(ws, k, c) * largest(ups, n, k);
        fill(map(sizes.input_grad.data()), n, c, size);
      }
    }
    for (index_t k = 0; k < outputs; ++k)
      for (index_t c = 0; c < inputs; ++c) {
        double size = 0;
        for (index_t n = 0; n < images; ++n)
          size += static_cast<double>(tiles) * largest(ups, n, k) * largest(xs, n, c);
        fill(kernel(sizes.weight_grad.data()), k, c, size);
      }
    // In units of 2^-24, as the bounds of direct sums.
    output_bound = 2 * 804 * static_cast<double>(inputs + 4);
    input_bound = 2 * 202 * static_cast<double>(outputs + 12);
    weight_bound = 2 * 1165 * static_cast<double>(images * tiles + 5);
  }
  const auto check = [](const char* what, const fuzz::tensor<float>& actual,
                        const std::vector<double>& expected, const std::vector<double>& size,
                        double bound) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Sums may overflow before their terms cancel, and small products may underflow.
      if (!(size[i] < 1e37)) continue;
      fuzz::expect_near([&] { return what; }, static_cast<double>(actual[i]), expected[i], 0,
                        bound * 0x1p-24 * size[i] + 1e-40);
    }
  };
  grouped_conv3x3_workspace workspace;
  fuzz::on_every_isa("the grouped convolution", [&](fuzz::results& results) {
    grouped_conv3x3(map(x.data()), kernel(w.data()), vector_view<const float>(b.data(), b.size()),
                    out(output.data()), params, workspace, policy);
    grouped_conv3x3_input_grad(out(up.data()), kernel(w.data()), map(input_grad.data()), params,
                               workspace, policy);
    grouped_conv3x3_weight_grad(map(x.data()), out(up.data()), kernel(weight_grad.data()),
                                vector_view<float>(bias_grad.data(), bias_grad.size()), params,
                                workspace, policy);
    for (const auto* tensor : {&output, &input_grad, &weight_grad, &bias_grad})
      results.add(*tensor);
    check("an output", output, exact.output, sizes.output, output_bound);
    check("the input's gradient", input_grad, exact.input_grad, sizes.input_grad, input_bound);
    check("the weights' gradient", weight_grad, exact.weight_grad, sizes.weight_grad, weight_bound);
    check("the bias's gradient", bias_grad, exact.bias_grad, sizes.bias_grad, 2);
  });
}

// SPDX-License-Identifier: Apache-2.0
// A 3x3 convolution with its gradients, for tests. Its data are in NCHW for any layouts of the
// call; the exact results come with the magnitudes to which errors are relative.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/conv3x3.hpp>
#include <vecdet/reference/conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet::test {

template <class T>
struct conv_results {
  std::vector<T> output, input_grad;
  std::vector<compute_type<T>> weight_grad, bias_grad;
};

template <class T>
bool same_bits(const conv_results<T>& a, const conv_results<T>& b) {
  return same_bits(a.output, b.output) && same_bits(a.input_grad, b.input_grad) &&
         same_bits(a.weight_grad, b.weight_grad) && same_bits(a.bias_grad, b.bias_grad);
}

/// Images x channels x height x width of NCHW in another layout, and back.
template <class T>
std::vector<T> relaid(const std::vector<T>& from, index_t images, index_t channels, index_t height,
                      index_t width, feature_layout from_layout, feature_layout to_layout) {
  std::vector<T> to(from.size());
  const feature_view<const T> a(from.data(), images, channels, height, width, from_layout);
  const feature_view<T> b(to.data(), images, channels, height, width, to_layout);
  for (index_t n = 0; n < images; ++n)
    for (index_t c = 0; c < channels; ++c)
      for (index_t y = 0; y < height; ++y)
        for (index_t x = 0; x < width; ++x)
          reference::feature_at(b, n, c, y, x) = reference::feature_at(a, n, c, y, x);
  return to;
}

/// Maps are of T; weights, bias and their gradients have the type of the computation.
template <class T>
struct conv_problem {
  using number = compute_type<T>;
  index_t images = 1, inputs = 1, outputs = 1, height = 1, width = 1;
  feature_layout input_layout = feature_layout::nchw, output_layout = feature_layout::nchw,
                 weight_layout = feature_layout::nchw;
  conv3x3_tile tile = conv3x3_tile::f4x4;
  bool relu = false, has_bias = true;
  threading policy = threading::sequential;
  std::vector<T> input, upstream;     ///< in NCHW
  std::vector<number> weights, bias;  ///< in NCHW

  std::string name() const {
    const auto text = [](feature_layout layout) {
      return layout == feature_layout::nchw ? "nchw" : "nhwc";
    };
    return std::to_string(images) + "x" + std::to_string(inputs) + "x" + std::to_string(height) +
           "x" + std::to_string(width) + "x" + std::to_string(outputs) + " " + text(input_layout) +
           " " + text(output_layout) + " weights " + text(weight_layout) +
           (tile == conv3x3_tile::f4x4 ? " f4x4" : " f2x2") + (relu ? " relu" : "");
  }

  void make(std::uint64_t seed) {
    random_generator random(seed);
    const auto fill = [&](auto& values, index_t size) {
      values.resize(static_cast<std::size_t>(size));
      for (auto& v : values) v = to<std::decay_t<decltype(v)>>(random.normal());
    };
    fill(input, images * inputs * height * width);
    fill(weights, outputs * inputs * 9);
    fill(bias, has_bias ? outputs : 0);
    fill(upstream, images * outputs * height * width);
  }

  feature_view<const T> input_view(const T* data, feature_layout layout) const {
    return {data, images, inputs, height, width, layout};
  }
  feature_view<const T> output_view(const T* data, feature_layout layout) const {
    return {data, images, outputs, height, width, layout};
  }

  /// Calls all functions in this problem's layouts. The results are in NCHW.
  conv_results<T> run() const {
    const auto laid_input = relaid(input, images, inputs, height, width, nchw, input_layout);
    const auto laid_upstream =
        relaid(upstream, images, outputs, height, width, nchw, output_layout);
    const auto laid_weights = relaid(weights, outputs, inputs, 3, 3, nchw, weight_layout);
    const auto x = input_view(laid_input.data(), input_layout);
    const auto gy = output_view(laid_upstream.data(), output_layout);
    const feature_view<const number> w(laid_weights.data(), outputs, inputs, 3, 3, weight_layout);
    std::vector<T> y(upstream.size()), gx(input.size());
    std::vector<number> gw(weights.size()), gb(static_cast<std::size_t>(outputs));
    conv3x3_params<number> params;
    params.bias = vector_view<const number>(bias);
    params.relu = relu;
    conv3x3_workspace workspace;
    conv3x3(x, conv3x3_weights<number>(w, conv3x3_use::forward, tile, policy),
            feature_view<T>(y.data(), images, outputs, height, width, output_layout), params,
            workspace, policy);
    const auto mask = relu ? output_view(y.data(), output_layout) : feature_view<const T>();
    conv3x3_input_grad(gy, mask, conv3x3_weights<number>(w, conv3x3_use::input_grad, tile, policy),
                       feature_view<T>(gx.data(), images, inputs, height, width, input_layout),
                       workspace, policy);
    conv3x3_weight_grad(x, gy, mask,
                        feature_view<number>(gw.data(), outputs, inputs, 3, 3, weight_layout),
                        vector_view<number>(gb), tile, workspace, policy);
    return {relaid(y, images, outputs, height, width, output_layout, nchw),
            relaid(gx, images, inputs, height, width, input_layout, nchw),
            relaid(gw, outputs, inputs, 3, 3, weight_layout, nchw), gb};
  }

  /// Exact results. ReLU's mask is taken from `relu_output`.
  conv_results<double> exact(const std::vector<T>& relu_output) const {
    conv_results<double> r;
    const auto sized = [](std::vector<double>& v, std::size_t size) {
      v.resize(size);
      return v.data();
    };
    const feature_view<const number> w(weights.data(), outputs, inputs, 3, 3, nchw);
    const auto gy = output_view(upstream.data(), nchw);
    const auto mask = relu ? output_view(relu_output.data(), nchw) : feature_view<const T>();
    reference::conv3x3(input_view(input.data(), nchw), w, vector_view<const number>(bias), relu,
                       feature_view<double>(sized(r.output, upstream.size()), images, outputs,
                                            height, width, nchw));
    reference::conv3x3_input_grad(gy, mask, w,
                                  feature_view<double>(sized(r.input_grad, input.size()), images,
                                                       inputs, height, width, nchw));
    reference::conv3x3_weight_grad(
        input_view(input.data(), nchw), gy, mask,
        feature_view<double>(sized(r.weight_grad, weights.size()), outputs, inputs, 3, 3, nchw),
        vector_view<double>(sized(r.bias_grad, static_cast<std::size_t>(outputs)), outputs));
    return r;
  }

  static constexpr feature_layout nchw = feature_layout::nchw;
};

}  // namespace vecdet::test

// SPDX-License-Identifier: Apache-2.0
// Problems of grouped 3x3 convolution: random data, a run of all functions, and exact results.
#pragma once

#include "conv_problem.hpp"
#include "random.hpp"
#include <vecdet/grouped_conv3x3.hpp>
#include <vecdet/reference/grouped_conv3x3.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet::test {

/// Data are in NCHW for any layouts of the call.
struct grouped_problem {
  static constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;

  index_t images, height, width;
  index_t groups, group_inputs, group_outputs, stride;
  bool has_bias = true;
  feature_layout input_layout = nchw, output_layout = nchw, weight_layout = nchw;
  threading policy = threading::sequential;
  std::vector<float> input = {}, weights = {}, bias = {}, upstream = {};

  index_t inputs() const { return groups * group_inputs; }
  index_t outputs() const { return groups * group_outputs; }
  index_t output_height() const { return (height + stride - 1) / stride; }
  index_t output_width() const { return (width + stride - 1) / stride; }
  grouped_conv3x3_params params() const {
    grouped_conv3x3_params p;
    p.groups = groups;
    p.stride = stride;
    return p;
  }
  std::string name() const {
    std::string text;
    for (const index_t n : {images, height, width, groups, group_inputs, group_outputs, stride})
      text += std::to_string(n) + " ";
    for (const feature_layout layout : {input_layout, output_layout, weight_layout})
      text += layout == nchw ? "nchw " : "nhwc ";
    return text;
  }

  void make(std::uint64_t seed) {
    random_generator random(seed);
    const auto fill = [&](std::vector<float>& values, index_t size) {
      values.resize(static_cast<std::size_t>(size));
      for (float& v : values) v = static_cast<float>(random.normal());
    };
    fill(input, images * inputs() * height * width);
    fill(weights, outputs() * group_inputs * 9);
    fill(bias, has_bias ? outputs() : 0);
    fill(upstream, images * outputs() * output_height() * output_width());
  }

  template <class T>
  feature_view<T> in(T* data, feature_layout layout) const {
    return {data, images, inputs(), height, width, layout};
  }
  template <class T>
  feature_view<T> out(T* data, feature_layout layout) const {
    return {data, images, outputs(), output_height(), output_width(), layout};
  }
  template <class T>
  feature_view<T> kernel(T* data, feature_layout layout) const {
    return {data, outputs(), group_inputs, 3, 3, layout};
  }

  /// Calls all functions in this problem's layouts. The results are in NCHW.
  conv_results<float> run() const {
    const auto laid = [&](const std::vector<float>& from, const feature_view<const float>& like,
                          feature_layout from_layout, feature_layout to_layout) {
      return relaid(from, like.images(), like.channels(), like.height(), like.width(), from_layout,
                    to_layout);
    };
    const auto x_view = in<const float>(input.data(), nchw);
    const auto y_view = out<const float>(upstream.data(), nchw);
    const auto w_view = kernel<const float>(weights.data(), nchw);
    const auto x = laid(input, x_view, nchw, input_layout);
    const auto gy = laid(upstream, y_view, nchw, output_layout);
    const auto w = laid(weights, w_view, nchw, weight_layout);
    conv_results<float> r{std::vector<float>(upstream.size(), 7), std::vector<float>(x.size(), 7),
                          std::vector<float>(w.size(), 7), std::vector<float>(bias.size(), 7)};
    grouped_conv3x3_workspace workspace;
    grouped_conv3x3(in(x.data(), input_layout), kernel(w.data(), weight_layout),
                    vector_view<const float>(bias), out(r.output.data(), output_layout), params(),
                    workspace, policy);
    grouped_conv3x3_input_grad(out(gy.data(), output_layout), kernel(w.data(), weight_layout),
                               in(r.input_grad.data(), input_layout), params(), workspace, policy);
    grouped_conv3x3_weight_grad(in(x.data(), input_layout), out(gy.data(), output_layout),
                                kernel(r.weight_grad.data(), weight_layout),
                                vector_view<float>(r.bias_grad), params(), workspace, policy);
    return {laid(r.output, y_view, output_layout, nchw),
            laid(r.input_grad, x_view, input_layout, nchw),
            laid(r.weight_grad, w_view, weight_layout, nchw), r.bias_grad};
  }

  conv_results<double> exact() const {
    conv_results<double> r{std::vector<double>(upstream.size()), std::vector<double>(input.size()),
                           std::vector<double>(weights.size()), std::vector<double>(bias.size())};
    const auto x = in(input.data(), nchw), gy = out(upstream.data(), nchw);
    const auto w = kernel(weights.data(), nchw);
    reference::grouped_conv3x3(x, w, vector_view<const float>(bias), params(),
                               out(r.output.data(), nchw));
    reference::grouped_conv3x3_input_grad(gy, w, params(), in(r.input_grad.data(), nchw));
    reference::grouped_conv3x3_weight_grad(x, gy, params(), kernel(r.weight_grad.data(), nchw),
                                           vector_view<double>(r.bias_grad));
    return r;
  }

  /// The sums of magnitudes to which errors are relative.
  conv_results<double> sizes() const {
    grouped_problem p = *this;
    for (std::vector<float>* values : {&p.input, &p.weights, &p.bias, &p.upstream})
      for (float& v : *values) v = std::abs(v);
    return p.exact();
  }
};

}  // namespace vecdet::test

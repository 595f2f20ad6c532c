// SPDX-License-Identifier: Apache-2.0
// A grouped 3x3 convolution with its gradients: the test, the fuzzer, the benchmarks and the
// catalogue make it from a shape.
#pragma once

#include "conv_problem.hpp"
#include "random.hpp"
#include "values.hpp"
#include <vecdet/grouped_conv3x3.hpp>
#include <vecdet/reference/grouped_conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace vecdet::test {

/// Makes views of the arrays.
struct grouped_conv_shape {
  index_t images, inputs, height, width, outputs, groups, stride;
  feature_layout input_layout = feature_layout::nchw, output_layout = feature_layout::nchw,
                 weight_layout = feature_layout::nchw;

  index_t group_inputs() const { return inputs / groups; }
  index_t group_outputs() const { return outputs / groups; }
  index_t output_height() const { return (height + stride - 1) / stride; }
  index_t output_width() const { return (width + stride - 1) / stride; }
  grouped_conv3x3_params params() const {
    grouped_conv3x3_params p;
    p.groups = groups;
    p.stride = stride;
    return p;
  }
  grouped_conv_shape with_layout(feature_layout layout) const {
    grouped_conv_shape s = *this;
    s.input_layout = s.output_layout = s.weight_layout = layout;
    return s;
  }
  std::string name() const {
    std::string text;
    for (const index_t n : {images, inputs, height, width, outputs, groups, stride})
      text += std::to_string(n) + " ";
    for (const feature_layout layout : {input_layout, output_layout, weight_layout})
      text += layout == feature_layout::nchw ? "nchw " : "nhwc ";
    return text;
  }

  template <class T>
  feature_view<T> in(T* data) const {
    return {data, images, inputs, height, width, input_layout};
  }
  template <class T>
  feature_view<T> out(T* data) const {
    return {data, images, outputs, output_height(), output_width(), output_layout};
  }
  template <class T>
  feature_view<T> kernel(T* data) const {
    return {data, outputs, group_inputs(), 3, 3, weight_layout};
  }
};

/// The largest errors of results, as parts of the documented bounds.
struct grouped_conv_errors {
  double output, input_grad, weight_grad, bias_grad;

  double worst() const { return std::max({output, input_grad, weight_grad, bias_grad}); }
};

template <template <class> class Vector = in_heap>
struct grouped_conv_problem : grouped_conv_shape {
  using shape = grouped_conv_shape;
  using memory = grouped_conv3x3_workspace;
  using results = conv_results<float, Vector>;
  using exact_results = conv_results<double>;
  bool has_bias = true;
  threading policy = threading::sequential;
  Vector<float> input, weights, bias, upstream;

  explicit grouped_conv_problem(const grouped_conv_shape& s) : grouped_conv_shape(s) {}

  /// Calls fill(array, size) for each input.
  template <class Fill>
  void make_with(const Fill& fill) {
    fill(input, images * inputs * height * width);
    fill(weights, outputs * group_inputs() * 9);
    fill(bias, has_bias ? outputs : 0);
    fill(upstream, images * outputs * output_height() * output_width());
  }
  void make(std::uint64_t seed) {
    random_generator random(seed);
    make_with([&](Vector<float>& values, index_t size) {
      values.resize(static_cast<std::size_t>(size));
      for (float& v : values) v = static_cast<float>(random.normal());
    });
  }
  results room() const {
    return {Vector<float>(upstream.size(), 7), Vector<float>(input.size(), 7),
            Vector<float>(weights.size(), 7), Vector<float>(bias.size(), 7)};
  }

  // The calls. The data have the layouts.

  void forward(results& to, memory& workspace, threading on) const {
    grouped_conv3x3(in(input.data()), kernel(weights.data()), vector_view<const float>(bias),
                    out(to.output.data()), params(), workspace, on);
  }
  void backward_input(results& to, memory& workspace, threading on) const {
    grouped_conv3x3_input_grad(out(upstream.data()), kernel(weights.data()),
                               in(to.input_grad.data()), params(), workspace, on);
  }
  void backward_weight(results& to, memory& workspace, threading on) const {
    grouped_conv3x3_weight_grad(in(input.data()), out(upstream.data()),
                                kernel(to.weight_grad.data()), vector_view<float>(to.bias_grad),
                                params(), workspace, on);
  }

  // The results of data in NCHW, in NCHW.

  /// All calls, in this problem's layouts.
  results run() const {
    const grouped_conv_shape planes = with_layout(feature_layout::nchw);
    grouped_conv_problem laid = *this;
    laid.input = relaid(input, planes.in(input.data()), input_layout);
    laid.weights = relaid(weights, planes.kernel(weights.data()), weight_layout);
    laid.upstream = relaid(upstream, planes.out(upstream.data()), output_layout);
    results r = room();
    grouped_conv3x3_workspace workspace;
    laid.forward(r, workspace, policy);
    laid.backward_input(r, workspace, policy);
    laid.backward_weight(r, workspace, policy);
    return {relaid(r.output, out(r.output.data()), feature_layout::nchw),
            relaid(r.input_grad, in(r.input_grad.data()), feature_layout::nchw),
            relaid(r.weight_grad, kernel(r.weight_grad.data()), feature_layout::nchw), r.bias_grad};
  }

  exact_results exact() const {
    exact_results r{std::vector<double>(upstream.size()), std::vector<double>(input.size()),
                    std::vector<double>(weights.size()), std::vector<double>(bias.size())};
    const grouped_conv_shape planes = with_layout(feature_layout::nchw);
    const auto x = planes.in(input.data()), gy = planes.out(upstream.data()),
               w = planes.kernel(weights.data());
    reference::grouped_conv3x3(x, w, vector_view<const float>(bias), params(),
                               planes.out(r.output.data()));
    reference::grouped_conv3x3_input_grad(gy, w, params(), planes.in(r.input_grad.data()));
    reference::grouped_conv3x3_weight_grad(x, gy, params(), planes.kernel(r.weight_grad.data()),
                                           vector_view<double>(r.bias_grad));
    return r;
  }
  /// The sums of magnitudes to which errors are relative.
  exact_results sizes() const {
    grouped_conv_problem p = *this;
    for (Vector<float>* values : {&p.input, &p.weights, &p.bias, &p.upstream})
      for (float& v : *values) v = std::abs(v);
    return p.exact();
  }

  /// @param exact, sizes what exact() and sizes() return; they take most of the time
  grouped_conv_errors errors(const results& actual, const exact_results& exact,
                             const exact_results& sizes) const {
    const auto worst = [](const Vector<float>& a, const std::vector<double>& b,
                          const std::vector<double>& size, double units) {
      double most = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        // Sums may overflow before their terms cancel, and small products may underflow.
        if (!(size[i] < 1e37)) continue;
        const double bound = units * 0x1p-24 * size[i] + 1e-40;
        const double off = std::abs(static_cast<double>(a[i]) - b[i]);
        if (!(off <= bound * most)) most = off / bound;  // a NaN stays
      }
      return most;
    };
    const auto chain = [](index_t channels) { return static_cast<double>(9 * channels + 2); };
    return {worst(actual.output, exact.output, sizes.output, chain(group_inputs())),
            worst(actual.input_grad, exact.input_grad, sizes.input_grad, chain(group_outputs())),
            worst(actual.weight_grad, exact.weight_grad, sizes.weight_grad, 387),
            worst(actual.bias_grad, exact.bias_grad, sizes.bias_grad, 2)};
  }
  grouped_conv_errors errors(const results& actual) const {
    return errors(actual, exact(), sizes());
  }
};

}  // namespace vecdet::test

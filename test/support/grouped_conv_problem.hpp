// SPDX-License-Identifier: Apache-2.0
// A grouped 3x3 convolution with its gradients, computed directly or by minimal filtering: the
// tests, the fuzzer, the benchmarks and the catalogue make it from a shape.
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
#include <vector>

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
  /// Whether it is computed by minimal filtering, on tiles of 4 x 4 outputs.
  bool is_filtered() const {
    return detail::is_filtered_stride2(params(), inputs, outputs,
                                       images * output_height() * output_width());
  }
  index_t tile_columns() const { return (output_width() + 3) / 4; }
  /// Of an image.
  index_t tiles() const { return (output_height() + 3) / 4 * tile_columns(); }
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

/// The largest errors of results, as parts of the documented bounds; or those bounds.
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
  /// M of grouped_conv3x3.hpp for each result, to which its error is relative.
  exact_results sizes() const {
    if (is_filtered()) return filtered_sizes();
    grouped_conv_problem p = *this;
    for (Vector<float>* values : {&p.input, &p.weights, &p.bias, &p.upstream})
      for (float& v : *values) v = std::abs(v);
    return p.exact();
  }

  /// The documented bounds, in units of 2^-24 M.
  grouped_conv_errors bounds() const {
    const auto number = [](index_t n) { return static_cast<double>(n); };
    if (is_filtered())
      return {2 * 804 * number(inputs + 4), 2 * 202 * number(outputs + 12),
              2 * 1165 * number(images * tiles() + 5), 2};
    return {number(9 * group_inputs() + 2), number(9 * group_outputs() + 2), 387, 2};
  }

  /// @param exact, sizes what exact() and sizes() return; they take most of the time
  grouped_conv_errors errors(const results& actual, const exact_results& exact,
                             const exact_results& sizes) const {
    // Sums may overflow before their terms cancel, and small products may underflow. Transforms
    // enlarge both.
    const double largest_sum = is_filtered() ? 1e34 : 1e37;
    const double underflow = is_filtered() ? 1e-37 : 1e-40;
    const auto worst = [&](const Vector<float>& a, const std::vector<double>& b,
                           const std::vector<double>& size, double units) {
      double most = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (!(size[i] < largest_sum)) continue;
        const double bound = units * 0x1p-24 * size[i] + underflow;
        const double off = std::abs(static_cast<double>(a[i]) - b[i]);
        if (!(off <= bound * most)) most = off / bound;  // a NaN stays
      }
      return most;
    };
    const grouped_conv_errors bound = bounds();
    return {worst(actual.output, exact.output, sizes.output, bound.output),
            worst(actual.input_grad, exact.input_grad, sizes.input_grad, bound.input_grad),
            worst(actual.weight_grad, exact.weight_grad, sizes.weight_grad, bound.weight_grad),
            worst(actual.bias_grad, exact.bias_grad, sizes.bias_grad, bound.bias_grad)};
  }
  grouped_conv_errors errors(const results& actual) const {
    return errors(actual, exact(), sizes());
  }

 private:
  /// Sums of products of the largest magnitudes that tiles read. Infinite if a transform may
  /// overflow, because infinity times 0 is NaN.
  exact_results filtered_sizes() const {
    exact_results r{std::vector<double>(upstream.size()), std::vector<double>(input.size()),
                    std::vector<double>(weights.size()), std::vector<double>(bias.size())};
    const grouped_conv_shape planes = with_layout(feature_layout::nchw);
    const auto x = planes.in(input.data()), gy = planes.out(upstream.data()),
               w = planes.kernel(weights.data());
    const auto at = [](auto& values, index_t i) -> auto& {
      return values[static_cast<std::size_t>(i)];
    };
    const auto magnitude = [](float v) {
      const auto size = std::abs(static_cast<double>(v));
      return size < HUGE_VAL ? size : HUGE_VAL;
    };
    const auto product = [](double a, double b) {
      if (!(a < 1e30 && b < 1e30)) return HUGE_VAL;
      // Transforms of smaller numbers underflow.
      return a == 0 || b == 0 ? 0.0 : std::max(a, 1e-36) * std::max(b, 1e-36);
    };
    // Of each plane and tile: the largest of the numbers `step` apart, `reach` of them from
    // `before` locations before the tile's own on.
    const auto largest = [&](const feature_view<const float>& map, index_t tile_count, index_t step,
                             index_t reach, index_t before) {
      std::vector<double> sizes;
      for (index_t plane = 0; plane < map.images() * map.channels(); ++plane)
        for (index_t t = 0; t < tile_count; ++t) {
          const index_t top = t / tile_columns() * step - before,
                        left = t % tile_columns() * step - before;
          double most = 0;
          for (index_t i = std::max(index_t{0}, top); i < std::min(map.height(), top + reach); ++i)
            for (index_t j = std::max(index_t{0}, left); j < std::min(map.width(), left + reach);
                 ++j)
              most = std::max(most,
                              magnitude(map.data()[(plane * map.height() + i) * map.width() + j]));
          sizes.push_back(most);
        }
      return sizes;
    };
    const auto taps = largest(w, 1, 3, 3, 0), read = largest(x, tiles(), 8, 9, 1),
               arriving = largest(gy, tiles(), 4, 5, 0), own = largest(gy, tiles(), 4, 4, 0);
    // Gives the numbers of a map the sum of their tile, which is `side` wide.
    const auto fill = [&](std::vector<double>& map, const feature_view<const float>& like,
                          index_t side, const auto& sum) {
      std::vector<double> sums;
      for (index_t n = 0; n < images; ++n)
        for (index_t c = 0; c < like.channels(); ++c)
          for (index_t t = 0; t < tiles(); ++t) sums.push_back(sum(n, c, t));
      for (index_t i = 0; i < like.size(); ++i) {
        const index_t column = i % like.width(), row = i / like.width() % like.height(),
                      plane = i / like.width() / like.height();
        at(map, i) = at(sums, plane * tiles() + row / side * tile_columns() + column / side);
      }
    };
    fill(r.output, gy, 4, [&](index_t n, index_t k, index_t t) {
      double size = has_bias ? magnitude(at(bias, k)) : 0;
      for (index_t c = 0; c < inputs; ++c)
        size += product(at(taps, k * inputs + c), at(read, (n * inputs + c) * tiles() + t));
      return size;
    });
    fill(r.input_grad, x, 8, [&](index_t n, index_t c, index_t t) {
      double size = 0;
      for (index_t k = 0; k < outputs; ++k)
        size += product(at(taps, k * inputs + c), at(arriving, (n * outputs + k) * tiles() + t));
      return size;
    });
    for (index_t k = 0; k < outputs; ++k) {
      for (index_t c = 0; c < inputs; ++c) {
        double size = 0;
        for (index_t n = 0; n < images; ++n)
          for (index_t t = 0; t < tiles(); ++t)
            size += product(at(own, (n * outputs + k) * tiles() + t),
                            at(read, (n * inputs + c) * tiles() + t));
        std::fill_n(r.weight_grad.begin() + (k * inputs + c) * 9, 9, size);
      }
      if (!has_bias) continue;
      for (index_t n = 0; n < images; ++n)
        for (index_t i = 0; i < output_height() * output_width(); ++i)
          at(r.bias_grad, k) +=
              magnitude(at(upstream, (n * outputs + k) * output_height() * output_width() + i));
    }
    return r;
  }
};

}  // namespace vecdet::test

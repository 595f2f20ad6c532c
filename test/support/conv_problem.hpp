// SPDX-License-Identifier: Apache-2.0
// A 3x3 convolution with its gradients, for tests. Its data are in NCHW for any layouts of the
// call; the exact results come with the magnitudes to which errors are relative.
#pragma once

#include "random.hpp"
#include "relaid.hpp"
#include "values.hpp"
#include <vecdet/conv3x3.hpp>
#include <vecdet/reference/conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet::test {

/// Equal if all bits are.
template <class T, template <class> class Vector = in_heap>
struct conv_results {
  Vector<T> output, input_grad;
  Vector<compute_type<T>> weight_grad, bias_grad;

  bool operator==(const conv_results& other) const {
    return same_bits(output, other.output) && same_bits(input_grad, other.input_grad) &&
           same_bits(weight_grad, other.weight_grad) && same_bits(bias_grad, other.bias_grad);
  }
};

/// Makes views of the arrays.
struct conv_shape {
  index_t images = 1, inputs = 1, height = 1, width = 1, outputs = 1;
  feature_layout input_layout = feature_layout::nchw, output_layout = feature_layout::nchw,
                 weight_layout = feature_layout::nchw;
  conv3x3_tile tile = conv3x3_tile::f4x4;
  bool relu = false, has_bias = true;
  threading policy = threading::sequential;

  /// The side of a tile, and the number of tiles.
  index_t side() const { return tile == conv3x3_tile::f4x4 ? 4 : 2; }
  index_t tiles() const {
    return images * ((height + side() - 1) / side()) * ((width + side() - 1) / side());
  }
  conv_shape with_layout(feature_layout layout) const {
    conv_shape s = *this;
    s.input_layout = s.output_layout = s.weight_layout = layout;
    return s;
  }
  std::string name() const {
    const auto text = [](feature_layout layout) {
      return layout == feature_layout::nchw ? "nchw" : "nhwc";
    };
    return std::to_string(images) + "x" + std::to_string(inputs) + "x" + std::to_string(height) +
           "x" + std::to_string(width) + "x" + std::to_string(outputs) + " " + text(input_layout) +
           " " + text(output_layout) + " weights " + text(weight_layout) +
           (tile == conv3x3_tile::f4x4 ? " f4x4" : " f2x2") + (relu ? " relu" : "");
  }

  template <class T>
  feature_view<T> in(T* data) const {
    return {data, images, inputs, height, width, input_layout};
  }
  template <class T>
  feature_view<T> out(T* data) const {
    return {data, images, outputs, height, width, output_layout};
  }
  template <class T>
  feature_view<T> kernel(T* data) const {
    return {data, outputs, inputs, 3, 3, weight_layout};
  }
};

/// Maps are of T; weights, bias and their gradients have the type of the computation.
template <class T>
struct conv_problem : conv_shape {
  using number = compute_type<T>;
  using shape = conv_shape;
  using results = conv_results<T>;
  using exact_results = conv_results<double>;
  struct memory {
    conv3x3_weights<number> forward, backward;
    conv3x3_workspace workspace;
  };
  std::vector<T> input, upstream;
  std::vector<number> weights, bias;

  conv_problem() = default;
  explicit conv_problem(const conv_shape& s) : conv_shape(s) {}

  /// Calls fill(array, size) for each input.
  template <class Fill>
  void make_with(const Fill& fill) {
    fill(input, images * inputs * height * width);
    fill(weights, outputs * inputs * 9);
    fill(bias, has_bias ? outputs : 0);
    fill(upstream, images * outputs * height * width);
  }
  void make(std::uint64_t seed) {
    random_generator random(seed);
    make_with([&](auto& values, index_t size) {
      values.resize(static_cast<std::size_t>(size));
      for (auto& v : values) v = to<std::decay_t<decltype(v)>>(random.normal());
    });
  }
  results room() const {
    return {std::vector<T>(upstream.size(), to<T>(7)), std::vector<T>(input.size(), to<T>(7)),
            std::vector<number>(weights.size(), 7),
            std::vector<number>(static_cast<std::size_t>(outputs), 7)};
  }

  // The calls. The data have the layouts. ReLU's mask is to.output.

  void forward(results& to, memory& m, threading on) const {
    m.forward.assign(kernel(weights.data()), conv3x3_use::forward, tile, on);
    conv3x3_params<number> params;
    params.bias = bias;
    params.relu = relu;
    conv3x3(in(input.data()), m.forward, out(to.output.data()), params, m.workspace, on);
  }
  void backward_input(results& to, memory& m, threading on) const {
    m.backward.assign(kernel(weights.data()), conv3x3_use::input_grad, tile, on);
    conv3x3_input_grad(out(upstream.data()), mask(to.output), m.backward, in(to.input_grad.data()),
                       m.workspace, on);
  }
  void backward_weight(results& to, memory& m, threading on) const {
    conv3x3_weight_grad(in(input.data()), out(upstream.data()), mask(to.output),
                        {kernel(to.weight_grad.data()), to.bias_grad, tile}, m.workspace, on);
  }
  feature_view<const T> mask(const std::vector<T>& relu_output) const {
    return relu ? out(relu_output.data()) : feature_view<const T>();
  }

  // Data and results in NCHW.

  /// All calls, in this problem's layouts.
  results run() const {
    const conv_shape planes = in_planes();
    conv_problem laid = *this;
    laid.input = relaid(input, planes.in(input.data()), input_layout);
    laid.weights = relaid(weights, planes.kernel(weights.data()), weight_layout);
    laid.upstream = relaid(upstream, planes.out(upstream.data()), output_layout);
    results r = room();
    memory m;
    laid.forward(r, m, policy);
    laid.backward_input(r, m, policy);
    laid.backward_weight(r, m, policy);
    return {relaid(r.output, out(r.output.data()), nchw),
            relaid(r.input_grad, in(r.input_grad.data()), nchw),
            relaid(r.weight_grad, kernel(r.weight_grad.data()), nchw), r.bias_grad};
  }

  /// Exact results. ReLU's mask is taken from `relu_output`.
  exact_results exact(const std::vector<T>& relu_output) const {
    exact_results r = zeros();
    const conv_shape planes = in_planes();
    const auto x = planes.in(input.data()), gy = planes.out(upstream.data());
    const auto passes = planes_mask(relu_output);
    const auto w = planes.kernel(weights.data());
    reference::conv3x3(x, w, vector_view<const number>(bias), relu, planes.out(r.output.data()));
    reference::conv3x3_input_grad(gy, passes, w, planes.in(r.input_grad.data()));
    reference::conv3x3_weight_grad(x, gy, passes, planes.kernel(r.weight_grad.data()),
                                   vector_view<double>(r.bias_grad));
    return r;
  }

  /// M of conv3x3.hpp for each result, to which its error is relative; of the bias's gradient, the
  /// sum of the largest magnitudes of tiles, as often as a tile has locations. Infinite if a
  /// transform may overflow, because infinity times 0 is NaN.
  exact_results sizes(const std::vector<T>& relu_output) const {
    exact_results r = zeros();
    const index_t rows = (height + side() - 1) / side(), columns = (width + side() - 1) / side();
    const index_t tiles = rows * columns;
    const auto number_of = [](const std::vector<double>& of, index_t i) -> double {
      return of[static_cast<std::size_t>(i)];
    };
    std::vector<double> taps;  // outputs x inputs
    for (index_t pair = 0; pair < outputs * inputs; ++pair) {
      double most = 0;
      for (index_t tap = 9 * pair; tap < 9 * pair + 9; ++tap)
        most = std::max(most, magnitude(weights[static_cast<std::size_t>(tap)]));
      taps.push_back(most);
    }
    const conv_shape planes = in_planes();
    const auto gy = planes.out(upstream.data());
    const auto passes = planes_mask(relu_output);
    const auto read = tile_sizes(planes.in(input.data()), {}, 1),
               arriving = tile_sizes(gy, passes, 1), gradients = tile_sizes(gy, passes, 0);
    // Of a map whose channels are sums over `summed` others.
    const auto fill = [&](std::vector<double>& map, index_t channels,
                          const std::vector<double>& sources, index_t summed, const auto& tap,
                          const auto& shift) {
      for (index_t n = 0; n < images; ++n)
        for (index_t k = 0; k < channels; ++k)
          for (index_t at_tile = 0; at_tile < tiles; ++at_tile) {
            double size = shift(k);
            for (index_t c = 0; c < summed; ++c)
              size += product(tap(k, c), number_of(sources, (n * summed + c) * tiles + at_tile));
            const index_t top = at_tile / columns * side(), left = at_tile % columns * side();
            for (index_t y = top; y < std::min(height, top + side()); ++y)
              for (index_t x = left; x < std::min(width, left + side()); ++x)
                map[static_cast<std::size_t>(((n * channels + k) * height + y) * width + x)] = size;
          }
    };
    fill(
        r.output, outputs, read, inputs,
        [&](index_t k, index_t c) { return number_of(taps, k * inputs + c); },
        [&](index_t k) { return has_bias ? magnitude(bias[static_cast<std::size_t>(k)]) : 0; });
    fill(
        r.input_grad, inputs, arriving, outputs,
        [&](index_t c, index_t k) { return number_of(taps, k * inputs + c); },
        [](index_t) { return 0.0; });
    for (index_t n = 0; n < images; ++n)
      for (index_t at_tile = 0; at_tile < tiles; ++at_tile)
        for (index_t k = 0; k < outputs; ++k) {
          const double gradient = number_of(gradients, (n * outputs + k) * tiles + at_tile);
          r.bias_grad[static_cast<std::size_t>(k)] +=
              static_cast<double>(side() * side()) * gradient;
          for (index_t c = 0; c < inputs; ++c) {
            const double size =
                product(gradient, number_of(read, (n * inputs + c) * tiles + at_tile));
            for (index_t tap = 0; tap < 9; ++tap)
              r.weight_grad[static_cast<std::size_t>((k * inputs + c) * 9 + tap)] += size;
          }
        }
    return r;
  }

  /// Numbers above this may overflow in a transform.
  static constexpr double largest = std::is_same<T, double>::value ? 1e290 : 1e30;

 private:
  static constexpr feature_layout nchw = feature_layout::nchw;

  conv_shape in_planes() const { return with_layout(nchw); }
  feature_view<const T> planes_mask(const std::vector<T>& relu_output) const {
    return relu ? in_planes().out(relu_output.data()) : feature_view<const T>();
  }
  exact_results zeros() const {
    return {std::vector<double>(upstream.size()), std::vector<double>(input.size()),
            std::vector<double>(weights.size()),
            std::vector<double>(static_cast<std::size_t>(outputs))};
  }
  template <class Number>
  static double magnitude(Number x) {
    const auto size = std::abs(static_cast<double>(x));
    return size < HUGE_VAL ? size : HUGE_VAL;
  }
  static double product(double a, double b) {
    return a < largest && b < largest ? a * b : HUGE_VAL;
  }
  /// The largest magnitude in each tile and the `border` around it: images x channels x tiles. A
  /// mask without images passes everything.
  std::vector<double> tile_sizes(const feature_view<const T>& map,
                                 const feature_view<const T>& passes, index_t border) const {
    std::vector<double> sizes;
    for (index_t n = 0; n < images; ++n)
      for (index_t c = 0; c < map.channels(); ++c)
        for (index_t y = 0; y < height; y += side())
          for (index_t x = 0; x < width; x += side()) {
            double most = 0;
            for (index_t i = std::max(index_t{0}, y - border);
                 i < std::min(height, y + side() + border); ++i)
              for (index_t j = std::max(index_t{0}, x - border);
                   j < std::min(width, x + side() + border); ++j)
                if (passes.images() == 0 || reference::feature_at(passes, n, c, i, j) > 0)
                  most = std::max(most, magnitude(reference::feature_at(map, n, c, i, j)));
            sizes.push_back(most);
          }
    return sizes;
  }
};

}  // namespace vecdet::test

// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution of one or two levels of any sizes, channels, layouts and numbers, with its
// gradients. On finite numbers, the error of every result must be within the documented bound. On
// others, instruction sets must agree.
#include "fuzz_input.hpp"
#include "support/conv_bounds.hpp"
#include <vecdet/reference/conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

using namespace vecdet;

namespace {

struct shape {
  index_t images, inputs, outputs;
  std::vector<grid_size> levels;
  conv3x3_tile tile;

  index_t side() const { return tile == conv3x3_tile::f4x4 ? 4 : 2; }
};

/// One map per level, each with `channels` channels and in a tensor that ends at an inaccessible
/// page.
template <class T>
struct maps {
  const shape& sizes;
  index_t channels;
  feature_layout layout;
  std::vector<fuzz::tensor<T>> tensors;
  std::vector<head_level<T>> levels;
  std::vector<head_level<const T>> const_levels;

  /// make(count) returns the tensor of a level.
  template <class Make>
  maps(const shape& of, index_t c, feature_layout in, const Make& make)
      : sizes(of), channels(c), layout(in) {
    for (const grid_size& s : of.levels) {
      tensors.push_back(make(of.images * c * s.height * s.width));
      levels.push_back({tensors.back().data(), s.height, s.width});
      const_levels.push_back({tensors.back().data(), s.height, s.width});
    }
  }

  head_view<const T> in() const {
    return {const_levels, sizes.images, 1, channels, layout_of_head()};
  }
  head_view<T> out() const { return {levels, sizes.images, 1, channels, layout_of_head()}; }
  feature_view<const T> level(std::size_t l) const {
    return {tensors[l].data(), sizes.images, channels, levels[l].height, levels[l].width, layout};
  }
  head_layout layout_of_head() const {
    return layout == feature_layout::nchw ? head_layout::nchw : head_layout::nhwc;
  }
};

double size_of(double x) { return std::isfinite(x) ? std::abs(x) : HUGE_VAL; }

/// The largest magnitudes of the nine weights of each pair of channels.
template <class T>
std::vector<double> weight_sizes(const feature_view<const T>& w) {
  std::vector<double> sizes;
  for (index_t k = 0; k < w.images(); ++k)
    for (index_t c = 0; c < w.channels(); ++c) {
      double most = 0;
      for (index_t tap = 0; tap < 9; ++tap)
        most = std::max(
            most, size_of(static_cast<double>(reference::feature_at(w, k, c, tap / 3, tap % 3))));
      sizes.push_back(most);
    }
  return sizes;
}

/// The largest magnitude in the tile of (y, x) and in the `border` around it. A mask without images
/// passes everything.
template <class T>
double tile_size(const feature_view<const T>& map, const feature_view<const T>& mask, index_t side,
                 index_t border, index_t n, index_t c, index_t y, index_t x) {
  double most = 0;
  const index_t top = y / side * side, left = x / side * side;
  for (index_t i = std::max<index_t>(top - border, 0);
       i < std::min(top + side + border, map.height()); ++i)
    for (index_t j = std::max<index_t>(left - border, 0);
         j < std::min(left + side + border, map.width()); ++j)
      if (mask.images() == 0 || reference::feature_at(mask, n, c, i, j) > 0)
        most = std::max(most, size_of(static_cast<double>(reference::feature_at(map, n, c, i, j))));
  return most;
}

/// The allowed error of a result of this size whose bound in float is `bound`.
template <class T>
double allowed(double bound, double size) {
  return std::is_same<T, double>::value ? 1e-11 * size + 1e-290 : bound * size + 1e-33;
}

/// Numbers above this may overflow in a transform, and infinity times 0 is NaN.
template <class T>
constexpr double largest = std::is_same<T, double>::value ? 1e290 : 1e30;

/// The size of a product of two numbers of these sizes; infinite if a transform may overflow.
template <class T>
double product_size(double a, double b) {
  return a < largest<T> && b < largest<T> ? a * b : HUGE_VAL;
}

template <class T>
void expect(const char* what, double actual, double exact, double size, double error) {
  if (size < largest<T>) fuzz::expect_near([&] { return what; }, actual, exact, 0, error);
}

template <class T>
void fuzz_type(fuzz::input& in) {
  shape s;
  s.images = in.integer(0, 2);
  s.inputs = in.one_of<index_t>({1, 3, 16, 17, 33, 0});
  s.outputs = in.one_of<index_t>({1, 2, 16, 31, 33, 70, 0});
  s.tile = in.flag() ? conv3x3_tile::f4x4 : conv3x3_tile::f2x2;
  for (index_t l = in.integer(0, 2); l > 0; --l)
    s.levels.push_back({in.integer(0, 9), in.one_of<index_t>({1, 4, 5, 13, 33, 0})});
  const auto any_layout = [&] { return in.flag() ? feature_layout::nchw : feature_layout::nhwc; };
  const bool is_finite = in.flag(), relu = in.flag(), has_bias = in.flag();
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  const auto numbers = [&](index_t count) {
    auto values = in.numbers<T>(count);
    for (T& x : values)
      if (is_finite && !(std::abs(x) < 1e9)) x = T(1);
    return values;
  };
  const auto memory = [](index_t count) { return fuzz::tensor<T>(count); };
  const feature_layout input_layout = any_layout(), output_layout = any_layout();
  const maps<T> input(s, s.inputs, input_layout, numbers);
  const maps<T> upstream(s, s.outputs, output_layout, numbers);
  const maps<T> mask(s, s.outputs, any_layout(), numbers);
  const maps<T> output(s, s.outputs, output_layout, memory);
  const maps<T> input_grad(s, s.inputs, any_layout(), memory);
  const auto weights = numbers(s.outputs * s.inputs * 9), bias = numbers(s.outputs);
  const fuzz::tensor<T> weight_grad(weights.size()), bias_grad(s.outputs);
  const feature_view<const T> w(weights.data(), s.outputs, s.inputs, 3, 3, any_layout());
  const feature_view<T> w_grad(weight_grad.data(), s.outputs, s.inputs, 3, 3, w.layout());
  conv3x3_params<T> params;
  params.relu = relu;
  if (has_bias) params.bias = vector_view<const T>(bias.data(), s.outputs);
  const auto mask_view = relu ? mask.in() : head_view<const T>();

  // The exact results and the sizes of their terms.
  const std::vector<double> pair_sizes = weight_sizes(w);
  const auto pair = [&](index_t k, index_t c) {
    return pair_sizes[static_cast<std::size_t>(k * s.inputs + c)];
  };
  std::vector<std::vector<double>> exact_output, exact_input_grad;
  std::vector<double> exact_weights(static_cast<std::size_t>(weights.size())), weight_terms;
  std::vector<double> exact_bias(static_cast<std::size_t>(s.outputs)), bias_terms(exact_bias);
  weight_terms.resize(static_cast<std::size_t>(s.outputs * s.inputs));
  index_t tiles = 0;
  for (std::size_t l = 0; l < s.levels.size(); ++l) {
    const auto x = input.level(l), up = upstream.level(l);
    const auto passes = relu ? mask.level(l) : feature_view<const T>();
    exact_output.emplace_back(static_cast<std::size_t>(up.size()));
    exact_input_grad.emplace_back(static_cast<std::size_t>(x.size()));
    reference::conv3x3<T>(
        x, w, params.bias, relu,
        {exact_output.back().data(), s.images, s.outputs, x.height(), x.width(), output.layout});
    reference::conv3x3_input_grad<T>(up, passes, w,
                                     {exact_input_grad.back().data(), s.images, s.inputs,
                                      x.height(), x.width(), input_grad.layout});
    std::vector<double> level_weights(exact_weights.size()), level_bias(exact_bias.size());
    reference::conv3x3_weight_grad<T>(x, up, passes,
                                      {level_weights.data(), s.outputs, s.inputs, 3, 3, w.layout()},
                                      vector_view<double>(level_bias));
    for (std::size_t i = 0; i < level_weights.size(); ++i) exact_weights[i] += level_weights[i];
    for (std::size_t k = 0; k < level_bias.size(); ++k) exact_bias[k] += level_bias[k];
    for (index_t n = 0; n < s.images; ++n)
      for (index_t y = 0; y < x.height(); y += s.side())
        for (index_t column = 0; column < x.width(); column += s.side()) {
          ++tiles;
          std::vector<double> input_sizes;
          for (index_t c = 0; c < s.inputs; ++c)
            input_sizes.push_back(tile_size(x, {}, s.side(), 1, n, c, y, column));
          for (index_t k = 0; k < s.outputs; ++k) {
            const double size = tile_size(up, passes, s.side(), 0, n, k, y, column);
            bias_terms[static_cast<std::size_t>(k)] += size;
            for (index_t c = 0; c < s.inputs; ++c)
              weight_terms[static_cast<std::size_t>(k * s.inputs + c)] +=
                  product_size<T>(size, input_sizes[static_cast<std::size_t>(c)]);
          }
        }
  }

  const auto check_map = [&](const char* what, const maps<T>& from, const maps<T>& actual,
                             const std::vector<std::vector<double>>& exact, bool forward) {
    for (std::size_t l = 0; l < s.levels.size(); ++l) {
      const auto source = from.level(l), target = actual.level(l);
      const auto passes = relu && !forward ? mask.level(l) : feature_view<const T>();
      for (index_t n = 0; n < s.images; ++n)
        for (index_t y = 0; y < target.height(); ++y)
          for (index_t x = 0; x < target.width(); ++x) {
            std::vector<double> tile_sizes;
            for (index_t c = 0; c < from.channels; ++c)
              tile_sizes.push_back(tile_size(source, passes, s.side(), 1, n, c, y, x));
            for (index_t k = 0; k < actual.channels; ++k) {
              double size = forward && has_bias
                                ? size_of(static_cast<double>(bias[static_cast<std::size_t>(k)]))
                                : 0;
              for (index_t c = 0; c < from.channels; ++c) {
                const double weight = forward ? pair(k, c) : pair(c, k);
                size += product_size<T>(weight, tile_sizes[static_cast<std::size_t>(c)]);
              }
              const T& result = reference::feature_at(target, n, k, y, x);
              expect<T>(what, static_cast<double>(result),
                        exact[l][static_cast<std::size_t>(&result - target.data())], size,
                        allowed<T>(test::conv3x3_error_bound(s.tile, from.channels), size));
            }
          }
    }
  };
  conv3x3_workspace workspace;
  fuzz::on_every_isa("the convolution", [&](fuzz::results& results) {
    const conv3x3_weights<T> forward(w, conv3x3_use::forward, s.tile, policy);
    const conv3x3_weights<T> backward(w, conv3x3_use::input_grad, s.tile, policy);
    conv3x3<const T>(input.in(), forward, output.out(), params, workspace, policy);
    conv3x3_input_grad<const T>(upstream.in(), mask_view, backward, input_grad.out(), workspace,
                                policy);
    conv3x3_weight_grad<const T>(input.in(), upstream.in(), mask_view, w_grad,
                                 vector_view<T>(bias_grad.data(), bias_grad.size()), s.tile,
                                 workspace, policy);
    for (const auto& level : output.tensors) results.add(level);
    for (const auto& level : input_grad.tensors) results.add(level);
    results.add(weight_grad);
    results.add(bias_grad);
    check_map("an output", input, output, exact_output, true);
    check_map("the input's gradient", upstream, input_grad, exact_input_grad, false);
    for (index_t k = 0; k < s.outputs; ++k) {
      const double bias_size = bias_terms[static_cast<std::size_t>(k)];
      expect<T>("the bias's gradient", static_cast<double>(bias_grad[static_cast<std::size_t>(k)]),
                exact_bias[static_cast<std::size_t>(k)], bias_size,
                allowed<T>(0x1p-23, static_cast<double>(s.side() * s.side()) * bias_size));
      for (index_t c = 0; c < s.inputs; ++c)
        for (index_t tap = 0; tap < 9; ++tap) {
          const T& result = reference::feature_at(w_grad, k, c, tap / 3, tap % 3);
          const double size = weight_terms[static_cast<std::size_t>(k * s.inputs + c)];
          expect<T>("the weights' gradient", static_cast<double>(result),
                    exact_weights[static_cast<std::size_t>(&result - w_grad.data())], size,
                    allowed<T>(test::conv3x3_weight_grad_error_bound(s.tile, tiles), size));
        }
    }
  });
}

}  // namespace

void fuzz::target(input& in) {
  if (in.flag())
    fuzz_type<float>(in);
  else
    fuzz_type<double>(in);
}

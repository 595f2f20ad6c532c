// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution of one or two levels of any sizes, channels, layouts and numbers, with its
// gradients. On finite numbers, the error of every result must be within the documented bound. On
// others, instruction sets must agree.
#include "fuzz_input.hpp"
#include "support/conv_bounds.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

using namespace vecdet;

namespace {

struct shape {
  index_t images, inputs, outputs;
  std::vector<grid_size> levels;
  conv3x3_tile tile;
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

  // Each level as a problem of its own, in NCHW.
  const auto planes = [](const feature_view<const T>& map) {
    return test::relaid(std::vector<T>(map.data(), map.data() + map.size()), map,
                        feature_layout::nchw);
  };
  std::vector<test::conv_results<double>> exact, sizes;
  test::conv_results<double> all, all_sizes;  // of weights and bias
  for (test::conv_results<double>* sum : {&all, &all_sizes}) {
    sum->weight_grad.resize(static_cast<std::size_t>(weights.size()));
    sum->bias_grad.resize(static_cast<std::size_t>(s.outputs));
  }
  index_t tiles = 0;
  for (std::size_t l = 0; l < s.levels.size(); ++l) {
    test::conv_problem<T> p({s.images, s.inputs, s.levels[l].height, s.levels[l].width, s.outputs});
    p.tile = s.tile;
    p.relu = relu;
    p.has_bias = has_bias;
    p.input = planes(input.level(l));
    p.upstream = planes(upstream.level(l));
    p.weights = planes(w);
    if (has_bias) p.bias.assign(bias.begin(), bias.end());
    const std::vector<T> passes = planes(mask.level(l));
    exact.push_back(p.exact(passes));
    sizes.push_back(p.sizes(passes));
    const auto add = [](std::vector<double>& sum, const std::vector<double>& summand) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += summand[i];
    };
    add(all.weight_grad, exact[l].weight_grad);
    add(all.bias_grad, exact[l].bias_grad);
    add(all_sizes.weight_grad, sizes[l].weight_grad);
    add(all_sizes.bias_grad, sizes[l].bias_grad);
    tiles += p.tiles();
  }
  test::conv_shape channels;
  channels.inputs = s.inputs;
  channels.outputs = s.outputs;
  channels.tile = s.tile;
  const test::conv_errors bounds = test::conv3x3_bounds<T>(channels, tiles);
  const auto check = [](const char* what, const std::vector<T>& actual,
                        const std::vector<double>& expected, const std::vector<double>& size,
                        double bound) {
    fuzz::expect_within_bound(what, test::conv3x3_error(actual, expected, size) / bound);
  };
  conv3x3_workspace workspace;
  fuzz::on_every_isa("the convolution", [&](fuzz::results& results) {
    const conv3x3_weights<T> forward(w, conv3x3_use::forward, s.tile, policy);
    const conv3x3_weights<T> backward(w, conv3x3_use::input_grad, s.tile, policy);
    conv3x3<const T>(input.in(), forward, output.out(), params, workspace, policy);
    conv3x3_input_grad<const T>(upstream.in(), mask_view, backward, input_grad.out(), workspace,
                                policy);
    conv3x3_weight_grad<const T>(
        input.in(), upstream.in(), mask_view,
        {w_grad, vector_view<T>(bias_grad.data(), bias_grad.size()), s.tile}, workspace, policy);
    for (const auto& level : output.tensors) results.add(level);
    for (const auto& level : input_grad.tensors) results.add(level);
    results.add(weight_grad);
    results.add(bias_grad);
    for (std::size_t l = 0; l < s.levels.size(); ++l) {
      check("an output", planes(output.level(l)), exact[l].output, sizes[l].output, bounds.output);
      check("the input's gradient", planes(input_grad.level(l)), exact[l].input_grad,
            sizes[l].input_grad, bounds.input_grad);
    }
    check("the weights' gradient", planes(w_grad), all.weight_grad, all_sizes.weight_grad,
          bounds.weight_grad);
    check("the bias's gradient", {bias_grad.begin(), bias_grad.end()}, all.bias_grad,
          all_sizes.bias_grad, bounds.bias_grad);
  });
}

}  // namespace

void fuzz::target(input& in) {
  if (in.flag())
    fuzz_type<float>(in);
  else
    fuzz_type<double>(in);
}

// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/conv3x3.hpp>

#include <type_traits>

namespace vecdet::test {
namespace {

/// The weights of a layer and their gradients, for maps of `Map`.
template <class Map>
struct layer {
  using T = compute_type<Map>;
  index_t inputs, outputs;
  placed<T> weights, bias, weight_grad, bias_grad;
  conv3x3_weights<T> reused;  ///< transformed by each call
  conv3x3_workspace workspace;

  layer(operands& make, index_t input_channels, index_t output_channels)
      : inputs(input_channels),
        outputs(output_channels),
        weights(make.numbers<T>(9 * inputs * outputs, -1, 1)),
        bias(make.numbers<T>(outputs, -1, 1)),
        weight_grad(make.room<T>(9 * inputs * outputs)),
        bias_grad(make.room<T>(outputs)) {}

  feature_view<const T> weights_view() const {
    return {weights.data(), outputs, inputs, 3, 3, feature_layout::nchw};
  }
  /// Weights that are transformed once for many calls.
  std::shared_ptr<const conv3x3_weights<T>> transformed(conv3x3_use use, conv3x3_tile tile) const {
    return std::make_shared<const conv3x3_weights<T>>(weights_view(), use, tile,
                                                      threading::sequential);
  }
  feature_view<T> weight_grad_view() const {
    return {weight_grad.data(), outputs, inputs, 3, 3, feature_layout::nchw};
  }
  conv3x3_params<T> params() const {
    conv3x3_params<T> with_bias;
    with_bias.bias = bias;
    with_bias.relu = true;
    return with_bias;
  }
};

/// Channels of inputs and outputs in problems of a size. double is computed directly: the
/// sanitizers make that slow.
template <class T>
constexpr index_t some_inputs = std::is_same<T, double>::value ? 3 : 16;
template <class T>
constexpr index_t some_outputs = std::is_same<T, double>::value ? 5 : 20;

/// Calls on one map. `output` is both the forward output and the upstream gradient.
template <class T>
struct conv3x3_calls : layer<T> {
  index_t images, height, width;
  placed<T> input, output, mask, out, grad;

  static std::vector<shape> sweep(index_t length) {
    return {{1, 3, 2, length, 5}, {2, length, 3, 4, 4}};
  }
  static shape sized(index_t rows) {
    return {2, some_inputs<T>, rows / 240 + 3, 48, some_outputs<T>};
  }

  conv3x3_calls(operands& make, const problem& p)
      : layer<T>(make, p.shape[1], p.shape[4]),
        images(p.shape[0]),
        height(p.shape[2]),
        width(p.shape[3]),
        input(make.numbers<T>(images * this->inputs * height * width, -1, 1)),
        output(make.numbers<T>(images * this->outputs * height * width, -1, 1)),
        mask(make.numbers<T>(images * this->outputs * height * width, -1, 1)),
        out(make.room<T>(images * this->outputs * height * width)),
        grad(make.room<T>(images * this->inputs * height * width)) {}

  template <class Numbers>
  feature_view<Numbers> view(Numbers* of, index_t channels, feature_layout layout) const {
    return {of, images, channels, height, width, layout};
  }

  void list(call_list& c) {
    add(c, "", feature_layout::nchw, conv3x3_tile::f4x4);
    add(c, "f2x2", feature_layout::nchw, conv3x3_tile::f2x2);
    add(c, "nhwc", feature_layout::nhwc, conv3x3_tile::f4x4);
    add(c, "nhwc_f2x2", feature_layout::nhwc, conv3x3_tile::f2x2);
  }

  void add(call_list& c, const std::string& variant, feature_layout layout, conv3x3_tile tile) {
    const auto forward = this->transformed(conv3x3_use::forward, tile);
    const auto backward = this->transformed(conv3x3_use::input_grad, tile);
    c.add("conv3x3/" + variant, reads(input, this->bias).writes(out),
          [this, layout, forward](threading policy) {
            conv3x3(view<const T>(input.data(), this->inputs, layout), *forward,
                    view(out.data(), this->outputs, layout), this->params(), this->workspace,
                    policy);
          });
    c.add("conv3x3/" + variant + "/weights", reads(input, this->bias).writes(out),
          [this, tile, layout](threading policy) {
            this->reused.assign(this->weights_view(), conv3x3_use::forward, tile, policy);
            conv3x3(view<const T>(input.data(), this->inputs, layout), this->reused,
                    view(out.data(), this->outputs, layout), this->params(), this->workspace,
                    policy);
          });
    const auto upstream = [this, layout] {
      return view<const T>(output.data(), this->outputs, layout);
    };
    const auto relu_output = [this, layout] {
      return view<const T>(mask.data(), this->outputs, layout);
    };
    const auto input_grads = [this, layout, upstream, backward](threading policy,
                                                                feature_view<const T> relu) {
      conv3x3_input_grad(upstream(), relu, *backward, view(grad.data(), this->inputs, layout),
                         this->workspace, policy);
    };
    c.add("conv3x3_input_grad/" + variant, reads(output).writes(grad),
          [input_grads](threading policy) { input_grads(policy, {}); });
    c.add("conv3x3_input_grad/" + variant + "/relu", reads(output, mask).writes(grad),
          [input_grads, relu_output](threading policy) { input_grads(policy, relu_output()); });
    const auto weight_grads = [this, layout, tile, upstream](threading policy,
                                                             feature_view<const T> relu) {
      conv3x3_weight_grad(view<const T>(input.data(), this->inputs, layout), upstream(), relu,
                          {this->weight_grad_view(), this->bias_grad.out(), tile}, this->workspace,
                          policy);
    };
    c.add("conv3x3_weight_grad/" + variant,
          reads(input, output).writes(this->weight_grad, this->bias_grad),
          [weight_grads](threading policy) { weight_grads(policy, {}); });
    c.add("conv3x3_weight_grad/" + variant + "/relu",
          reads(input, output, mask).writes(this->weight_grad, this->bias_grad),
          [weight_grads, relu_output](threading policy) { weight_grads(policy, relu_output()); });
  }
};

/// Calls on a square level and a level of one row, with this total number of locations.
template <class T>
struct level_calls : layer<T> {
  struct heads {
    placed_head<T> input, output, out, grad;
  };
  std::vector<heads> by_layout;

  static std::vector<shape> sweep(index_t length) { return {{2, 3, length + 1, 5}}; }
  static shape sized(index_t rows) { return {2, some_inputs<T>, rows / 5 + 20, some_outputs<T>}; }
  static bool takes(const problem& p) { return p.shape[2] > 1; }

  level_calls(operands& make, const problem& p) : layer<T>(make, p.shape[1], p.shape[3]) {
    index_t side = 1;
    while ((side + 1) * (side + 1) < p.shape[2]) ++side;
    const head_sizes sizes{p.shape[0], 1, {{side, side}, {1, p.shape[2] - side * side}}};
    const auto head = [&](index_t channels, head_layout layout) {
      placed_head<T> of(sizes, channels, channels, layout);
      for (const grid_size& level : sizes.levels)
        of.levels.push_back(
            make.numbers<T>(sizes.images * channels * level.height * level.width, -1, 1));
      return of;
    };
    for (const head_layout layout : {head_layout::nchw, head_layout::nhwc})
      by_layout.push_back({head(this->inputs, layout), head(this->outputs, layout),
                           head(this->outputs, layout), head(this->inputs, layout)});
  }

  void list(call_list& c) {
    add(c, "levels", by_layout[0], conv3x3_tile::f4x4);
    add(c, "levels_f2x2", by_layout[0], conv3x3_tile::f2x2);
    add(c, "levels_nhwc", by_layout[1], conv3x3_tile::f4x4);
    add(c, "levels_nhwc_f2x2", by_layout[1], conv3x3_tile::f2x2);
  }

  void add(call_list& c, const std::string& variant, heads& at, conv3x3_tile tile) {
    const auto forward = this->transformed(conv3x3_use::forward, tile);
    const auto backward = this->transformed(conv3x3_use::input_grad, tile);
    c.add("conv3x3/" + variant, reads(at.input, this->bias).writes(at.out),
          [this, &at, forward](threading policy) {
            conv3x3(at.input.in(), *forward, at.out.out(), this->params(), this->workspace, policy);
          });
    c.add("conv3x3_input_grad/" + variant, reads(at.output).writes(at.grad),
          [this, &at, backward](threading policy) {
            conv3x3_input_grad(at.output.in(), {}, *backward, at.grad.out(), this->workspace,
                               policy);
          });
    c.add("conv3x3_weight_grad/" + variant,
          reads(at.input, at.output).writes(this->weight_grad, this->bias_grad),
          [this, &at, tile](threading policy) {
            conv3x3_weight_grad(at.input.in(), at.output.in(), {},
                                {this->weight_grad_view(), this->bias_grad.out(), tile},
                                this->workspace, policy);
          });
  }
};

const registered_family registered[] = {
    calls_of<conv3x3_calls, float, bfloat16, double>("conv3x3"),
    calls_of<level_calls, float, bfloat16, double>("conv3x3/levels"),
};

}  // namespace
}  // namespace vecdet::test

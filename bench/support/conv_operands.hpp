// SPDX-License-Identifier: Apache-2.0
// Operands of 3x3 convolutions for benchmarks.
#pragma once

#include "scene.hpp"
#include <vecdet/conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace vecdet::bench {

struct conv_shape {
  index_t images, inputs, height, width, outputs;
  feature_layout layout = feature_layout::nchw;
  conv3x3_tile tile = conv3x3_tile::f4x4;
};

/// Inputs as after a ReLU, and weights with He's variance. Maps are of T: float or bfloat16.
template <class T>
struct conv_operands_of {
  conv_shape shape;
  std::vector<T> input;
  std::vector<float> weights, bias;
  std::vector<T> output, upstream, input_grad;
  std::vector<float> weight_grad, bias_grad;
  conv3x3_weights<float> forward_weights, backward_weights;
  conv3x3_workspace workspace;

  explicit conv_operands_of(const conv_shape& of)
      : shape(of),
        input(uniform_numbers<T>(of.images * of.inputs * of.height * of.width, 1, 1)),
        weights(uniform_numbers<float>(of.outputs * of.inputs * 9, 2,
                                       std::sqrt(6 / (9 * static_cast<double>(of.inputs))))),
        bias(uniform_numbers<float>(of.outputs, 3, 1)),
        output(static_cast<std::size_t>(of.images * of.outputs * of.height * of.width)),
        upstream(uniform_numbers<T>(static_cast<index_t>(output.size()), 4, 1)),
        input_grad(input.size()),
        weight_grad(weights.size()),
        bias_grad(bias.size()) {
    for (T& x : input) x = T(std::max(static_cast<float>(x), 0.0f));
  }

  feature_view<const float> weights_view() const {
    return {weights.data(), shape.outputs, shape.inputs, 3, 3, shape.layout};
  }
  /// Includes the transformation of the weights, as in training.
  void forward(threading policy) {
    forward_weights.assign(weights_view(), conv3x3_use::forward, shape.tile, policy);
    conv3x3_params<float> params;
    params.bias = bias;
    conv3x3(map<const T>(input.data(), shape.inputs), forward_weights,
            map<T>(output.data(), shape.outputs), params, workspace, policy);
  }
  void backward_input(threading policy) {
    backward_weights.assign(weights_view(), conv3x3_use::input_grad, shape.tile, policy);
    conv3x3_input_grad(map<const T>(upstream.data(), shape.outputs), {}, backward_weights,
                       map<T>(input_grad.data(), shape.inputs), workspace, policy);
  }
  void backward_weight(threading policy) {
    conv3x3_weight_grad(
        map<const T>(input.data(), shape.inputs), map<const T>(upstream.data(), shape.outputs), {},
        feature_view<float>(weight_grad.data(), shape.outputs, shape.inputs, 3, 3, shape.layout),
        vector_view<float>(bias_grad), shape.tile, workspace, policy);
  }

  template <class U>
  feature_view<U> map(U* data, index_t channels) const {
    return {data, shape.images, channels, shape.height, shape.width, shape.layout};
  }
};
using conv_operands = conv_operands_of<float>;

}  // namespace vecdet::bench

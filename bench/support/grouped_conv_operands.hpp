// SPDX-License-Identifier: Apache-2.0
// Operands of grouped and strided 3x3 convolutions for benchmarks.
#pragma once

#include "scene.hpp"
#include <vecdet/grouped_conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::bench {

struct grouped_conv_shape {
  index_t images, inputs, height, width, outputs, groups, stride;
  feature_layout layout = feature_layout::nchw;

  index_t output_height() const { return (height + stride - 1) / stride; }
  index_t output_width() const { return (width + stride - 1) / stride; }
  index_t group_inputs() const { return inputs / groups; }
};

/// Inputs as after a ReLU, and weights with He's variance.
struct grouped_conv_operands {
  grouped_conv_shape shape;
  std::vector<float> input, weights, bias, output, upstream, input_grad, weight_grad, bias_grad;
  grouped_conv3x3_params params;
  grouped_conv3x3_workspace workspace;

  explicit grouped_conv_operands(const grouped_conv_shape& of)
      : shape(of),
        input(uniform_numbers<float>(of.images * of.inputs * of.height * of.width, 1, 1)),
        weights(
            uniform_numbers<float>(of.outputs * of.group_inputs() * 9, 2,
                                   std::sqrt(6 / (9 * static_cast<double>(of.group_inputs()))))),
        bias(uniform_numbers<float>(of.outputs, 3, 1)),
        output(static_cast<std::size_t>(of.images * of.outputs * of.output_height() *
                                        of.output_width())),
        upstream(uniform_numbers<float>(static_cast<index_t>(output.size()), 4, 1)),
        input_grad(input.size()),
        weight_grad(weights.size()),
        bias_grad(bias.size()) {
    for (float& x : input) x = std::max(x, 0.0f);
    params.groups = of.groups;
    params.stride = of.stride;
  }

  void forward(threading policy) {
    grouped_conv3x3(in(input.data()), kernel(weights.data()), vector_view<const float>(bias),
                    out(output.data()), params, workspace, policy);
  }
  void backward_input(threading policy) {
    grouped_conv3x3_input_grad(out(upstream.data()), kernel(weights.data()), in(input_grad.data()),
                               params, workspace, policy);
  }
  void backward_weight(threading policy) {
    grouped_conv3x3_weight_grad(in(input.data()), out(upstream.data()), kernel(weight_grad.data()),
                                vector_view<float>(bias_grad), params, workspace, policy);
  }

 private:
  feature_view<float> in(float* data) const {
    return {data, shape.images, shape.inputs, shape.height, shape.width, shape.layout};
  }
  feature_view<float> out(float* data) const {
    return {data,        shape.images, shape.outputs, shape.output_height(), shape.output_width(),
            shape.layout};
  }
  feature_view<float> kernel(float* data) const {
    return {data, shape.outputs, shape.group_inputs(), 3, 3, shape.layout};
  }
};

}  // namespace vecdet::bench

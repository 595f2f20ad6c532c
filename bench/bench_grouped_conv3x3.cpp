// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution and its gradients: the layers of a ResNeXt50-32x4d at 800 x 800, and 3x3
// convolutions of a YOLOv8-s with stride 2 (conv3x3_stride2). Shapes are pictures x input channels
// x height x width, with the groups, or x output channels. Elements are multiplications. The timed
// call of vecdet includes the arrangement of the weights; that of oneDNN includes the reorders that
// PyTorch requests.
//
// Bound of 1x128x200x200_g32: 184 million multiply-adds, at two vectors per cycle; 20 MB are read
// and 20 MB written, which takes longer from memory.
#include "plain/grouped_conv3x3.hpp"
#include "support/implementations.hpp"
#include "support/onednn_conv3x3.hpp"
#include "support/scene.hpp"
#include <vecdet/grouped_conv3x3.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;

struct grouped_shape {
  index_t images, inputs, height, width, outputs, groups, stride;
  feature_layout layout = nchw;

  index_t output_height() const { return (height + stride - 1) / stride; }
  index_t output_width() const { return (width + stride - 1) / stride; }
  index_t group_inputs() const { return inputs / groups; }
  std::string function() const { return groups > 1 ? "grouped_conv3x3" : "conv3x3_stride2"; }
  std::string name() const {
    const auto text = [](index_t n) { return std::to_string(n); };
    return text(images) + "x" + text(inputs) + "x" + text(height) + "x" + text(width) +
           (groups > 1 ? "_g" + text(groups) + (stride > 1 ? "_s2" : "") : "x" + text(outputs));
  }
  work all() const {
    const double outs = static_cast<double>(images * outputs * output_height() * output_width());
    const double ins = static_cast<double>(images * inputs * height * width);
    const double pairs = static_cast<double>(9 * group_inputs());
    return {outs * pairs, 4 * (outs + ins + pairs * static_cast<double>(outputs))};
  }
};

/// Inputs as after a ReLU, and weights with He's variance.
struct grouped_operands {
  grouped_shape shape;
  std::vector<float> input, weights, bias, output, upstream, input_grad, weight_grad, bias_grad;
  grouped_conv3x3_params params;
  grouped_conv3x3_workspace workspace;

  explicit grouped_operands(const grouped_shape& of)
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

/// The operands of the current problem; the previous ones are freed.
std::shared_ptr<grouped_operands> make_operands(const grouped_shape& shape) {
  static std::shared_ptr<grouped_operands> current;
  if (current != nullptr && current->shape.name() == shape.name() &&
      current->shape.layout == shape.layout)
    return current;
  current.reset();
  current = std::make_shared<grouped_operands>(shape);
  return current;
}

/// oneDNN's primitive with the reorders that PyTorch runs around it.
void register_onednn(const std::string& name, const grouped_shape& s, const char* propagation) {
  if (!profile::why_no_primitives().empty()) return;
  const auto problem =
      onednn_conv3x3({s.images, s.inputs, s.outputs, s.height, s.width, s.groups, s.stride},
                     propagation, "convolution_direct");
  const std::string layout = s.layout == nchw ? "nchw" : "channels_last";
  register_implementation(name, "onednn", 1, s.all(), [=](benchmark::State& state) {
    time_onednn(state, problem, {layout, "f32"}, 1);
  });
}

void add(grouped_shape shape) {
  for (const feature_layout layout : {nchw, nhwc}) {
    shape.layout = layout;
    const std::string rest = std::string(layout == nhwc ? "/nhwc" : "") + "/f32/" + shape.name();
    const auto prepare = [=] { return make_operands(shape); };
    const auto add_function = [&](const std::string& suffix, const char* propagation,
                                  const auto& call, const auto& plain, auto result) {
      const std::string name = shape.function() + suffix + rest;
      if (layout == nchw)
        register_with_plain(name, shape.all(), prepare, call, plain, result);
      else
        register_vecdet(name, shape.all(), prepare, call);
      register_onednn(name, shape, propagation);
    };
    add_function(
        "", "forward_training", [](grouped_operands& d, threading policy) { d.forward(policy); },
        [=](grouped_operands& d) {
          VECDET_PLAIN(plain_grouped_conv3x3)
          (d.input.data(), shape.inputs, shape.height, shape.width, d.weights.data(), d.bias.data(),
           shape.outputs, shape.groups, shape.stride, d.output.data());
        },
        &grouped_operands::output);
    add_function(
        "_input_grad", "backward_data",
        [](grouped_operands& d, threading policy) { d.backward_input(policy); },
        [=](grouped_operands& d) {
          VECDET_PLAIN(plain_grouped_conv3x3_input_grad)
          (d.upstream.data(), shape.inputs, shape.height, shape.width, d.weights.data(),
           shape.outputs, shape.groups, shape.stride, d.input_grad.data());
        },
        &grouped_operands::input_grad);
    add_function(
        "_weight_grad", "backward_weights",
        [](grouped_operands& d, threading policy) { d.backward_weight(policy); },
        [=](grouped_operands& d) {
          VECDET_PLAIN(plain_grouped_conv3x3_weight_grad)
          (d.input.data(), shape.inputs, shape.height, shape.width, d.upstream.data(),
           shape.outputs, shape.groups, shape.stride, d.weight_grad.data(), d.bias_grad.data());
        },
        &grouped_operands::weight_grad);
  }
}

const bool registered = [] {
  add({1, 128, 200, 200, 128, 32, 1});
  add({1, 256, 100, 100, 256, 32, 1});
  add({1, 256, 200, 200, 256, 32, 2});
  add({1, 512, 50, 50, 512, 32, 1});
  add({1, 512, 100, 100, 512, 32, 2});
  add({1, 1024, 25, 25, 1024, 32, 1});
  add({1, 1024, 50, 50, 1024, 32, 2});
  add({1, 64, 160, 160, 128, 1, 2});
  add({1, 128, 80, 80, 256, 1, 2});
  add({1, 256, 40, 40, 512, 1, 2});
  add({1, 3, 640, 640, 32, 1, 2});
  return true;
}();

}  // namespace
}  // namespace vecdet::bench

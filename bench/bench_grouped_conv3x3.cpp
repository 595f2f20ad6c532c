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
#include "support/conv_operands.hpp"
#include "support/implementations.hpp"
#include "support/onednn_conv3x3.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;

std::string function_of(const grouped_conv_shape& s) {
  return s.groups > 1 ? "grouped_conv3x3" : "conv3x3_stride2";
}
std::string name_of(const grouped_conv_shape& s) {
  return joined({s.images, s.inputs, s.height, s.width}) +
         (s.groups > 1 ? "_g" + std::to_string(s.groups) + (s.stride > 1 ? "_s2" : "")
                       : "x" + std::to_string(s.outputs));
}
work work_of(const grouped_conv_shape& s) {
  const double outs =
      static_cast<double>(s.images * s.outputs * s.output_height() * s.output_width());
  const double ins = static_cast<double>(s.images * s.inputs * s.height * s.width);
  const double pairs = static_cast<double>(9 * s.group_inputs());
  return {outs * pairs, 4 * (outs + ins + pairs * static_cast<double>(s.outputs))};
}

/// oneDNN's primitive with the reorders that PyTorch runs around it.
void register_onednn(const std::string& name, const grouped_conv_shape& s,
                     const char* propagation) {
  if (!profile::why_no_primitives().empty()) return;
  const auto problem =
      onednn_conv3x3({s.images, s.inputs, s.outputs, s.height, s.width, s.groups, s.stride},
                     propagation, "convolution_direct");
  const std::string layout = s.input_layout == nchw ? "nchw" : "channels_last";
  register_implementation(name, "onednn", 1, work_of(s), [=](benchmark::State& state) {
    time_onednn(state, problem, {layout, "f32"}, 1);
  });
}

void add(grouped_conv_shape shape) {
  for (const feature_layout layout : {nchw, nhwc}) {
    shape = shape.with_layout(layout);
    const std::string rest = std::string(layout == nhwc ? "/nhwc" : "") + "/f32/" + name_of(shape);
    const auto prepare = [=] { return current_data<grouped_conv_operands>(shape.name(), shape); };
    const auto add_function = [&](const std::string& suffix, const char* propagation,
                                  const auto& call, const auto& plain, auto result) {
      const std::string name = function_of(shape) + suffix + rest;
      if (layout == nchw)
        register_with_plain(name, work_of(shape), prepare, call, plain, result);
      else
        register_vecdet(name, work_of(shape), prepare, call);
      register_onednn(name, shape, propagation);
    };
    add_function(
        "", "forward_training",
        [](grouped_conv_operands& d, threading policy) { d.forward(policy); },
        [=](grouped_conv_operands& d) {
          VECDET_PLAIN(plain_grouped_conv3x3)
          (d.input.data(), shape.inputs, shape.height, shape.width, d.weights.data(), d.bias.data(),
           shape.outputs, shape.groups, shape.stride, d.output.data());
        },
        &grouped_conv_operands::output);
    add_function(
        "_input_grad", "backward_data",
        [](grouped_conv_operands& d, threading policy) { d.backward_input(policy); },
        [=](grouped_conv_operands& d) {
          VECDET_PLAIN(plain_grouped_conv3x3_input_grad)
          (d.upstream.data(), shape.inputs, shape.height, shape.width, d.weights.data(),
           shape.outputs, shape.groups, shape.stride, d.input_grad.data());
        },
        &grouped_conv_operands::input_grad);
    add_function(
        "_weight_grad", "backward_weights",
        [](grouped_conv_operands& d, threading policy) { d.backward_weight(policy); },
        [=](grouped_conv_operands& d) {
          VECDET_PLAIN(plain_grouped_conv3x3_weight_grad)
          (d.input.data(), shape.inputs, shape.height, shape.width, d.upstream.data(),
           shape.outputs, shape.groups, shape.stride, d.weight_grad.data(), d.bias_grad.data());
        },
        &grouped_conv_operands::weight_grad);
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

// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution, its gradients, and the levels of a pyramid in one call. Shapes are pictures x
// input channels x height x width x output channels; elements are multiplications of the direct
// convolution. The timed call of vecdet includes the transformation of the weights, as in training;
// that of oneDNN includes the reorders that PyTorch requests.
//
// Bound of 1x256x100x100x256: 625 tiles with 36 products of 256 x 256 each are 1.47 billion
// multiply-adds, at two vectors per cycle. 10 MB of input are read and 10 MB of output written. 9.4
// MB of transformed weights are written once, and read once per block of about 45 tiles.
#include "plain/conv3x3.hpp"
#include "support/conv_operands.hpp"
#include "support/implementations.hpp"
#include "support/onednn_conv3x3.hpp"
#include <vecdet/head_levels.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr auto nchw = feature_layout::nchw, nhwc = feature_layout::nhwc;
using operands = conv3x3_operands<>;

template <class T = float>
auto make_operands(const conv_shape& shape) {
  return current_data<conv3x3_operands<T>>(shape.name(), shape);
}

template <class T = float>
work work_of(const conv_shape& s) {
  const double locations = static_cast<double>(s.images * s.height * s.width);
  const double weights = static_cast<double>(9 * s.inputs * s.outputs);
  return {locations * weights,
          sizeof(T) * locations * static_cast<double>(s.inputs + s.outputs) + 4 * weights};
}

std::string shape_name(const conv_shape& s) {
  return joined({s.images, s.inputs, s.height, s.width, s.outputs});
}

onednn_conv3x3_sizes sizes_of(const conv_shape& s) {
  return {s.images, s.inputs, s.outputs, s.height, s.width};
}

/// oneDNN's primitives with the reorders that PyTorch runs around them: the direct convolution, and
/// the Winograd convolution that versions up to 2 have for AVX-512.
void register_onednn(const std::string& name, const conv_shape& shape, const char* propagation,
                     const char* type = "f32") {
  if (!profile::why_no_primitives().empty()) return;
  const int all_threads = tbb::this_task_arena::max_concurrency();
  for (const char* algorithm : {"convolution_direct", "convolution_winograd"})
    for (const int threads : {1, all_threads}) {
      const bool is_direct = algorithm == std::string("convolution_direct");
      register_implementation(
          name, is_direct ? "onednn" : "onednn_winograd", threads, work_of(shape),
          [=](benchmark::State& state) {
            time_onednn(state, onednn_conv3x3(sizes_of(shape), propagation, algorithm),
                        {shape.input_layout == nchw ? "nchw" : "channels_last", type}, threads);
          });
      if (all_threads == 1) break;
    }
}

void add(conv_shape shape) {
  for (const feature_layout layout : {nchw, nhwc}) {
    shape = shape.with_layout(layout);
    const std::string rest =
        std::string(layout == nhwc ? "/nhwc" : "") + "/f32/" + shape_name(shape);
    const auto prepare = [=] { return make_operands(shape); };
    const auto add_function = [&](const char* function, const char* propagation, const auto& call,
                                  const auto& plain, auto result) {
      const std::string name = function + rest;
      if (layout == nchw)
        register_with_plain(name, work_of(shape), prepare, call, plain, result);
      else
        register_vecdet(name, work_of(shape), prepare, call);
      register_onednn(name, shape, propagation);
    };
    add_function(
        "conv3x3", "forward_training", [](operands& d, threading policy) { d.forward(policy); },
        [=](operands& d) {
          VECDET_PLAIN(plain_conv3x3)
          (d.input.data(), shape.inputs, shape.height, shape.width, d.weights.data(), d.bias.data(),
           shape.outputs, d.output.data());
        },
        &operands::output);
    add_function(
        "conv3x3_input_grad", "backward_data",
        [](operands& d, threading policy) { d.backward_input(policy); },
        [=](operands& d) {
          VECDET_PLAIN(plain_conv3x3_input_grad)
          (d.upstream.data(), shape.inputs, shape.height, shape.width, d.weights.data(),
           shape.outputs, d.input_grad.data());
        },
        &operands::input_grad);
    add_function(
        "conv3x3_weight_grad", "backward_weights",
        [](operands& d, threading policy) { d.backward_weight(policy); },
        [=](operands& d) {
          VECDET_PLAIN(plain_conv3x3_weight_grad)
          (d.input.data(), shape.inputs, shape.height, shape.width, d.upstream.data(),
           shape.outputs, d.weight_grad.data(), d.bias_grad.data());
        },
        &operands::weight_grad);
  }
  register_vecdet(
      "conv3x3_weights/f32/" + shape_name(shape),
      {static_cast<double>(shape.inputs * shape.outputs),
       45 * 4.0 * static_cast<double>(shape.inputs * shape.outputs)},
      [=] { return make_operands(shape); },
      [](operands& d, threading policy) {
        d.memory.forward.assign(d.kernel<const float>(d.weights.data()), conv3x3_use::forward,
                                d.tile, policy);
      });
}

/// Maps of bfloat16 in NHWC, with weights in float. oneDNN's rows include the reorders of the
/// weights to bfloat16, as under PyTorch's autocast.
void add_bfloat16(conv_shape shape) {
  shape = shape.with_layout(nhwc);
  const auto prepare = [=] { return make_operands<bfloat16>(shape); };
  const auto add_function = [&](const std::string& function, const char* propagation,
                                const auto& call) {
    const std::string name = function + "/bf16/nhwc/" + shape_name(shape);
    register_vecdet(name, work_of<bfloat16>(shape), prepare, call);
    register_onednn(name, shape, propagation, "bf16");
  };
  using narrow = conv3x3_operands<bfloat16>;
  add_function("conv3x3", "forward_training",
               [](narrow& d, threading policy) { d.forward(policy); });
  add_function("conv3x3_input_grad", "backward_data",
               [](narrow& d, threading policy) { d.backward_input(policy); });
  add_function("conv3x3_weight_grad", "backward_weights",
               [](narrow& d, threading policy) { d.backward_weight(policy); });
}

/// The levels of a picture of 800 x 800, forward: one call for all, or one call per level.
struct level_operands {
  std::vector<operands> levels;
  std::vector<head_level<const float>> inputs;
  std::vector<head_level<float>> outputs;

  level_operands() {
    for (const index_t side : {100, 50, 25, 13, 7})
      levels.emplace_back(conv_shape{1, 256, side, side, 256});
    for (operands& level : levels) {
      inputs.push_back({level.input.data(), level.height, level.width});
      outputs.push_back({level.output.data(), level.height, level.width});
    }
  }
  template <class T>
  static head_view<T> head(const std::vector<head_level<T>>& list) {
    return {vector_view<const head_level<T>>(list), 1, 1, 256, head_layout::nchw};
  }
  void run(threading policy) {
    operands& first = levels[0];
    first.memory.forward.assign(first.kernel<const float>(first.weights.data()),
                                conv3x3_use::forward, first.tile, policy);
    conv3x3_params<float> params;
    params.bias = first.bias;
    conv3x3(head(inputs), first.memory.forward, head(outputs), params, first.memory.workspace,
            policy);
  }
};

void add_levels() {
  work all{0, 0};
  std::vector<conv_shape> shapes;
  for (const index_t side : {100, 50, 25, 13, 7}) {
    shapes.push_back({1, 256, side, side, 256});
    all.elements += work_of(shapes.back()).elements;
    all.bytes += work_of(shapes.back()).bytes;
  }
  const auto make = [] { return shared_data([] { return level_operands(); }); };
  register_vecdet("conv3x3_levels/f32/256x5x256", all, make,
                  [](level_operands& d, threading policy) { d.run(policy); });
  register_vecdet("conv3x3_levels/one_by_one/f32/256x5x256", all, make,
                  [](level_operands& d, threading policy) {
                    for (operands& level : d.levels) level.forward(policy);
                  });
  if (!profile::why_no_primitives().empty()) return;
  register_implementation(
      "conv3x3_levels/f32/256x5x256", "onednn", 1, all, [=](benchmark::State& state) {
        profile::set_primitive_threads(1);
        std::vector<profile::runnable_primitive> primitives;
        for (const conv_shape& shape : shapes)
          primitives.push_back(profile::make_convolution_within(
              onednn_conv3x3(sizes_of(shape), "forward_training", "convolution_direct"),
              {"nchw", "f32"}));
        time_calls(state, [&] {
          for (const auto& primitive : primitives) primitive.run();
        });
        profile::set_primitive_threads(0);
      });
}

/// The layers of a training step of SSD300 with four pictures: docs/families/conv3x3.md.
void add_ssd300() {
  struct layer {
    index_t inputs, outputs, side;
  };
  for (const layer& l : {layer{64, 64, 300},
                         {64, 128, 150},
                         {128, 128, 150},
                         {128, 256, 75},
                         {256, 256, 75},
                         {256, 512, 38},
                         {512, 512, 38},
                         {512, 512, 19},
                         {512, 364, 38},
                         {1024, 546, 19},
                         {512, 546, 10},
                         {512, 16, 38},
                         {1024, 24, 19}})
    add_bfloat16({4, l.inputs, l.side, l.side, l.outputs});
}

const bool registered = [] {
  add({1, 256, 100, 100, 256});
  add({1, 256, 50, 50, 256});
  add({1, 256, 100, 100, 2376});
  add({1, 64, 80, 80, 64});
  add({1, 128, 40, 40, 128});
  add_bfloat16({1, 256, 100, 100, 256});
  add_bfloat16({1, 64, 200, 200, 64});
  add_levels();
  add_ssd300();
  return true;
}();

}  // namespace
}  // namespace vecdet::bench

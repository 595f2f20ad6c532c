// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution of 32 channels of 24 x 24 and its gradients. They stay in the second-level cache.
#include "../../plain/conv3x3.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/conv3x3.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

constexpr std::int64_t channels = 32, side = 24;

struct scene {
  bool is_nhwc;
  std::vector<float> input = uniform<float>(channels * side * side, 0, 1, 1);
  std::vector<float> upstream = uniform<float>(channels * side * side, -1, 1, 2);
  std::vector<float> weights = uniform<float>(channels * channels * 9, -0.1f, 0.1f, 3);
  std::vector<float> bias = uniform<float>(channels, -1, 1, 4);
  std::vector<float> output = input, grad = input, weight_grad = weights, bias_grad = bias;

  explicit scene(bool nhwc) : is_nhwc(nhwc) {}
};

/// The data as maps and weights, whose types belong to this module.
template <class T>
feature_view<T> map(scene& d, T* data) {
  return {data, 1, channels, side, side, d.is_nhwc ? feature_layout::nhwc : feature_layout::nchw};
}
template <class T>
feature_view<T> kernel(T* data) {
  return {data, channels, channels, 3, 3, feature_layout::nchw};
}

// With the transformation of the weights, as in training.
void forward(scene& d) {
  auto& weights = own<conv3x3_weights<float>>();
  weights.assign(kernel<const float>(d.weights.data()), conv3x3_use::forward, conv3x3_tile::f4x4,
                 sequential);
  conv3x3_params<float> params;
  params.bias = d.bias;
  params.relu = true;
  conv3x3(map<const float>(d, d.input.data()), weights, map(d, d.output.data()), params,
          own<conv3x3_workspace>(), sequential);
}

void backward_input(scene& d) {
  auto& weights = own<conv3x3_weights<float>>();
  weights.assign(kernel<const float>(d.weights.data()), conv3x3_use::input_grad, conv3x3_tile::f4x4,
                 sequential);
  conv3x3_input_grad(map<const float>(d, d.upstream.data()), {}, weights, map(d, d.grad.data()),
                     own<conv3x3_workspace>(), sequential);
}

void backward_weight(scene& d) {
  conv3x3_weight_grad(map<const float>(d, d.input.data()), map<const float>(d, d.upstream.data()),
                      {}, {kernel(d.weight_grad.data()), d.bias_grad}, own<conv3x3_workspace>(),
                      sequential);
}

const problems added{
    {"conv3x3/relu/f32/1x32x24x24x32", make<scene>(false), VECDET_GATE_CALL(forward(d)),
     VECDET_GATE_CALL(bench::native::plain_conv3x3(d.input.data(), channels, side, side,
                                                   d.weights.data(), d.bias.data(), channels,
                                                   d.output.data()))},
    {"conv3x3/nhwc_relu/f32/1x32x24x24x32", make<scene>(true), VECDET_GATE_CALL(forward(d))},
    {"conv3x3_input_grad/f32/1x32x24x24x32", make<scene>(false),
     VECDET_GATE_CALL(backward_input(d)),
     VECDET_GATE_CALL(bench::native::plain_conv3x3_input_grad(
         d.upstream.data(), channels, side, side, d.weights.data(), channels, d.grad.data()))},
    {"conv3x3_weight_grad/f32/1x32x24x24x32", make<scene>(false),
     VECDET_GATE_CALL(backward_weight(d)),
     VECDET_GATE_CALL(bench::native::plain_conv3x3_weight_grad(
         d.input.data(), channels, side, side, d.upstream.data(), channels, d.weight_grad.data(),
         d.bias_grad.data()))},
};

}  // namespace
}  // namespace vecdet::gate

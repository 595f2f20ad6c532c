// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution of 8 groups of 4 channels of 24 x 24, and its gradients. They stay in the
// second-level cache.
#include "../../plain/grouped_conv3x3.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/grouped_conv3x3.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

constexpr std::int64_t channels = 32, groups = 8, side = 24;

struct scene {
  bool is_nhwc;
  std::vector<float> input = uniform<float>(channels * side * side, 0, 1, 1);
  std::vector<float> upstream = uniform<float>(channels * side * side, -1, 1, 2);
  std::vector<float> weights = uniform<float>(channels * channels / groups * 9, -1, 1, 3);
  std::vector<float> bias = uniform<float>(channels, -1, 1, 4);
  std::vector<float> output = input, grad = input, weight_grad = weights, bias_grad = bias;

  explicit scene(bool nhwc) : is_nhwc(nhwc) {}
};

/// The data as maps and weights, whose types belong to this module.
feature_view<float> map(scene& d, std::vector<float>& data) {
  return {data.data(), 1,    channels,
          side,        side, d.is_nhwc ? feature_layout::nhwc : feature_layout::nchw};
}
feature_view<float> kernel(std::vector<float>& data) {
  return {data.data(), channels, channels / groups, 3, 3, feature_layout::nchw};
}
grouped_conv3x3_params params() {
  grouped_conv3x3_params with_groups;
  with_groups.groups = groups;
  return with_groups;
}

void forward(scene& d) {
  grouped_conv3x3(map(d, d.input), kernel(d.weights), vector_view<const float>(d.bias),
                  map(d, d.output), params(), own<grouped_conv3x3_workspace>(), sequential);
}

void backward_input(scene& d) {
  grouped_conv3x3_input_grad(map(d, d.upstream), kernel(d.weights), map(d, d.grad), params(),
                             own<grouped_conv3x3_workspace>(), sequential);
}

void backward_weight(scene& d) {
  grouped_conv3x3_weight_grad(map(d, d.input), map(d, d.upstream), kernel(d.weight_grad),
                              vector_view<float>(d.bias_grad), params(),
                              own<grouped_conv3x3_workspace>(), sequential);
}

const problems added{
    {"grouped_conv3x3/f32/1x32x24x24_g8", make<scene>(false), VECDET_GATE_CALL(forward(d)),
     VECDET_GATE_CALL(bench::native::plain_grouped_conv3x3(d.input.data(), channels, side, side,
                                                           d.weights.data(), d.bias.data(),
                                                           channels, groups, 1, d.output.data()))},
    {"grouped_conv3x3/nhwc/f32/1x32x24x24_g8", make<scene>(true), VECDET_GATE_CALL(forward(d))},
    {"grouped_conv3x3_input_grad/f32/1x32x24x24_g8", make<scene>(false),
     VECDET_GATE_CALL(backward_input(d)),
     VECDET_GATE_CALL(bench::native::plain_grouped_conv3x3_input_grad(
         d.upstream.data(), channels, side, side, d.weights.data(), channels, groups, 1,
         d.grad.data()))},
    {"grouped_conv3x3_weight_grad/f32/1x32x24x24_g8", make<scene>(false),
     VECDET_GATE_CALL(backward_weight(d)),
     VECDET_GATE_CALL(bench::native::plain_grouped_conv3x3_weight_grad(
         d.input.data(), channels, side, side, d.upstream.data(), channels, groups, 1,
         d.weight_grad.data(), d.bias_grad.data()))},
};

}  // namespace
}  // namespace vecdet::gate

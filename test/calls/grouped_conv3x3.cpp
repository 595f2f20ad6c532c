// SPDX-License-Identifier: Apache-2.0
#include "../support/grouped_conv_problem.hpp"
#include "catalogue.hpp"

namespace vecdet::test {
namespace {

/// Shapes are images x input channels x height x width x output channels. The groups are those of a
/// recorded variant; without one, they have four channels if they can.
grouped_conv_shape shape_of(const problem& p) {
  const bool has_fours = p.shape[1] == p.shape[4] && p.shape[1] % 4 == 0 && p.shape[1] > 0;
  index_t groups = has_fours ? p.shape[1] / 4 : 1;
  for (const char* prefix : {"groups", "nhwc_groups", "stride2_groups", "nhwc_stride2_groups"})
    groups = number_after<index_t>(prefix, p.variant, groups);
  return {p.shape[0], p.shape[1], p.shape[2], p.shape[3], p.shape[4], groups, 1};
}

template <class T>
struct grouped_conv3x3_calls {
  grouped_conv_shape strides[2];
  placed<T> input, weights, bias, grad, weight_grad, bias_grad;
  placed<T> upstream[2], out[2];
  grouped_conv3x3_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    std::vector<shape> shapes{
        {1, 8, 2, length, 8}, {2, 4 * length, 3, 4, 4 * length}, {1, length, 3, 5, 3}};
    // With stride 2, by minimal filtering.
    if (length % 16 == 1) shapes.push_back({2, 33, 5, 320, length + 33});
    return shapes;
  }
  static shape sized(index_t rows) { return {2, 24, rows / 100 + 3, 50, 24}; }
  static bool takes(const problem& p) {
    const grouped_conv_shape s = shape_of(p);
    if (s.groups < 1 || s.inputs % s.groups != 0 || s.outputs % s.groups != 0) return false;
    const index_t inputs = s.group_inputs(), outputs = s.group_outputs();
    return s.groups == 1 || (inputs == outputs && (inputs == 4 || inputs == 8)) ||
           (inputs % 16 == 0 && outputs % 16 == 0);
  }

  grouped_conv3x3_calls(operands& make, const problem& p)
      : strides{shape_of(p), shape_of(p)},
        input(make.numbers<T>(p.shape[0] * p.shape[1] * p.shape[2] * p.shape[3], -1, 1)),
        weights(make.numbers<T>(9 * p.shape[4] * strides[0].group_inputs(), -1, 1)),
        bias(make.numbers<T>(p.shape[4], -1, 1)),
        grad(make.room<T>(static_cast<index_t>(input.size()))),
        weight_grad(make.room<T>(static_cast<index_t>(weights.size()))),
        bias_grad(make.room<T>(p.shape[4])) {
    strides[1].stride = 2;
    for (std::size_t i = 0; i < 2; ++i) {
      const grouped_conv_shape& s = strides[i];
      const index_t size = s.images * s.outputs * s.output_height() * s.output_width();
      upstream[i] = make.numbers<T>(size, -1, 1);
      out[i] = make.room<T>(size);
    }
  }

  void list(call_list& c) {
    add(c, "groups", feature_layout::nchw, 0);
    add(c, "nhwc_groups", feature_layout::nhwc, 0);
    add(c, "stride2_groups", feature_layout::nchw, 1);
    add(c, "nhwc_stride2_groups", feature_layout::nhwc, 1);
  }

  void add(call_list& c, const std::string& prefix, feature_layout layout, std::size_t i) {
    const grouped_conv_shape s = strides[i].with_layout(layout);
    const std::string variant = text_of(prefix, s.groups);
    c.add("grouped_conv3x3/" + variant, reads(input, weights, bias).writes(out[i]),
          [this, s, i](threading policy) {
            grouped_conv3x3(s.in<const T>(input.data()), s.kernel<const T>(weights.data()),
                            bias.in(), s.out(out[i].data()), s.params(), workspace, policy);
          });
    c.add("grouped_conv3x3_input_grad/" + variant, reads(upstream[i], weights).writes(grad),
          [this, s, i](threading policy) {
            grouped_conv3x3_input_grad(s.out<const T>(upstream[i].data()),
                                       s.kernel<const T>(weights.data()), s.in(grad.data()),
                                       s.params(), workspace, policy);
          });
    c.add("grouped_conv3x3_weight_grad/" + variant,
          reads(input, upstream[i]).writes(weight_grad, bias_grad), [this, s, i](threading policy) {
            grouped_conv3x3_weight_grad(
                s.in<const T>(input.data()), s.out<const T>(upstream[i].data()),
                s.kernel(weight_grad.data()), bias_grad.out(), s.params(), workspace, policy);
          });
  }
};

const registered_family registered = calls_of<grouped_conv3x3_calls, float>("grouped_conv3x3");

}  // namespace
}  // namespace vecdet::test

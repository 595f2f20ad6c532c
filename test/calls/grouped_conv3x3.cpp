// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/grouped_conv3x3.hpp>

namespace vecdet::test {
namespace {

/// The groups of a recorded variant; without one, groups of four channels if there can be some.
grouped_conv3x3_params params_of(const problem& p) {
  grouped_conv3x3_params params;
  const bool has_fours = p.shape[1] == p.shape[4] && p.shape[1] % 4 == 0 && p.shape[1] > 0;
  params.groups = has_fours ? p.shape[1] / 4 : 1;
  for (const char* prefix : {"groups", "nhwc_groups", "stride2_groups", "nhwc_stride2_groups"})
    params.groups = number_after<index_t>(prefix, p.variant, params.groups);
  return params;
}

/// Shapes are images x input channels x height x width x output channels.
template <class T>
struct grouped_conv3x3_calls {
  index_t images, inputs, height, width, outputs;
  grouped_conv3x3_params params;
  placed<T> input, weights, bias, grad, weight_grad, bias_grad;
  placed<T> upstream[2], out[2];  ///< for stride 1 and 2
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
    const index_t groups = params_of(p).groups;
    if (groups < 1 || p.shape[1] % groups != 0 || p.shape[4] % groups != 0) return false;
    const index_t inputs = p.shape[1] / groups, outputs = p.shape[4] / groups;
    return groups == 1 || (inputs == outputs && (inputs == 4 || inputs == 8)) ||
           (inputs % 16 == 0 && outputs % 16 == 0);
  }

  grouped_conv3x3_calls(operands& make, const problem& p)
      : images(p.shape[0]),
        inputs(p.shape[1]),
        height(p.shape[2]),
        width(p.shape[3]),
        outputs(p.shape[4]),
        params(params_of(p)),
        input(make.numbers<T>(images * inputs * height * width, -1, 1)),
        weights(make.numbers<T>(9 * outputs * (inputs / params.groups), -1, 1)),
        bias(make.numbers<T>(outputs, -1, 1)),
        grad(make.room<T>(images * inputs * height * width)),
        weight_grad(make.room<T>(9 * outputs * (inputs / params.groups))),
        bias_grad(make.room<T>(outputs)),
        upstream{make.numbers<T>(output_size(1), -1, 1), make.numbers<T>(output_size(2), -1, 1)},
        out{make.room<T>(output_size(1)), make.room<T>(output_size(2))} {}

  index_t output_size(index_t stride) const {
    return images * outputs * ((height + stride - 1) / stride) * ((width + stride - 1) / stride);
  }

  template <class Numbers>
  feature_view<Numbers> in(Numbers* of, feature_layout layout) const {
    return {of, images, inputs, height, width, layout};
  }
  template <class Numbers>
  feature_view<Numbers> outs(Numbers* of, feature_layout layout, index_t stride) const {
    return {of,    images, outputs, (height + stride - 1) / stride, (width + stride - 1) / stride,
            layout};
  }
  template <class Numbers>
  feature_view<Numbers> kernel(Numbers* of, feature_layout layout) const {
    return {of, outputs, inputs / params.groups, 3, 3, layout};
  }

  void list(call_list& c) {
    add(c, "groups", feature_layout::nchw, 1);
    add(c, "nhwc_groups", feature_layout::nhwc, 1);
    add(c, "stride2_groups", feature_layout::nchw, 2);
    add(c, "nhwc_stride2_groups", feature_layout::nhwc, 2);
  }

  void add(call_list& c, const std::string& prefix, feature_layout layout, index_t stride) {
    const std::string variant = text_of(prefix, params.groups);
    grouped_conv3x3_params with = params;
    with.stride = stride;
    const index_t of = stride - 1;
    c.add("grouped_conv3x3/" + variant, reads(input, weights, bias).writes(out[of]),
          [=](threading policy) {
            grouped_conv3x3(in<const T>(input.data(), layout),
                            kernel<const T>(weights.data(), layout),
                            vector_view<const T>(bias.data(), outputs),
                            outs(out[of].data(), layout, stride), with, workspace, policy);
          });
    c.add("grouped_conv3x3_input_grad/" + variant, reads(upstream[of], weights).writes(grad),
          [=](threading policy) {
            grouped_conv3x3_input_grad(outs<const T>(upstream[of].data(), layout, stride),
                                       kernel<const T>(weights.data(), layout),
                                       in(grad.data(), layout), with, workspace, policy);
          });
    c.add("grouped_conv3x3_weight_grad/" + variant,
          reads(input, upstream[of]).writes(weight_grad, bias_grad), [=](threading policy) {
            grouped_conv3x3_weight_grad(in<const T>(input.data(), layout),
                                        outs<const T>(upstream[of].data(), layout, stride),
                                        kernel(weight_grad.data(), layout), bias_grad.out(), with,
                                        workspace, policy);
          });
  }
};

const registered_family registered = calls_of<grouped_conv3x3_calls, float>("grouped_conv3x3");

}  // namespace
}  // namespace vecdet::test

// SPDX-License-Identifier: Apache-2.0
// The kernels of grouped 3x3 convolution; the public grouped_conv3x3.hpp has the equations.
#pragma once

#include <vecdet/args/grouped_conv3x3.hpp>
#include <vecdet/kernels/conv3x3/forward.hpp>
#include <vecdet/kernels/conv3x3/strided_filtering.hpp>
#include <vecdet/kernels/conv3x3/weight_grad.hpp>
#include <vecdet/kernels/grouped_conv3x3/sums.hpp>
#include <vecdet/kernels/grouped_conv3x3/weight_grad.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class Filtering>
constexpr detail::conv3x3_kernels<float> strided_kernels() {
  detail::conv3x3_kernels<float> kernels{};
  kernels.transform_weights = transform_conv_weights_of<Filtering>;
  kernels.run = run_conv_of<Filtering, float>;
  return kernels;
}

template <>
struct kernels_of<detail::grouped_conv3x3_kernels> {
  static constexpr detail::grouped_conv3x3_kernels get() {
    detail::grouped_conv3x3_kernels kernels{};
    kernels.arrange = arrange_grouped;
    kernels.run = run_grouped;
    kernels.add_products = add_grouped_products;
    kernels.finish = finish_grouped_weight_grad;
    auto& filtering = kernels.filtering;
    filtering = strided_kernels<strided_filtering>();
    filtering.transform_inputs = transform_conv_inputs_of<strided_filtering, float>;
    filtering.transform_gradients = transform_conv_gradients_of<strided_filtering, float>;
    filtering.add_products = add_weight_grad_products_of<strided_filtering>;
    filtering.finish_weight_grad = finish_weight_grad_of<strided_filtering>;
    kernels.input_grad_filtering = strided_kernels<strided_grad_filtering>();
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(grouped_conv3x3_kernels)

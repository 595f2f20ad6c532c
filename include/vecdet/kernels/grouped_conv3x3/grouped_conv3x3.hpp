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
constexpr detail::grouped_filtering_kernels strided_kernels() {
  const auto squared = [](index_t side) { return side * side; };
  detail::grouped_filtering_kernels kernels{};
  kernels.sizes = {Filtering::target_tile,
                   squared(source_points<Filtering>),
                   squared(weight_points<Filtering>),
                   squared(target_points<Filtering>),
                   plane_products<Filtering, &axis_product::target>::count,
                   detail::conv_strided_unit};
  kernels.of.transform_weights = transform_conv_weights_of<Filtering>;
  kernels.of.run = run_conv_of<Filtering, float>;
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
    kernels.filtering = strided_kernels<strided_filtering>();
    auto& filtering = kernels.filtering.of;
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

// SPDX-License-Identifier: Apache-2.0
// The kernels of grouped 3x3 convolution; the public grouped_conv3x3.hpp has the equations.
#pragma once

#include <vecdet/args/grouped_conv3x3.hpp>
#include <vecdet/kernels/grouped_conv3x3/sums.hpp>
#include <vecdet/kernels/grouped_conv3x3/weight_grad.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <>
struct kernels_of<detail::grouped_conv3x3_kernels> {
  static constexpr detail::grouped_conv3x3_kernels get() {
    detail::grouped_conv3x3_kernels kernels{};
    kernels.arrange = arrange_grouped;
    kernels.run = run_grouped;
    kernels.add_products = add_grouped_products;
    kernels.finish = finish_grouped_weight_grad;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(grouped_conv3x3_kernels)

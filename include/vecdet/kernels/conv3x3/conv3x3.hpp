// SPDX-License-Identifier: Apache-2.0
// The kernels of 3x3 convolution; the public conv3x3.hpp has the equations.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/kernels/conv3x3/direct.hpp>
#include <vecdet/kernels/conv3x3/forward.hpp>
#include <vecdet/kernels/conv3x3/weight_grad.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
struct kernels_of<detail::conv3x3_kernels<T>> {
  static constexpr detail::conv3x3_kernels<T> get() {
    detail::conv3x3_kernels<T> kernels{};
    kernels.transform_weights = transform_conv_weights;
    kernels.run = run_conv<T>;
    kernels.transform_tiles = transform_conv_tiles<T>;
    kernels.multiply_tiles = multiply_conv_tiles<T>;
    kernels.finish_tiles = finish_conv_tiles<T>;
    kernels.transform_inputs = transform_conv_inputs<T>;
    kernels.transform_gradients = transform_conv_gradients<T>;
    kernels.add_products = add_weight_grad_products;
    kernels.finish_weight_grad = finish_weight_grad;
    return kernels;
  }
};

template <>
struct kernels_of<detail::conv3x3_kernels<double>> {
  static constexpr detail::conv3x3_kernels<double> get() {
    detail::conv3x3_kernels<double> kernels{};
    kernels.transform_weights = copy_conv_weights;
    kernels.run = run_conv_directly;
    kernels.weight_grad = weight_grad_directly;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(conv3x3_kernels)

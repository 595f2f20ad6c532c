// SPDX-License-Identifier: Apache-2.0
// The kernels of deformable attention; the public deformable_attention.hpp has the equations.
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/kernels/deformable_attention/forward.hpp>
#include <vecdet/kernels/deformable_attention/point_grads.hpp>
#include <vecdet/kernels/deformable_attention/value_grad.hpp>
#include <vecdet/kernels/deformable_attention/value_grad_bands.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
struct kernels_of<detail::attention_kernels<T>> {
  static constexpr detail::attention_kernels<T> get() {
    detail::attention_kernels<T> kernels{};
    kernels.forward = attend<T, T>;
    kernels.forward_packed = attend<T, compute_type<T>>;
    kernels.point_grads = attention_point_grads<T, T>;
    kernels.point_grads_packed = attention_point_grads<T, compute_type<T>>;
    kernels.pack = pack_value<T>;
    kernels.value_grad = attention_value_grad<T>;
    kernels.sort_points = sort_attention_points<T>;
    kernels.value_grad_of_band = attention_value_grad_of_band<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(attention_kernels)

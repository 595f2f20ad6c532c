// SPDX-License-Identifier: Apache-2.0
// The kernels of masks.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/masks/paste.hpp>
#include <vecdet/kernels/masks/prototypes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
struct kernels_of<detail::prototype_masks_kernels<T>> {
  static constexpr detail::prototype_masks_kernels<T> get() { return {prototype_masks<T>}; }
};

template <class T>
struct kernels_of<detail::paste_masks_kernels<T>> {
  static constexpr detail::paste_masks_kernels<T> get() { return {paste_masks<T>}; }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(prototype_masks_kernels<float>)
VECDET_KERNELS(prototype_masks_kernels<bfloat16>)
VECDET_KERNELS(paste_masks_kernels<float>)
VECDET_KERNELS(paste_masks_kernels<bfloat16>)

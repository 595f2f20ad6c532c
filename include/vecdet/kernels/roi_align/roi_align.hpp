// SPDX-License-Identifier: Apache-2.0
// RoIAlign's kernels; the public roi_align.hpp has the equations.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/roi_align/nhwc.hpp>
#include <vecdet/kernels/roi_align/plan.hpp>
#include <vecdet/kernels/roi_align/planes.hpp>
#include <vecdet/kernels/roi_align/tiles.hpp>
#include <vecdet/kernels/roi_align/transposed.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
struct kernels_of<detail::roi_align_kernels<T>> {
  static constexpr detail::roi_align_kernels<T> get() {
    detail::roi_align_kernels<T> kernels{};
    kernels.measure = measure_rois<T>;
    kernels.fill = fill_rois<T>;
    kernels.forward_planes = roi_align_planes<T>;
    kernels.forward_transposed = roi_align_transposed<T>;
    kernels.forward_nhwc = roi_align_nhwc<T>;
    kernels.backward_nchw = roi_align_grad_nchw<T>;
    kernels.backward_nhwc = roi_align_grad_nhwc<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(roi_align_kernels)

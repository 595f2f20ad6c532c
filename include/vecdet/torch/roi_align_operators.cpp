// SPDX-License-Identifier: Apache-2.0
// The operator of RoIAlign's gradient.
#include <vecdet/impl/torch/roi_align.hpp>

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace {

namespace aten = vecdet::detail::aten;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def(
      "_multiscale_roi_align_grad(Tensor upstream, Tensor boxes, SymInt[] sizes, float[] scales, "
      "int sampling_ratio, bool aligned, int[] box_counts, float canonical_size, "
      "int canonical_level, bool channels_last) -> Tensor[]");
  m.impl("_multiscale_roi_align_grad",
         torch::dispatch(c10::DispatchKey::CPU, &aten::cpu::multiscale_roi_align_grad));
  m.impl("_multiscale_roi_align_grad",
         torch::dispatch(c10::DispatchKey::Meta, &aten::meta::multiscale_roi_align_grad));
  m.impl("_multiscale_roi_align_grad",
         torch::dispatch(c10::DispatchKey::Autograd,
                         torch::autograd::autogradNotImplementedFallback()));
}

}  // namespace

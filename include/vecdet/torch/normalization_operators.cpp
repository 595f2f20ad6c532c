// SPDX-License-Identifier: Apache-2.0
// The operator of batch normalisation's gradients.
#include <vecdet/impl/torch/batch_norm_gradient.hpp>

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace {

namespace aten = vecdet::detail::aten;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def(
      "_batch_norm_grad(Tensor upstream, Tensor input, Tensor? weight, Tensor? bias, "
      "Tensor statistics, float epsilon, int activation, bool needs_weight, bool needs_bias) -> "
      "(Tensor, Tensor, Tensor)");
  m.impl("_batch_norm_grad",
         torch::dispatch(c10::DispatchKey::CPU, &aten::cpu::flat_batch_norm_grad));
  m.impl("_batch_norm_grad",
         torch::dispatch(c10::DispatchKey::Meta, &aten::meta::flat_batch_norm_grad));
  m.impl("_batch_norm_grad", torch::dispatch(c10::DispatchKey::Autograd,
                                             torch::autograd::autogradNotImplementedFallback()));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// The operator of max pooling's gradient.
#include <vecdet/impl/torch/max_pool_gradient.hpp>

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace {

namespace aten = vecdet::detail::aten;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def(
      "_max_pool_grad(Tensor upstream, Tensor positions, int height, int width, int[] params, "
      "bool channels_last) -> Tensor");
  m.impl("_max_pool_grad",
         torch::dispatch(c10::DispatchKey::CPU, &aten::cpu::max_pool_grad_of_list));
  m.impl("_max_pool_grad",
         torch::dispatch(c10::DispatchKey::Meta, &aten::meta::max_pool_grad_of_list));
  m.impl("_max_pool_grad", torch::dispatch(c10::DispatchKey::Autograd,
                                           torch::autograd::autogradNotImplementedFallback()));
}

}  // namespace

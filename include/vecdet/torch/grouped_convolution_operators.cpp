// SPDX-License-Identifier: Apache-2.0
// The operator of grouped convolution's gradients.
#include <vecdet/impl/torch/grouped_conv3x3_gradient.hpp>

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace {

namespace aten = vecdet::detail::aten;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def(
      "_grouped_conv3x3_grad(Tensor upstream, Tensor input, Tensor weight, int groups, int stride, "
      "bool needs_input, bool needs_weight, bool needs_bias) -> (Tensor, Tensor, Tensor)");
  m.impl("_grouped_conv3x3_grad",
         torch::dispatch(c10::DispatchKey::CPU, &aten::cpu::grouped_conv3x3_grad));
  m.impl("_grouped_conv3x3_grad",
         torch::dispatch(c10::DispatchKey::Meta, &aten::meta::grouped_conv3x3_grad));
  m.impl("_grouped_conv3x3_grad",
         torch::dispatch(c10::DispatchKey::Autograd,
                         torch::autograd::autogradNotImplementedFallback()));
}

}  // namespace

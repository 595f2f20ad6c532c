// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions of PyTorch's tensors, which torch.hpp includes.
#pragma once

#include <vecdet/detail/target.hpp>

#include <vector>

#include <ATen/core/Tensor.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace ops {

/// The 3x3 convolution with stride 1 and padding 1 (conv3x3.hpp) of `input`, images x channels x
/// height x width, contiguous or channels_last. Neither layout is copied; the result and the
/// gradient have the same layout. Differentiable in input, weight and bias.
///
/// Weight and bias of a bfloat16 input are bfloat16 or float32. Products and sums are float32, and
/// each gradient has the type of its tensor. Autocast to bfloat16 converts the input, and leaves
/// weight and bias in float32.
///
/// at::conv2d() computes types other than float32 and bfloat16, everything in forward mode and
/// under the transforms of torch.func, and shapes for which it is faster. In bfloat16 that depends
/// on the processor, too: impl/torch/conv3x3_rule.hpp. Its gradients are also used if they are
/// differentiated again (create_graph).
///
/// A weight that requires a gradient is transformed in every call. Other weights are transformed
/// when their values change, and the result is kept: see free_cached_memory().
/// @param weight output channels x input channels x 3 x 3
/// @param bias one number per output channel; undefined: no bias
/// @param relu whether the result is max(convolution, 0)
at::Tensor conv3x3(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {},
                   bool relu = false);

/// The same for all levels of a pyramid, which share the weights. One call is faster than one per
/// level.
std::vector<at::Tensor> conv3x3_levels(at::TensorList inputs, const at::Tensor& weight,
                                       const at::Tensor& bias = {}, bool relu = false);

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution in groups of channels, with stride 1 or 2 and padding 1, and its gradients with
// respect to input, weights and bias. ResNeXt has such layers.
//
//   output[n, k, y, x] = bias[k] + sum over i, c, j of
//       weights[k, c, i, j] input[n, g I + c, y stride + i - 1, x stride + j - 1]
//
// with zeros around the map. I is the number of input channels of a group, c counts them, and g is
// the group of output channel k: k / (output channels of a group).
//
//   input, its gradient     images x channels x height x width of float, NCHW or NHWC
//   output, its gradient    images x output channels x output height x output width, either layout;
//                           sizes are ceil(height / stride) and ceil(width / stride)
//   weights, their gradient output channels x I x 3 x 3, either layout: images() are the output
//                           channels, and channels() is I
//   bias, its gradient      one number per output channel; empty: none
//
// It is a family of its own beside conv3x3.hpp, which always computes by minimal filtering, and for
// which the caller transforms the weights once. Minimal filtering needs many channels. Three kinds
// of groups are possible:
//
// - one group, with any numbers of channels
// - groups with 4 or 8 input channels and as many output channels
// - groups whose numbers of input and output channels are multiples of 16
//
// With one group, stride 2, 16 or more input channels, 16 or more output channels and 400 or more
// outputs per channel (in all images), the functions compute by minimal filtering of the even and
// the odd rows and columns, on tiles of 4 x 4 outputs. They multiply 81 times per tile and pair of
// channels, where a direct sum has 144 products. Everything else is computed directly.
//
// Accuracy of direct sums: let N be 9 times the number of channels that are summed (I, or for the
// gradient of the input the output channels of a group), and M the sum of the magnitudes of all
// products and of the bias. Unless a number under- or overflows, the error of an output, or of the
// gradient of the input, is at most (N + 2) 2^-24 M for N up to 4,000. For the gradients of weights
// and bias, M is the sum of the magnitudes of all products, or of all gradients of the output;
// products of up to 384 neighbouring locations are summed in float, and their sums in double. The
// error is at most 387 2^-24 M for weights and 2^-23 M for the bias. The baseline has no fused
// multiply-add and rounds each product, too, but the bounds hold.
//
// A NaN or an infinity of the input affects the outputs of its group that read it, and one of the
// weights affects all outputs of its channel, also at the map's border, because zeros around the
// map take part in the sums. The same holds for the gradient of the input, with one exception: with
// stride 2, a weight affects only the gradients of the inputs that its tap can read, which are
// those at (y, x) for which y + i and x + j are odd. In the gradient of the weights, an input
// affects the weights of the taps by which outputs read it. A gradient of the output affects all
// weights of its channel, and its bias.
//
// Accuracy of minimal filtering: the error of a result is at most the factor below times M, for up
// to 10,000 channels and 70,000 tiles, unless a number under- or overflows. M is a sum of products
// of largest magnitudes:
//
//   output                over the C input channels: the largest of the nine weights times the
//                         largest input that the tile reads; plus the bias's magnitude.
//                         Factor: 804 (C + 4) 2^-23
//   gradient of the input over the K output channels: the largest of the nine weights times the
//                         largest gradient that the tile reads. Factor: 202 (K + 12) 2^-23
//   gradient of weights   over the T tiles of all images: the largest gradient in the tile times
//                         the largest input that it reads. Factor: 1165 (T + 5) 2^-23
//
// A tile of outputs begins at rows and columns y and x that are multiples of 4, and reads 9 x 9
// inputs from (2 y - 1, 2 x - 1) on. For the gradient of the input, it reads 5 x 5 gradients from
// (y, x) on and writes 8 x 8 gradients from (2 y, 2 x) on. All roundings would have to be at their
// worst together, so real errors are far below: docs/families/grouped_conv3x3.md. The gradient of
// the bias is within 2^-23 M, as above.
//
// A NaN or an infinity of the input or of the gradient of the output affects the results named
// above. In outputs and in the gradient of the input, it may affect others of the tiles that read
// it. In the gradient of the weights, an input at row r and column c may affect the taps (i, j) for
// which r + i and c + j are odd, of all output channels. Numbers whose transforms overflow have the
// same effect, even if all weights are 0: inputs beyond 9e36, and gradients of the output beyond
// 1.5e36.
//
// Results are bit-identical on any number of threads, in every layout, and on AVX2 and AVX-512:
// outputs and the gradient of the input are one chain of multiply-adds each, or one for each number
// of a transformed tile; the gradients of weights and bias add sums of fixed tiles in order.
//
// Every function throws std::invalid_argument and writes nothing if shapes do not fit each other,
// if a parameter or the kind of groups is none of those above, or if an output shares memory with
// an input or another output.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/grouped_conv3x3_params.hpp>
#include <vecdet/impl/grouped_conv3x3_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory. It grows to the needs of the largest call and is reused. It holds a copy of the
/// weights, and half a MiB per thread, or more if a group has more than 592 channels. For
/// grouped_conv3x3_weight_grad(), it holds sums instead of the copy: twice the memory of the
/// weights and 1.2 MiB. Here, numbers of channels are rounded up to multiples of 16, both those of
/// a group and in total.
///
/// For minimal filtering, it holds transformed weights, and up to 17 MiB per thread. The
/// transformed weights take four times the memory of the weights. Output channels, or for
/// grouped_conv3x3_input_grad() input channels, are rounded up to a multiple of 32 for this.
/// grouped_conv3x3_weight_grad() takes at most 28 MiB for all threads together, or 14 MiB and
/// 64 KiB per thread if that is more. Only one call at a time may use the workspace.
class grouped_conv3x3_workspace {
  friend detail::workspace_access;
  detail::grouped_conv3x3_buffers buffers_;
};

/// Writes the convolution of `input`.
void grouped_conv3x3(feature_view<const float> input, feature_view<const float> weights,
                     vector_view<const float> bias, feature_view<float> output,
                     const grouped_conv3x3_params& params, grouped_conv3x3_workspace& workspace,
                     threading policy = threading::parallel);

/// Writes the gradient with respect to the input to `grad`. `upstream` is the gradient with respect
/// to the output.
void grouped_conv3x3_input_grad(feature_view<const float> upstream,
                                feature_view<const float> weights, feature_view<float> grad,
                                const grouped_conv3x3_params& params,
                                grouped_conv3x3_workspace& workspace,
                                threading policy = threading::parallel);

/// Writes the gradients with respect to the weights and the bias. Leave `bias_grad` empty to skip
/// it.
void grouped_conv3x3_weight_grad(feature_view<const float> input,
                                 feature_view<const float> upstream,
                                 feature_view<float> weight_grad, vector_view<float> bias_grad,
                                 const grouped_conv3x3_params& params,
                                 grouped_conv3x3_workspace& workspace,
                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/grouped_conv3x3.hpp>

// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution with stride 1, padding 1 and one group, and its gradients with respect to input,
// weights and bias.
//
//   output[n, k, y, x] = bias[k] + sum over c, i, j of
//                        weights[k, c, i, j] input[n, c, y + i - 1, x + j - 1]
//
// with zeros around the map. ReLU, max(output, 0), can be fused into the convolution, and its mask,
// output > 0, into the gradients.
//
// In float, Winograd's minimal filtering (Lavin and Gray: "Fast Algorithms for Convolutional Neural
// Networks", arXiv 1509.09308) computes a tile of 4 x 4 outputs from 6 x 6 inputs with 36
// multiplications per pair of channels, where a direct convolution takes 144:
//
//   output tile = A^T [ sum over c of (G weights G^T) . (B^T input tile B) ] A
//
// A, B and G are the transforms for the interpolation points 0, 1, -1, 1/2, -2 and infinity.
// conv3x3_tile::f2x2 computes tiles of 2 x 2 outputs with 16 multiplications, 1.8 times as many per
// output. It is more accurate. The gradient of the input is the same convolution with the weights
// rotated by 180 degrees and input and output channels exchanged. The gradient of the weights is
// G^T [ sum over tiles of (A gradient tile A^T) . (B^T input tile B) ] G. double is computed by
// direct convolution. It is slow and meant for checking gradients.
//
// Maps of bfloat16 are converted to float when they are read. Transforms, products and sums are
// those in float, and outputs are rounded once, to nearest even. Weights, bias and their gradients
// are float, so that nothing is lost when PyTorch's autocast keeps float parameters.
//
//   input, output  images x channels x height x width, each in NCHW or NHWC: one map, or the levels
//                  of a pyramid, which share the weights in one call. A head_view has anchors x
//                  classes channels
//   weights        output channels x input channels x 3 x 3, float if maps are bfloat16
//   bias           one number per output channel, of the weights' type
//
// Maps may have any size, even smaller than a tile.
//
// Accuracy in float: let C be the number of channels that are summed, and M the sum over these
// channels of (the largest magnitude of the nine weights) x (the largest magnitude that the tile
// reads), plus |bias|. With up to 70,000 channels or tiles, unless a number under- or overflows,
// the error of an output, or of the gradient of the input, is at most
//
//   440 (C + 18) 2^-23 M with f4x4, and 33 (C + 9) 2^-23 M with f2x2.
//
// For the gradient of the weights, let T be the number of tiles, and M the sum over the tiles of
// (the largest magnitude of the gradient's tile) x (the largest magnitude of the input's tile). Its
// error is at most
//
//   630 (T + 19) 2^-23 M with f4x4, and 19 (T + 8) 2^-23 M with f2x2.
//
// These bounds follow from the norms of the transforms, with every rounding at its worst. Usual
// errors are smaller by orders of magnitude: docs/families/conv3x3.md has figures. The gradient of
// the bias is summed in double.
//
// Accuracy in bfloat16: the same bounds hold, for the numbers that the maps hold. An output or a
// gradient of the input is the float result, rounded: up to 2^-8 of its magnitude is added, and a
// result beyond bfloat16's range is infinite. The gradients of weights and bias are not rounded.
//
// A NaN or an infinity at (y, x) of the input makes every output NaN or infinite whose row is in
// the tile of (y, x) or is y - 1 or y + 1, and whose column is in that tile or is x - 1 or x + 1. A
// direct convolution would affect nine outputs. Other outputs are unchanged, bit by bit. The same
// holds for the upstream gradient in the gradient of the input. In the gradient of the weights, a
// NaN or an infinity affects all weights of its channel. In the weights, it affects the whole
// output channel, and in the gradient of the input the whole input channel. Numbers near the limit
// of float's range may overflow in a transform, e.g. inputs beyond 6e36. They may affect the same
// outputs, even if all weights are 0, because infinity times 0 is NaN. relu(NaN) is NaN, and
// relu(-infinity) is 0. Where the mask is 0, the gradient counts as 0, even if it is NaN.
//
// Results are bit-identical on any number of threads, in either layout, for levels in one call or
// in several, and on AVX2 and AVX-512: each sum is one chain of multiply-adds, over channels or
// tiles in order.
//
// Every function throws std::invalid_argument, and writes nothing, if shapes differ, an output
// shares memory with an input or with another level of the same output, the weights were
// transformed for another use, or a head_view with several anchors has more channels than classes.
#pragma once

#include <vecdet/conv3x3_tile.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/conv3x3_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// The function that weights are transformed for.
enum class conv3x3_use {
  forward,    ///< conv3x3()
  input_grad  ///< conv3x3_input_grad()
};

/// Transformed weights, G weights G^T. Transform them again only when the weights change: once for
/// inference; in training, once per step for each conv3x3_use. They take 4 times the memory of the
/// weights (16 / 9 times for f2x2), after the output channels are rounded up to a multiple of 32. T
/// is float, also for maps of bfloat16, or double.
template <class T>
class conv3x3_weights {
  static_assert(std::is_same<T, float>::value || std::is_same<T, double>::value,
                "conv3x3_weights are float or double; those of vecdet::bfloat16 maps are float");

 public:
  /// Has no channels until assign() is called.
  conv3x3_weights() noexcept = default;

  /// `weights` are output channels x input channels x 3 x 3: NCHW as in torch.nn.Conv2d, or NHWC as
  /// in channels_last.
  explicit conv3x3_weights(feature_view<const T> weights, conv3x3_use use = conv3x3_use::forward,
                           conv3x3_tile tile = conv3x3_tile::f4x4,
                           threading policy = threading::parallel) {
    assign(weights, use, tile, policy);
  }

  /// Replaces the weights. Allocates only if they need more memory than before.
  void assign(feature_view<const T> weights, conv3x3_use use = conv3x3_use::forward,
              conv3x3_tile tile = conv3x3_tile::f4x4, threading policy = threading::parallel);

  index_t output_channels() const noexcept { return output_channels_; }
  index_t input_channels() const noexcept { return input_channels_; }
  conv3x3_use use() const noexcept { return use_; }
  conv3x3_tile tile() const noexcept { return tile_; }

 private:
  friend detail::workspace_access;
  detail::aligned_vector<detail::cache_line> buffers_;
  index_t output_channels_ = 0, input_channels_ = 0;
  conv3x3_use use_ = conv3x3_use::forward;
  conv3x3_tile tile_ = conv3x3_tile::f4x4;
};

template <class T>
struct conv3x3_params {
  /// One number per output channel; empty: all 0.
  lasting<vector_view<const T>> bias;
  bool relu = false;  ///< output max(convolution, 0)
};

/// Scratch memory. It grows to the needs of the largest call and is reused. Its size depends on the
/// caches, not on the layer. conv3x3() and conv3x3_input_grad() take at most 4 MiB per thread. If
/// the transformed weights take more than 4 MiB, this is 8 MiB per thread on one to three threads;
/// if they take more than 32 MiB, it is 12 MiB per thread. conv3x3_weight_grad() takes at most 24
/// MiB for all threads together, or 11 MiB and 64 KiB per thread if that is more. Only one call at
/// a time may use it.
class conv3x3_workspace {
  friend detail::workspace_access;
  detail::conv3x3_buffers buffers_;
};

/// Writes the convolution of `input` to `output`, with the bias and ReLU of `params`.
template <class T>
void conv3x3(feature_view<T> input, const conv3x3_weights<compute_type<value_of<T>>>& weights,
             feature_view<value_of<T>> output,
             const conv3x3_params<compute_type<value_of<T>>>& params, conv3x3_workspace& workspace,
             threading policy = threading::parallel);
/// The same for all levels, which share the weights. Level l of `input` gives level l of `output`.
template <class T>
void conv3x3(const head_view<T>& input, const conv3x3_weights<compute_type<value_of<T>>>& weights,
             const head_view<value_of<T>>& output,
             const conv3x3_params<compute_type<value_of<T>>>& params, conv3x3_workspace& workspace,
             threading policy = threading::parallel);

/// Writes the gradient with respect to the input to `grad`. `upstream` is the gradient with respect
/// to the output. If ReLU was fused, `relu_output` is the output, and the gradient passes where the
/// output is above 0. Otherwise leave `relu_output` empty (no images). `weights` are transformed
/// for conv3x3_use::input_grad.
template <class T>
void conv3x3_input_grad(feature_view<T> upstream, feature_view<const value_of<T>> relu_output,
                        const conv3x3_weights<compute_type<value_of<T>>>& weights,
                        feature_view<value_of<T>> grad, conv3x3_workspace& workspace,
                        threading policy = threading::parallel);
/// The same for all levels. Without ReLU, `relu_output` has no levels.
template <class T>
void conv3x3_input_grad(const head_view<T>& upstream,
                        const head_view<const value_of<T>>& relu_output,
                        const conv3x3_weights<compute_type<value_of<T>>>& weights,
                        const head_view<value_of<T>>& grad, conv3x3_workspace& workspace,
                        threading policy = threading::parallel);

/// The results of conv3x3_weight_grad(). T is that of conv3x3_weights.
template <class T>
struct conv3x3_weight_grads {
  /// Output channels x input channels x 3 x 3, in either layout.
  feature_view<T> weight_grad;
  vector_view<T> bias_grad{};  ///< One number per output channel; empty: not wanted.
  conv3x3_tile tile = conv3x3_tile::f4x4;
};

/// Writes the gradients with respect to the weights and to the bias. `upstream` and `relu_output`
/// are those of conv3x3_input_grad().
template <class T>
void conv3x3_weight_grad(feature_view<T> input, feature_view<const value_of<T>> upstream,
                         feature_view<const value_of<T>> relu_output,
                         const conv3x3_weight_grads<compute_type<value_of<T>>>& grads,
                         conv3x3_workspace& workspace, threading policy = threading::parallel);
/// The same for all levels; the gradients of the levels are added up.
template <class T>
void conv3x3_weight_grad(const head_view<T>& input, const head_view<const value_of<T>>& upstream,
                         const head_view<const value_of<T>>& relu_output,
                         const conv3x3_weight_grads<compute_type<value_of<T>>>& grads,
                         conv3x3_workspace& workspace, threading policy = threading::parallel);

/// Whether these functions are faster than a good direct convolution, such as oneDNN's, for these
/// numbers of channels and locations (the sum of height x width over all images and levels).
/// `transforms_weights` says whether the weights are transformed in every call, as in training, or
/// kept, as for inference. The rule comes from measurements: docs/families/conv3x3.md.
bool conv3x3_is_faster(index_t input_channels, index_t output_channels, index_t locations,
                       bool transforms_weights) noexcept;

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/conv3x3.hpp>

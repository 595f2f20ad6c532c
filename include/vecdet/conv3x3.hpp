// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution, stride 1, padding 1, one group: the output, and the gradients of input, weights
// and bias.
//
//   output[n, k, y, x] = bias[k] + sum over c, i, j of
//                        weights[k, c, i, j] input[n, c, y + i - 1, x + j - 1]
//
// with zeros around the picture. ReLU, max(output, 0), can be fused, and its mask, output > 0, into
// the gradients.
//
// In float, Winograd's minimal filtering (Lavin and Gray: "Fast Algorithms for Convolutional Neural
// Networks", arXiv 1509.09308) computes a tile of 4 x 4 outputs from 6 x 6 inputs with 36
// multiplications for each pair of channels, where a direct convolution takes 144:
//
//   output tile = A^T [ sum over c of (G weights G^T) . (B^T input tile B) ] A
//
// A, B and G belong to the points 0, 1, -1, 1/2, -2 and infinity. conv3x3_tile::f2x2 computes tiles
// of 2 x 2 with 16 multiplications instead of 36: 1.8 times as many, and more accurate. The
// gradient of the input is the same convolution with the weights turned by 180 degrees and the
// channels exchanged. The gradient of the weights is G^T [ sum over tiles of (A gradient tile A^T)
// . (B^T input tile B) ] G. double is computed directly, for checks of gradients, and is slow.
//
//   input, output  images x channels x height x width: one map, or the levels of a pyramid, which
//                  share the weights in one call. A head_view's channels are anchors x classes.
//                  Both layouts; maps of one call may differ in it
//   weights        output channels x input channels x 3 x 3
//   bias           one number for each output channel
//
// All sizes are right, also those smaller than a tile.
//
// Accuracy in float, on random and adversarial data: with C channels to sum over, an output is
// within (C + 100) 2^-23 (f2x2: (C + 40) 2^-23) of the exact value, times the sum over the channels
// of the largest magnitude of the nine weights times the largest magnitude that the tile reads,
// plus |bias|. The same holds of the gradient of the input. After a ReLU, with 256 channels, errors
// are below 2.5e-5 of the mean magnitude with f4x4 and 4e-6 with f2x2. The gradient of the weights
// is as accurate for some hundred tiles, and the error relative to it grows with the square root of
// their number. The gradient of the bias is summed in double.
//
// A NaN or an infinity in the input can spoil every output of the tiles that read it, beyond the
// nine that depend on it: they become NaN or infinite. Other tiles keep their bits. The same holds
// of one in the gradient of the output. One in the weights spoils its output channel, or its input
// channel in the input's gradient. relu(NaN) is NaN. Where the mask is 0 the gradient counts as 0,
// even if it is NaN.
//
// Results are the same bits for any number of threads, in either layout, for levels together or one
// by one, and on AVX2 and AVX-512: each sum is one chain of multiply-adds, over channels or tiles
// in their order.
//
// Every function throws std::invalid_argument, and writes nothing, when shapes differ, an output
// shares memory with an input, the weights were transformed for another use, or a head_view has
// more channels than classes at several anchors.
#pragma once

#include <vecdet/conv3x3_tile.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/conv3x3_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// What weights are transformed for.
enum class conv3x3_use {
  forward,    ///< conv3x3()
  input_grad  ///< conv3x3_input_grad()
};

/// Weights as the convolution multiplies them: G weights G^T. Transform them once for as long as
/// they do not change: for inference once, in training once a step for each use. Takes 36 / 9 of
/// the weights' memory (16 / 9 for f2x2), with the output channels rounded up to 32. T is float or
/// double.
template <class T>
class conv3x3_weights {
 public:
  /// Of no channels.
  conv3x3_weights() noexcept = default;

  /// `weights`: output channels x input channels x 3 x 3, nchw as torch.nn.Conv2d keeps them, or
  /// nhwc as in channels_last.
  explicit conv3x3_weights(feature_view<const T> weights, conv3x3_use use = conv3x3_use::forward,
                           conv3x3_tile tile = conv3x3_tile::f4x4,
                           threading policy = threading::parallel) {
    assign(weights, use, tile, policy);
  }

  /// Replaces the weights; allocates only where they need more memory than before.
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
  /// One number for each output channel; empty: all 0.
  lasting<vector_view<const T>> bias;
  bool relu = false;  ///< output max(convolution, 0)
};

/// Memory that the convolutions work in. It grows to what the calls need and is reused. It is
/// bounded by blocks for the caches, not by the layer. conv3x3() and conv3x3_input_grad() take at
/// most 4 MiB for each thread, or 12 MiB where the transformed weights take more than 32 MiB.
/// conv3x3_weight_grad() takes at most 24 MiB for all threads together. One call at a time.
class conv3x3_workspace {
  friend detail::workspace_access;
  detail::conv3x3_buffers buffers_;
};

/// The convolution of `input`, with bias and ReLU as params say, into `output`.
template <class T>
void conv3x3(feature_view<T> input, const conv3x3_weights<std::remove_const_t<T>>& weights,
             feature_view<std::remove_const_t<T>> output,
             const conv3x3_params<std::remove_const_t<T>>& params, conv3x3_workspace& workspace,
             threading policy = threading::parallel);
/// The same of all levels, which share the weights. Levels of input and output correspond.
template <class T>
void conv3x3(const head_view<T>& input, const conv3x3_weights<std::remove_const_t<T>>& weights,
             const head_view<std::remove_const_t<T>>& output,
             const conv3x3_params<std::remove_const_t<T>>& params, conv3x3_workspace& workspace,
             threading policy = threading::parallel);

/// The gradient by the input into `grad`, of a loss whose gradient by the output is `upstream`.
/// `relu_output`: the output, where ReLU was fused; the gradient passes where it is above 0. Empty
/// (no images) where there was no ReLU. `weights` are transformed for conv3x3_use::input_grad.
template <class T>
void conv3x3_input_grad(feature_view<T> upstream,
                        feature_view<const std::remove_const_t<T>> relu_output,
                        const conv3x3_weights<std::remove_const_t<T>>& weights,
                        feature_view<std::remove_const_t<T>> grad, conv3x3_workspace& workspace,
                        threading policy = threading::parallel);
/// The same of all levels; `relu_output` has no levels where there was no ReLU.
template <class T>
void conv3x3_input_grad(const head_view<T>& upstream,
                        const head_view<const std::remove_const_t<T>>& relu_output,
                        const conv3x3_weights<std::remove_const_t<T>>& weights,
                        const head_view<std::remove_const_t<T>>& grad, conv3x3_workspace& workspace,
                        threading policy = threading::parallel);

/// The gradients by the weights, output channels x input channels x 3 x 3 in either layout, and by
/// the bias, of a loss whose gradient by the output is `upstream`. `relu_output` as for
/// conv3x3_input_grad(). An empty `bias_grad` is not computed.
template <class T>
void conv3x3_weight_grad(feature_view<T> input, feature_view<const std::remove_const_t<T>> upstream,
                         feature_view<const std::remove_const_t<T>> relu_output,
                         feature_view<std::remove_const_t<T>> weight_grad,
                         vector_view<std::remove_const_t<T>> bias_grad, conv3x3_tile tile,
                         conv3x3_workspace& workspace, threading policy = threading::parallel);
/// The same of all levels: the sum over them.
template <class T>
void conv3x3_weight_grad(const head_view<T>& input,
                         const head_view<const std::remove_const_t<T>>& upstream,
                         const head_view<const std::remove_const_t<T>>& relu_output,
                         feature_view<std::remove_const_t<T>> weight_grad,
                         vector_view<std::remove_const_t<T>> bias_grad, conv3x3_tile tile,
                         conv3x3_workspace& workspace, threading policy = threading::parallel);

/// Whether these functions are faster than a good direct convolution, such as oneDNN's, for so many
/// channels and locations (height x width of all images and levels). `transforms_weights`: whether
/// the weights are transformed for each call, as in training, or kept, as for inference. A rule
/// from measurements: docs/families/conv3x3.md.
bool conv3x3_is_faster(index_t input_channels, index_t output_channels, index_t locations,
                       bool transforms_weights) noexcept;

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/conv3x3.hpp>

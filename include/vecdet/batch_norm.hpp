// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of feature maps (arXiv 1502.03167) with an activation, and its gradient.
//
//   output = activation((input - mean) / sqrt(variance + epsilon) weight + bias)
//
//   input, output, upstream, grad   images x channels x height x width of float, bfloat16 or
//                                   double, all in the same layout, NCHW or NHWC
//   weight, bias                    a number per channel, double for maps of double, else float;
//                                   empty: all 1, and all 0
//   statistics                      the means of all channels, then their variances, in double
//
// batch_norm() computes the statistics of the batch over images, height and width; the variance is
// the mean of (input - mean)^2. It reads the input twice and writes the output once.
// batch_norm_grad() reads the input and the upstream gradient twice, and writes the gradient once:
// it computes the normalised numbers again, so nothing but the statistics is kept.
// batch_norm_inference() takes given statistics.
//
// Statistics are sums in double of differences from the channel's first number. The relative error
// of the variance is at most (count + 100) (1 + k^2) 2^-52, where count is the number of inputs of
// a channel, and k, the distance of the first one from the mean in standard deviations, is at most
// the square root of count. The error of the mean is at most that many standard deviations, plus
// its rounding. A large mean therefore takes nothing from the variance.
//
// Outputs and gradients are computed in float, or double, and rounded once. Before that, the error
// of an output in float or bfloat16 is at most
//   2^-21 (|s| |input - mean| + |bias| + |s| |mean| 2^-23),  s = weight / sqrt(variance + epsilon)
// plus 2^-20 of the result with silu; that of an input gradient, at most
//   2^-19 |s| (u + mean of u + |x| mean of |x| u)
// where u = |upstream| (1 + |s| |input - mean| + |bias|) and x is the normalised input. The errors
// of the statistics add to both. With double, they are the largest part.
//
// In batch_norm(), a NaN or an infinity makes the statistics and outputs of its channel NaN; so do
// doubles whose squared differences overflow. Results are infinite or NaN, too, if s, or the
// difference of an input from the mean, overflows the computing type. relu keeps NaN, and its
// gradient passes where the normalised number is above 0 or NaN. The silu of -infinity is about 0.
//
// Results are bit-identical on any number of threads, and on AVX2 and AVX-512. The layouts add in
// different orders and agree within the bounds.
//
// Every function throws std::invalid_argument, and writes nothing, if shapes or layouts differ, an
// output shares memory with an input or another output, a channel has fewer than two numbers (not
// batch_norm_inference()), or a parameter is out of range.
#pragma once

#include <vecdet/batch_norm_params.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/impl/batch_norm_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory. It grows to the needs of the largest call and is reused. Only one call at a time
/// may use it.
class batch_norm_workspace {
  friend detail::workspace_access;
  detail::batch_norm_buffers buffers_;
};

/// Training: normalises with the statistics of the batch, and writes them.
template <class T>
void batch_norm(feature_view<T> input, vector_view<const compute_type<value_of<T>>> weight,
                vector_view<const compute_type<value_of<T>>> bias, feature_view<value_of<T>> output,
                vector_view<double> statistics, const batch_norm_params& params,
                batch_norm_workspace& workspace, threading policy = threading::parallel);

/// Evaluation: normalises with given statistics, such as running ones.
template <class T>
void batch_norm_inference(feature_view<T> input,
                          vector_view<const compute_type<value_of<T>>> weight,
                          vector_view<const compute_type<value_of<T>>> bias,
                          vector_view<const double> statistics, feature_view<value_of<T>> output,
                          const batch_norm_params& params, batch_norm_workspace& workspace,
                          threading policy = threading::parallel);

/// The gradients of batch_norm(), which depends on the input through the statistics as well.
/// @param input, weight, bias, statistics, params those of batch_norm()
/// @param grad with respect to the input
/// @param weight_grad, bias_grad with respect to the parameters; empty: not wanted
template <class T>
void batch_norm_grad(feature_view<T> upstream, feature_view<T> input,
                     vector_view<const compute_type<value_of<T>>> weight,
                     vector_view<const compute_type<value_of<T>>> bias,
                     vector_view<const double> statistics, feature_view<value_of<T>> grad,
                     vector_view<compute_type<value_of<T>>> weight_grad,
                     vector_view<compute_type<value_of<T>>> bias_grad,
                     const batch_norm_params& params, batch_norm_workspace& workspace,
                     threading policy = threading::parallel);

/// Moves running statistics towards those of a batch: running += momentum (batch - running). The
/// batch's variance is multiplied by count / (count - 1), which makes it unbiased, as in PyTorch.
/// @param running means, then variances
/// @param count images x height x width, 2 or more
/// @param momentum in [0, 1]; PyTorch's default is 0.1; 1 / (number of batches) gives the mean of
///     all batches
/// @throws std::invalid_argument if sizes differ or a number is out of range
void update_running_statistics(vector_view<const double> statistics, index_t count, double momentum,
                               vector_view<double> running);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/batch_norm.hpp>

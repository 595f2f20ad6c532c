// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification (CTC), Graves et al. 2006: the loss of text and speech
// recognisers, and its gradient with respect to the logits in one call.
//
//   L = -log sum over paths of the product over steps t of softmax(x[t])[path[t]]
//
// A path has one class per step. It belongs to the target if the target is left after merging equal
// neighbours and then removing blanks. The gradient is the softmax minus the occupancies: the
// probability, given the target, that the step belongs to the class.
//
//   logits, grad    steps x samples x classes of float, bfloat16 or double, steps or samples first,
//                   with any strides; logits, or log probabilities, whose softmax is themselves
//   targets         classes other than the blank, of all samples one after the other, or padded
//   input lengths   the steps of each sample; empty: all
//   loss            samples, of float, or of double if the logits are double
//
// A sample without a path of positive probability has an infinite loss, or 0 with zero_infinity,
// and gradient 0. This includes samples whose target, with a blank between each two equal
// neighbours, is longer than their steps. A sample without steps and with an empty target has loss
// 0. Logits beyond a sample's steps are not read, and have gradient 0.
//
// A sample of weight 0 has loss and gradient 0, unless they are NaN. PyTorch's mean divides each
// loss by its target's length, at least 1, which sample_weights can do, and the sum by the number
// of samples, which the scale can do.
//
// Losses of finite logits are finite, however improbable the target is, unless logits of a step
// differ by 1e300 or a loss exceeds the largest float. Accuracy: the error of a loss is at most
// 1e-6 times the sum, over its steps, of 1 + the magnitude of the logits' differences; 1e-11 in
// double. Gradients are within 1e-6 times the scale (1e-11 in double) if the logits of a step
// differ by at most 1e9 (1e6 in double) and the scale is at least 1e-30; bfloat16 rounds them once
// more. Results are bit-identical on any number of threads.
//
// If a logit in a sample's steps is NaN or +infinity, the loss is NaN, and so is the gradient of
// that step. If it belongs to the blank or to a class of the target, the sample's whole gradient is
// NaN. A loss that is infinite by the blank and the target's classes alone stays infinite.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, a length is out
// of range, a target has the blank or something that is no class, or the scale is not a finite
// float. Results may not share memory with other arguments, except that the gradient may be the
// logits' own memory.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/impl/ctc_loss_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/sequences_view.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct ctc_params {
  index_t blank = 0;           ///< the class that stands for no label
  double scale = 1;            ///< factor on losses, sum and gradient
  bool zero_infinity = false;  ///< whether infinite losses become 0
  /// An additional factor per sample; empty: all 1.
  lasting<vector_view<const float>> sample_weights;
};

/// The targets of a batch.
struct ctc_targets {
  /// The classes of all samples.
  lasting<labels_view> classes{};
  /// The number of classes of each sample.
  lasting<vector_view<const index_t>> lengths{};
  /// The distance from one sample's first class to the next one's, if targets are padded to one
  /// length; what follows a target is not read. 0: one target directly after the other.
  index_t stride = 0;
};

/// Scratch memory for CTC. It grows to the needs of the largest call and is reused. With the
/// longest target's labels + 1, rounded up to 16, as s, a call needs 16 steps x samples bytes and,
/// per thread, 200 KB or 504 s bytes, and at most 4 steps x s bytes. A gradient also needs
/// 4 steps x samples x s bytes (8 in double); in bfloat16, 4 for each class per thread. Only one
/// call at a time may use it.
class ctc_workspace {
  friend detail::workspace_access;
  detail::ctc_buffers buffers_;
};

/// The sum of the losses.
template <class T>
double ctc_loss(sequences_view<T> logits, const ctc_targets& targets,
                vector_view<const index_t> input_lengths, const ctc_params& params,
                ctc_workspace& workspace, threading policy = threading::parallel);

/// Writes the loss of each sample.
template <class T>
void ctc_loss_unreduced(sequences_view<T> logits, const ctc_targets& targets,
                        vector_view<const index_t> input_lengths,
                        vector_view<compute_type<value_of<T>>> loss, const ctc_params& params,
                        ctc_workspace& workspace, threading policy = threading::parallel);

/// Returns the sum of the losses and writes its gradient with respect to the logits. `grad` may be
/// the logits' own memory with the same strides.
template <class T>
double ctc_loss_and_grad(sequences_view<T> logits, const ctc_targets& targets,
                         vector_view<const index_t> input_lengths, sequences_view<value_of<T>> grad,
                         const ctc_params& params, ctc_workspace& workspace,
                         threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/ctc_loss.hpp>

// SPDX-License-Identifier: Apache-2.0
// Decoding of CTC's logits: from the classes of the steps to text. See ctc_loss.hpp for the logits
// and their views.
//
// The best path takes the most probable class of each step, merges equal neighbours and removes
// blanks. Of equal logits, the lower class wins; NaN never does. Each class that is left has the
// first step of its run, and its probability in that step, softmax(x)_c.
//
// The logarithm of the path's probability is the sum over all steps, also those of blanks and
// repetitions. It is within 1e-6 times the steps (1e-12 in double). A probability is NaN if a logit
// of its step is NaN or +infinity, or if all are -infinity; the logarithm is then NaN as well.
//
// Every function throws std::invalid_argument if sizes differ, a length is out of range, or the
// blank is no class.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/impl/ctc_decoding_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/sequences_view.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory and results of decoding: 36 steps x samples bytes. It grows to the needs of the
/// largest call and is reused. Only one call at a time may use it.
class ctc_decoding_workspace {
  friend detail::workspace_access;
  detail::ctc_decoding_buffers buffers_;
};

/// The texts of all samples; those of sample n are [offsets[n], offsets[n + 1]). The memory belongs
/// to the workspace and is valid until its next use.
struct ctc_texts {
  vector_view<const index_t> classes;
  vector_view<const index_t> steps;             ///< the first step of each class
  vector_view<const float> probabilities;       ///< of each class in that step
  vector_view<const index_t> offsets;           ///< samples + 1
  vector_view<const double> log_probabilities;  ///< of each sample's path
};

/// The best path of each sample.
/// @param input_lengths the steps of each sample; empty: all
/// @param blank the class that stands for no label
template <class T>
ctc_texts ctc_greedy(sequences_view<T> logits, vector_view<const index_t> input_lengths,
                     index_t blank, ctc_decoding_workspace& workspace,
                     threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/ctc_decoding.hpp>

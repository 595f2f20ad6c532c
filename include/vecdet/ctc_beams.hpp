// SPDX-License-Identifier: Apache-2.0
// Prefix beam search: the most probable texts of CTC's logits. Hannun et al., "First-pass large
// vocabulary continuous speech recognition using bi-directional recurrent DNNs", arXiv 1408.2873,
// without a language model. See ctc_loss.hpp for the logits and their views.
//
// A text has many paths. The search keeps the most probable prefixes of texts after each step, with
// the sum of the probabilities of their paths that end with a blank, and of those that end with
// their last class. In the next step a prefix stays, by a blank or by its last class again, or
// grows by a class. Paths that leave the beam do not count, so that the probability of a text is
// the one within the beam.
//
// Of equally probable prefixes, those of the beam come before longer ones, better ones before
// others, and lower classes before higher ones. Prefixes of probability 0 are not kept. A sample
// with a step that has a NaN or +infinity, or only -infinity, has no text. The logarithms of
// probabilities are within 1e-6 times the steps (1e-12 in double).
//
// Throws std::invalid_argument if sizes differ, a length is out of range, the blank is no class, or
// a parameter is out of range.
#pragma once

#include <vecdet/impl/ctc_beams_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/sequences_view.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct ctc_beams_params {
  index_t blank = 0;   ///< the class that stands for no label
  index_t width = 10;  ///< prefixes that are kept after a step, 1 to 10,000
  index_t texts = 1;   ///< texts per sample, 1 to the width
  /// Classes that are tried in a step, apart from the blank: so many of the most probable ones; 0:
  /// all.
  index_t max_classes = 0;
  /// Classes less probable than this are not tried in a step, 0 to 1. The blank always is.
  double min_probability = 0;
};

/// Scratch memory and results of the search: per thread about 80 steps x width bytes; 16 steps x
/// texts bytes per sample. It grows to the needs of the largest call and is reused. Only one call
/// at a time may use it.
class ctc_beams_workspace {
  friend detail::workspace_access;
  detail::ctc_beams_buffers buffers_;
};

/// The texts of sample n are [sample_offsets[n], sample_offsets[n + 1]), the most probable first;
/// there may be fewer than wanted. The classes of text k are [offsets[k], offsets[k + 1]). The
/// memory belongs to the workspace and is valid until its next use.
struct ctc_beam_results {
  vector_view<const index_t> classes;
  /// The step in which each class begins, in the text's most probable path within the beam.
  vector_view<const index_t> steps;
  vector_view<const index_t> offsets;           ///< texts + 1
  vector_view<const double> log_probabilities;  ///< of each text
  vector_view<const index_t> sample_offsets;    ///< samples + 1
};

/// The most probable texts of each sample.
/// @param input_lengths the steps of each sample; empty: all
template <class T>
ctc_beam_results ctc_beams(sequences_view<T> logits, vector_view<const index_t> input_lengths,
                           const ctc_beams_params& params, ctc_beams_workspace& workspace,
                           threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/ctc_beams.hpp>

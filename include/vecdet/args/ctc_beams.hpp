// SPDX-License-Identifier: Apache-2.0
// Prefix beam search of CTC: what the functions and their kernels agree on.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
struct ctc_beams_args {
  const T* logits;
  index_t step_stride, sample_stride;  ///< in elements
  index_t steps, classes, blank;
  const index_t* input_lengths;  ///< one per sample, or null: all steps
  index_t width, texts, most_classes;
  double min_probability;

  index_t length(index_t sample) const {
    return input_lengths == nullptr ? steps : input_lengths[sample];
  }
};

/// Where a sample's texts go.
struct ctc_beam_texts {
  index_t *classes, *steps;   ///< texts x steps
  index_t* lengths;           ///< of each text
  double* log_probabilities;  ///< of each text
};

template <class T>
struct ctc_beams_kernels {
  /// The scratch memory of search(), in bytes. It is aligned to 64 bytes.
  index_t (*scratch_size)(const ctc_beams_args<T>&);
  /// Writes the texts of a sample, the most probable first, and returns their number.
  index_t (*search)(const ctc_beams_args<T>&, index_t sample, const ctc_beam_texts& to,
                    void* scratch);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

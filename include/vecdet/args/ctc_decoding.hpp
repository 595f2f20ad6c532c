// SPDX-License-Identifier: Apache-2.0
// Decoding of CTC: what the functions and their kernels agree on.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The best path of all samples. A row is the classes of one step of one sample.
template <class T>
struct ctc_best_args {
  const T* logits;
  index_t step_stride, sample_stride;  ///< in elements
  index_t steps, samples, classes, blank;
  bool steps_are_inner;          ///< whether the rows of a sample follow each other in memory
  const index_t* input_lengths;  ///< one per sample, or null: all steps
  // Of each row of each sample:
  index_t* best;  ///< the most probable class
  double* sums;   ///< the sum of exp(x - the largest logit): the inverse of its probability

  index_t length(index_t sample) const {
    return input_lengths == nullptr ? steps : input_lengths[sample];
  }
};

/// Where a sample's results go: memory for one per step.
struct ctc_best_path {
  index_t *classes, *steps;
  float* probabilities;
  double log_probability;
};

template <class T>
struct ctc_decoding_kernels {
  /// Finds the best classes of rows [first, last), in the order of memory.
  void (*best)(const ctc_best_args<T>&, index_t first, index_t last);
  /// Merges and writes the classes of a sample, and returns their number.
  index_t (*merge)(const ctc_best_args<T>&, index_t sample, ctc_best_path& path);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

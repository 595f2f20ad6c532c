// SPDX-License-Identifier: Apache-2.0
// CTC: what the functions and their kernels agree on.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One call. A row is the classes of one step of one sample. Three passes compute it: paths() for
/// each sample, rows() for all rows, and loss for each sample.
template <class T>
struct ctc_args {
  const T* logits;
  index_t step_stride, sample_stride, grad_step_stride, grad_sample_stride;  ///< in elements
  index_t steps, samples, classes, blank;
  bool steps_are_inner;  ///< whether the rows of a sample follow each other in memory
  double scale;
  const float* weights;  ///< one per sample, or null
  T* grad;               ///< null: not wanted

  // Memory of the workspace: the targets first.
  const index_t* labels;         ///< the targets' classes, one target after the other
  const index_t* first_label;    ///< of each sample
  const index_t* label_counts;   ///< of each sample
  const index_t* input_lengths;  ///< steps of each sample
  index_t lanes;                 ///< a multiple of 16, greater than each label count
  /// Of each sample: the logarithm of the sum over all paths of the product of exp(x - offset);
  /// -infinity: no path has a positive probability.
  double* log_paths;
  /// Of each row of each sample: paths() writes the offset, and rows() replaces it by the largest
  /// logit minus the offset.
  double* offsets;
  double* sums;  ///< likewise: the sum of exp(x - the largest logit)
  /// Samples x steps x lanes: the probability that a step belongs to label s; at the number of
  /// labels, to a blank. Used if there is a gradient.
  compute_type<T>* occupancies;

  index_t row_number(index_t sample, index_t step) const { return sample * steps + step; }
  double factor(index_t sample) const {
    return weights == nullptr ? scale : scale * static_cast<double>(weights[sample]);
  }
};

template <class T>
struct ctc_kernels {
  /// The scratch memory of paths() and that of rows(), in bytes. It is aligned to 64 bytes.
  index_t (*paths_scratch_size)(const ctc_args<T>&);
  index_t (*rows_scratch_size)(const ctc_args<T>&);
  /// Writes log_paths, offsets and occupancies of a sample.
  void (*paths)(const ctc_args<T>&, index_t sample, void* scratch);
  /// Computes rows [first, last) in the order of memory: their sums and their gradients.
  void (*rows)(const ctc_args<T>&, index_t first, index_t last, void* scratch);
  /// The unscaled loss of a sample.
  double (*loss)(const ctc_args<T>&, index_t sample);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Smooth L1: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/selected_boxes.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One call over N x 4 deltas of the stored type T.
template <class T>
struct smooth_l1_args {
  const T* predictions;
  const T* targets;
  const float* box_weights;  ///< one per box, or null: all 1
  double beta, scale;
  loss_output output;
  /// Losses or gradient, depending on `output`, N x 4. If all boxes are selected, the gradient may
  /// be the predictions.
  T* out;
  selected_boxes selected;
};

template <class T>
struct smooth_l1_kernels {
  /// Computes boxes [first, last), or those of the list's indices [first, last), and returns the
  /// unscaled sum of their losses.
  double (*run)(const smooth_l1_args<T>&, index_t first, index_t last);
  /// Sets the outputs of boxes [first, last) to 0.
  void (*clear)(const smooth_l1_args<T>&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

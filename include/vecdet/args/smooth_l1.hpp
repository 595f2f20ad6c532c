// SPDX-License-Identifier: Apache-2.0
// Smooth L1: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/selected_boxes.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One call over N x 4 deltas, T being the stored type.
template <class T>
struct smooth_l1_args {
  const T* predictions;
  const T* targets;
  const float* box_weights;  ///< one a box, or null: all 1
  double beta, scale;
  loss_output output;
  T* out;  ///< losses or gradient by `output`, N x 4; the gradient of all boxes may be the
           ///< predictions themselves
  selected_boxes selected;
};

template <class T>
struct smooth_l1_kernels {
  /// Computes boxes, or numbers of the list of indices, [first, last), and returns their unscaled
  /// sum.
  double (*run)(const smooth_l1_args<T>&, index_t first, index_t last);
  /// Sets the outputs of boxes [first, last) to 0.
  void (*clear)(const smooth_l1_args<T>&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

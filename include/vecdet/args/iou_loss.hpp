// SPDX-License-Identifier: Apache-2.0
// The IoU losses: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/iou.hpp>
#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/selected_boxes.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One call over N predicted boxes and their targets of the stored type T.
template <class T>
struct iou_loss_args {
  const T* predicted;
  const T* targets;
  const float* box_weights;  ///< one per box, or null: all 1
  double scale, epsilon;
  iou_kind kind;
  loss_output output;
  T* grad;  ///< N x 4; may be the predicted boxes
  T* loss;  ///< one per box
};

/// Computes boxes [first, last) and returns the unscaled sum of their losses.
template <class T>
struct iou_loss_kernels {
  double (*run)(const iou_loss_args<T>&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

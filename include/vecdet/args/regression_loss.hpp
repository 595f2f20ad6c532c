// SPDX-License-Identifier: Apache-2.0
// The fused regression losses: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/iou.hpp>
#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/selected_boxes.hpp>
#include <vecdet/args/stored_boxes.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One call over N anchors, stored as S says.
template <class S>
struct regression_loss_args {
  typename stored<S>::in deltas;
  typename stored<S>::boxes anchors;
  index_t anchor_period;              ///< delta i's anchor is number i % anchor_period; 0: i
  typename stored<S>::boxes targets;  ///< one an anchor, or ground truth that `matches` index
  const index_t* matches;             ///< one an anchor, or null
  const float* box_weights;           ///< one an anchor, or null: all 1
  bool is_smooth_l1;
  iou_kind kind;  ///< where it is not
  double beta, scale, epsilon;
  double weights[4];           ///< of deltas
  double low_size, high_size;  ///< bounds of dw and dh after division by the weights
  loss_output output;          ///< sum or grad
  typename stored<S>::out grad;
  selected_boxes selected;
};

template <class S>
struct regression_loss_kernels {
  /// Computes boxes, or numbers of the list of indices, [first, last), and returns their unscaled
  /// sum.
  double (*run)(const regression_loss_args<S>&, index_t first, index_t last);
  /// Sets the gradient of boxes [first, last) to 0.
  void (*clear)(const regression_loss_args<S>&, index_t first, index_t last);
  /// The first of the boxes [first, last) whose label selects it, with a match outside [0, truths);
  /// else -1.
  index_t (*bad_match)(const regression_loss_args<S>&, index_t truths, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

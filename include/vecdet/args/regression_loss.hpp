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

/// One call over N boxes with storage S.
template <class S>
struct regression_loss_args {
  typename stored<S>::in deltas;
  typename stored<S>::boxes anchors;
  index_t anchor_period;              ///< the anchor of delta i is i % anchor_period; 0: i
  typename stored<S>::boxes targets;  ///< one per delta, or ground truth that `matches` index
  const index_t* matches;             ///< one per delta, or null
  const float* box_weights;           ///< one per delta, or null: all 1
  bool is_smooth_l1;
  iou_kind kind;  ///< unless is_smooth_l1
  double beta, scale, epsilon;
  double weights[4];           ///< of deltas
  double low_size, high_size;  ///< bounds of dw and dh after division by the weights
  loss_output output;          ///< sum or grad
  typename stored<S>::out grad;
  selected_boxes selected;
};

template <class S>
struct regression_loss_kernels {
  /// Computes boxes [first, last), or those of the list's indices [first, last), and returns the
  /// unscaled sum of their losses.
  double (*run)(const regression_loss_args<S>&, index_t first, index_t last);
  /// Sets the gradient of boxes [first, last) to 0.
  void (*clear)(const regression_loss_args<S>&, index_t first, index_t last);
  /// Returns the first of the boxes [first, last) that its label selects and whose match is outside
  /// [0, truths), or -1.
  index_t (*bad_match)(const regression_loss_args<S>&, index_t truths, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

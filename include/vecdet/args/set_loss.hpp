// SPDX-License-Identifier: Apache-2.0
// The box losses of matched queries: what set_loss_and_grad and its kernels agree on.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Added to the divisors of the GIoU loss.
constexpr float set_loss_epsilon = 1e-16f;

/// A row of a layer and the box that it is matched with.
struct set_pair {
  index_t row, box;
};

/// The pairs of a layer. T is the stored type.
template <class T>
struct set_loss_args {
  const set_pair* pairs;
  const T* boxes;      ///< of all rows: cx cy w h
  const float* truth;  ///< all boxes: cx cy w h
  double l1_scale, giou_scale;
  float* ious;   ///< one per row
  T* grad;       ///< rows x 4
  T* giou_grad;  ///< rows x 4, or null: added to `grad`
};

/// Sums of unscaled losses.
struct set_pair_losses {
  double l1 = 0, giou = 0;
};

template <class T>
struct set_loss_kernels {
  /// Computes pairs [first, last).
  set_pair_losses (*run)(const set_loss_args<T>&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

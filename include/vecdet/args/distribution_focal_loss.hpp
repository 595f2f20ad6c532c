// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss: what the functions and their kernels agree on.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One call over rows x bins logits.
struct distribution_focal_loss_args {
  const float* logits;
  index_t stride;  ///< in elements
  index_t bins;
  const float* targets;  ///< one per row, in bins
  const float* weights;  ///< one per row, or null: all 1
  double scale;
  float* loss;  ///< one per row, or null
  float* grad;  ///< rows x bins, or null; may be the logits
  index_t grad_stride;
};

/// One call that decodes rows x bins logits.
struct distribution_decoding_args {
  const float* logits;
  index_t stride;
  index_t bins;
  const float* points;   ///< x and y of each box
  const float* strides;  ///< one per box
  float* out;            ///< the expectation of each row, or the corners of each box
};

struct distribution_focal_loss_kernels {
  /// Computes rows [first, last) and returns the unscaled sum of their losses.
  double (*loss)(const distribution_focal_loss_args&, index_t first, index_t last);
  /// Writes the expectations of rows [first, last).
  void (*expectations)(const distribution_decoding_args&, index_t first, index_t last);
  /// Writes boxes [first, last), each from four rows.
  void (*boxes)(const distribution_decoding_args&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

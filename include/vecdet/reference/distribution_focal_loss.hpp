// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss in plain scalar double. Li et al.: "Generalized Focal Loss",
// arXiv 2006.04388, equations 5 and 6.
#pragma once

#include <vecdet/reference/softmax.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The loss of one row of logits for the target y, which is clamped to [0, bins - 1]. Writes its
/// gradient to `grad`, unless that is empty.
inline double distribution_focal_loss(vector_view<const float> x, double y,
                                      vector_view<double> grad = {}) {
  const index_t bins = x.size();
  y = std::isnan(y) ? y : std::min(std::max(y, 0.0), static_cast<double>(bins - 1));
  const log_softmax log_p(x);
  double loss = 0;
  for (index_t c = 0; c < bins; ++c) {
    const double share =
        std::isnan(y) ? y : std::max(0.0, 1 - std::abs(static_cast<double>(c) - y));
    if (share != 0 || std::isnan(log_p[c])) loss -= share * log_p[c];
    if (!grad.empty()) grad[c] = std::exp(log_p[c]) - share;
  }
  return loss;
}

/// The expectation of the bin.
inline double distribution_expectation(vector_view<const float> x) {
  const log_softmax log_p(x);
  double sum = 0;
  for (index_t c = 0; c < x.size(); ++c) sum += static_cast<double>(c) * std::exp(log_p[c]);
  return sum;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Focal loss with alpha 0.25 and gamma 2. Each function returns the sum of the loss and writes its
// gradient.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(double plain_focal_loss_labels(const float* logits, const std::int64_t* labels,
                                                  float* grad, std::int64_t rows,
                                                  std::int64_t cols);
                   /// For a level in NCHW, with one label per location and anchor.
                   double plain_focal_loss_planes(const float* logits, const std::int64_t* labels,
                                                  float* grad, std::int64_t anchors,
                                                  std::int64_t classes, std::int64_t locations);
                   double plain_focal_loss_dense(const float* logits, const float* targets,
                                                 float* grad, std::int64_t size);)

}  // namespace vecdet::bench

// SPDX-License-Identifier: Apache-2.0
// Focal loss and NMS composed of PyTorch's C++ operations as peers, if the option
// VECDET_BENCH_LIBTORCH is on. On one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace vecdet::bench {

/// torchvision's sigmoid_focal_loss (alpha 0.25, gamma 2) summed over rows x cols logits, with the
/// labels as one-hot targets (-1 is background). Autograd computes the gradient.
double libtorch_focal_loss(const float* logits, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t cols);

/// The indices that greedy NMS keeps from `count` x 4 corners, in descending score, computed from
/// the whole matrix of IoUs.
std::vector<std::int64_t> libtorch_nms(const float* boxes, const float* scores, std::int64_t count,
                                       double iou_threshold);

}  // namespace vecdet::bench

// SPDX-License-Identifier: Apache-2.0
// RetinaNet's loss on libtorch's operators alone, in torchvision's steps: the baseline for
// vecdet's.
#pragma once

#include "losses.hpp"

namespace detector {

/// @param logits images x anchors x classes
/// @param deltas images x anchors x 4
/// @param anchors anchors x 4 corners
loss_values torch_loss(const at::Tensor& logits, const at::Tensor& deltas, const batch_truth& truth,
                       const at::Tensor& anchors);

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
// Which variant of a plain loop of box regression is meant.
#pragma once

namespace vecdet {
namespace bench {

/// Boxes as N x 4, or an array a coordinate, one after the other.
enum class plain_layout { rows, planes };

enum class plain_iou { torchvision, detectron2, giou, diou, ciou };

enum class plain_loss { smooth_l1, giou, diou, ciou };

/// The sum of the losses, each loss instead, or the sum and its gradient.
enum class plain_output { sum, loss, grad };

}  // namespace bench
}  // namespace vecdet

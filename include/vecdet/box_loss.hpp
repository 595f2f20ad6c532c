// SPDX-License-Identifier: Apache-2.0
// The kinds of box regression loss, used by regression_loss.hpp and the PyTorch operators.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Smooth L1 of the deltas, or an IoU loss of the decoded boxes; see regression_loss.hpp.
enum class box_loss { smooth_l1, giou, diou, ciou };

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// How soft-NMS lowers scores, for soft_nms.hpp and PyTorch's functions.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// What an overlap leaves of a score; soft_nms.hpp has the formulas.
enum class soft_nms_method { hard, linear, gaussian };

}  // namespace VECDET_ABI
}  // namespace vecdet

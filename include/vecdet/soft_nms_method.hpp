// SPDX-License-Identifier: Apache-2.0
// The methods of soft-NMS, used by soft_nms.hpp and the PyTorch operators.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// How an overlap reduces a score; see soft_nms.hpp for the formulas.
enum class soft_nms_method { hard, linear, gaussian };

}  // namespace VECDET_ABI
}  // namespace vecdet

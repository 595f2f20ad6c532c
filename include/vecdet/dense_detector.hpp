// SPDX-License-Identifier: Apache-2.0
// The detectors that postprocessing supports, used by postprocess.hpp and the PyTorch operators.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Selects the rules for scores and candidates; see postprocess.hpp.
enum class dense_detector { retinanet, fcos, ssd, rpn };

}  // namespace VECDET_ABI
}  // namespace vecdet

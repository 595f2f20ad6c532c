// SPDX-License-Identifier: Apache-2.0
// The detectors that postprocessing knows, for postprocess.hpp and PyTorch's functions.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Whose scores and candidates; see postprocess.hpp.
enum class dense_detector { retinanet, fcos, ssd, rpn };

}  // namespace VECDET_ABI
}  // namespace vecdet

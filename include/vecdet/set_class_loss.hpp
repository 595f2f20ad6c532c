// SPDX-License-Identifier: Apache-2.0
// The class losses of set_loss.hpp.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The class loss of all queries.
enum class set_class_loss {
  focal,          ///< sigmoid focal loss, as in Deformable DETR and DINO
  varifocal,      ///< varifocal loss whose targets are IoUs, as in RT-DETR
  cross_entropy,  ///< softmax cross entropy whose last column is "no object", as in DETR
};

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The class costs of query_matching.hpp.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

enum class query_class_cost {
  focal,    ///< Deformable DETR, DINO, RT-DETR
  softmax,  ///< DETR
};

}  // namespace VECDET_ABI
}  // namespace vecdet

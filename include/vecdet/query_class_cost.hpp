// SPDX-License-Identifier: Apache-2.0
// The class costs of query_matching.hpp.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The class cost of a query and a box.
enum class query_class_cost {
  focal,    ///< the focal cost, as in Deformable DETR, DINO and RT-DETR
  softmax,  ///< minus the softmax probability, where the last column is "no object", as in DETR
};

}  // namespace VECDET_ABI
}  // namespace vecdet

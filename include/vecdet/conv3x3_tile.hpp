// SPDX-License-Identifier: Apache-2.0
// The tiles of 3x3 convolution by minimal filtering.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The size of a tile: the outputs that are computed together.
enum class conv3x3_tile {
  f4x4,  ///< 4 x 4: fewest multiplications
  f2x2   ///< 2 x 2: more accurate
};

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The size of a grid of rows and columns.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The size of an image in pixels, or of a feature map in locations.
struct grid_size {
  index_t height = 0, width = 0;
};

}  // namespace VECDET_ABI
}  // namespace vecdet

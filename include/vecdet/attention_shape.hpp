// SPDX-License-Identifier: Apache-2.0
// The sizes of a call of deformable_attention().
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// A level of the value, and the points that each query samples on it in each head.
struct attention_level {
  index_t height, width, points;
};

struct attention_shape {
  index_t images = 0, queries = 0, heads = 0;
  index_t channels = 0;  ///< of a head
  lasting<vector_view<const attention_level>> levels;

  /// Locations of all levels of an image.
  index_t locations() const noexcept {
    index_t sum = 0;
    for (const attention_level& level : levels) sum += level.height * level.width;
    return sum;
  }
  /// Points of all levels that a query samples in a head.
  index_t points() const noexcept {
    index_t sum = 0;
    for (const attention_level& level : levels) sum += level.points;
    return sum;
  }
};

}  // namespace VECDET_ABI
}  // namespace vecdet

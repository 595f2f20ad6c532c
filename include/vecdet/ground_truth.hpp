// SPDX-License-Identifier: Apache-2.0
// The ground truth of a detector's training step, as matching, assigners and whole losses take it.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The boxes of one image, or of a batch: those of image k are [image_offsets[k],
/// image_offsets[k + 1]).
struct ground_truth {
  lasting<boxes_view<const float>> boxes;
  /// The classes of the boxes, which become labels; empty: all 0. SSD needs them, as 0 is its
  /// background.
  lasting<labels_view> classes;
  /// One more than there are images; empty: one image.
  lasting<vector_view<const index_t>> image_offsets;
  /// Regions to be ignored in matching, as crowds are, and their offsets, if there are
  /// image_offsets. Assigners take none.
  lasting<boxes_view<const float>> regions;
  lasting<vector_view<const index_t>> region_offsets;
};

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The ground truth of a training step: an argument of matching, assigners and whole losses.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The ground-truth boxes of one image or a batch. Those of image k are [image_offsets[k],
/// image_offsets[k + 1]).
struct ground_truth {
  lasting<boxes_view<const float>> boxes;
  /// The classes of the boxes, which become labels; empty: all 0. SSD requires them, because its
  /// class 0 is background.
  lasting<labels_view> classes;
  /// One more than there are images; empty: one image.
  lasting<vector_view<const index_t>> image_offsets;
  /// Ignore regions for matching, e.g. crowds, and their offsets if there are image_offsets.
  /// Assigners do not accept regions.
  lasting<boxes_view<const float>> regions;
  lasting<vector_view<const index_t>> region_offsets;
};

}  // namespace VECDET_ABI
}  // namespace vecdet

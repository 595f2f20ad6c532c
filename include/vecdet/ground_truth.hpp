// SPDX-License-Identifier: Apache-2.0
// The ground truth of a training step: an argument of matching, assigners and whole losses.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// The ground-truth boxes of one image or a batch. The boxes of image k are [image_offsets[k],
/// image_offsets[k + 1]). ground_truth_batch builds this struct from the arrays of each image.
struct ground_truth {
  lasting<boxes_view<const float>> boxes{};
  /// The classes of the boxes, which become labels; empty: all 0. SSD requires them, because its
  /// class 0 is background.
  lasting<labels_view> classes{};
  /// One more than there are images; empty: one image.
  lasting<vector_view<const index_t>> image_offsets{};
  /// Ignore regions for matching and assigners, e.g. crowds, and their offsets if there are
  /// image_offsets.
  lasting<boxes_view<const float>> regions{};
  lasting<vector_view<const index_t>> region_offsets{};
};

/// Copies the ground truth of a batch, image by image. Keep the object for the next step: clear()
/// keeps the memory, so nothing is allocated once the memory is large enough.
class ground_truth_batch {
 public:
  /// Removes all images.
  void clear() noexcept;

  /// Adds an image with its boxes (corners), their classes and its ignore regions. An image may
  /// have no boxes. Classes are given for all images or for none; without classes, all boxes have
  /// class 0.
  ///
  /// @throws std::invalid_argument, and adds nothing, if the number of classes differs from the
  /// number of boxes, a class exceeds 2^63 - 1, or some images with boxes have classes and others
  /// do not.
  void add_image(boxes_view<const float> boxes, labels_view classes = {},
                 boxes_view<const float> regions = {});

  index_t images() const noexcept { return static_cast<index_t>(image_offsets_.size()) - 1; }
  /// Valid until an image is added or the object is cleared, moved or destroyed.
  operator ground_truth() const VECDET_LIFETIMEBOUND;

 private:
  std::vector<float> boxes_, regions_;
  std::vector<index_t> classes_;
  std::vector<index_t> image_offsets_{0}, region_offsets_{0};
};

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/ground_truth_batch.hpp>

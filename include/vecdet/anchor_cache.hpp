// SPDX-License-Identifier: Apache-2.0
// The anchors of the image shapes that were asked for last, with their indices for matching:
// training and detection ask for those of a few shapes again and again.
#pragma once

#include <vecdet/anchors.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/views.hpp>

#include <list>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// The anchors of one image shape, as anchor_cache keeps them: memory of its own.
class cached_anchors {
 public:
  /// N x 4 corners in pixels, level after level, as make_anchors() lays them.
  boxes_view<const float> boxes() const { return boxes_; }
  /// The same, for match_anchors() and whole losses.
  const anchor_index& index() const noexcept { return index_; }

 private:
  friend class anchor_cache;
  std::vector<float> boxes_;
  anchor_index index_;
};

/// One call at a time.
class anchor_cache {
 public:
  /// Keeps the anchors of `capacity` image shapes, 1 or more; then those go that have not been
  /// asked for the longest.
  /// @throws std::invalid_argument where make_anchors() does, or when `capacity` is below 1.
  explicit anchor_cache(std::vector<anchor_shapes> shapes, index_t capacity = 16);

  /// What make_anchors() gives for these sizes. Valid until `capacity` other shapes have been asked
  /// for. Throws before it allocates; then what is kept stays as it was.
  const cached_anchors& anchors(grid_size image, vector_view<const grid_size> features);

 private:
  struct entry;  ///< the anchors and the sizes that they are of
  std::vector<anchor_shapes> shapes_;
  index_t capacity_;
  std::list<entry> entries_;  ///< the one that was asked for last comes first
};

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/anchor_cache.hpp>

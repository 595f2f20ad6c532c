// SPDX-License-Identifier: Apache-2.0
// A cache of anchors and their anchor_index for the most recently used image shapes, because
// training and detection use a few shapes again and again.
#pragma once

#include <vecdet/anchors.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/views.hpp>

#include <list>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// The anchors of one image shape, stored in the cache.
class cached_anchors {
 public:
  /// N x 4 corners in pixels, level after level, as in make_anchors().
  boxes_view<const float> boxes() const { return boxes_; }
  /// The same anchors as an index, for match_anchors() and whole losses.
  const anchor_index& index() const noexcept { return index_; }

 private:
  friend class anchor_cache;
  std::vector<float> boxes_;
  anchor_index index_;
};

/// A least-recently-used cache. Only one call at a time may use it.
class anchor_cache {
 public:
  /// Keeps the anchors of up to `capacity` (1 or more) image shapes and evicts the least recently
  /// used.
  /// @throws std::invalid_argument if make_anchors() would, or if `capacity` is below 1.
  explicit anchor_cache(std::vector<anchor_shapes> shapes, index_t capacity = 16);

  /// The result of make_anchors() for these sizes. The reference is valid until `capacity` other
  /// shapes have been requested. If the call throws std::invalid_argument, the cache is unchanged.
  const cached_anchors& anchors(grid_size image, vector_view<const grid_size> features);

 private:
  struct entry;  ///< anchors and their image and feature sizes
  std::vector<anchor_shapes> shapes_;
  index_t capacity_;
  std::list<entry> entries_;  ///< most recently used first
};

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/anchor_cache.hpp>

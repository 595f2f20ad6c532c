// SPDX-License-Identifier: Apache-2.0
// The functions of anchor_cache.hpp.
#pragma once

#include <vecdet/anchor_cache.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

inline anchor_cache::anchor_cache(std::vector<anchor_shapes> shapes, index_t capacity)
    : shapes_(std::move(shapes)), capacity_(capacity) {
  detail::check(capacity >= 1, "anchor_cache", "capacity", capacity, "1 or more");
  detail::check_shapes("anchor_cache", shapes_);
}

inline const cached_anchors& anchor_cache::anchors(grid_size image,
                                                   vector_view<const grid_size> features) {
  const auto same = [](const grid_size& a, const grid_size& b) {
    return a.height == b.height && a.width == b.width;
  };
  ++uses_;
  for (cached_anchors& known : kept_) {
    if (!same(known.image_, image) ||
        !std::equal(features.begin(), features.end(), known.features_.begin(),
                    known.features_.end(), same))
      continue;
    known.last_use_ = uses_;
    return known;
  }
  detail::check_layout("anchor_cache::anchors", shapes_, image, features);
  cached_anchors made;
  made.image_ = image;
  made.features_.assign(features.begin(), features.end());
  made.boxes_.resize(4 * static_cast<std::size_t>(count_anchors(shapes_, features)));
  make_anchors(shapes_, image, features, made.boxes_);
  made.index_ = anchor_index(made.boxes_);
  made.last_use_ = uses_;
  if (static_cast<index_t>(kept_.size()) < capacity_) {
    kept_.push_back(std::move(made));
    return kept_.back();
  }
  const auto oldest = std::min_element(
      kept_.begin(), kept_.end(),
      [](const cached_anchors& a, const cached_anchors& b) { return a.last_use_ < b.last_use_; });
  *oldest = std::move(made);
  return *oldest;
}

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The functions of anchor_cache.hpp.
#pragma once

#include <vecdet/anchor_cache.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <list>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

struct anchor_cache::entry {
  grid_size image;
  std::vector<grid_size> features;
  cached_anchors anchors;
};

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
  for (auto known = entries_.begin(); known != entries_.end(); ++known) {
    if (!same(known->image, image) ||
        !std::equal(features.begin(), features.end(), known->features.begin(),
                    known->features.end(), same))
      continue;
    entries_.splice(entries_.begin(), entries_, known);
    return known->anchors;
  }
  detail::check_layout("anchor_cache::anchors", shapes_, image, features);
  entry made;
  made.image = image;
  made.features.assign(features.begin(), features.end());
  std::vector<float>& boxes = made.anchors.boxes_;
  boxes.resize(4 * static_cast<std::size_t>(count_anchors(shapes_, features)));
  make_anchors(shapes_, image, features, boxes);
  made.anchors.index_ = anchor_index(boxes);
  entries_.push_front(std::move(made));
  if (static_cast<index_t>(entries_.size()) > capacity_) entries_.pop_back();
  return entries_.front().anchors;
}

}  // namespace VECDET_ABI
}  // namespace vecdet

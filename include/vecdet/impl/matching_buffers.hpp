// SPDX-License-Identifier: Apache-2.0
// What anchor_index and match_workspace hold: buffers that only grow.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct anchor_buffers {
  aligned_vector<box_rows> blocks;
  aligned_vector<number_row> areas;
  aligned_vector<anchor_node> groups, tiles;
  std::vector<float> typical_areas;
  std::vector<std::uint32_t> exceptional;
  index_t anchor_count = 0, exceptional_count = 0;

  index_t tile_count() const { return (anchor_count + tile_anchors - 1) / tile_anchors; }

  /// For the kernels that match.
  anchor_blocks view() const {
    return {blocks.data(), areas.data(), groups.data(),      tiles.data(),     typical_areas.data(),
            anchor_count,  tile_count(), exceptional.data(), exceptional_count};
  }
  /// For the kernel that builds them.
  mutable_anchor_blocks mutable_view() {
    return {blocks.data(), areas.data(),         groups.data(),
            tiles.data(),  typical_areas.data(), anchor_count};
  }
};

/// Of one image at a time.
struct match_image_buffers {
  aligned_vector<match_lanes> lanes;
  std::vector<match_truth> truth, exceptional_truth, regions;
  std::vector<truth_summary> summaries;
  std::vector<float> tops;
  std::vector<std::uint32_t> first_nan, best_anchor;
  std::vector<index_t> classes, matches;
  std::vector<std::uint16_t> ignored;
  aligned_vector<number_row> areas, block_ious, group_ious;
};

struct match_buffers {
  anchor_buffers anchors;
  std::vector<match_image_buffers> images;
  std::vector<index_t> foreground;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Matching of anchors: what the functions and their kernels agree on.
//
// Anchors are stored in blocks of 16, blocks in groups of 16, groups in tiles of 16. A group stores
// the bounding rectangles of its blocks, a tile those of its groups. A ground-truth box is compared
// only with blocks whose rectangles it overlaps; its IoU with all other anchors is 0.
//
// This is true for regular anchors, which have a finite area above 0, and for ground-truth boxes
// with a finite area of 0 or more. All others are exceptional: their IoU is always 0 or NaN. The
// rectangles do not include exceptional anchors. Their area in the blocks is infinite, which makes
// their IoU 0 there.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

constexpr int block_anchors = 16;
constexpr int blocks_in_group = 16;
constexpr int groups_in_tile = 16;
constexpr int blocks_in_tile = blocks_in_group * groups_in_tile;
constexpr int tile_anchors = block_anchors * blocks_in_tile;

/// 16 boxes with one row per coordinate: the anchors of a block, or rectangles.
struct alignas(64) box_rows {
  float x1[16], y1[16], x2[16], y2[16];
};
/// One number per anchor or block, for 16 of them.
struct alignas(64) number_row {
  float of[16];
};
/// A summary of 16 blocks or 16 groups, used to skip their anchors.
struct anchor_node {
  box_rows rectangles;
  number_row least_areas, greatest_areas;
};

/// Anchors in blocks. The last tile is padded with boxes of infinite area.
struct anchor_blocks {
  const box_rows* blocks;
  const number_row* areas;
  const anchor_node *groups, *tiles;
  const float* typical_areas;  ///< one per tile
  index_t anchor_count, tile_count;
  const std::uint32_t* exceptional;  ///< exceptional anchors, ascending
  index_t exceptional_count;
};

/// The same blocks while they are built.
struct mutable_anchor_blocks {
  box_rows* blocks;
  number_row* areas;
  anchor_node *groups, *tiles;
  float* typical_areas;
  index_t anchor_count;
};

/// A ground-truth box.
struct match_truth {
  float x1, y1, x2, y2, area;
  std::int32_t index;
};

/// A ground-truth box's greatest IoU in some tiles, and the position of the anchors that reach it.
struct truth_summary {
  static constexpr int known_blocks = 13;

  float top;  ///< the greatest IoU known after these tiles; 0 if the box touched no anchor
  std::uint32_t count;                ///< number of blocks that reach `top`
  std::uint32_t block[known_blocks];  ///< the first of these blocks
  std::uint32_t first;                ///< the lowest anchor that reaches `top`; set by `mark`
};
constexpr std::uint32_t no_anchor = 0xffffffff;

/// The best IoU of each of 16 anchors with a ground-truth box, and the lowest box that has it. The
/// sign bit of `best` is set if the anchor keeps that box even if the IoU is low.
struct alignas(64) match_lanes {
  float iou[block_anchors];
  std::int32_t best[block_anchors];
};
constexpr std::int32_t keeps_best = INT32_MIN;

/// One image.
struct match_args {
  anchor_blocks anchors;
  const number_row* areas;   ///< of the blocks' anchors; infinite for anchors that take no part
  const match_truth* truth;  ///< boxes that can touch regular anchors, by ascending area
  index_t truth_count;
  /// The greatest IoU of each ground-truth box with any anchor; -1 if one is NaN. During `compare`,
  /// all threads raise it with atomic operations.
  float* tops;
  match_lanes* lanes;  ///< one per block
  /// The smallest IoU among the lanes of each block, one row per group; and of each group, one row
  /// per tile.
  number_row *block_ious, *group_ious;
  const std::uint16_t* ignored;  ///< one bit per anchor, one number per block; null: none
  bool ignore_matched;
  float low, high;
  bool all_keep_best;
  index_t first_truth;         ///< added to matches
  const index_t* classes;      ///< one per box
  index_t background, ignore;  ///< labels
  index_t *matches, *labels;   ///< one per anchor; null: not requested
  float* best_ious;            ///< likewise
  const match_truth* regions;  ///< ignore regions
  index_t region_count;
  float region_threshold;
  std::uint16_t* ignored_out;
  number_row* areas_out;
};

struct matching_kernels {
  /// Fills the tiles [first, last) from N x 4 anchors. Writes the indices of exceptional anchors,
  /// but not into the blocks' list, and returns their number.
  index_t (*build)(const float* anchors, const mutable_anchor_blocks&, index_t first, index_t last,
                   std::uint32_t* exceptional_anchors);
  /// Sets the bits of anchors that a region covers by more than the threshold. If they take no part
  /// in matching, also sets the areas.
  void (*find_ignored)(const match_args&, index_t first, index_t last);
  /// Sets the lanes of the tiles [first, last) and their summaries, one per ground-truth box, and
  /// raises `tops` to the summaries' tops.
  void (*compare)(const match_args&, index_t first, index_t last, truth_summary* summaries);
  /// Records the NaN IoUs of a box with all anchors that take part, or only with exceptional
  /// anchors. A NaN IoU is an anchor's best, unless a lower box also has one. Returns the lowest
  /// such anchor.
  std::uint32_t (*find_nan)(const match_args&, const match_truth&, bool exceptional_alone);
  /// Finds the anchors of these tiles whose IoU with a ground-truth box equals its top, if that is
  /// above 0. With `keep`, these anchors keep their best box.
  void (*mark)(const match_args&, index_t first, index_t last, truth_summary* summaries, bool keep);
  /// Writes the results of the anchors [first, last) and returns how many are matched.
  index_t (*finish)(const match_args&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

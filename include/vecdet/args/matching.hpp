// SPDX-License-Identifier: Apache-2.0
// Matching of anchors: what the functions and their kernels agree on.
//
// Anchors lie in blocks of 16, blocks in groups of 16, groups in tiles of 16; a group knows the
// bounding rectangles of its blocks, and a tile those of its groups. A ground truth meets only the
// blocks whose rectangles it overlaps: with all other anchors its IoU is 0.
//
// That holds for regular anchors, of a finite area above 0, and for ground truth of a finite area
// of 0 or more. Others are exceptional: their IoU is 0 or NaN, whatever they overlap. Of
// exceptional anchors the rectangles know nothing; their area is infinite in the blocks, so that
// they have IoU 0 there.
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

/// 16 boxes, the numbers of a coordinate together: the anchors of a block, or rectangles.
struct alignas(64) box_rows {
  float x1[16], y1[16], x2[16], y2[16];
};
/// A number for each of 16 anchors or blocks.
struct alignas(64) number_row {
  float of[16];
};
/// What is known of 16 blocks, or of 16 groups, without a look at their anchors.
struct anchor_node {
  box_rows rectangles;
  number_row least_areas, greatest_areas;
};

/// Anchors in blocks. Where the number of anchors ends, boxes of infinite area stand for them up to
/// the end of the tile.
struct anchor_blocks {
  const box_rows* blocks;
  const number_row* areas;
  const anchor_node *groups, *tiles;
  const float* typical_areas;  ///< one per tile
  index_t anchor_count, tile_count;
  const std::uint32_t* exceptional;  ///< exceptional anchors, ascending
  index_t exceptional_count;
};

/// The same while they are built.
struct mutable_anchor_blocks {
  box_rows* blocks;
  number_row* areas;
  anchor_node *groups, *tiles;
  float* typical_areas;
  index_t anchor_count;
};

/// A ground truth box.
struct match_truth {
  float x1, y1, x2, y2, area;
  std::int32_t index;
};

/// The greatest IoU of a ground truth box that was known when some tiles were done, and where among
/// their anchors it is.
struct truth_summary {
  static constexpr int known_blocks = 13;

  float top;            ///< the greatest IoU; 0 where it touched none
  std::uint32_t count;  ///< of the blocks that reach it, of which the first are known
  std::uint32_t block[known_blocks];
  std::uint32_t first;  ///< the lowest anchor that reaches it; found by `mark`
};
constexpr std::uint32_t no_anchor = 0xffffffff;

/// The best IoU of each of 16 anchors with a ground truth box, and the lowest box that has it. The
/// sign bit of `best` is set where the anchor keeps that box however low the IoU.
struct alignas(64) match_lanes {
  float iou[block_anchors];
  std::int32_t best[block_anchors];
};
constexpr std::int32_t keeps_best = INT32_MIN;

/// One image.
struct match_args {
  anchor_blocks anchors;
  const number_row* areas;   ///< those of the blocks; infinite where an anchor takes no part
  const match_truth* truth;  ///< that can touch regular anchors, by ascending area
  index_t truth_count;
  /// The greatest IoU of each truth with any anchor; -1 where one is NaN. During `compare` all
  /// threads raise it, by atomic operations alone.
  float* tops;
  match_lanes* lanes;  ///< one a block
  /// The least IoU among the lanes of each block, one row a group; and of each group, one a tile.
  number_row *block_ious, *group_ious;
  const std::uint16_t* ignored;  ///< a bit an anchor, one number a block; null: none
  bool ignore_matched;
  float low, high;
  bool all_keep_best;
  index_t first_truth;         ///< added to matches
  const index_t* classes;      ///< one a box
  index_t background, ignore;  ///< labels
  index_t *matches, *labels;   ///< one an anchor; null: not asked for
  float* best_ious;            ///< likewise
  const match_truth* regions;  ///< to be ignored
  index_t region_count;
  float region_threshold;
  std::uint16_t* ignored_out;
  number_row* areas_out;
};

struct matching_kernels {
  /// Fills the tiles [first, last) from N x 4 anchors, all but the list of exceptional ones; writes
  /// which those are, and returns how many.
  index_t (*build)(const float* anchors, const mutable_anchor_blocks&, index_t first, index_t last,
                   std::uint32_t* exceptional_anchors);
  /// Sets bits where a region covers more of an anchor than the threshold; and, where those take
  /// no part, the areas.
  void (*find_ignored)(const match_args&, index_t first, index_t last);
  /// Sets the lanes of the tiles [first, last), and summaries of these, one a truth; raises the
  /// tops to theirs.
  void (*compare)(const match_args&, index_t first, index_t last, truth_summary* summaries);
  /// Notes the NaN IoUs of a box with all anchors that take part, or with exceptional anchors
  /// alone: they are those anchors' best unless a lower box's is. Returns the lowest such anchor.
  std::uint32_t (*find_nan)(const match_args&, const match_truth&, bool exceptional_alone);
  /// Finds the anchors of these tiles whose IoU with a truth is its top, where that is above 0;
  /// they keep their best, if `keep`.
  void (*mark)(const match_args&, index_t first, index_t last, truth_summary* summaries, bool keep);
  /// Writes the results of the anchors [first, last), and returns how many are matched.
  index_t (*finish)(const match_args&, index_t first, index_t last);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Anchors in blocks, groups and tiles, for matching; args/matching.hpp has the layout.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/kernels/boxes.hpp>
#include <vecdet/simd/bits.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::anchor_blocks;
using detail::anchor_node;
using detail::block_anchors;
using detail::box_rows;
using detail::mutable_anchor_blocks;

constexpr int match_batches = row_pack<float>::batches;
using match_pack = row_pack<float>;

/// The rectangle around those of 16 boxes whose bit is set. If no bit is set, a rectangle that
/// nothing touches.
VECDET_INLINE void set_rectangle(const box_rows& boxes, std::uint32_t bits, box_rows& out, int at) {
  float x1 = infinity<float>(), y1 = x1, x2 = -x1, y2 = -x1;
  for (; bits != 0; bits &= bits - 1) {
    const int k = lowest_bit(bits);
    x1 = boxes.x1[k] < x1 ? boxes.x1[k] : x1;
    y1 = boxes.y1[k] < y1 ? boxes.y1[k] : y1;
    x2 = boxes.x2[k] > x2 ? boxes.x2[k] : x2;
    y2 = boxes.y2[k] > y2 ? boxes.y2[k] : y2;
  }
  out.x1[at] = x1;
  out.y1[at] = y1;
  out.x2[at] = x2;
  out.y2[at] = y2;
}

/// The same for 16 regular boxes.
VECDET_INLINE void set_whole_rectangle(const box_rows& boxes, box_rows& out, int at) {
  out.x1[at] = least16(boxes.x1);
  out.y1[at] = least16(boxes.y1);
  out.x2[at] = greatest16(boxes.x2);
  out.y2[at] = greatest16(boxes.y2);
}

/// Fills block `block`; returns a bit for each regular anchor.
VECDET_INLINE std::uint32_t build_block(const float* anchors, const mutable_anchor_blocks& to,
                                        index_t block, anchor_node& group, int in_group) {
  const index_t begin = block * block_anchors, left = to.anchor_count - begin;
  box_rows& rows = to.blocks[block];
  alignas(64) float last[4 * block_anchors] = {};
  const float* from = anchors + 4 * begin;
  if (left < block_anchors) {
    if (left > 0) __builtin_memcpy(last, from, static_cast<std::size_t>(left) * 4 * sizeof(float));
    from = last;
  }
  const auto boxes = load_boxes<match_batches>(from);
  store_pack<match_batches>(rows.x1, to_box_order(boxes.x1));
  store_pack<match_batches>(rows.y1, to_box_order(boxes.y1));
  store_pack<match_batches>(rows.x2, to_box_order(boxes.x2));
  store_pack<match_batches>(rows.y2, to_box_order(boxes.y2));

  const match_pack zero = 0.0f, none = infinity<float>();
  const match_pack w = to_box_order(boxes.x2 - boxes.x1), h = to_box_order(boxes.y2 - boxes.y1);
  const match_pack area = w * h;
  const auto regular = (w > zero) & (area > zero) & (area < none);
  store_pack<match_batches>(to.areas[block].of, select(regular, area, none));
  group.least_areas.of[in_group] = least16(to.areas[block].of);
  alignas(64) float finite[block_anchors];
  store_pack<match_batches>(finite, select(regular, area, zero));
  group.greatest_areas.of[in_group] = greatest16(finite);
  const std::uint32_t bits = to_bits(regular);
  if (bits == 0xffff) {
    set_whole_rectangle(rows, group.rectangles, in_group);
  } else {
    set_rectangle(rows, bits, group.rectangles, in_group);
  }
  return bits;
}

inline index_t build_tiles(const float* anchors, const mutable_anchor_blocks& to, index_t first,
                           index_t last, std::uint32_t* exceptional_anchors) {
  index_t exceptional_count = 0;
  for (index_t t = first; t < last; ++t) {
    anchor_node& tile = to.tiles[t];
    float typical = 0;
    for (int g = 0; g < detail::groups_in_tile; ++g) {
      const index_t group_index = t * detail::groups_in_tile + g;
      anchor_node& group = to.groups[group_index];
      for (int k = 0; k < detail::blocks_in_group; ++k) {
        const index_t block = group_index * detail::blocks_in_group + k;
        const index_t left = to.anchor_count - block * block_anchors;
        for (std::uint32_t exceptional = ~build_block(anchors, to, block, group, k) & 0xffff;
             exceptional != 0; exceptional &= exceptional - 1)
          if (lowest_bit(exceptional) < left)
            exceptional_anchors[exceptional_count++] =
                static_cast<std::uint32_t>(block * block_anchors + lowest_bit(exceptional));
      }
      set_whole_rectangle(group.rectangles, tile.rectangles, g);
      tile.least_areas.of[g] = least16(group.least_areas.of);
      tile.greatest_areas.of[g] = greatest16(group.greatest_areas.of);
      typical += tile.greatest_areas.of[g] / detail::groups_in_tile;
    }
    // The mean of the groups' largest anchors. It affects speed only: matching is correct with any
    // number.
    to.typical_areas[t] = typical;
  }
  return exceptional_count;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

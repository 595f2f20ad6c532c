// SPDX-License-Identifier: Apache-2.0
// Matching of anchors. It compares 16 anchors at a time with one ground-truth box, tile by tile, so
// the best boxes found so far for a tile's anchors stay in the cache.
//
// IoU is computed operation by operation, without contraction, as in torchvision. The division is
// skipped, by comparing a product, unless its result may be the new best of an anchor or of a box.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/matching/anchor_blocks.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::match_args;
using detail::match_lanes;
using detail::match_truth;
using detail::number_row;
using detail::truth_summary;

/// A ground-truth box in every lane.
struct broadcast_truth {
  match_pack x1, y1, x2, y2, area;

  explicit VECDET_INLINE broadcast_truth(const match_truth& t)
      : x1(t.x1), y1(t.y1), x2(t.x2), y2(t.y2), area(t.area) {}

  /// Which rectangles it overlaps, one bit each.
  VECDET_INLINE std::uint32_t touched(const box_rows& r) const {
    const auto load = [](const float* row)
                          VECDET_INLINE_LAMBDA { return load_pack<match_batches>(row); };
    return to_bits((load(r.x1) < x2) & (load(r.x2) > x1) & (load(r.y1) < y2) & (load(r.y2) > y1));
  }

  /// The areas of its intersections with 16 boxes; 0 for a box with a NaN.
  VECDET_INLINE match_pack intersection_with(const box_rows& b) const {
    const match_pack zero = 0.0f;
    const match_pack left = max(x1, load_pack<match_batches>(b.x1));
    const match_pack top = max(y1, load_pack<match_batches>(b.y1));
    const match_pack right = min(x2, load_pack<match_batches>(b.x2));
    const match_pack bottom = min(y2, load_pack<match_batches>(b.y2));
    return rounded(max(right - left, zero) * max(bottom - top, zero));
  }
};

/// Calls use(block) for the blocks of a tile that a ground-truth box may touch.
template <class Use>
VECDET_INLINE void for_each_touched(const anchor_blocks& anchors, const broadcast_truth& truth,
                                    index_t tile, const Use& use) {
  for (std::uint32_t groups = truth.touched(anchors.tiles[tile].rectangles); groups != 0;
       groups &= groups - 1) {
    const index_t group = tile * detail::groups_in_tile + lowest_bit(groups);
    for (std::uint32_t blocks = truth.touched(anchors.groups[group].rectangles); blocks != 0;
         blocks &= blocks - 1)
      use(group * detail::blocks_in_group + lowest_bit(blocks));
  }
}

/// Far more than rounding can raise an IoU above its exact value.
constexpr float iou_slack = 0x1p-20f;

/// The smallest positive number.
constexpr float least_iou = 0x1p-149f;

/// Whether IoUs may be `least` or more, tested on intersections and unions without a division.
VECDET_INLINE std::uint32_t may_reach(const match_pack& intersection, const match_pack& joined,
                                      const match_pack& least) {
  return to_bits(intersection >= (least - match_pack(iou_slack)) * joined);
}

/// The children of a node that a box touches and in which its IoU may either exceed the lowest best
/// IoU of an anchor or equal the box's own greatest IoU so far.
VECDET_INLINE std::uint32_t promising_children(const anchor_node& node, const number_row& ious,
                                               const broadcast_truth& t, const match_pack& top) {
  const std::uint32_t touched = t.touched(node.rectangles);
  if (touched == 0) return 0;
  // Rounding is monotonic: no child's IoU exceeds the rounded IoU of these two.
  const match_pack intersection =
      min(t.intersection_with(node.rectangles), load_pack<match_batches>(node.greatest_areas.of));
  const match_pack joined = (t.area + load_pack<match_batches>(node.least_areas.of)) - intersection;
  return touched & may_reach(intersection, joined, min(load_pack<match_batches>(ious.of), top));
}

/// Records the blocks that contain a ground-truth box's greatest IoU so far.
VECDET_INLINE void note_top(truth_summary& summary, index_t block, const match_pack& iou,
                            match_pack& top) {
  alignas(64) float each[block_anchors];
  store_pack<match_batches>(each, iou);
  const float most = greatest16(each);
  if (!(most > 0)) return;
  if (most > summary.top) {
    summary.top = most;
    summary.count = 0;
    top = most;
  }
  if (summary.count < truth_summary::known_blocks)
    summary.block[summary.count] = static_cast<std::uint32_t>(block);
  ++summary.count;
}

/// Compares one ground-truth box with a tile.
VECDET_INLINE void compare_tile(const match_args& a, index_t tile, const match_truth& truth,
                                truth_summary& summary) {
  const broadcast_truth t(truth);
  const auto index = bit_cast<float>(row_pack<std::int32_t>(truth.index));
  match_pack top = summary.top;
  for (std::uint32_t groups = promising_children(a.anchors.tiles[tile], a.group_ious[tile], t, top);
       groups != 0; groups &= groups - 1) {
    const int in_tile = lowest_bit(groups);
    const index_t group = tile * detail::groups_in_tile + in_tile;
    number_row& block_ious = a.block_ious[group];
    bool has_changed = false;
    for (std::uint32_t blocks = promising_children(a.anchors.groups[group], block_ious, t, top);
         blocks != 0; blocks &= blocks - 1) {
      const int in_group = lowest_bit(blocks);
      const index_t block = group * detail::blocks_in_group + in_group;
      match_lanes& lanes = a.lanes[block];
      const match_pack intersection = t.intersection_with(a.anchors.blocks[block]);
      const match_pack joined =
          (t.area + load_pack<match_batches>(a.areas[block].of)) - intersection;
      const match_pack best = load_pack<match_batches>(lanes.iou);
      if (may_reach(intersection, joined, min(best, top)) == 0) continue;
      const match_pack iou = intersection / joined;
      if (to_bits(iou >= max(best, match_pack(least_iou))) != 0) {
        const auto better = iou > best;
        store_pack<match_batches>(lanes.iou, select(better, iou, best));
        const auto before = bit_cast<float>(load_pack<match_batches>(lanes.best));
        store_pack<match_batches>(lanes.best,
                                  bit_cast<std::int32_t>(select(better, index, before)));
        for (std::uint32_t equal = to_bits((iou == best) & (iou > match_pack(0.0f))); equal != 0;
             equal &= equal - 1) {
          std::int32_t& lowest = lanes.best[lowest_bit(equal)];
          lowest = truth.index < lowest ? truth.index : lowest;
        }
        block_ious.of[in_group] = least16(lanes.iou);
        has_changed = true;
      }
      if (to_bits(iou >= top) != 0) note_top(summary, block, iou, top);
    }
    if (has_changed) a.group_ious[tile].of[in_tile] = least16(block_ious.of);
  }
}

/// Raises a number that other threads raise concurrently.
VECDET_INLINE void raise(float* number, float to) {
  float now;
  __atomic_load(number, &now, __ATOMIC_RELAXED);
  while (now < to &&
         !__atomic_compare_exchange(number, &now, &to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

VECDET_NOINLINE inline void compare_tiles(const match_args& a, index_t first, index_t last,
                                          truth_summary* summaries) {
  for (index_t j = 0; j < a.truth_count; ++j) {
    summaries[j].top = 0;
    summaries[j].count = 0;
    summaries[j].first = detail::no_anchor;
  }
  // From the end, where detectors put their coarse levels: large boxes find their best anchors
  // there first and can then skip most of the many small anchors.
  for (index_t tile = last - 1; tile >= first; --tile) {
    __builtin_memset(a.lanes + tile * detail::blocks_in_tile, 0,
                     detail::blocks_in_tile * sizeof(match_lanes));
    __builtin_memset(a.block_ious + tile * detail::groups_in_tile, 0,
                     detail::groups_in_tile * sizeof(number_row));
    a.group_ious[tile] = number_row{};
    // Boxes of the anchors' size come first, then larger and smaller ones alternately. Once anchors
    // have a good match, most other boxes can be skipped.
    const float typical = a.anchors.typical_areas[tile];
    index_t larger = 0;
    while (larger < a.truth_count && a.truth[larger].area < typical) ++larger;
    for (index_t smaller = larger - 1; smaller >= 0 || larger < a.truth_count;) {
      const bool turns_up =
          smaller < 0 || (larger < a.truth_count &&
                          a.truth[larger].area / typical < typical / a.truth[smaller].area);
      const index_t j = turns_up ? larger++ : smaller--;
      truth_summary& summary = summaries[j];
      float known;  // also raised by other threads' chunks
      __atomic_load(a.tops + j, &known, __ATOMIC_RELAXED);
      if (known > summary.top) {
        summary.top = known;
        summary.count = 0;
      }
      compare_tile(a, tile, a.truth[j], summary);
      if (summary.top > known) raise(a.tops + j, summary.top);
    }
  }
}

inline void mark_tiles(const match_args& a, index_t first, index_t last, truth_summary* summaries,
                       bool keep) {
  for (index_t j = 0; j < a.truth_count; ++j) {
    truth_summary& summary = summaries[j];
    if (!(summary.top > 0) || summary.top != a.tops[j]) continue;
    const broadcast_truth t(a.truth[j]);
    const match_pack top = summary.top;
    const auto mark_block = [&](index_t block) VECDET_INLINE_LAMBDA {
      match_lanes& lanes = a.lanes[block];
      const match_pack intersection = t.intersection_with(a.anchors.blocks[block]);
      const match_pack joined =
          (t.area + load_pack<match_batches>(a.areas[block].of)) - intersection;
      for (std::uint32_t bits = to_bits(intersection / joined == top); bits != 0;
           bits &= bits - 1) {
        const int lane = lowest_bit(bits);
        const auto anchor = static_cast<std::uint32_t>(block * block_anchors + lane);
        if (anchor < summary.first) summary.first = anchor;
        if (keep) lanes.best[lane] |= detail::keeps_best;
      }
    };
    if (summary.count <= truth_summary::known_blocks) {
      for (std::uint32_t k = 0; k < summary.count; ++k) mark_block(index_t{summary.block[k]});
    } else {
      for (index_t tile = first; tile < last; ++tile)
        for_each_touched(a.anchors, t, tile, mark_block);
    }
  }
}

/// Whether the IoU of a box with any of 16 is NaN.
inline bool iou_is_nan(const match_truth& t, const box_rows& boxes, int lane) {
  const float x1 = boxes.x1[lane], y1 = boxes.y1[lane], x2 = boxes.x2[lane], y2 = boxes.y2[lane];
  const float w = (t.x2 < x2 ? t.x2 : x2) - (t.x1 > x1 ? t.x1 : x1);
  const float h = (t.y2 < y2 ? t.y2 : y2) - (t.y1 > y1 ? t.y1 : y1);
  const float intersection = rounded((w > 0 ? w : 0) * (h > 0 ? h : 0));
  const float joined = (t.area + rounded((x2 - x1) * (y2 - y1))) - intersection;
  const float iou = intersection / joined;  // the areas carry NaN coordinates
  return is_nan(iou);
}

inline std::uint32_t find_nan_ious(const match_args& a, const match_truth& truth,
                                   bool exceptional_alone) {
  std::uint32_t first = detail::no_anchor;
  const index_t count = exceptional_alone ? a.anchors.exceptional_count : a.anchors.anchor_count;
  for (index_t k = 0; k < count; ++k) {
    const index_t anchor = exceptional_alone ? index_t{a.anchors.exceptional[k]} : k;
    const index_t block = anchor / block_anchors;
    const int lane = static_cast<int>(anchor % block_anchors);
    const bool takes_part =
        a.ignored == nullptr || !a.ignore_matched || ((a.ignored[block] >> lane) & 1) == 0;
    if (!takes_part || !iou_is_nan(truth, a.anchors.blocks[block], lane)) continue;
    match_lanes& lanes = a.lanes[block];
    const bool has_nan = is_nan(lanes.iou[lane]);
    if (!has_nan || truth.index < lanes.best[lane]) lanes.best[lane] = truth.index;
    lanes.iou[lane] = not_a_number<float>();
    if (first == detail::no_anchor) first = static_cast<std::uint32_t>(anchor);  // they ascend
  }
  return first;
}

inline void find_ignored_anchors(const match_args& a, index_t first, index_t last) {
  const match_pack threshold = a.region_threshold;
  for (index_t tile = first; tile < last; ++tile) {
    const index_t begin = tile * detail::blocks_in_tile, end = begin + detail::blocks_in_tile;
    for (index_t block = begin; block < end; ++block) a.ignored_out[block] = 0;
    for (index_t k = 0; k < a.region_count; ++k) {
      const broadcast_truth region(a.regions[k]);
      for_each_touched(a.anchors, region, tile, [&](index_t block) VECDET_INLINE_LAMBDA {
        const match_pack covered = region.intersection_with(a.anchors.blocks[block]) /
                                   load_pack<match_batches>(a.anchors.areas[block].of);
        a.ignored_out[block] |= static_cast<std::uint16_t>(to_bits(covered > threshold));
      });
    }
    if (a.areas_out == nullptr) continue;
    for (index_t block = begin; block < end; ++block) {
      a.areas_out[block] = a.anchors.areas[block];
      for (std::uint32_t bits = a.ignored_out[block]; bits != 0; bits &= bits - 1)
        a.areas_out[block].of[lowest_bit(bits)] = infinity<float>();
    }
  }
}

// ---- results

/// Computes the match of one anchor.
VECDET_INLINE index_t match_of(const match_args& a, float iou, std::int32_t best, bool ignored) {
  const index_t own = a.first_truth + (best & ~detail::keeps_best);
  index_t match = best < 0 || a.all_keep_best ? own : iou < a.low ? -1 : iou < a.high ? -2 : own;
  if (ignored && (a.ignore_matched || match < 0)) match = -2;
  return match;
}

VECDET_INLINE void write_result(const match_args& a, index_t anchor, float iou, index_t match) {
  if (a.matches != nullptr) a.matches[anchor] = match;
  if (a.labels != nullptr)
    a.labels[anchor] = match >= 0    ? a.classes[match - a.first_truth]
                       : match == -1 ? a.background
                                     : a.ignore;
  if (a.best_ious != nullptr) a.best_ious[anchor] = iou;
}

/// The same number 16 times.
VECDET_INLINE void fill16(index_t* to, index_t value) {
  const row_pack<index_t> same = value;
  store_pack<row_pack<index_t>::batches>(to, same);
}

inline index_t finish_anchors(const match_args& a, index_t first, index_t last) {
  index_t foreground = 0;
  const auto one = [&](index_t anchor) VECDET_INLINE_LAMBDA {
    const index_t block = anchor / block_anchors;
    const int lane = static_cast<int>(anchor % block_anchors);
    const match_lanes& lanes = a.lanes[block];
    const bool ignored = a.ignored != nullptr && ((a.ignored[block] >> lane) & 1) != 0;
    const index_t match = match_of(a, lanes.iou[lane], lanes.best[lane], ignored);
    write_result(a, anchor, lanes.iou[lane], match);
    foreground += match >= 0;
  };
  index_t i = first;
  for (; i < last && i % block_anchors != 0; ++i) one(i);
  const match_pack low = a.low;
  for (; i + block_anchors <= last; i += block_anchors) {
    const match_lanes& lanes = a.lanes[i / block_anchors];
    const match_pack iou = load_pack<match_batches>(lanes.iou);
    // Nearly all blocks are background.
    const auto best = load_pack<match_batches>(lanes.best);
    const bool any_keeps = to_bits(best < row_pack<std::int32_t>(0)) != 0;
    const bool any_ignored = a.ignored != nullptr && a.ignored[i / block_anchors] != 0;
    if (to_bits(iou < low) == 0xffff && !any_keeps && !any_ignored && !a.all_keep_best) {
      if (a.matches != nullptr) fill16(a.matches + i, -1);
      if (a.labels != nullptr) fill16(a.labels + i, a.background);
      if (a.best_ious != nullptr) store_pack<match_batches>(a.best_ious + i, iou);
    } else {
      for (index_t k = i; k < i + block_anchors; ++k) one(k);
    }
  }
  for (; i < last; ++i) one(i);
  return foreground;
}

template <>
struct kernels_of<detail::matching_kernels> {
  static constexpr detail::matching_kernels get() {
    detail::matching_kernels kernels{};
    kernels.build = build_tiles;
    kernels.find_ignored = find_ignored_anchors;
    kernels.compare = compare_tiles;
    kernels.find_nan = find_nan_ious;
    kernels.mark = mark_tiles;
    kernels.finish = finish_anchors;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(matching_kernels)

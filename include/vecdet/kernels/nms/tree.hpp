// SPDX-License-Identifier: Apache-2.0
// Greedy NMS through an index over the remaining boxes: sub-quadratic and exact.
//
// Two boxes with IoU >= t overlap by t or more in x and in y. For two intervals [a, b] and [c, d]
// with width w = b - a and IoU >= t,
//
//   a - w (1/t - 1) <= c <= a + w (1 - t)      b - w (1 - t) <= d <= b + w (1/t - 1)
//
// which bounds all four coordinates of any box that a kept box may suppress. Boxes are sorted by
// place and size and packed by 16 into leaves. 16 leaves are packed into a node with the bounds of
// each, and so on (Guttman's R-tree, packed once). A kept box walks down from the top, testing 16
// bounds at a time, and is compared with the 16 boxes of each leaf that it reaches:
//
//     nodes[1]     [ 16 bounds              ]     a box walks down to the children
//                    |           |                whose bounds it can reach
//     nodes[0]     [ 16 bounds ] [ 16 bounds ]
//                    |      |
//     leaves       [ 16 boxes ] [ 16 boxes ]      near boxes lie in one leaf
//
// Leaves without remaining boxes are removed from their nodes. When half of the boxes are gone, the
// leaves are refilled in the same order.
#pragma once

#include <vecdet/kernels/nms/scan.hpp>
#include <vecdet/kernels/radix_sort.hpp>

namespace vecdet {
namespace VECDET_TARGET {

constexpr uint32_t no_place = 0xffffffffu;    // an isolated box, which is in no leaf
constexpr uint32_t gone_place = 0xfffffffeu;  // kept or suppressed

/// Maps positions to cells, per axis: `low` and `scale` are chosen so that (2 centre - low) scale
/// covers 0 to `cells`. The range is that of the middle three quarters of 32 boxes' centres,
/// widened by half, so a few distant boxes do not change it.
template <class Real>
void spread_of(const nms_memory<Real>& memory, index_t count, Real low[2], Real scale[2],
               Real cells) {
  constexpr index_t samples = 32;
  Real sample[2][samples];
  for (index_t s = 0; s < samples; ++s) {
    const nms_box<Real> box = box_at(memory.list.blocks, s * count / samples);
    const Real centre[2] = {box.x1 + box.x2, box.y1 + box.y2};
    for (int k = 0; k < 2; ++k) {
      index_t at = s;
      for (; at > 0 && sample[k][at - 1] > centre[k]; --at) sample[k][at] = sample[k][at - 1];
      sample[k][at] = centre[k];
    }
  }
  for (int k = 0; k < 2; ++k) {
    const Real first = sample[k][samples / 8], last = sample[k][samples - 1 - samples / 8];
    low[k] = first - (last - first) / 4;
    scale[k] = last > first ? cells / (Real(1.5) * (last - first)) : Real(0);
  }
}

/// Spreads the lower 8 bits of every lane to every fourth bit.
template <int N>
VECDET_INLINE pack<std::int32_t, N> every_fourth(const pack<std::int32_t, N>& lanes) {
  using ints = pack<std::int32_t, N>;
  ints x = (lanes | (lanes << 12)) & ints(0x000f000f);
  x = (x | (x << 6)) & ints(0x03030303);
  return (x | (x << 3)) & ints(0x11111111);
}

/// Octaves of a positive side, from 1/2 up.
template <int N>
VECDET_INLINE pack<std::int32_t, N> size_level(const pack<float, N>& side) {
  using floats = pack<float, N>;
  using ints = pack<std::int32_t, N>;
  const floats bounded = min(max(side, floats(0.5f)), floats(32767.0f));
  return ((bit_cast<std::int32_t>(bounded) >> 23) & ints(0xff)) + ints(-126);
}

VECDET_INLINE row_pack<float> as_float(const row_pack<float>& x) { return x; }
VECDET_INLINE row_pack<float> as_float(const row_pack<double>& x) { return narrow(x); }

/// The place and size of 16 boxes as numbers, such that near boxes have near numbers: bits of both
/// centre coordinates and both sides alternate (a Z-order curve in four dimensions).
template <class Real>
VECDET_INLINE void curve_keys(const nms_block<Real>& block, const Real low[2], const Real scale[2],
                              std::int32_t* keys) {
  using real = row_pack<Real>;
  constexpr int batches = real::batches;
  const real x1 = load_pack<batches>(block.x1), x2 = load_pack<batches>(block.x2);
  const real y1 = load_pack<batches>(block.y1), y2 = load_pack<batches>(block.y2);
  const auto x = nearest_whole(as_float((x1 + x2 - real(low[0])) * real(scale[0])), 63.0f);
  const auto y = nearest_whole(as_float((y1 + y2 - real(low[1])) * real(scale[1])), 63.0f);
  const auto w = size_level(as_float(x2 - x1));
  const auto h = size_level(as_float(y2 - y1));
  const auto key =
      every_fourth(x) | (every_fourth(y) << 1) | (every_fourth(w) << 2) | (every_fourth(h) << 3);
  store_pack<decltype(key)::batches>(keys, key);
}

/// Sets the bounds of the leaves and of all levels of nodes, and marks the first `count` boxes as
/// left.
template <class Real>
void bound_tree(nms_memory<Real>& memory, nms_state& state, index_t count) {
  const index_t leaves = blocks_of(count);
  for (index_t b = 0; b < leaves; ++b) memory.leaf_live[b] = 0xffff;
  if (count % 16 != 0) {
    memory.leaf_live[leaves - 1] = static_cast<uint16_t>((1u << (count % 16)) - 1);
    // The last leaf is padded with copies.
    for (index_t i = count; i < 16 * leaves; ++i)
      set_box(memory.leaves, i, box_at(memory.leaves, count - 1));
    for (index_t i = count; i < 16 * leaves; ++i) memory.order[i] = memory.order[count - 1];
  }
  state.leaves = leaves;
  state.in_leaves = count;

  for (index_t leaf = 0; leaf < leaves; ++leaf) {
    nms_node<Real>& node = memory.nodes[0][leaf / 16];
    const nms_block<Real>& block = memory.leaves[leaf];
    const Real* const coordinates[4] = {block.x1, block.y1, block.x2, block.y2};
    VECDET_UNROLL
    for (int k = 0; k < 4; ++k) {
      node.low[k][leaf % 16] = least16(coordinates[k]);
      node.high[k][leaf % 16] = greatest16(coordinates[k]);
    }
  }
  index_t children = leaves;
  for (int level = 0;; ++level) {
    const index_t nodes = blocks_of(children);
    nms_node<Real>* const node = memory.nodes[level];
    for (index_t n = 0; n < nodes; ++n) memory.node_live[level][n] = 0xffff;
    if (children % 16 != 0) {
      const int used = static_cast<int>(children % 16);
      memory.node_live[level][nodes - 1] = static_cast<uint16_t>((1u << used) - 1);
      nms_node<Real>& last = node[nodes - 1];
      for (int i = used; i < 16; ++i) {
        for (int k = 0; k < 4; ++k) {
          last.low[k][i] = last.low[k][used - 1];
          last.high[k][i] = last.high[k][used - 1];
        }
      }
    }
    constexpr index_t few = 10;
    state.levels = level + 1;
    state.top_nodes = nodes;
    if (nodes <= few) return;
    for (index_t n = 0; n < nodes; ++n) {
      nms_node<Real>& parent = memory.nodes[level + 1][n / 16];
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k) {
        parent.low[k][n % 16] = least16(node[n].low[k]);
        parent.high[k][n % 16] = greatest16(node[n].high[k]);
      }
    }
    children = nodes;
  }
}

/// Builds the index over the remaining regular boxes.
template <class Real>
void build_tree(nms_memory<Real>& memory, nms_state& state) {
  Real low[2], scale[2];
  spread_of(memory, state.regular.slots, low, scale, Real(64));
  index_t count = 0;
  for (index_t b = state.regular.block; b < blocks_of(state.regular.slots); ++b) {
    alignas(64) std::int32_t keys[16];
    curve_keys(memory.list.blocks[b], low, scale, keys);
    for (index_t lane = 0; lane < 16; ++lane) {
      const index_t i = 16 * b + lane;
      const bool left = (memory.list.live[b] >> lane & 1) != 0;
      memory.place[i] = left ? no_place : gone_place;
      memory.order[count] =
          static_cast<uint64_t>(static_cast<uint32_t>(keys[lane])) << 32 | static_cast<uint64_t>(i);
      count += left && weighted_area_of(memory.list.blocks[b])[lane] < infinity<Real>();
    }
  }
  radix_sort(memory.order, memory.spare, count);
  for (index_t i = 0; i < count; ++i) {
    const uint32_t slot = detail::index_of(memory.order[i]);
    set_box(memory.leaves, i, box_at(memory.list.blocks, slot));
    memory.place[slot] = static_cast<uint32_t>(i);
  }
  bound_tree(memory, state, count);
}

/// Refills the leaves with the remaining boxes, in their current order.
template <class Real>
VECDET_NOINLINE void refill_tree(nms_memory<Real>& memory, nms_state& state) {
  index_t count = 0;
  for (index_t leaf = 0; leaf < state.leaves; ++leaf) {
    const uint32_t live = memory.leaf_live[leaf];
    for (index_t lane = 0; lane < 16; ++lane)
      memory.place[detail::index_of(memory.order[16 * leaf + lane])] = gone_place;
    for (uint32_t left = live; left != 0; left &= left - 1) {
      const index_t from = 16 * leaf + lowest_bit(left);
      set_box(memory.leaves, count, box_at(memory.leaves, from));
      memory.order[count] = memory.order[from];
      memory.place[detail::index_of(memory.order[from])] = static_cast<uint32_t>(count);
      ++count;
    }
  }
  bound_tree(memory, state, count);
}

/// The boxes that a kept box may suppress, as bounds on the four coordinates, rounded outwards.
template <class Real>
struct nms_reach {
  row_pack<Real> low[4], high[4];

  VECDET_INLINE nms_reach(const nms_box<Real>& kept, const nms_rule<Real>& rule) {
    // The effect of rounding on the sides. With pixels counted, a box's sides are at least 1/4, and
    // an intersection's side is at least t / 4, with an error of up to 1.2e-7.
    const bool counts_pixels = rule.one != 0;
    const double slack = counts_pixels ? 0.998 : 0.99999;
    const double least = static_cast<double>(rule.least_overlap) - 1e-6;  // as for area_factor
    const double t = least > (counts_pixels ? 1e-3 : 0) ? least * slack : 0;
    const double inwards = 1 - t, outwards = 1 / t - 1;  // infinite at 0
    const double one = static_cast<double>(rule.one);
    const double x1 = kept.x1, y1 = kept.y1, x2 = kept.x2, y2 = kept.y2;
    const double w = x2 - x1 + one, h = y2 - y1 + one;
    set(0, x1, w * outwards, w * inwards);
    set(1, y1, h * outwards, h * inwards);
    set(2, x2, w * inwards, w * outwards);
    set(3, y2, h * inwards, h * outwards);
  }

  /// Bit i: whether child i of the node may hold such a box.
  VECDET_INLINE uint32_t operator()(const nms_node<Real>& node) const {
    constexpr int batches = row_pack<Real>::batches;
    auto within = load_pack<batches>(node.low[0]) <= high[0];
    within = within & (load_pack<batches>(node.high[0]) >= low[0]);
    VECDET_UNROLL
    for (int k = 1; k < 4; ++k) {
      within = within & (load_pack<batches>(node.low[k]) <= high[k]);
      within = within & (load_pack<batches>(node.high[k]) >= low[k]);
    }
    return to_bits(within);
  }

 private:
  /// Each side is bounded by itself, even if the other has no bound.
  VECDET_INLINE void set(int k, double at, double below, double above) {
    constexpr double ulps = sizeof(Real) == 4 ? 1e-6 : 1e-14;
    const double size = at < 0 ? -at : at;
    low[k] = row_pack<Real>(static_cast<Real>(at - below - ulps * (size + below) - 1e-30));
    high[k] = row_pack<Real>(static_cast<Real>(at + above + ulps * (size + above) + 1e-30));
  }
};

/// Removes boxes `bits` from a leaf, and then the nodes that have become empty.
template <class Real>
VECDET_INLINE void take_out(nms_memory<Real>& memory, nms_state& state, index_t leaf,
                            uint32_t bits) {
  memory.leaf_live[leaf] = static_cast<uint16_t>(memory.leaf_live[leaf] & ~bits);
  state.in_leaves -= count_bits(bits);
  if (memory.leaf_live[leaf] != 0) return;
  index_t child = leaf;
  for (int level = 0; level < state.levels; ++level) {
    uint16_t& node = memory.node_live[level][child / 16];
    node = static_cast<uint16_t>(node & ~(1u << (child % 16)));
    if (node != 0) return;
    child /= 16;
  }
}

/// Lists the leaves that may hold a box in reach; returns their number.
template <class Real>
VECDET_INLINE index_t leaves_in_reach(const nms_reach<Real>& reach, nms_memory<Real>& memory,
                                      const nms_state& state, uint32_t*& leaves) {
  uint32_t* hits = memory.hits;
  uint32_t* next_hits = memory.more_hits;
  index_t hit_count = state.top_nodes;
  for (index_t n = 0; n < state.top_nodes; ++n) hits[n] = static_cast<uint32_t>(n);
  for (int level = state.levels - 1; level >= 0; --level) {
    index_t next_count = 0;
    for (index_t k = 0; k < hit_count; ++k) {
      const uint32_t n = hits[k];
      const uint32_t bits = reach(memory.nodes[level][n]) & memory.node_live[level][n];
      next_count += write_set_bits(bits, 16 * n, next_hits + next_count);
    }
    uint32_t* const other = hits;
    hits = next_hits;
    next_hits = other;
    hit_count = next_count;
  }
  leaves = hits;
  return hit_count;
}

/// Removes the boxes that a kept box suppresses from the leaves.
template <nms_test Test, class Real>
VECDET_INLINE void suppress_in_reach(nms_memory<Real>& memory, nms_state& state,
                                     const nms_box<Real>& kept, const nms_rule<Real>& rule) {
  uint32_t* leaves;
  const index_t leaf_count = leaves_in_reach(nms_reach<Real>(kept, rule), memory, state, leaves);
  const nms_tester<Real, Test> suppressed(kept, rule);
  const auto suppress = [&](uint32_t leaf, uint32_t candidates) VECDET_INLINE_LAMBDA {
    const uint32_t bits = suppressed.exact(memory.leaves[leaf], candidates);
    if (bits != 0) take_out(memory, state, leaf, bits);
  };
  leaves[leaf_count] = 0;  // makes the number even: testing a leaf twice is harmless
  for (index_t k = 0; k < leaf_count; k += 2) {
    const uint32_t a = leaves[k], b = leaves[k + 1];
    const uint32_t first = suppressed.near(memory.leaves[a]) & memory.leaf_live[a];
    const uint32_t second = suppressed.near(memory.leaves[b]) & memory.leaf_live[b];
    if (__builtin_expect((first | second) == 0, 1)) continue;
    if (first != 0) suppress(a, first);
    if (second != 0) suppress(b, second & memory.leaf_live[b]);
  }
}

/// Keeps the exceptional boxes that come before a rank.
template <class Real>
VECDET_NOINLINE void keep_exceptional_before(uint32_t rank, const nms_rule<Real>& rule,
                                             nms_memory<Real>& memory, nms_state& state,
                                             index_t max_kept) {
  const nms_list<Real> exceptional = memory.exceptional(state.exceptional_begin);
  while (state.kept_count < max_kept) {
    const index_t exceptional_slot = first_slot(exceptional, state.exceptional);
    const uint32_t exceptional_rank = rank_of(exceptional, exceptional_slot);
    if (exceptional_rank >= rank) return;
    state.kept[state.kept_count++] = state.order[exceptional_rank];
    const nms_box<Real> kept = take_first(exceptional, state.exceptional, exceptional_slot);
    suppress_any(exceptional, state.exceptional, kept, rule);
    const nms_tester<Real, nms_test::general> suppressed(kept, rule);
    for (index_t leaf = 0; leaf < state.leaves; ++leaf) {
      const uint32_t live = memory.leaf_live[leaf];
      const uint32_t bits = live == 0 ? 0 : live & suppressed(memory.leaves[leaf]);
      if (bits != 0) take_out(memory, state, leaf, bits);
    }
  }
}

/// Keeps the rest of the boxes, in the order of scores.
template <nms_test Test, class Real>
void walk_tree(const nms_rule<Real>& rule, nms_memory<Real>& memory, nms_state& state,
               index_t max_kept) {
  constexpr index_t worth_refilling = 256;
  const nms_list<Real> exceptional = memory.exceptional(state.exceptional_begin);
  const auto is_left = [&](index_t i) {
    const uint32_t place = memory.place[i];
    if (place == no_place || place == gone_place) return place == no_place;
    return (memory.leaf_live[place / 16] >> (place % 16) & 1) != 0;
  };
  for (index_t i = 16 * state.regular.block; i < state.regular.slots && state.kept_count < max_kept;
       ++i) {
    if (!is_left(i)) continue;
    const uint32_t rank = memory.list.rank[i];
    if (state.exceptional.left > 0) {
      keep_exceptional_before(rank, rule, memory, state, max_kept);
      if (!is_left(i) || state.kept_count >= max_kept) continue;
    }
    state.kept[state.kept_count++] = state.order[rank];
    const uint32_t place = memory.place[i];
    if (place == no_place) continue;
    take_out(memory, state, place / 16, 1u << (place % 16));

    const nms_box<Real> kept = box_at(memory.list.blocks, i);
    suppress_in_reach<Test>(memory, state, kept, rule);
    suppress_any(exceptional, state.exceptional, kept, rule);
    if (16 * state.leaves > 2 * state.in_leaves + worth_refilling) refill_tree(memory, state);
  }
  keep_exceptional_before(no_rank, rule, memory, state, max_kept);
  state.done = true;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Greedy NMS by comparing each kept box with all remaining boxes.
//
// Boxes are sorted by descending score into blocks of 16. One bit per box says whether it is left,
// that is, neither kept nor suppressed:
//
//     memory.list                                            memory.exceptional(begin)
//    +---------------+---------------+-----+---------------+---------------+----
//    | 16 boxes      | 16 boxes      | ... | padded with   | boxes without | ...
//    | xxxx.x..x.... | .x...xx..x... |     | isolated ones | area, huge... |
//    +---------------+---------------+-----+---------------+---------------+----
//          ^ x are gone; the first box left is kept, and compared with all boxes left
//
// Once half of the boxes in the blocks are gone, compact() moves the remaining ones to the front,
// so that the cost follows their number. If hundreds to thousands of float boxes are left and many
// of them will be kept, they are first compared in 16 bits (coarse.hpp). If even more are left, an
// index takes over (tree.hpp).
//
// The fast tests and the index are for regular boxes, whose areas are positive, finite and not
// tiny. Exceptional boxes, which are rare, form a separate list. Each kept box is compared with all
// exceptional boxes, and each kept exceptional box with all boxes, by the general test. Both lists
// descend by score; the better of their first boxes is kept next.
#pragma once

#include <vecdet/kernels/nms/coarse.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::nms_progress;
using detail::nms_state;

constexpr uint32_t no_rank = 0xffffffffu;
constexpr index_t no_slot = -1;

enum class nms_kind {
  regular,
  exceptional,
  isolated  ///< without area: neither suppresses nor is suppressed
};

/// Returns the kind of a box and sets its weighted area.
template <class Real>
VECDET_INLINE nms_kind kind_of(nms_box<Real>& box, const nms_rule<Real>& rule) {
  const Real w = box.x2 - box.x1 + rule.one, h = box.y2 - box.y1 + rule.one;
  const Real area = w * h;
  weighted_area_of(box) = rule.area_factor * area;
  const bool has_area = w > 0 && h > 0 && area > 0 && area < infinity<Real>();
  if (has_area && area > rule.least_area && w >= rule.least_side && h >= rule.least_side)
    return nms_kind::regular;
  // Without area, the overlap is 0 or NaN, except in OpenCV.
  const bool isolated = !has_area && rule.least_overlap > 0 && rule.overlap != nms_overlap::jaccard;
  weighted_area_of(box) = isolated ? infinity<Real>() : Real(0);
  return isolated ? nms_kind::isolated : nms_kind::exceptional;
}

/// Pads the last block with isolated boxes and marks all boxes of a list as left.
template <class Real>
void complete_list(const nms_list<Real>& list, index_t count, nms_progress& progress) {
  const index_t blocks = blocks_of(count);
  for (index_t i = count; i < 16 * blocks; ++i)
    set_box(list.blocks, i, {Real(0), Real(0), Real(0), Real(0), infinity<Real>()});
  for (index_t b = 0; b < blocks; ++b) list.live[b] = 0xffff;
  if (count % 16 != 0) list.live[blocks - 1] = static_cast<uint16_t>((1u << (count % 16)) - 1);
  progress = {count, count, 0};
}

/// Fills the lists with the group's boxes.
template <class Real, class T>
void gather_boxes(const nms_args<T>& args, const nms_rule<Real>& rule, nms_memory<Real>& memory,
                  nms_state& state) {
  // The boxes are scattered in memory: without prefetching, each load would wait for a distant
  // cache.
  constexpr index_t near = 8192, ahead = 24;
  const index_t prefetched = state.count > near ? state.count - ahead : 0;
  index_t exceptional_count = 0;
  const auto gather = [&](const nms_list<Real>& exceptional) {
    index_t regular_count = 0;
    exceptional_count = 0;
    for (index_t i = 0; i < state.count; ++i) {
      if (i < prefetched) {
        const index_t box = static_cast<index_t>(detail::index_of(state.order[i + ahead]));
        __builtin_prefetch(args.boxes + 4 * box);
      }
      nms_box<Real> box =
          load_nms_box<Real>(args.boxes, detail::index_of(state.order[i]), args.format);
      const nms_kind kind = kind_of(box, rule);
      if (kind == nms_kind::isolated) box.x1 = box.y1 = box.x2 = box.y2 = 0;
      const bool is_exceptional = kind == nms_kind::exceptional;
      const nms_list<Real>& list = is_exceptional ? exceptional : memory.list;
      const index_t at = is_exceptional ? exceptional_count++ : regular_count++;
      set_box(list.blocks, at, box);
      list.rank[at] = static_cast<uint32_t>(i);
    }
  };
  gather(memory.list);
  state.exceptional_begin = blocks_of(state.count - exceptional_count);
  // The start of the exceptional boxes is known only now.
  if (exceptional_count > 0) gather(memory.exceptional(state.exceptional_begin));
  complete_list(memory.list, state.count - exceptional_count, state.regular);
  complete_list(memory.exceptional(state.exceptional_begin), exceptional_count, state.exceptional);
}

/// Moves the remaining boxes to the front of their list.
template <class Real>
void compact(const nms_list<Real>& list, nms_progress& progress) {
  constexpr int batches = row_pack<Real>::batches;
  // Collects 16 boxes, then stores them to a block that has been read already.
  alignas(64) Real gathered[5][32];
  alignas(64) uint32_t gathered_rank[32];
  int count = 0;
  index_t to = 0;
  const auto write = [&] {
    nms_block<Real>& block = list.blocks[to];
    Real* const arrays[5] = {block.x1, block.y1, block.x2, block.y2, block.number};
    VECDET_UNROLL
    for (int k = 0; k < 5; ++k) {
      store_pack<batches>(arrays[k], load_pack<batches>(gathered[k]));
      store_pack<batches>(gathered[k], load_pack<batches>(gathered[k] + 16));
    }
    __builtin_memcpy(list.rank + 16 * to, gathered_rank, 16 * sizeof(uint32_t));
    __builtin_memcpy(gathered_rank, gathered_rank + 16, 16 * sizeof(uint32_t));
    list.live[to++] = 0xffff;
  };
  const index_t blocks = blocks_of(progress.slots);
  for (index_t b = progress.block; b < blocks; ++b) {
    const uint32_t left = list.live[b];
    if (left == 0) continue;
    const nms_block<Real>& block = list.blocks[b];
    const Real* const arrays[5] = {block.x1, block.y1, block.x2, block.y2, block.number};
    VECDET_UNROLL
    for (int k = 0; k < 5; ++k) compress16(arrays[k], left, gathered[k] + count);
    compress16(list.rank + 16 * b, left, gathered_rank + count);
    count += count_bits(left);
    if (count < 16) continue;
    count -= 16;
    write();
  }
  const index_t slots = 16 * to + count;
  if (count > 0) {
    for (int i = count; i < 16; ++i) {
      for (int k = 0; k < 4; ++k) gathered[k][i] = 0;
      gathered[4][i] = infinity<Real>();
      gathered_rank[i] = 0;
    }
    write();
    list.live[to - 1] = static_cast<uint16_t>((1u << count) - 1);
  }
  progress = {slots, slots, 0};
}

/// The slot of a list's first remaining box, or no_slot.
template <class Real>
VECDET_INLINE index_t first_slot(const nms_list<Real>& list, nms_progress& progress) {
  if (progress.left == 0) return no_slot;
  while (list.live[progress.block] == 0) ++progress.block;
  return 16 * progress.block + lowest_bit(list.live[progress.block]);
}

template <class Real>
VECDET_INLINE uint32_t rank_of(const nms_list<Real>& list, index_t slot) {
  return slot == no_slot ? no_rank : list.rank[slot];
}

/// Removes the first remaining box, which is in `slot`, from its list.
template <class Real>
VECDET_INLINE nms_box<Real> take_first(const nms_list<Real>& list, nms_progress& progress,
                                       index_t slot) {
  uint16_t& live = list.live[progress.block];
  live &= static_cast<uint16_t>(live - 1);
  --progress.left;
  return box_at(list.blocks, slot);
}

/// Whether enough boxes are gone that compact() pays.
VECDET_INLINE bool has_gaps(const nms_progress& progress) {
  constexpr index_t worth_moving = 32;
  return 2 * (progress.slots - 16 * progress.block) > 3 * progress.left + worth_moving;
}

/// Removes those of a block's candidates that the kept box suppresses; returns their number.
template <nms_test Test, class Real>
VECDET_INLINE int suppress_candidates(const nms_list<Real>& list, index_t block,
                                      uint32_t candidates,
                                      const nms_tester<Real, Test>& suppressed) {
  const uint32_t bits = suppressed.exact(list.blocks[block], candidates);
  list.live[block] = static_cast<uint16_t>(list.live[block] & ~bits);
  return count_bits(bits);
}

/// Removes the boxes that a kept box suppresses from a list.
template <nms_test Test, class Real>
VECDET_INLINE void suppress_in(const nms_list<Real>& list, nms_progress& progress,
                               const nms_box<Real>& kept, const nms_rule<Real>& rule) {
  const nms_tester<Real, Test> suppressed(kept, rule);
  const index_t blocks = blocks_of(progress.slots);
  index_t gone = 0;
  const auto suppress = [&](index_t k, uint32_t candidates) VECDET_INLINE_LAMBDA {
    gone += suppress_candidates(list, k, candidates, suppressed);
  };
  // Two blocks per branch.
  index_t k = progress.block;
  for (; k + 2 <= blocks; k += 2) {
    const uint32_t first = suppressed.near(list.blocks[k]) & list.live[k];
    const uint32_t second = suppressed.near(list.blocks[k + 1]) & list.live[k + 1];
    if (__builtin_expect((first | second) == 0, 1)) continue;
    if (first != 0) suppress(k, first);
    if (second != 0) suppress(k + 1, second);
  }
  if (k < blocks) {
    const uint32_t last = suppressed.near(list.blocks[k]) & list.live[k];
    if (last != 0) suppress(k, last);
  }
  progress.left -= gone;
  if (has_gaps(progress)) compact(list, progress);
}

/// The same by the general test: for a kept exceptional box, or for the list of exceptional boxes.
template <class Real>
VECDET_NOINLINE void suppress_any(const nms_list<Real>& list, nms_progress& progress,
                                  const nms_box<Real>& kept, const nms_rule<Real>& rule) {
  if (progress.left > 0) suppress_in<nms_test::general>(list, progress, kept, rule);
}

/// The remaining regular boxes as coarse boxes: unavailable for this number type or instruction
/// set.
template <class Real, bool = (nms_memory<Real>::coarse_limit > 0)>
struct coarse_list {
  explicit coarse_list(nms_coarse*) {}
  void update(const nms_list<Real>&, nms_state&, const nms_rule<Real>&) {}
  static constexpr index_t least_indexed(const nms_progress&) {
    return nms_memory<Real>::least_indexed;
  }
  static constexpr bool is_current(const nms_progress&) { return false; }
  template <nms_test Test>
  void suppress(const nms_list<Real>&, nms_progress&, index_t, const nms_box<Real>&,
                const nms_rule<Real>&) {}
};

#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)

/// The remaining regular boxes as coarse boxes, while that pays.
template <>
class coarse_list<float, true> {
 public:
  explicit coarse_list(nms_coarse* boxes) : boxes_(boxes) {}

  /// Sets the coarse boxes if they pay: not while so many boxes are left that an index pays, and
  /// not if few of them would be kept at the current rate.
  VECDET_INLINE void update(const nms_list<float>& list, nms_state& state,
                            const nms_rule<float>& rule) {
    nms_progress& progress = state.regular;
    constexpr index_t least_kept = 16, worth_keeping = 64;
    if (progress.left < worth_keeping || progress.left >= nms_memory<float>::coarse_limit ||
        state.kept_count < least_kept || is_current(progress) || !pays_)
      return;
    if (progress.left * state.kept_count >= worth_keeping * (state.count - progress.left))
      rebuild(list, progress, rule);
  }

  /// The number of remaining boxes from which an index pays.
  VECDET_INLINE index_t least_indexed(const nms_progress& progress) const {
    return is_current(progress) ? nms_memory<float>::coarse_limit
                                : nms_memory<float>::least_indexed;
  }

  /// Whether they are set, and no box has been moved since. Moving boxes reduces the number of
  /// slots.
  VECDET_INLINE bool is_current(const nms_progress& progress) const {
    return slots_ == progress.slots;
  }

  /// Removes from the list the boxes that the kept box in a slot suppresses.
  template <nms_test Test>
  VECDET_INLINE void suppress(const nms_list<float>& list, nms_progress& progress, index_t slot,
                              const nms_box<float>& kept, const nms_rule<float>& rule) {
    const nms_coarse_tester may_be_near(boxes_[slot / 32], slot % 32);
    const nms_tester<float, Test> suppressed(kept, rule);
    index_t gone = 0, wasted = 0;
    const auto suppress = [&](index_t b, uint32_t candidates) VECDET_INLINE_LAMBDA {
      if (candidates == 0) return;
      candidates &= suppressed.near(list.blocks[b]);
      if (candidates == 0) {
        ++wasted;
      } else {
        gone += suppress_candidates(list, b, candidates, suppressed);
      }
    };
    const index_t blocks = blocks_of(progress.slots);
    for (index_t b = progress.block / 2 * 2; b < blocks; b += 2) {
      const uint32_t candidates = may_be_near(boxes_[b / 2]);
      if (candidates == 0) continue;
      suppress(b, candidates & list.live[b]);
      // Behind the last block, where another list may begin, there are no candidates.
      if (candidates >> 16 != 0) suppress(b + 1, candidates >> 16 & list.live[b + 1]);
    }
    // If more than one block in 8 passes the coarse test, the float test alone costs less.
    budget_ += (blocks - progress.block) / 8 - wasted;
    if (budget_ < 0) {
      pays_ = false;
      slots_ = 0;
    }
    progress.left -= gone;
    if (has_gaps(progress)) compact(list, progress);
  }

 private:
  VECDET_NOINLINE void rebuild(const nms_list<float>& list, nms_progress& progress,
                               const nms_rule<float>& rule) {
    if (progress.slots > nms_memory<float>::coarse_limit) compact(list, progress);
    if (slots_ == 0) frame_ = frame_of(list, progress.slots, rule);
    pays_ = set_coarse(list, progress.slots, rule, frame_, boxes_);
    slots_ = pays_ ? progress.slots : 0;
  }

  nms_coarse* boxes_;
  nms_frame frame_{};
  index_t slots_ = 0;     ///< in the list when they were set; 0 if they are not set
  index_t budget_ = 256;  ///< how many more blocks may pass the coarse test in vain
  bool pays_ = true;
};

#endif

/// Keeps boxes until none is left, until `max_kept` are kept in all, or until `pause_at` are kept
/// and an index would pay for the rest. In the last case, state.done stays false.
template <nms_test Test, class Real>
void scan(const nms_rule<Real>& rule, nms_memory<Real>& memory, nms_state& state, index_t max_kept,
          index_t pause_at) {
  const nms_list<Real> exceptional = memory.exceptional(state.exceptional_begin);
  coarse_list<Real> coarse(memory.coarse);
  while (state.kept_count < max_kept) {
    coarse.update(memory.list, state, rule);
    if (state.kept_count >= pause_at && state.regular.left >= coarse.least_indexed(state.regular))
      return;
    const index_t slot = first_slot(memory.list, state.regular);
    const index_t exceptional_slot = first_slot(exceptional, state.exceptional);
    const uint32_t rank = rank_of(memory.list, slot),
                   exceptional_rank = rank_of(exceptional, exceptional_slot);
    if (exceptional_rank < rank) {
      state.kept[state.kept_count++] = state.order[exceptional_rank];
      const nms_box<Real> kept = take_first(exceptional, state.exceptional, exceptional_slot);
      suppress_any(exceptional, state.exceptional, kept, rule);
      suppress_any(memory.list, state.regular, kept, rule);
      continue;
    }
    if (rank == no_rank) break;
    state.kept[state.kept_count++] = state.order[rank];
    const nms_box<Real> kept = take_first(memory.list, state.regular, slot);
    if (weighted_area_of(kept) == infinity<Real>()) continue;
    if (coarse.is_current(state.regular)) {
      coarse.template suppress<Test>(memory.list, state.regular, slot, kept, rule);
    } else {
      suppress_in<Test>(memory.list, state.regular, kept, rule);
    }
    suppress_any(exceptional, state.exceptional, kept, rule);
  }
  state.done = true;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

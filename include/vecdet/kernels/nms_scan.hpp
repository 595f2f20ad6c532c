// SPDX-License-Identifier: Apache-2.0
// Greedy NMS by comparing each kept box with all that are left. The boxes left are moved together
// whenever half of them are gone, so that the cost follows their number.
#pragma once

#include <vecdet/kernels/nms_memory.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::nms_state;

template <class Real>
constexpr Real infinite = Real(__builtin_huge_val());

/// Fills the blocks with the group's boxes. The fast tests are off (state.general) where a box or
/// the threshold is outside what they are for.
template <class Real, class T>
void gather_boxes(const nms_args<T>& args, const nms_rule<Real>& rule, nms_memory<Real>& memory,
                  nms_state& state) {
  bool general = !(rule.least_overlap > 0);
  const index_t padded = 16 * blocks_of(state.count);
  for (index_t i = 0; i < state.count; ++i) {
    nms_box<Real> box =
        load_nms_box<Real>(args.boxes, detail::index_of(state.order[i]), args.format);
    const Real w = box.x2 - box.x1 + rule.one, h = box.y2 - box.y1 + rule.one;
    const Real area = w * h;
    const bool inert = !(w > 0 && h > 0 && area > 0 && area < infinite<Real>);
    // OpenCV's overlap of two tiny or strange boxes is 1.
    general = general || (inert ? rule.overlap == nms_overlap::jaccard : !(area > Real(1e-30))) ||
              (rule.overlap == nms_overlap::jaccard && !(area > Real(1e-6)));
    box.bar = inert ? infinite<Real> : rule.bar_factor * area;
    set_box(memory.blocks, i, box);
    memory.rank[i] = static_cast<uint32_t>(i);
  }
  for (index_t i = state.count; i < padded; ++i)
    set_box(memory.blocks, i, {Real(0), Real(0), Real(0), Real(0), infinite<Real>});
  if (!general) {
    for (index_t b = 0; b < padded / 16; ++b) {
      nms_block<Real>& block = memory.blocks[b];
      for (int lane = 0; lane < 16; ++lane) {
        if (block.bar[lane] == infinite<Real>)
          block.x1[lane] = block.y1[lane] = block.x2[lane] = block.y2[lane] = 0;
      }
    }
  }
  for (index_t b = 0; b < padded / 16; ++b) memory.live[b] = 0xffff;
  if (state.count % 16 != 0)
    memory.live[padded / 16 - 1] = static_cast<uint16_t>((1u << (state.count % 16)) - 1);
  state.general = general;
  state.slots = state.live = state.count;
  state.next = 0;
}

/// Moves the boxes left, from state.next on, to the front.
template <class Real>
void compact(nms_memory<Real>& memory, nms_state& state) {
  constexpr int batches = row_pack<Real>::batches;
  // Boxes gather here until there are 16, which go to a block that has been read already.
  alignas(64) Real held[5][32];
  alignas(64) uint32_t held_rank[32];
  int count = 0;
  index_t to = 0;
  const auto write = [&] {
    nms_block<Real>& block = memory.blocks[to];
    Real* const arrays[5] = {block.x1, block.y1, block.x2, block.y2, block.bar};
    for (int k = 0; k < 5; ++k) {
      store_pack<batches>(arrays[k], load_pack<batches>(held[k]));
      store_pack<batches>(held[k], load_pack<batches>(held[k] + 16));
    }
    for (int i = 0; i < 16; ++i) memory.rank[16 * to + i] = held_rank[i];
    for (int i = 0; i < 16; ++i) held_rank[i] = held_rank[16 + i];
    memory.live[to++] = 0xffff;
  };
  const index_t blocks = blocks_of(state.slots);
  for (index_t b = state.next / 16; b < blocks; ++b) {
    const uint32_t left = memory.live[b];
    if (left == 0) continue;
    const nms_block<Real>& block = memory.blocks[b];
    const Real* const arrays[5] = {block.x1, block.y1, block.x2, block.y2, block.bar};
    for (int k = 0; k < 5; ++k) compress16(arrays[k], left, held[k] + count);
    compress16(memory.rank + 16 * b, left, held_rank + count);
    count += count_bits(left);
    if (count < 16) continue;
    count -= 16;
    write();
  }
  state.slots = 16 * to + count;
  if (count > 0) {
    for (int i = count; i < 16; ++i) {
      for (int k = 0; k < 4; ++k) held[k][i] = 0;
      held[4][i] = infinite<Real>;
      held_rank[i] = 0;
    }
    write();
    memory.live[to - 1] = static_cast<uint16_t>((1u << count) - 1);
  }
  state.live = state.slots;
  state.next = 0;
}

/// Keeps boxes until none is left, `max_kept` are kept in all, or `pause_at` are and an index would
/// pay for the rest: then state.done stays false.
template <nms_test Test, class Real>
void scan(const nms_rule<Real>& rule, nms_memory<Real>& memory, nms_state& state, index_t max_kept,
          index_t pause_at) {
  index_t b = state.next / 16;
  while (state.live > 0 && state.kept_count < max_kept) {
    if (state.kept_count >= pause_at && state.live >= nms_memory<Real>::least_indexed) {
      state.next = 16 * b;
      return;
    }
    while (memory.live[b] == 0) ++b;
    const index_t slot = 16 * b + lowest_bit(memory.live[b]);
    memory.live[b] &= static_cast<uint16_t>(memory.live[b] - 1);
    --state.live;
    state.kept[state.kept_count++] = state.order[memory.rank[slot]];
    const nms_box<Real> kept = box_at(memory.blocks, slot);
    if (Test != nms_test::general && kept.bar == infinite<Real>) continue;

    const nms_tester<Real, Test> suppressed(kept, rule);
    const index_t blocks = blocks_of(state.slots);
    index_t gone = 0;
    const auto suppress = [&](index_t k, uint32_t candidates) {
      const uint32_t bits = candidates & suppressed.exact(memory.blocks[k]);
      memory.live[k] = static_cast<uint16_t>(memory.live[k] & ~bits);
      gone += count_bits(bits);
    };
    // Two blocks a branch.
    index_t k = b;
    for (; k + 2 <= blocks; k += 2) {
      const uint32_t first = suppressed.near(memory.blocks[k]) & memory.live[k];
      const uint32_t second = suppressed.near(memory.blocks[k + 1]) & memory.live[k + 1];
      if (__builtin_expect((first | second) == 0, 1)) continue;
      if (first != 0) suppress(k, first);
      if (second != 0) suppress(k + 1, second);
    }
    if (k < blocks) {
      const uint32_t last = suppressed.near(memory.blocks[k]) & memory.live[k];
      if (last != 0) suppress(k, last);
    }
    state.live -= gone;
    constexpr index_t worth_moving = 32;
    if (2 * (state.slots - 16 * b) > 3 * state.live + worth_moving) {
      state.next = 16 * b;
      compact(memory, state);
      b = 0;
    }
  }
  state.done = true;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

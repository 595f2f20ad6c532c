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

/// Moves the boxes left to the front.
template <class Real>
void compact(nms_memory<Real>& memory, nms_state& state) {
  index_t to = 0;
  alignas(64) Real moved[5][16];
  alignas(64) uint32_t moved_rank[16];
  // A block is written when 16 boxes have come together; it lies before those still to be read.
  int held = 0;
  const index_t blocks = blocks_of(state.slots);
  for (index_t b = state.next / 16; b < blocks; ++b) {
    const nms_block<Real>& from = memory.blocks[b];
    for (uint32_t left = memory.live[b]; left != 0; left &= left - 1) {
      const int lane = lowest_bit(left);
      moved[0][held] = from.x1[lane];
      moved[1][held] = from.y1[lane];
      moved[2][held] = from.x2[lane];
      moved[3][held] = from.y2[lane];
      moved[4][held] = from.bar[lane];
      moved_rank[held] = memory.rank[16 * b + lane];
      if (++held < 16) continue;
      for (int i = 0; i < 16; ++i) {
        set_box(memory.blocks, to + i,
                {moved[0][i], moved[1][i], moved[2][i], moved[3][i], moved[4][i]});
        memory.rank[to + i] = moved_rank[i];
      }
      to += 16;
      held = 0;
    }
  }
  state.slots = to + held;
  for (int i = 0; i < held; ++i) {
    set_box(memory.blocks, to + i,
            {moved[0][i], moved[1][i], moved[2][i], moved[3][i], moved[4][i]});
    memory.rank[to + i] = moved_rank[i];
  }
  for (int i = held; i < 16 && held > 0; ++i)
    set_box(memory.blocks, to + i, {Real(0), Real(0), Real(0), Real(0), infinite<Real>});
  for (index_t b = 0; b < to / 16; ++b) memory.live[b] = 0xffff;
  if (held > 0) memory.live[to / 16] = static_cast<uint16_t>((1u << held) - 1);
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
      compact(memory, state);
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
    for (index_t k = b; k < blocks; ++k) {
      const uint32_t bits = suppressed(memory.blocks[k]) & memory.live[k];
      memory.live[k] = static_cast<uint16_t>(memory.live[k] & ~bits);
      gone += count_bits(bits);
    }
    state.live -= gone;
    constexpr index_t worth_moving = 64;
    if (state.slots - 16 * b > 2 * state.live + worth_moving) {
      state.next = 16 * b;
      compact(memory, state);
      b = 0;
    }
  }
  state.done = true;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

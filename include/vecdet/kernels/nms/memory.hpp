// SPDX-License-Identifier: Apache-2.0
// Divides the caller's scratch memory for the NMS of one group. Its size is linear in the number of
// boxes.
#pragma once

#include <vecdet/kernels/nms/overlap.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::nms_record;
using std::uint16_t;

/// Bounds of the coordinates x1, y1, x2, y2 of 16 blocks of boxes, or of 16 such nodes.
template <class Real>
struct alignas(64) nms_node {
  Real low[4][16], high[4][16];
};

/// 32 boxes with 16-bit numbers (coarse.hpp).
struct alignas(64) nms_coarse {
  std::uint16_t x1[32], y1[32], x2[32], y2[32], weighted_area[32];
};

constexpr index_t blocks_of(index_t count) { return (count + 15) / 16; }

/// Boxes by descending score, 16 per block: block b holds boxes 16 b ... 16 b + 15. Bit i of
/// live[b] is set until its box i is kept or suppressed.
template <class Real>
struct nms_list {
  nms_block<Real>* blocks;
  uint16_t* live;
  uint32_t* rank;  ///< each box's position in the order of all scores
};

template <class Real>
struct nms_memory {
  static constexpr int max_levels = 8;  // 16^8 boxes

  nms_list<Real> list;  ///< regular boxes, then, in separate blocks, exceptional boxes

  nms_coarse* coarse;  ///< one for each two blocks of `list`; at most coarse_limit boxes

  nms_block<Real>* leaves;  ///< in spatial order: neighbours share a leaf
  uint16_t* leaf_live;
  uint32_t* place;            ///< each box of `list`: its place in the leaves
  nms_record *order, *spare;  ///< of boxes in leaf order; the index is that in `list`
  uint32_t *hits, *more_hits;
  nms_node<Real>* nodes[max_levels];  ///< nodes[0] bounds the leaves, nodes[k + 1] nodes[k]
  uint16_t* node_live[max_levels];
  index_t bytes;

  /// Without scratch memory, sets only `bytes`.
  nms_memory(void* scratch, index_t count, bool is_always_indexed = false) {
    char* const base = static_cast<char*>(scratch);
    bytes = 0;
    const auto carve = [&](auto*& pointer, index_t size) {
      using element = std::remove_reference_t<decltype(*pointer)>;
      pointer = base != nullptr ? reinterpret_cast<element*>(base + bytes) : nullptr;
      bytes += (size * static_cast<index_t>(sizeof(element)) + 63) / 64 * 64;
    };
    const index_t leaf_count = blocks_of(count);
    carve(list.blocks, leaf_count + 1);
    carve(list.live, leaf_count + 1);
    carve(list.rank, 16 * leaf_count + 16);
    carve(coarse, ((count < coarse_limit ? count : coarse_limit) + 31) / 32);
    // Few boxes never get an index.
    const index_t indexed = count < least_indexed && !is_always_indexed ? 0 : leaf_count;
    carve(leaves, indexed);
    carve(leaf_live, indexed);
    carve(place, 16 * indexed);
    carve(order, 16 * indexed);
    carve(spare, 16 * indexed);
    carve(hits, indexed + 16);
    carve(more_hits, indexed + 16);
    index_t level_size = indexed;
    for (int k = 0; k < max_levels; ++k) {
      level_size = blocks_of(level_size);
      carve(nodes[k], level_size);
      carve(node_live[k], level_size);
      if (level_size <= 1) break;
    }
  }

  /// The exceptional boxes; the first is in block `begin`.
  nms_list<Real> exceptional(index_t begin) const {
    return {list.blocks + begin, list.live + begin, list.rank + 16 * begin};
  }

  /// With fewer boxes left than this, comparing with all of them costs less than an index. Measured
  /// on clustered boxes; for disjoint boxes, which are all kept, half this number would be best.
  static constexpr index_t least_indexed = batch_lanes<Real> >= 16  ? 1500
                                           : batch_lanes<Real> >= 8 ? 1000
                                                                    : 500;
  /// The same if coarse boxes are compared, also measured; 0 if there are no coarse boxes.
#if defined(VECDET_TARGET_AVX512)
  static constexpr index_t coarse_limit = sizeof(Real) == sizeof(float) ? 4000 : 0;
#elif defined(VECDET_TARGET_AVX2)
  static constexpr index_t coarse_limit = sizeof(Real) == sizeof(float) ? 2000 : 0;
#else
  static constexpr index_t coarse_limit = 0;
#endif
};

template <class Real>
VECDET_INLINE nms_box<Real> box_at(const nms_block<Real>* blocks, index_t i) {
  const nms_block<Real>& block = blocks[i / 16];
  const index_t lane = i % 16;
  return {block.x1[lane], block.y1[lane], block.x2[lane], block.y2[lane], block.number[lane]};
}

template <class Real>
VECDET_INLINE void set_box(nms_block<Real>* blocks, index_t i, const nms_box<Real>& box) {
  nms_block<Real>& block = blocks[i / 16];
  const index_t lane = i % 16;
  block.x1[lane] = box.x1;
  block.y1[lane] = box.y1;
  block.x2[lane] = box.x2;
  block.y2[lane] = box.y2;
  block.number[lane] = box.number;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

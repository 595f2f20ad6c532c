// SPDX-License-Identifier: Apache-2.0
// Merging of one group: going down the scores, each box is claimed by the first box that it
// matches. In a greedy merge, and in NMS by intersection over the smaller area, only unclaimed
// boxes claim others. In a transitive merge, all boxes do, and what a box claims belongs to that
// box's owner. Boxes not yet claimed are in the index of tree.hpp.
//
// Boxes that match by intersection over the smaller area may differ greatly in size. Coordinates
// are then bounded only by the requirement that the boxes touch.
#pragma once

#include <vecdet/kernels/nms/tree.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::merge_args;

/// Which of 16 boxes match one. Each box's number is its area. Boxes whose area is not positive and
/// finite never match.
template <class Real>
class match_tester {
  using real = row_pack<Real>;
  static constexpr int batches = real::batches;

 public:
  match_tester(const nms_box<Real>& box, nms_overlap overlap, Real least)
      : by_smaller_area_(overlap == nms_overlap::smaller_area),
        least_(least),
        // Lower than the quotient's threshold by more than all rounding. The smallest products lose
        // their digits, and pass.
        nearly_(least * Real(0.99999)),
        slack_(sizeof(Real) == 4 ? Real(1e-36) : Real(1e-300)),
        x1_(box.x1),
        y1_(box.y1),
        x2_(box.x2),
        y2_(box.y2),
        area_(box.number) {}

  /// Bit i: whether box i may match, found without a division.
  VECDET_INLINE uint32_t near(const nms_block<Real>& block) const {
    const real shared = intersection(block);
    return to_bits(shared + real(slack_) >= whole(block, shared) * real(nearly_));
  }
  /// The candidates that match.
  VECDET_INLINE uint32_t exact(const nms_block<Real>& block, uint32_t candidates) const {
    const real shared = intersection(block);
    return candidates & to_bits(shared / whole(block, shared) >= real(least_));
  }

 private:
  VECDET_INLINE real intersection(const nms_block<Real>& block) const {
    const real zero(Real(0));
    const real w = min(x2_, load_pack<batches>(block.x2)) - max(x1_, load_pack<batches>(block.x1));
    const real h = min(y2_, load_pack<batches>(block.y2)) - max(y1_, load_pack<batches>(block.y1));
    return rounded(max(w, zero) * max(h, zero));
  }
  VECDET_INLINE real whole(const nms_block<Real>& block, const real& shared) const {
    const real area = load_pack<batches>(block.number);
    return by_smaller_area_ ? min(area_, area) : area_ + area - shared;
  }

  bool by_smaller_area_;
  Real least_, nearly_, slack_;
  real x1_, y1_, x2_, y2_, area_;
};

template <class Real>
VECDET_INLINE bool same_corners(const nms_box<Real>& a, const nms_box<Real>& b) {
  return a.x1 == b.x1 && a.y1 == b.y1 && a.x2 == b.x2 && a.y2 == b.y2;
}

/// The arguments without their boxes, as those of the compute type.
template <class T>
merge_args<compute_type<T>> without_boxes(const merge_args<T>& args) {
  const nms_args<T>& boxes = args.boxes;
  return {
      {nullptr, boxes.format, boxes.overlap, boxes.plus_one, boxes.least_overlap, boxes.max_kept},
      args.is_transitive,
      args.order,
      args.first_tie,
      args.count,
      args.scratch,
      args.owner,
      args.claimer};
}

/// Merging of one group.
template <class Real>
class group_merge {
  static constexpr uint32_t nobody = 0xffffffffu;

 public:
  template <class T>
  explicit group_merge(const merge_args<T>& args)
      : args_(without_boxes(args)),
        memory_(args.scratch, args.count, true),
        rule_(reach_args(args_)) {
    state_.count = args.count;
    for (index_t i = 0; i < args.count; ++i) {
      nms_box<Real> box =
          load_nms_box<Real>(args.boxes.boxes, detail::index_of(args.order[i]), args.boxes.format);
      const Real w = box.x2 - box.x1, h = box.y2 - box.y1, area = rounded(w * h);
      if (w > 0 && h > 0 && area > 0 && area < infinity<Real>()) {
        box.number = area;
      } else {
        box = {0, 0, 0, 0, infinity<Real>()};
      }
      set_box(memory_.list.blocks, i, box);
      args.owner[i] = args.claimer[i] = nobody;
    }
    complete_list(memory_.list, args.count, state_.regular);
    build_tree(memory_, state_);
  }

  void run() {
    constexpr index_t worth_refilling = 256;
    for (index_t i = 0; i < args_.count; ++i) {
      const bool is_owner = args_.owner[i] == nobody;
      if (is_owner) {
        args_.owner[i] = args_.claimer[i] = static_cast<uint32_t>(i);
        const uint32_t place = memory_.place[i];
        if (place == no_place) continue;
        take_out(memory_, state_, place / 16, 1u << (place % 16));
      } else if (!args_.is_transitive) {
        continue;
      }
      if (state_.in_leaves == 0) continue;
      claim_matches(i);
      if (16 * state_.leaves > 2 * state_.in_leaves + worth_refilling) refill_tree(memory_, state_);
    }
  }

 private:
  /// Arguments whose reach equals that of a match.
  static nms_args<Real> reach_args(const merge_args<Real>& args) {
    nms_args<Real> reach = args.boxes;
    if (reach.overlap == nms_overlap::smaller_area) reach.least_overlap = 0;
    reach.overlap = nms_overlap::plain;
    return reach;
  }

  VECDET_INLINE void claim_matches(index_t i) {
    const nms_box<Real> box = box_at(memory_.list.blocks, i);
    const match_tester<Real> matches(box, args_.boxes.overlap,
                                     static_cast<Real>(args_.boxes.least_overlap));
    uint32_t* leaves;
    const index_t count = leaves_in_reach(nms_reach<Real>(box, rule_), memory_, state_, leaves);
    for (index_t k = 0; k < count; ++k) {
      const uint32_t leaf = leaves[k];
      uint32_t bits = matches.near(memory_.leaves[leaf]) & memory_.leaf_live[leaf];
      if (__builtin_expect(bits == 0, 1)) continue;
      bits = matches.exact(memory_.leaves[leaf], bits);
      uint32_t claimed = 0;
      for (uint32_t left = bits; left != 0; left &= left - 1) {
        const index_t at = 16 * static_cast<index_t>(leaf) + lowest_bit(left);
        const uint32_t rank = detail::index_of(memory_.order[at]);
        if (args_.is_transitive && is_tied_with(rank, i, at, box)) continue;
        args_.owner[rank] = args_.owner[i];
        args_.claimer[rank] = static_cast<uint32_t>(i);
        claimed |= 1u << (at % 16);
      }
      if (claimed != 0) take_out(memory_, state_, leaf, claimed);
    }
  }

  /// Whether the box of this rank has the same score as box i but is a different box.
  VECDET_INLINE bool is_tied_with(uint32_t rank, index_t i, index_t at,
                                  const nms_box<Real>& box) const {
    return args_.first_tie[rank] == args_.first_tie[i] &&
           !same_corners(box, box_at(memory_.leaves, at));
  }

  const merge_args<Real> args_;
  nms_memory<Real> memory_;
  nms_rule<Real> rule_;
  nms_state state_{};
};

template <class Real>
index_t merge_scratch_bytes(index_t count) {
  return nms_memory<Real>(nullptr, count, true).bytes;
}

template <class T>
void merge_group(const merge_args<T>& args) {
  if (args.count > 0) group_merge<compute_type<T>>(args).run();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Soft-NMS of one group: pick the box with the best score, lower the other boxes' scores according
// to their overlap with it, drop those below the floor, and repeat. Each pick is one pass over the
// remaining boxes, which also finds the next best.
#pragma once

#include <vecdet/kernels/as_double.hpp>
#include <vecdet/kernels/nms/scan.hpp>
#include <vecdet/kernels/score_key.hpp>
#include <vecdet/simd/math.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::soft_nms_args;

VECDET_INLINE void from_double(const row_pack<double>& x, row_pack<float>& to) { to = narrow(x); }
VECDET_INLINE void from_double(const row_pack<double>& x, row_pack<double>& to) { to = x; }

/// The scores, stored as the numbers of soft-NMS's blocks.
template <class Real>
VECDET_INLINE Real* scores_of(nms_block<Real>& block) {
  return block.number;
}
template <class Real>
VECDET_INLINE const Real* scores_of(const nms_block<Real>& block) {
  return block.number;
}

/// Applies one pick to 16 boxes, through scores_of(block).
template <class Real>
class soft_nms_pass {
  using real = row_pack<Real>;
  static constexpr int batches = real::batches;

 public:
  template <class T>
  VECDET_INLINE soft_nms_pass(const soft_nms_args<T>& args, const nms_box<Real>& picked)
      : method_(args.method),
        x1_(picked.x1),
        y1_(picked.y1),
        x2_(picked.x2),
        y2_(picked.y2),
        one_(args.plus_one ? Real(1) : Real(0)),
        threshold_(static_cast<Real>(args.iou_threshold)),
        floor_(static_cast<Real>(args.score_floor)),
        sigma_(args.sigma),
        area_((x2_ - x1_ + one_) * (y2_ - y1_ + one_)),
        zero_counts_(args.method == soft_nms_method::hard &&
                     !(static_cast<Real>(args.iou_threshold) > 0)) {}

  /// The remaining scores; NaN for boxes that leave.
  VECDET_INLINE real operator()(const nms_block<Real>& block) const {
    const real zero(Real(0));
    const real x1 = load_pack<batches>(block.x1), x2 = load_pack<batches>(block.x2);
    const real y1 = load_pack<batches>(block.y1), y2 = load_pack<batches>(block.y2);
    const real w = max(min(x2_, x2) - max(x1_, x1) + one_, zero);
    const real h = max(min(y2_, y2) - max(y1_, y1) + one_, zero);
    const real intersection = rounded(w * h);
    real score = load_pack<batches>(scores_of(block));
    if (zero_counts_ || to_bits(intersection > zero) != 0) {
      const real area = rounded((x2 - x1 + one_) * (y2 - y1 + one_));
      score = rounded(score * decay(intersection / ((rounded(area_) + area) - intersection)));
    }
    return select(score >= floor_, score, real(not_a_number<Real>()));
  }

 private:
  VECDET_INLINE real decay(const real& overlap) const {
    const real one(Real(1));
    real left;
    if (method_ == soft_nms_method::gaussian) {
      const auto wide = as_double(overlap);
      from_double(exp_minus(wide * wide / sigma_), left);
      return select(overlap == overlap, left, one);
    }
    left = method_ == soft_nms_method::linear ? one - overlap : real(Real(0));
    return select(overlap >= threshold_, left, one);
  }

  soft_nms_method method_;
  real x1_, y1_, x2_, y2_, one_, threshold_, floor_;
  row_pack<double> sigma_;
  real area_;
  bool zero_counts_;
};

template <class T>
index_t soft_nms_group(const soft_nms_args<T>& args) {
  using real = compute_type<T>;
  using reals = row_pack<real>;
  constexpr int batches = reals::batches;
  const real nan = not_a_number<real>();
  nms_memory<real> memory(args.scratch, args.count);
  const nms_list<real>& list = memory.list;
  nms_progress progress{args.count, args.count, 0};
  index_t blocks = blocks_of(args.count);
  reals best(-infinity<real>());
  for (index_t i = 0; i < 16 * blocks; ++i) {
    nms_box<real> box{0, 0, 0, 0, nan};
    if (i < args.count) {
      const uint32_t index = detail::index_of(args.records[i]);
      box = load_nms_box<real>(args.boxes, index, nms_format::corners);
      box.number = static_cast<real>(args.scores[index]);
    }
    set_box(list.blocks, i, box);
    list.rank[i] = static_cast<uint32_t>(i);
  }
  for (index_t b = 0; b < blocks; ++b) {
    const reals score = load_pack<batches>(scores_of(list.blocks[b]));
    best = max(score, best);
    list.live[b] = static_cast<uint16_t>(to_bits(score == score));
  }

  index_t kept_count = 0;
  while (progress.left > 0) {
    alignas(64) real lane[16];
    store_pack<batches>(lane, best);
    const real greatest = greatest16(lane);
    index_t b = 0;
    uint32_t found = 0;
    // Ties are broken by lower index.
    for (; found == 0; ++b)
      found = to_bits(load_pack<batches>(scores_of(list.blocks[b])) == reals(greatest));
    const index_t slot = 16 * (b - 1) + lowest_bit(found);
    const uint32_t index = detail::index_of(args.records[list.rank[slot]]);
    const real picked =
        scores_of(list.blocks[slot / 16])[slot % 16];  // greatest may be a zero of the other sign
    args.rescored[index] = picked;
    args.kept[kept_count++] = record_of(picked, index);
    const soft_nms_pass<real> pass(args, box_at(list.blocks, slot));
    scores_of(list.blocks[slot / 16])[slot % 16] = nan;

    best = reals(-infinity<real>());
    progress.left = 0;
    for (b = 0; b < blocks; ++b) {
      if (list.live[b] == 0) continue;
      const reals score = pass(list.blocks[b]);
      store_pack<batches>(scores_of(list.blocks[b]), score);
      best = max(score, best);
      const uint32_t live = to_bits(score == score);
      list.live[b] = static_cast<uint16_t>(live);
      progress.left += count_bits(live);
    }
    constexpr index_t worth_moving = 64;
    if (progress.slots > 2 * progress.left + worth_moving) {
      compact(list, progress);
      blocks = blocks_of(progress.slots);
      // The padding boxes of the last block leave at once: their score is NaN.
      for (index_t i = progress.slots; i < 16 * blocks; ++i)
        scores_of(list.blocks[i / 16])[i % 16] = nan;
    }
  }
  return kept_count;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

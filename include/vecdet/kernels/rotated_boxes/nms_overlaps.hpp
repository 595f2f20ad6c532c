// SPDX-License-Identifier: Apache-2.0
// What NMS of rotated boxes needs of an overlap: who takes part, a bound that excludes most boxes
// of a leaf, the overlaps themselves.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/kernels/rotated_boxes/pairs.hpp>
#include <vecdet/kernels/rotated_boxes/prob_tile.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using detail::rotated_nms_args;

/// The exact IoU as the overlap.
template <class T>
class exact_overlap {
  using real = row_pack<T>;
  static constexpr int batches = real::batches;

 public:
  template <class Real>
  using tile = rotated_row_tile<Real>;
  static constexpr bool only_kept_suppress = true, is_cheap = false;

  explicit exact_overlap(const rotated_nms_args<T>& args) {
    // Computed overlaps are within 1e-5 of the exact ones: see rotated_boxes.hpp.
    const double t = args.least_overlap - 2e-4;
    is_bounded_ = t > 1e-3;
    area_factor_ = static_cast<T>(t / (1 + t));
    least_ratio_ = static_cast<T>(t);
    needs_area_ = args.least_overlap > 0;
  }

  /// Whether a box of these sides may suppress or be suppressed: none of its overlaps is NaN or
  /// always 0. With a threshold of 0 and suppress_equal, boxes without area count, too.
  bool takes_part(double w, double h) const {
    return needs_area_ ? w > 0 && h > 0 : w >= 0 && h >= 0;
  }
  void prepare(rotated_row_tile<T>&) const {}

  /// Bit j: whether box j of the leaf may be suppressed.
  VECDET_INLINE std::uint32_t near(const rotated_row_tile<T>& kept, int i,
                                   const rotated_row_tile<T>& leaf, bool is_extreme) const {
    const real reach_x = load_pack<batches>(leaf.reach_x),
               reach_y = load_pack<batches>(leaf.reach_y);
    const real dx = load_pack<batches>(leaf.x) - real(kept.x[i]);
    const real dy = load_pack<batches>(leaf.y) - real(kept.y[i]);
    const real ax = kept.reach_x[i], ay = kept.reach_y[i], zero = T(0);
    const auto meets = (abs(dx) <= ax + reach_x) & (abs(dy) <= ay + reach_y);
    if (!is_bounded_ || is_extreme) return to_bits(meets);
    real w = min(ax, dx + reach_x) - max(zero - ax, dx - reach_x);
    real h = min(ay, dy + reach_y) - max(zero - ay, dy - reach_y);
    real area = kept.area[i], other = load_pack<batches>(leaf.area);
    if (kept.upright[i] != 0 && leaf.has_upright) {
      // The IoU of upright boxes is that of their corners, which are rounded.
      const auto are_upright = load_pack<batches>(leaf.upright) == real(T(1));
      const auto a = kept.template repeated_corners<batches>(i);
      const auto b = leaf.template corners<batches>(0);
      w = select(are_upright, min(a.x2, b.x2) - max(a.x1, b.x1), w);
      h = select(are_upright, min(a.y2, b.y2) - max(a.y1, b.y1), h);
      area = select(are_upright, (a.x2 - a.x1) * (a.y2 - a.y1), area);
      other = select(are_upright, (b.x2 - b.x1) * (b.y2 - b.y1), other);
    }
    const auto is_large = max(w, zero) * h >= real(area_factor_) * (area + other);
    const auto is_similar = min(area, other) >= real(least_ratio_) * max(area, other);
    return to_bits(meets & is_large & is_similar);
  }

  /// The overlaps of box i with 16 others, as pairwise_rotated_iou() computes them.
  template <class Real>
  static VECDET_INLINE void compute(const rotated_row_tile<Real>& box, int i,
                                    const rotated_row_tile<Real>& others, Real* iou) {
    ious_of_sixteen<false>(box, i, others, false, iou);
  }

 private:
  T area_factor_, least_ratio_;
  bool is_bounded_, needs_area_;
};

/// ProbIoU as the overlap.
template <class T>
class prob_overlap {
  using real = row_pack<T>;
  static constexpr int batches = real::batches;

 public:
  template <class Real>
  using tile = prob_row_tile<Real>;
  static constexpr bool only_kept_suppress = false, is_cheap = true;

  explicit prob_overlap(const rotated_nms_args<T>& args) : reach_(static_cast<T>(args.reach)) {}

  bool takes_part(double w, double h) const { return w >= 0 && h >= 0; }
  void prepare(prob_row_tile<T>& leaf) const { leaf.scale_reach(reach_); }

  /// Bit j: whether box j of the leaf may be suppressed: see prob_tile.
  VECDET_INLINE std::uint32_t near(const prob_row_tile<T>& box, int i, const prob_row_tile<T>& leaf,
                                   bool) const {
    const real dx = load_pack<batches>(leaf.x) - real(box.x[i]);
    const real dy = load_pack<batches>(leaf.y) - real(box.y[i]);
    const auto of_both = [](T one, const T* others) VECDET_INLINE_LAMBDA {
      return real(one * one) + square(load_pack<batches>(others));
    };
    return to_bits((dx * dx <= of_both(box.reach_x[i], leaf.reach_x)) &
                   (dy * dy <= of_both(box.reach_y[i], leaf.reach_y)));
  }

  /// The overlaps of box i with 16 others, as pairwise_prob_iou() computes them.
  template <class Real>
  static VECDET_INLINE void compute(const prob_row_tile<Real>& box, int i,
                                    const prob_row_tile<Real>& others, Real* iou) {
    prob_ious_of_sixteen<false>(box, i, others, iou);
  }

 private:
  T reach_;
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

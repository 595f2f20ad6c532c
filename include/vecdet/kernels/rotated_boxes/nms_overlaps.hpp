// SPDX-License-Identifier: Apache-2.0
// What NMS of rotated boxes needs of an overlap: who takes part, a bound that excludes most boxes
// of a leaf, the overlaps themselves.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/kernels/rotated_boxes/pairs.hpp>
#include <vecdet/kernels/rotated_boxes/prob_tile.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

using detail::rotated_nms_args;

/// Intervals of boxes. If a box may suppress another, its interval met_by(k) meets interval k of
/// the other.
template <class T, int Count>
struct rotated_intervals {
  row_pack<T> low[Count], high[Count];
};

/// 16 boxes with their quantiles; see exact_overlap.
template <class Real>
struct exact_nms_tile : rotated_row_tile<Real> {
  alignas(64) Real quantile_x[row_lanes], quantile_y[row_lanes];
};

/// The exact IoU as the overlap. If the IoU of A and B is t or more, the area of their intersection
/// I is at least t times that of A, at least t times that of B, and at least t / (1 + t) times the
/// sum of both. This has three consequences, which exclude nearly all other pairs:
///
/// 1. Neither area is below t times the other.
/// 2. A rectangle that contains I has at least the area t / (1 + t) times the sum. In the frame of
///    A, I lies in A and in the rectangle around B. The same holds in the frame of B.
/// 3. B reaches into A at least as far as the part of A that has t times its area, and A into B.
///    The width of that part, the quantile, is known along the axes: the vertical extent of a box
///    is constant in the middle and falls to 0 over a width of 2 m at both ends. Half of the sides
///    have the extents m and p >= m along x, so the area is 2 p times the greatest vertical extent.
///    The quantile is 2 p t + m, or sqrt(8 m p t) if 2 p t < m.
///
/// `ulps`, 16 units of rounding or more, covers the errors of computed numbers. Intervals and
/// rectangles grow by `ulps` times the coordinates that they are computed from. The computed area
/// of I exceeds the exact one by less than 8 units of rounding times D times the perimeter of I,
/// where D is the sum of the distances and reaches of both boxes along both axes; the growth of the
/// rectangle covers that. In a quantile, it counts in proportion to the area of A: as D is at most
/// 1.42 (1 + 3 / t) (w + h), t becomes t - ulps (1 + 3 / t) (w + h)^2 / (w h). If this takes more
/// than t / 8 of t away from any box, which is then very thin, no quantiles are used. If a box is
/// so large, small or distant that these products may over- or underflow, only extents are used.
/// The test "rotated NMS: pairs close to the threshold" attacks all this.
template <class T>
class exact_overlap {
  using real = row_pack<T>;
  static constexpr int batches = real::batches;
  static constexpr T ulps = sizeof(T) == 4 ? T(1e-6) : T(1e-14);

 public:
  template <class Real>
  using tile = exact_nms_tile<Real>;
  static constexpr bool only_kept_suppress = true, is_cheap = false;
  /// The extents in x and y, what is left of them without the quantiles, and areas.
  static constexpr int interval_count = 5;
  static constexpr int met_by(int k) { return k == 4 ? 4 : k ^ 2; }

  explicit exact_overlap(const rotated_nms_args<T>& args) {
    // Overlaps below the least normal number are rounded to multiples of `step`.
    const double step = std::numeric_limits<T>::denorm_min();
    const double below = args.least_overlap * 0.99999 - 2 * step, t = below > 0 ? below : 0;
    least_ratio_ = static_cast<T>(t);
    area_factor_ = static_cast<T>(t / (1 + t));
    loss_ = static_cast<T>(t > 0 ? ulps * (1 + 3 / t) : 0);
    needs_area_ = args.least_overlap > 0;
  }

  /// Whether sorting by area pays. Lower thresholds exclude few pairs by their areas.
  bool bounds_areas() const { return least_ratio_ > T(0.05); }

  /// Whether a box of these sides may suppress or be suppressed: none of its overlaps is NaN or
  /// always 0. With a threshold of 0 and suppress_equal, boxes without area count, too.
  bool takes_part(double w, double h) const {
    return needs_area_ ? w > 0 && h > 0 : w >= 0 && h >= 0;
  }

  /// Remembers whether some box is thin or extreme. Called for all leaves before prepare().
  void look_at(const tile<T>& leaf) {
    const real most = least_ratio_ * least_ratio_ * T(0.125);
    const auto area = load_pack<batches>(leaf.area);
    is_thin_ = is_thin_ || to_bits(loss_of(leaf) <= most * area) != 0xffff;
    is_extreme_ = is_extreme_ || has_extreme(leaf);
  }
  /// Sets the quantiles; 0 if some box is too thin or extreme.
  void prepare(tile<T>& leaf) const {
    const real zero = T(0), two = T(2), four = T(4);
    const auto read = [](const T* numbers)
                          VECDET_INLINE_LAMBDA { return load_pack<batches>(numbers); };
    const bool are_used = !is_thin_ && !is_extreme_;
    const real t = are_used ? real(least_ratio_) - loss_of(leaf) / read(leaf.area) : zero;
    const auto quantile = [&](const real& width, const real& height) VECDET_INLINE_LAMBDA {
      const real p = max(width, height), m = min(width, height), part = two * p * t;
      return select(part < m, sqrt(four * m * part), part + m);
    };
    const real w = read(leaf.half_width), h = read(leaf.half_height);
    const real c = abs(read(leaf.cosine)), s = abs(read(leaf.sine));
    store_pack<batches>(leaf.quantile_x, are_used ? quantile(w * c, h * s) : zero);
    store_pack<batches>(leaf.quantile_y, are_used ? quantile(w * s, h * c) : zero);
  }

  /// The intervals of boxes whose numbers `read` reads.
  template <class Read>
  VECDET_INLINE rotated_intervals<T, interval_count> intervals_of(const tile<T>& leaf,
                                                                  const Read& read) const {
    rotated_intervals<T, interval_count> result;
    const auto set = [&](int k, const T* centre, const T* reach,
                         const T* quantile) VECDET_INLINE_LAMBDA {
      const real at = read(centre), half = read(reach);
      const real end = half + real(ulps) * (abs(at) + half), rest = end - read(quantile);
      result.low[k] = at - end, result.high[k] = at + end;
      result.low[k + 2] = at - rest, result.high[k + 2] = at + rest;
    };
    set(0, leaf.x, leaf.reach_x, leaf.quantile_x);
    set(1, leaf.y, leaf.reach_y, leaf.quantile_y);
    const real area = read(leaf.area), endless = infinity<T>();
    // That of two upright boxes is that of their corners.
    const real corners = (read(leaf.x2) - read(leaf.x1)) * (read(leaf.y2) - read(leaf.y1));
    const auto is_upright = read(leaf.upright) == real(T(1));
    const real least = select(is_upright, min(area, corners), area);
    const real most = select(is_upright, max(area, corners), area);
    result.low[4] = is_extreme_ ? real(T(0)) - endless : real(least_ratio_) * least;
    result.high[4] = is_extreme_ ? endless : most;
    return result;
  }

  /// Those of the bits j for which box j of the leaf may be suppressed.
  VECDET_INLINE std::uint32_t near(const tile<T>& kept, int i, const tile<T>& leaf,
                                   std::uint32_t bits) const {
    const auto read = [](const T* numbers)
                          VECDET_INLINE_LAMBDA { return load_pack<batches>(numbers); };
    const real zero = T(0), few = ulps;
    const real dx = read(leaf.x) - real(kept.x[i]), dy = read(leaf.y) - real(kept.y[i]);
    const real reach_x = real(kept.reach_x[i]) + read(leaf.reach_x);
    const real reach_y = real(kept.reach_y[i]) + read(leaf.reach_y);
    const auto meets = [&](const real& distance, const real& reach, const real& at,
                           const real& quantile, const T* quantiles) VECDET_INLINE_LAMBDA {
      return abs(distance) + max(quantile, read(quantiles)) <= reach + few * (abs(at) + reach);
    };
    auto may = meets(dx, reach_x, kept.x[i], kept.quantile_x[i], leaf.quantile_x) &
               meets(dy, reach_y, kept.y[i], kept.quantile_y[i], leaf.quantile_y);
    // With thresholds near 0, nearly all boxes that meet are suppressed.
    if (is_extreme_ || least_ratio_ < T(1e-5)) return bits & to_bits(may);
    real area = kept.area[i], other = read(leaf.area);
    const bool has_upright = kept.upright[i] != 0 && leaf.has_upright;
    const auto are_upright = read(leaf.upright) == real(T(1));
    const auto a = kept.template repeated_corners<batches>(i);
    const auto b = leaf.template corners<batches>(0);
    if (has_upright) {
      area = select(are_upright, (a.x2 - a.x1) * (a.y2 - a.y1), area);
      other = select(are_upright, (b.x2 - b.x1) * (b.y2 - b.y1), other);
    }
    may = may & (min(area, other) >= real(least_ratio_) * max(area, other));
    bits &= to_bits(may);
    if (bits == 0) return 0;

    const real c = kept.cosine[i], s = kept.sine[i];
    const real w = kept.half_width[i], h = kept.half_height[i];
    const real cosine = read(leaf.cosine), sine = read(leaf.sine);
    const real width = read(leaf.half_width), height = read(leaf.half_height);
    const real along = abs(cosine * c + sine * s), across = abs(sine * c - cosine * s);
    const real growth = few * ((abs(dx) + abs(dy)) + (reach_x + reach_y));
    // The length that two intervals have in common.
    const auto shared = [&](const real& distance, const real& half,
                            const real& other_half) VECDET_INLINE_LAMBDA {
      const real away = abs(distance);
      return max(min(half, away + other_half) + min(half, other_half - away), zero) + growth;
    };
    const real in_kept = shared(dx * c + dy * s, w, width * along + height * across) *
                         shared(dy * c - dx * s, h, width * across + height * along);
    const real in_other = shared(dx * cosine + dy * sine, width, w * along + h * across) *
                          shared(dy * cosine - dx * sine, height, w * across + h * along);
    real most = min(in_kept, in_other);
    if (has_upright) {
      const real x = min(a.x2, b.x2) - max(a.x1, b.x1), y = min(a.y2, b.y2) - max(a.y1, b.y1);
      most = select(are_upright, max(x, zero) * y, most);
    }
    return bits & to_bits(most >= real(area_factor_) * (area + other));
  }

  /// The overlaps of box i with 16 others, as pairwise_rotated_iou() computes them.
  template <class Real>
  static VECDET_INLINE void compute(const rotated_row_tile<Real>& box, int i,
                                    const rotated_row_tile<Real>& others, Real* iou) {
    ious_of_sixteen<false>(box, i, others, false, iou);
  }

 private:
  /// Whether products of the numbers of a box may over- or underflow. In double, overlaps of such
  /// boxes are what they are: they are computed in no wider type.
  static bool has_extreme(const tile<T>& leaf) {
    if constexpr (std::is_same<T, float>::value) {
      return leaf.has_extreme;
    } else {
      const auto size = [](const T* numbers)
                            VECDET_INLINE_LAMBDA { return abs(load_pack<batches>(numbers)); };
      const real most =
          max(max(size(leaf.x), size(leaf.y)), max(size(leaf.half_width), size(leaf.half_height)));
      return to_bits((most <= real(0x1p480)) & (size(leaf.area) >= real(0x1p-900))) != 0xffff;
    }
  }
  /// What `t` loses in the quantiles, times the area.
  VECDET_INLINE real loss_of(const tile<T>& leaf) const {
    const real sides = load_pack<batches>(leaf.half_width) + load_pack<batches>(leaf.half_height);
    return real(4 * loss_) * sides * sides;
  }

  T area_factor_, least_ratio_, loss_;
  bool needs_area_;
  bool is_thin_ = false, is_extreme_ = false;  ///< some box is
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
  /// The extents in x and y.
  static constexpr int interval_count = 2;
  static constexpr int met_by(int k) { return k; }

  explicit prob_overlap(const rotated_nms_args<T>& args) : reach_(static_cast<T>(args.reach)) {}

  static constexpr bool bounds_areas() { return false; }

  bool takes_part(double w, double h) const { return w >= 0 && h >= 0; }
  void look_at(const prob_row_tile<T>&) const {}
  void prepare(prob_row_tile<T>& leaf) const { leaf.scale_reach(reach_); }

  /// The intervals of boxes whose numbers `read` reads, slightly enlarged because they are rounded.
  template <class Read>
  VECDET_INLINE rotated_intervals<T, interval_count> intervals_of(const prob_row_tile<T>& leaf,
                                                                  const Read& read) const {
    constexpr T ulps = sizeof(T) == 4 ? T(1e-6) : T(1e-14);
    rotated_intervals<T, interval_count> result;
    const auto set = [&](int k, const T* centre, const T* reach) VECDET_INLINE_LAMBDA {
      const real at = read(centre), half = read(reach), end = half + real(ulps) * (abs(at) + half);
      result.low[k] = at - end, result.high[k] = at + end;
    };
    set(0, leaf.x, leaf.reach_x);
    set(1, leaf.y, leaf.reach_y);
    return result;
  }

  /// Those of the bits j for which box j of the leaf may be suppressed: see prob_tile.
  VECDET_INLINE std::uint32_t near(const prob_row_tile<T>& box, int i, const prob_row_tile<T>& leaf,
                                   std::uint32_t bits) const {
    const real dx = load_pack<batches>(leaf.x) - real(box.x[i]);
    const real dy = load_pack<batches>(leaf.y) - real(box.y[i]);
    const auto of_both = [](T one, const T* others) VECDET_INLINE_LAMBDA {
      return real(one * one) + square(load_pack<batches>(others));
    };
    return bits & to_bits((dx * dx <= of_both(box.reach_x[i], leaf.reach_x)) &
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

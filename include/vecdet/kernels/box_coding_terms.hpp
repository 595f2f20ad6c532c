// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of boxes as equations on packs.
//
//   dx = wx (gx - ax) / aw      gx = ax + aw dx / wx
//   dw = ww log(gw / aw)        gw = aw exp(clamp(dw / ww))
//
// and likewise for y and height: an axis is all there is.
#pragma once

#include <vecdet/detail/simd_boxes.hpp>
#include <vecdet/detail/simd_math_boxes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// The sum of two numbers, rounded, and what that lost (Knuth; no order of sizes is assumed).
template <class Real, int N>
struct exact_sum {
  pack<Real, N> high, low;
};
template <class Real, int N>
VECDET_INLINE exact_sum<Real, N> exact_difference(const pack<Real, N>& a, const pack<Real, N>& b) {
  const pack<Real, N> s = a - b, v = s - a;
  return {s, (a - (s - v)) - (b + v)};
}

/// (a - b) + (c - d), rounded about once, whatever cancels; NaN where something overflows. Where
/// the sum of the two differences cancels, it is exact (Sterbenz).
template <class Real, int N>
VECDET_INLINE pack<Real, N> sum_of_differences(const pack<Real, N>& a, const pack<Real, N>& b,
                                               const pack<Real, N>& c, const pack<Real, N>& d) {
  const auto first = exact_difference(a, b), second = exact_difference(c, d);
  return (first.high + second.high) + (first.low + second.low);
}

/// The same, but infinite where something overflows.
template <class Real, int N>
VECDET_INLINE pack<Real, N> any_sum_of_differences(const pack<Real, N>& a, const pack<Real, N>& b,
                                                   const pack<Real, N>& c, const pack<Real, N>& d) {
  const auto plain = (a - b) + (c - d);
  return select(abs(plain) < pack<Real, N>(Real(__builtin_huge_val())),
                sum_of_differences(a, b, c, d), plain);
}

/// The size of an anchor on one axis and what rounding it lost: of its ends, or of centre and size.
template <bool Corners, class Real, int N>
VECDET_INLINE exact_sum<Real, N> anchor_size(const pack<Real, N>& first,
                                             const pack<Real, N>& second) {
  if constexpr (Corners) return exact_difference(second, first);
  return {second, pack<Real, N>(Real(0))};
}
/// Its upper end; the centre, where the format gives that: both ends' places in a sum of two.
template <bool Corners, class Real, int N>
VECDET_INLINE const pack<Real, N>& anchor_high(const pack<Real, N>& first,
                                               const pack<Real, N>& second) {
  return Corners ? second : first;
}

/// A delta of the centre and one of the size, both still to be multiplied by their weights.
template <class Real, int N>
struct axis_deltas {
  pack<Real, N> centre, size;
};

/// For any numbers.
template <bool Corners, int N>
VECDET_INLINE axis_deltas<double, N> encode_any_axis(const pack<double, N>& g1,
                                                     const pack<double, N>& g2,
                                                     const pack<double, N>& a1,
                                                     const pack<double, N>& a2) {
  const auto size = anchor_size<Corners>(a1, a2).high;
  const auto twice = any_sum_of_differences(g1, a1, g2, anchor_high<Corners>(a1, a2));
  return {pack<double, N>(0.5) * twice / size, log_ratio(g2 - g1, size)};
}

/// For sizes that are plainly positive numbers. Differences carry what they lost, so that nothing
/// cancels.
template <bool Corners, int N>
VECDET_INLINE axis_deltas<float, N> encode_plain_axis(const pack<float, N>& g1,
                                                      const pack<float, N>& g2,
                                                      const pack<float, N>& a1,
                                                      const pack<float, N>& a2,
                                                      const exact_sum<float, N>& target,
                                                      const exact_sum<float, N>& anchor) {
  const auto twice = sum_of_differences(g1, a1, g2, anchor_high<Corners>(a1, a2));
  return {pack<float, N>(0.5f) * twice / anchor.high,
          log_ratio(target.high, target.low, anchor.high, anchor.low)};
}

/// The deltas that decode to `targets` (corners) from `anchors`, weights still to be applied.
template <bool Corners, int N>
VECDET_INLINE box_pack<double, N> encode(const box_pack<double, N>& g,
                                         const box_pack<double, N>& a) {
  const auto x = encode_any_axis<Corners>(g.x1, g.x2, a.x1, a.x2);
  const auto y = encode_any_axis<Corners>(g.y1, g.y2, a.y1, a.y2);
  return {x.centre, y.centre, x.size, y.size};
}

/// The same for boxes in memory, and any of them.
template <bool Corners, int N, class Boxes>
VECDET_NOINLINE void encode_odd_boxes(const Boxes& targets, const Boxes& anchors,
                                      box_pack<float, N>& deltas) {
  const auto widened = [](const box_pack<float, N>& b) -> box_pack<double, 2 * N> {
    return {widen(b.x1), widen(b.y1), widen(b.x2), widen(b.y2)};
  };
  const auto exact =
      encode<Corners>(widened(load_boxes<N>(targets)), widened(load_boxes<N>(anchors)));
  deltas = {narrow(exact.x1), narrow(exact.y1), narrow(exact.x2), narrow(exact.y2)};
}

/// The deltas that decode to the boxes at `targets` (corners) from those at `anchors`.
template <bool Corners, int N, class Boxes>
VECDET_INLINE auto encode_at(const Boxes& targets, const Boxes& anchors) {
  const auto g = load_boxes<N>(targets), a = load_boxes<N>(anchors);
  if constexpr (std::is_same<decltype(g), const box_pack<double, N>>::value) {
    return encode<Corners>(g, a);
  } else {
    const auto gw = exact_difference(g.x2, g.x1), gh = exact_difference(g.y2, g.y1);
    const auto aw = anchor_size<Corners>(a.x1, a.x2), ah = anchor_size<Corners>(a.y1, a.y2);
    const auto x = encode_plain_axis<Corners>(g.x1, g.x2, a.x1, a.x2, gw, aw);
    const auto y = encode_plain_axis<Corners>(g.y1, g.y2, a.y1, a.y2, gh, ah);
    box_pack<float, N> deltas{x.centre, y.centre, x.size, y.size};
    // Sizes are neither 0, negative, NaN nor so large that something overflows; NaN and infinities
    // from anywhere end in the sum.
    const auto least = min(min(gw.high, aw.high), min(gh.high, ah.high));
    const auto sum = (gw.high + aw.high) + (gh.high + ah.high) + (x.centre + y.centre);
    const auto plain = select(least >= pack<float, N>(1e-25f), abs(sum), pack<float, N>(1e30f)) <
                       pack<float, N>(1e25f);
    if (!all(plain)) {
      box_pack<float, N> odd;
      encode_odd_boxes<Corners, N>(targets, anchors, odd);
      deltas = {select(plain, deltas.x1, odd.x1), select(plain, deltas.y1, odd.y1),
                select(plain, deltas.x2, odd.x2), select(plain, deltas.y2, odd.y2)};
    }
    return deltas;
  }
}

template <class Real, int N>
VECDET_INLINE box_pack<Real, N> weighted(const box_pack<Real, N>& deltas,
                                         const Real (&weights)[4]) {
  using real = pack<Real, N>;
  return {deltas.x1 * real(weights[0]), deltas.y1 * real(weights[1]), deltas.x2 * real(weights[2]),
          deltas.y2 * real(weights[3])};
}

/// A box on one axis.
template <class Real, int N>
struct axis_ends {
  pack<Real, N> low, high;
  pack<Real, N> size;
};

/// What decode needs of the weights and the clamp.
template <class Real>
struct decoder {
  Real centre[2], size[2], size_lost[2];  ///< 1 / weight; the last what rounding it lost
  Real low[2], high[2];                   ///< bounds of dw and dh
  bool cuts[2];                           ///< whether low and high are the clamp's

  /// low_size and high_size bound dw and dh after division by the weights, and may be infinite.
  decoder(const double (&weights)[4], double low_size, double high_size) {
    constexpr double limit = exp_limit<Real>;
    cuts[0] = low_size > -limit;
    cuts[1] = high_size < limit;
    for (int axis = 0; axis < 2; ++axis) {
      const double weight = weights[2 + axis];
      centre[axis] = static_cast<Real>(1 / weights[axis]);
      size[axis] = static_cast<Real>(1 / weight);
      size_lost[axis] = static_cast<Real>(1 / weight - static_cast<double>(size[axis]));
      low[axis] = static_cast<Real>((cuts[0] ? low_size : -limit) * weight);
      high[axis] = static_cast<Real>((cuts[1] ? high_size : limit) * weight);
    }
  }

  template <int N>
  VECDET_INLINE axis_ends<Real, N> decode_axis(int axis, const pack<Real, N>& centre_delta,
                                               const pack<Real, N>& size_delta,
                                               const pack<Real, N>& anchor_centre,
                                               const pack<Real, N>& anchor_size) const {
    using real = pack<Real, N>;
    const real bounded = max(real(low[axis]), min(real(high[axis]), size_delta));
    const real factor = exp_product(bounded, size[axis], size_lost[axis]);
    const real half = anchor_size * real(Real(0.5)) * factor;  // overflows no sooner than the ends
    const real at = fma(anchor_size, centre_delta * real(centre[axis]), anchor_centre);
    return {at - half, at + half, half + half};
  }

  /// The factor of a gradient through dw or dh: 0 where the clamp cut it off.
  template <int N>
  VECDET_INLINE pack<Real, N> size_slope(int axis, const pack<Real, N>& size_delta) const {
    using real = pack<Real, N>;
    real slope = Real(size[axis]);
    if (cuts[0]) slope = select(size_delta < real(low[axis]), real(Real(0)), slope);
    if (cuts[1]) slope = select(size_delta > real(high[axis]), real(Real(0)), slope);
    return slope;
  }
};

/// An anchor's centre and size on one axis.
template <class Real, int N>
struct anchor_axis {
  pack<Real, N> centre, size;

  template <bool Corners>
  static VECDET_INLINE anchor_axis of(const pack<Real, N>& first, const pack<Real, N>& second) {
    if constexpr (!Corners) return {first, second};
    const pack<Real, N> half = Real(0.5);
    return {fma(half, second, half * first), second - first};
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

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

/// (a - b) + (c - d), rounded about once, whatever cancels. Infinities come through.
template <class Real, int N>
VECDET_INLINE pack<Real, N> sum_of_differences(const pack<Real, N>& a, const pack<Real, N>& b,
                                               const pack<Real, N>& c, const pack<Real, N>& d) {
  const auto first = exact_difference(a, b), minus_second = exact_difference(d, c);
  const auto sum = exact_difference(first.high, minus_second.high);
  const auto exact = sum.high + (sum.low + (first.low - minus_second.low));
  return select(abs(sum.high) < pack<Real, N>(Real(__builtin_huge_val())), exact, sum.high);
}

/// An anchor's or box's extent on one axis.
template <class Real, int N>
struct extent {
  pack<Real, N> low, high;  ///< its ends; both the centre, where the format gives that
  pack<Real, N> size, size_lost;

  static VECDET_INLINE extent of_corners(const pack<Real, N>& low, const pack<Real, N>& high) {
    const auto size = exact_difference(high, low);
    return {low, high, size.high, size.low};
  }
  static VECDET_INLINE extent of_centre(const pack<Real, N>& centre, const pack<Real, N>& size) {
    return {centre, centre, size, pack<Real, N>(Real(0))};
  }
  static VECDET_INLINE extent of(bool corners, const pack<Real, N>& first,
                                 const pack<Real, N>& second) {
    return corners ? of_corners(first, second) : of_centre(first, second);
  }
};

/// A delta of the centre and one of the size, both still to be multiplied by their weights.
template <class Real, int N>
struct axis_deltas {
  pack<Real, N> centre, size;
};

/// In double, for any numbers.
template <int N>
VECDET_INLINE axis_deltas<double, N> encode_axis(const extent<double, N>& target,
                                                 const extent<double, N>& anchor) {
  const auto twice = sum_of_differences(target.low, anchor.low, target.high, anchor.high);
  return {pack<double, N>(0.5) * twice / anchor.size, log_ratio(target.size, anchor.size)};
}

template <int N>
VECDET_INLINE extent<double, 2 * N> widen(const extent<float, N>& x, bool corners) {
  return extent<double, 2 * N>::of(corners, widen(x.low), widen(corners ? x.high : x.size));
}

/// Sizes that are not plainly positive numbers.
template <int N>
VECDET_NOINLINE void encode_odd_axis(const extent<float, N>& target, const extent<float, N>& anchor,
                                     bool corners, const pack_mask<float, N>& plain,
                                     axis_deltas<float, N>& deltas) {
  const auto exact = encode_axis(widen(target, true), widen(anchor, corners));
  deltas.centre = select(plain, deltas.centre, narrow(exact.centre));
  deltas.size = select(plain, deltas.size, narrow(exact.size));
}

/// In float. Differences carry what they lost, so that nothing cancels. `corners` tells what the
/// anchor was made from.
template <int N>
VECDET_INLINE axis_deltas<float, N> encode_axis(const extent<float, N>& target,
                                                const extent<float, N>& anchor, bool corners) {
  using real = pack<float, N>;
  const real twice = sum_of_differences(target.low, anchor.low, target.high, anchor.high);
  axis_deltas<float, N> deltas{
      real(0.5f) * twice / anchor.size,
      log_ratio(target.size, target.size_lost, anchor.size, anchor.size_lost)};
  // Neither 0, negative, NaN nor so large that something overflows.
  const real least = min(target.size, anchor.size), largest = max(target.size, anchor.size);
  const real extreme = max(largest, abs(twice));
  const auto plain = select(least >= real(1e-25f), extreme, real(1e30f)) < real(1e25f);
  if (!all(plain)) encode_odd_axis(target, anchor, corners, plain, deltas);
  return deltas;
}
template <int N>
VECDET_INLINE axis_deltas<double, N> encode_axis(const extent<double, N>& target,
                                                 const extent<double, N>& anchor, bool) {
  return encode_axis(target, anchor);
}

/// The boxes that `anchors` are, as deltas that decode to `targets` (corners) from them.
template <class Real, int N>
VECDET_INLINE box_pack<Real, N> encode(const box_pack<Real, N>& targets,
                                       const box_pack<Real, N>& anchors, bool corners,
                                       const Real (&weights)[4]) {
  using on_axis = extent<Real, N>;
  using real = pack<Real, N>;
  const auto x = encode_axis(on_axis::of_corners(targets.x1, targets.x2),
                             on_axis::of(corners, anchors.x1, anchors.x2), corners);
  const auto y = encode_axis(on_axis::of_corners(targets.y1, targets.y2),
                             on_axis::of(corners, anchors.y1, anchors.y2), corners);
  return {x.centre * real(weights[0]), y.centre * real(weights[1]), x.size * real(weights[2]),
          y.size * real(weights[3])};
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
  Real low, high;                         ///< bounds of the size's logarithm
  Real exp_low, exp_high;                 ///< their exponentials

  /// low and high may be infinite.
  decoder(const double (&weights)[4], double low_size, double high_size)
      : low(static_cast<Real>(low_size)), high(static_cast<Real>(high_size)) {
    for (int axis = 0; axis < 2; ++axis) {
      centre[axis] = static_cast<Real>(1 / weights[axis]);
      size[axis] = static_cast<Real>(1 / weights[2 + axis]);
      size_lost[axis] = static_cast<Real>(1 / weights[2 + axis] - static_cast<double>(size[axis]));
    }
    exp_low = exp_of(low_size);
    exp_high = exp_of(high_size);
  }

  template <int N>
  VECDET_INLINE axis_ends<Real, N> decode_axis(int axis, const pack<Real, N>& centre_delta,
                                               const pack<Real, N>& size_delta,
                                               const pack<Real, N>& anchor_centre,
                                               const pack<Real, N>& anchor_size) const {
    using real = pack<Real, N>;
    const real log_size = size_delta * real(size[axis]);
    const real lost = fma(size_delta, real(size_lost[axis]),
                          fma(size_delta, real(size[axis]), real(Real(0)) - log_size));
    real factor = exp_sum(log_size, lost);
    factor = select(log_size > real(high), real(exp_high),
                    select(log_size < real(low), real(exp_low), factor));
    const real half = anchor_size * real(Real(0.5)) * factor;  // overflows no sooner than the ends
    const real at = fma(anchor_size, centre_delta * real(centre[axis]), anchor_centre);
    return {at - half, at + half, half + half};
  }

  /// Whether the size's gradient passes: not where it was cut off. NaN passes.
  template <int N>
  VECDET_INLINE pack<Real, N> slope(int axis, const pack<Real, N>& size_delta) const {
    using real = pack<Real, N>;
    const real log_size = size_delta * real(size[axis]);
    return select(log_size > real(high), real(Real(0)),
                  select(log_size < real(low), real(Real(0)), real(size[axis])));
  }

 private:
  static Real exp_of(double x) {
    alignas(64) double lane[batch_lanes<double>];
    store_pack<1>(lane, exp_sum(pack<double, 1>(x), pack<double, 1>(0.0)));
    return static_cast<Real>(lane[0]);
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

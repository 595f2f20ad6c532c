// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of boxes as equations on packs.
//
//   dx = wx (gx - ax) / aw      gx = ax + aw dx / wx
//   dw = ww log(gw / aw)        gw = aw exp(clamp(dw / ww))
//
// and likewise for y and height. The code handles one axis at a time; box_halves holds both side by
// side.
#pragma once

#include <vecdet/kernels/boxes.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/math_boxes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// The rounded sum of two numbers and its rounding error (Knuth; neither needs to be the larger).
template <class Real, int N>
struct exact_sum {
  pack<Real, N> high, low;
};
template <class Real, int N>
VECDET_INLINE exact_sum<Real, N> exact_difference(const pack<Real, N>& a, const pack<Real, N>& b) {
  const pack<Real, N> s = VECDET_ORDERED(subtract_by_fma(a, b)), v = VECDET_ORDERED(s - a);
  return {s, VECDET_ORDERED(a - VECDET_ORDERED(s - v)) - VECDET_ORDERED(add_by_fma(b, v))};
}

/// (a - b) + (c - d), rounded about once even under cancellation; NaN if something overflows. If
/// the sum of the two differences cancels, it is exact (Sterbenz).
template <class Real, int N>
VECDET_INLINE pack<Real, N> sum_of_differences(const pack<Real, N>& a, const pack<Real, N>& b,
                                               const pack<Real, N>& c, const pack<Real, N>& d) {
  const auto first = exact_difference(a, b), second = exact_difference(c, d);
  return VECDET_ORDERED(first.high + second.high) + (first.low + second.low);
}

/// The same, but infinite if something overflows.
template <class Real, int N>
VECDET_INLINE pack<Real, N> any_sum_of_differences(const pack<Real, N>& a, const pack<Real, N>& b,
                                                   const pack<Real, N>& c, const pack<Real, N>& d) {
  const auto plain = VECDET_ORDERED(a - b) + VECDET_ORDERED(c - d);
  return select(abs(plain) < pack<Real, N>(infinity<Real>()), sum_of_differences(a, b, c, d),
                plain);
}

/// The size of an anchor on one axis and its rounding error, from the anchor's ends or from its
/// centre and size.
template <bool Corners, class Real, int N>
VECDET_INLINE exact_sum<Real, N> anchor_size(const pack<Real, N>& first,
                                             const pack<Real, N>& second) {
  if constexpr (Corners) return exact_difference(second, first);
  return {second, pack<Real, N>(Real(0))};
}
/// The second number in a sum over an anchor's two ends: the upper end; for centre-and-size
/// formats, the centre again.
template <bool Corners, class Real, int N>
VECDET_INLINE const pack<Real, N>& anchor_high(const pack<Real, N>& first,
                                               const pack<Real, N>& second) {
  return Corners ? second : first;
}

/// The deltas of any numbers before weights are applied, on one axis or on both at once.
template <bool Corners, int N>
VECDET_INLINE box_halves<double, N> encode_any(const pack<double, N>& g1, const pack<double, N>& g2,
                                               const pack<double, N>& a1,
                                               const pack<double, N>& a2) {
  const auto size = anchor_size<Corners>(a1, a2).high;
  const auto twice = any_sum_of_differences(g1, a1, g2, anchor_high<Corners>(a1, a2));
  return {pack<double, N>(0.5) * twice / size, log_ratio(g2 - g1, size)};
}

/// The same for float boxes, for numbers that are too large, too small or not finite.
template <bool Corners, int N>
VECDET_NOINLINE void encode_extreme_boxes(const box_halves<float, N>& targets,
                                          const box_halves<float, N>& anchors,
                                          box_halves<float, N>& deltas) {
  const auto exact = encode_any<Corners>(widen(targets.first), widen(targets.second),
                                         widen(anchors.first), widen(anchors.second));
  deltas = {narrow(exact.first), narrow(exact.second)};
}

/// The deltas that decode to the boxes at `targets` (corners) from those at `anchors`, before
/// weights are applied.
template <bool Corners, int N, class Boxes>
VECDET_INLINE auto encode_at(const Boxes& targets, const Boxes& anchors) {
  const auto g = load_halves<N>(targets), a = load_halves<N>(anchors);
  using halves = std::decay_t<decltype(g)>;
  if constexpr (std::is_same<halves, box_halves<double, N>>::value) {
    return encode_any<Corners>(g.first, g.second, a.first, a.second);
  } else {
    using real = pack<float, N>;
    // Differences carry their rounding errors, so nothing is lost to cancellation.
    const auto size = exact_difference(g.second, g.first);
    const auto anchor = anchor_size<Corners>(a.first, a.second);
    const real twice =
        sum_of_differences(g.first, a.first, g.second, anchor_high<Corners>(a.first, a.second));
    halves deltas{real(0.5f) * twice / anchor.high,
                  log_ratio(size.high, size.low, anchor.high, anchor.low)};
    // Numbers are plain if log_ratio takes their sizes and their shifts do not overflow. The sum
    // shows NaN and infinities from any source.
    const real least = min(size.high, anchor.high);
    const real sum = size.high + anchor.high + abs(deltas.first);
    const auto plain = [](const auto& l, const auto& s) VECDET_INLINE_LAMBDA {
      using same = std::decay_t<decltype(l)>;
      return (l >= same(0x1p-62f)) & (s < same(0x1p62f));
    };
    if (__builtin_expect(!all(plain(least_batch(least), sum_of_batches(sum))), 0)) {
      // Loaded again, so that g and a stay in registers: nothing takes their addresses.
      const halves extreme_targets = load_halves<N>(targets),
                   extreme_anchors = load_halves<N>(anchors);
      halves extreme;
      encode_extreme_boxes<Corners, N>(extreme_targets, extreme_anchors, extreme);
      const auto is_plain = plain(least, sum);
      deltas = {select(is_plain, deltas.first, extreme.first),
                select(is_plain, deltas.second, extreme.second)};
    }
    return deltas;
  }
}

template <class S, class Real, int N>
VECDET_INLINE box_halves<Real, N> weighted(const box_halves<Real, N>& deltas,
                                           const Real (&weights)[4]) {
  return {deltas.first * by_axis<S, N>(weights[0], weights[1]),
          deltas.second * by_axis<S, N>(weights[2], weights[3])};
}

/// A box on one axis.
template <class Real, int N>
struct axis_ends {
  pack<Real, N> low, high;
  pack<Real, N> size;
};

/// The weights and the clamp in the form that decoding needs, for the axis of each lane.
template <class Real, int N>
struct axis_code {
  pack<Real, N> centre, size, size_lost, binary_size, low, high;

  VECDET_INLINE axis_ends<Real, N> decode(const pack<Real, N>& centre_delta,
                                          const pack<Real, N>& size_delta,
                                          const pack<Real, N>& anchor_centre,
                                          const pack<Real, N>& anchor_size) const {
    using real = pack<Real, N>;
    const real factor = exp_product(max(low, min(high, size_delta)), size, size_lost, binary_size);
    const real half = anchor_size * real(Real(0.5)) * factor;  // overflows only if the ends do
    const real at = fma(anchor_size, centre_delta * centre, anchor_centre);
    return {at - half, at + half, half + half};
  }
};

template <class Real>
struct decoder {
  Real centre[2];            ///< 1 / weight
  exp_factor<Real> size[2];  ///< likewise
  Real low[2], high[2];      ///< bounds of dw and dh
  bool cuts[2];              ///< whether low and high come from the clamp

  /// low_size and high_size bound dw and dh after division by the weights; they may be infinite.
  decoder(const double (&weights)[4], double low_size, double high_size)
      : size{exp_factor<Real>(1 / weights[2]), exp_factor<Real>(1 / weights[3])} {
    constexpr double limit = exp_limit<Real>;
    cuts[0] = low_size > -limit;
    cuts[1] = high_size < limit;
    for (int axis = 0; axis < 2; ++axis) {
      const double weight = weights[2 + axis];
      centre[axis] = static_cast<Real>(1 / weights[axis]);
      low[axis] = static_cast<Real>((cuts[0] ? low_size : -limit) * weight);
      high[axis] = static_cast<Real>((cuts[1] ? high_size : limit) * weight);
    }
  }

  /// The code for packs of one axis.
  template <int N>
  VECDET_INLINE axis_code<Real, N> axis(int k) const {
    return {centre[k], size[k].high, size[k].low, size[k].binary, low[k], high[k]};
  }
  /// The code for halves of boxes with storage S.
  template <class S, int N>
  VECDET_INLINE axis_code<Real, N> axes() const {
    return {by_axis<S, N>(centre[0], centre[1]),     by_axis<S, N>(size[0].high, size[1].high),
            by_axis<S, N>(size[0].low, size[1].low), by_axis<S, N>(size[0].binary, size[1].binary),
            by_axis<S, N>(low[0], low[1]),           by_axis<S, N>(high[0], high[1])};
  }

  /// The factor of a gradient through dw or dh: 0 if the clamp cut it off.
  template <int N>
  VECDET_INLINE pack<Real, N> size_slope(int k, const pack<Real, N>& size_delta) const {
    using real = pack<Real, N>;
    real slope = size[k].high;
    if (cuts[0]) slope = select(size_delta < real(low[k]), real(Real(0)), slope);
    if (cuts[1]) slope = select(size_delta > real(high[k]), real(Real(0)), slope);
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

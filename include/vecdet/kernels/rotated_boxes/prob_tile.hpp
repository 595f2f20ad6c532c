// SPDX-License-Identifier: Apache-2.0
// Some rotated boxes with what their ProbIoUs need, computed in double and rounded once.
#pragma once

#include <vecdet/kernels/rotated_boxes/prob_terms.hpp>
#include <vecdet/kernels/rotated_boxes/tile.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// The deviations P and K of 16 boxes and the direction of the longer side.
struct prob_row {
  row_pack<double> p, k, cosine, sine;
  pack_mask<double, row_pack<double>::batches> is_tall;

  VECDET_INLINE explicit prob_row(const turned_row& row) : is_tall(row.h > row.w) {
    using real = row_pack<double>;
    const real per_deviation = prob_per_deviation;
    p = per_deviation * max(row.w, row.h), k = per_deviation * min(row.w, row.h);
    cosine = select(is_tall, real(0.0) - row.sine, row.cosine);
    sine = select(is_tall, row.cosine, row.sine);
  }
};

/// Up to Capacity boxes, a multiple of 16.
///
/// The reach is a bound for pruning. The Gaussian's variance along the x axis is V, an element of
/// its covariance matrix. For any symmetric positive S, d_x^2 <= S_xx d^T S^-1 d (Cauchy's
/// inequality), so with prob_terms.hpp's m and det = det(S1 + S2)
///
///   d_x^2 <= 4 (V1 + V2) m (1 + eps / det).
///
/// Since det >= 4 g1 g2, D >= 4 g1 g2 / (4 g1 g2 + eps), so B >= m - eps / (8 g1 g2). For g of at
/// least 0.005, eps / det is at most 1e-3, and B >= m - 5e-4. Hence boxes whose B is at most L have
///
///   d_x^2 <= 4 (V1 + V2) (L + 5e-4) (1 + 1e-3).
///
/// The reach along x is sqrt(V), and infinite for smaller boxes. The same holds along y.
template <class Real, int Capacity>
struct prob_tile {
  static constexpr int capacity = Capacity;
  alignas(64) Real x[Capacity], y[Capacity], longer[Capacity], shorter[Capacity];
  alignas(64) Real along_x[Capacity], along_y[Capacity], across_x[Capacity], across_y[Capacity];
  alignas(64) Real excess_x[Capacity], excess_y[Capacity], root[Capacity];
  alignas(64) Real reach_x[Capacity], reach_y[Capacity];
  bool extreme[Capacity];  // products may overflow in float, or eps outweighs them
  bool has_extreme;

  /// Loads consecutive boxes.
  template <class T>
  VECDET_INLINE void fill(const T* boxes, index_t stride, index_t first, int size,
                          detail::angle_rule rule) {
    fill<T>(consecutive_rows<T>{boxes, stride, first, size}, size, rule);
  }
  /// Loads the boxes rows(0), rows(1) and so on, a multiple of 16 and at least `size`.
  template <class T, class Rows>
  VECDET_NOINLINE void fill(const Rows& rows, int size, detail::angle_rule rule) {
    using real = row_pack<double>;
    has_extreme = false;
    for (int i = 0; i < size; i += row_lanes) {
      const turned_row row = load_turned_row<T>(rows, i, rule);
      const real zero = 0.0, nan = not_a_number<double>();
      const prob_row turned(row);
      const real &p = turned.p, &k = turned.k, &c = turned.cosine, &s = turned.sine;
      const real e = sqrt((p - k) * (p + k)), g = p * k;
      store_rounded(x + i, row.x);
      store_rounded(y + i, row.y);
      store_rounded(longer + i, p);
      store_rounded(shorter + i, k);
      store_rounded(along_x + i, p * c);
      store_rounded(along_y + i, p * s);
      store_rounded(across_x + i, k * c);
      store_rounded(across_y + i, k * s);
      store_rounded(excess_x + i, e * c);
      store_rounded(excess_y + i, e * s);
      store_rounded(root + i, select(row.is_box, g, nan));
      const real least_root = 0.005, endless = std::numeric_limits<double>::infinity();
      const auto is_bounded = row.is_box & (g >= least_root);
      const auto deviation = [&](const real& along, const real& across) VECDET_INLINE_LAMBDA {
        return select(is_bounded, sqrt(square(p * along) + square(k * across)), endless);
      };
      store_rounded(reach_x + i, deviation(c, s));
      store_rounded(reach_y + i, deviation(s, c));
      if constexpr (std::is_same<T, float>::value) {
        // The product of two determinants is below 2^127 for sides up to 2^16. Where g is small,
        // numbers close to eps are subtracted.
        const std::uint32_t bits =
            to_bits(((g > zero) & (g < least_root)) | (max(row.w, row.h) > real(0x1p16)) |
                    (max(abs(row.x), abs(row.y)) > real(0x1p30)));
        for (int j = 0; j < row_lanes; ++j) extreme[i + j] = (bits >> j & 1) != 0;
        has_extreme = has_extreme || bits != 0;
      }
    }
  }

  /// Multiplies the reach of 16 boxes.
  VECDET_INLINE void scale_reach(Real factor) {
    using real = row_pack<Real>;
    for (Real* const reach : {reach_x, reach_y})
      store_pack<real::batches>(reach, load_pack<real::batches>(reach) * real(factor));
  }

  template <int N>
  VECDET_INLINE prob_pack<Real, N> at(int i) const {
    const auto read = [&](const Real* from) VECDET_INLINE_LAMBDA { return load_pack<N>(from + i); };
    return {read(x),        read(y),        read(longer),   read(shorter),
            read(along_x),  read(along_y),  read(across_x), read(across_y),
            read(excess_x), read(excess_y), read(root)};
  }
  /// Box i in every lane.
  template <int N>
  VECDET_INLINE prob_pack<Real, N> repeated(int i) const {
    using real = pack<Real, N>;
    return {real(x[i]),        real(y[i]),        real(longer[i]),   real(shorter[i]),
            real(along_x[i]),  real(along_y[i]),  real(across_x[i]), real(across_y[i]),
            real(excess_x[i]), real(excess_y[i]), real(root[i])};
  }
};

template <class Real>
using prob_row_tile = prob_tile<Real, row_lanes>;

/// Writes the ProbIoUs of 16 pairs: of each box of a, or of box `only` of it, with the box of b in
/// the same place.
template <bool All, class Real>
VECDET_INLINE void prob_ious_of_sixteen(const prob_row_tile<Real>& a, int only,
                                        const prob_row_tile<Real>& b, Real* iou) {
  constexpr int N = 1, lanes = pack<Real, N>::lanes;
  const auto repeated = a.template repeated<N>(only);
  for (int i = 0; i < row_lanes; i += lanes)
    store_pack<N>(iou + i, prob_iou_of(All ? a.template at<N>(i) : repeated, b.template at<N>(i)));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

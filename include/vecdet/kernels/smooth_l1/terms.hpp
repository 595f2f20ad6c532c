// SPDX-License-Identifier: Apache-2.0
// Smooth L1 as an equation on packs.
#pragma once

#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class Real, int N>
struct smooth_l1_terms {
  pack<Real, N> loss;
  pack<Real, N> slope;  ///< dL/dd
};

/// beta and values derived from it. A beta whose reciprocal overflows is treated as 0, pure L1: so
/// small a parabola holds no number except 0.
template <class Real>
struct smooth_l1_curve {
  Real beta, reciprocal;

  explicit smooth_l1_curve(double given_beta)
      : beta(static_cast<Real>(given_beta)), reciprocal(Real(1) / beta) {
    if (!(reciprocal < infinity<Real>())) beta = reciprocal = 0;
  }

  /// With s = |d|, m = min(s, beta), and g = 1 if s > beta, else s / beta: dL/dd = sign(d) g and L
  /// = g (s - m/2). For beta = 0, a reciprocal of 0 gives the limits. NaN stays NaN.
  template <int N>
  VECDET_INLINE smooth_l1_terms<Real, N> operator()(const pack<Real, N>& d) const {
    using real = pack<Real, N>;
    const real s = abs(d);
    const real m = min(real(beta), s);
    const real g = select(s > real(beta), real(Real(1)), s * real(reciprocal));
    return {g * fnma(real(Real(0.5)), m, s), g | (d & real(Real(-0.0)))};
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

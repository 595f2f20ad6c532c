// SPDX-License-Identifier: Apache-2.0
// The sigmoid focal loss as an equation on packs (Lin et al., arXiv 1708.02002, eq. 5), for a
// negative: with p = 1/(1+exp(-x)) and softplus(x) = log(1+exp(x)),
//
//   L = p^gamma softplus(x)         dL/dx = p^gamma (gamma (1-p) softplus(x) + p)
//
// A positive is the negative of -x with the gradient's sign turned. Everything comes from one
// exp(-|x|), one log1p and one division; nothing is lost for large |x| on either side.
#pragma once

#include <vecdet/simd/math.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T, int N>
struct focal_terms {
  pack<T, N> modulation, cross_entropy;  ///< the loss is their product
  pack<T, N> grad;                       ///< times the weight
};

/// What a negative's loss and gradient share: L = modulation * cross_entropy and
/// dL/dx = modulation * slope.
template <int N>
struct focal_factors {
  pack<float, N> modulation;     ///< p^gamma
  pack<float, N> cross_entropy;  ///< softplus(x)
  pack<float, N> slope;          ///< gamma (1-p) softplus(x) + p
};

/// p = e / (1 + e), computed with an error, such that the slope made of it takes back some of what
/// the error does to p^2: e - p - e p is (1 + e) times the error, and p + 2 (e - p - e p) has the
/// opposite one. Without fma there are more roundings; 4 then takes back nearly all.
template <int N>
VECDET_INLINE pack<float, N> compensated(const pack<float, N>& e, const pack<float, N>& p) {
  if constexpr (has_fma) return fnma(e + e, p, e + e - p);
  return p + pack<float, N>(4.0f) * (e - p - e * p);
}

/// For gamma = 0, 1 or 2. `finite` is softplus(x) other than inf, gamma_q = gamma (1-p).
template <int Gamma, int N>
VECDET_INLINE focal_factors<N> focal_factors_of(const pack<float, N>& p,
                                                const pack<float, N>& compensated_p,
                                                const pack<float, N>& gamma_q,
                                                const pack<float, N>& softplus,
                                                const pack<float, N>& finite) {
  if constexpr (Gamma == 0) {
    return {1.0f, softplus, fma(gamma_q, finite, p)};  // NaN comes by softplus alone
  } else if constexpr (Gamma == 1) {
    return {p, softplus, fma(gamma_q, finite, p)};
  } else {
    return {p * p, softplus, fma(gamma_q, finite, compensated_p)};
  }
}

/// Logits below 0 from which on negative_focal_factors_below_zero holds. exp_minus_abs does not
/// reach 0, which only gamma = 0 shows: its factors are as small as exp, those of the others as
/// exp's square.
template <int Gamma>
constexpr float least_focal_logit = Gamma == 0 ? -86.63f : -infinity<float>;

/// gamma = 0, 1 or 2, in float, given also exp(-|x|): loss and gradient within what focal_loss.hpp
/// says, also with a weight multiplied in. At +inf, loss inf and gradient 1; at -inf, both 0.
template <int Gamma, int N>
VECDET_INLINE focal_factors<N> negative_focal_factors(const pack<float, N>& x,
                                                      const pack<float, N>& exp) {
  using real = pack<float, N>;
  const real least = exp_minus_abs_end;
  const real e = Gamma == 0 ? select(exp > least, exp, real(0.0f)) : exp;
  const real a = e / (real(1.0f) + e);
  const real softplus = add_positive(real(0.5f) * twice_log1p_unit(e), x);
  const real r = real(1.0f) - a;
  const real ea = fnma(e, a, e);  // e - e a keeps small e's last bits
  const real p = select_negative(x, ea, r);
  const real compensated_p = select_negative(x, compensated(e, ea), r);
  const real q = select_negative(x, r, a);
  const real gamma_q = Gamma == 2 ? q + q : real(float{Gamma}) * q;
  const real finite = min(real(1e28f), softplus);  // where q has vanished, it wins over softplus
  return focal_factors_of<Gamma>(p, compensated_p, gamma_q, softplus, finite);
}

/// The same bits for least_focal_logit <= x <= 0, in fewer operations, but for twice the cross
/// entropy.
template <int Gamma, int N>
VECDET_INLINE focal_factors<N> negative_focal_factors_below_zero(const pack<float, N>& e) {
  using real = pack<float, N>;
  const real a = e / (real(1.0f) + e);
  const real twice_softplus = twice_log1p_unit(e);
  const real p = fnma(e, a, e);
  const real compensated_p = compensated(e, p);
  const real q = real(1.0f) - a;
  const real half_gamma_q = Gamma == 2 ? q : real(0.5f * Gamma) * q;
  return focal_factors_of<Gamma>(p, compensated_p, half_gamma_q, twice_softplus, twice_softplus);
}

constexpr int any_gamma = -1;

/// Any target t in [0, 1], in double: with miss = 1 - p_t = p (1-t) + (1-p) t and
/// ce = t softplus(-x) + (1-t) softplus(x),
///
///   L = miss^gamma ce       dL/dx = miss^gamma (p - t + gamma (1-2t) p (1-p) / miss ce)
///
/// Gamma is 2 or any_gamma, for which `gamma` tells it. A factor 0 wins over an infinite one, as it
/// does in the limits.
template <int Gamma, int N>
VECDET_INLINE focal_terms<double, N> soft_focal_terms(const pack<double, N>& x,
                                                      const pack<double, N>& t,
                                                      const pack<double, N>& weight,
                                                      const pack<double, N>& gamma) {
  using real = pack<double, N>;
  const real zero = 0.0, one = 1.0, largest = 1.7976931348623157e308;
  const real e = exp_minus(abs(x));
  const real r = one / (one + e);
  const real er = e * r;
  const real p = select_by_sign(x, er, r);
  const real q = select_by_sign(x, r, er);
  const real log1p_e = log1p_unit(e);
  const real softplus = max(x, zero) + log1p_e;
  const real softplus_minus = max(zero - x, zero) + log1p_e;

  const auto is_negative = t == zero;
  const auto is_positive = t == one;
  const real s = one - t;
  const real miss = fma(p, s, q * t);
  const real error = p * s - q * t;  // p - t
  const real ce = select(is_negative, softplus,
                         select(is_positive, softplus_minus, fma(t, softplus_minus, s * softplus)));
  const real finite_ce = min(largest, ce);
  if constexpr (Gamma == 2) {
    const real power = miss * miss;
    const real focusing = (s - t) * (p + p) * q * finite_ce;
    return {power, select(power == zero, finite_ce, ce),
            weight * miss * fma(miss, error, focusing)};
  } else {
    const real minus_log_miss =
        select(is_negative, softplus_minus, select(is_positive, softplus, minus_log(miss)));
    const real power = exp_minus(gamma * min(largest, minus_log_miss));
    const real slope = select(is_negative, q, select(is_positive, p, p * q / miss));
    const real focusing = gamma * (s - t) * slope * finite_ce;
    return {power, select(power == zero, finite_ce, ce), weight * power * (error + focusing)};
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

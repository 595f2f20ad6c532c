// SPDX-License-Identifier: Apache-2.0
// The sigmoid focal loss as an equation on packs (Lin et al., arXiv 1708.02002, eq. 5), for a
// negative: with p = 1/(1+exp(-x)) and softplus(x) = log(1+exp(x)),
//
//   L = p^gamma softplus(x)         dL/dx = p^gamma (gamma (1-p) softplus(x) + p)
//
// A positive is the negative of -x with the gradient's sign turned. Everything comes from one
// exp(-|x|), one log1p and one division; nothing is lost for large |x| on either side. Then for any
// target, in float and in double.
#pragma once

#include <vecdet/simd/math.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// (high + low) x, for low much smaller than high.
template <int N>
VECDET_INLINE pack<float, N> weighted(const pack<float, N>& high, const pack<float, N>& low,
                                      const pack<float, N>& x) {
  if constexpr (has_fma) return fma(high, x, low * x);
  return narrow((widen(high) + widen(low)) * widen(x));
}

/// A weight as the sum of two floats, so that its own rounding costs no accuracy.
struct split_weight {
  float high, low;

  explicit split_weight(double weight)
      : high(static_cast<float>(weight)),
        low(static_cast<float>(weight - static_cast<double>(high))) {}

  template <int N>
  VECDET_INLINE pack<float, N> times(const pack<float, N>& x) const {
    return weighted<N>(high, low, x);
  }
};

template <class T, int N>
struct focal_terms {
  pack<T, N> modulation, cross_entropy;  ///< the loss is their product
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

/// The same for least_focal_logit <= x <= 0, bit for bit, in fewer operations; but `cross_entropy`
/// is twice the cross entropy.
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

/// focal_terms and the gradient, with a weight of each element's own.
template <class T, int N>
struct weighted_focal_terms {
  pack<T, N> modulation, weighted_modulation, cross_entropy;
  pack<T, N> grad;  ///< times the weight
};

/// Any target t in [0, 1] and gamma 0, 1 or 2, in float, given also exp(-|x|). With y = -|x|, whose
/// target is u = t for negative x and 1-t elsewhere, a = 1/(1+exp(-y)), r = 1-a and v = 1-u,
///
///   miss = a v + r u       ce = log(1 + exp(y)) + |x| u
///   L = miss^gamma ce      dL/dy = miss^gamma (a v - r u) + gamma miss^(gamma-1) (v-u) a r ce
///
/// where nothing cancels but the gradient's terms each other. Where t is 0 or 1, loss and gradient
/// have the bits that negative_focal_factors gives. `focusing`, 0 or 1, is a factor of the term
/// with gamma.
template <int Gamma, int N>
VECDET_INLINE weighted_focal_terms<float, N> float_focal_terms(
    const pack<float, N>& x, const pack<float, N>& exp, const pack<float, N>& t,
    const split_weight& positive, const split_weight& negative, float focusing) {
  using real = pack<float, N>;
  const real zero = 0.0f, one = 1.0f, least = exp_minus_abs_end;
  const real e = Gamma == 0 ? select(exp > least, exp, zero) : exp;
  const real a = e / (one + e);
  const real r = one - a;
  const real ea = fnma(e, a, e);
  const real s = one - t;
  const real u = select_by_sign(x, t, s), v = select_by_sign(x, s, t);
  // 0 wins over an infinite logit.
  const real limit = select(u == zero, real(largest<float>), real(infinity<float>));
  const real cross_entropy = fma(min(limit, abs(x)), u, real(0.5f) * twice_log1p_unit(e));
  const real finite = min(real(100.0f), cross_entropy);  // beyond, a has vanished and wins
  const real miss = fma(r, u, ea * v);
  const real error = fnma(r, u, v * (Gamma == 2 ? compensated(e, ea) : ea));
  const real slope = real(focusing) * fnma(u, a, v * r);
  const real high = fma(real(positive.high), t, real(negative.high) * s);
  const real low = fma(real(positive.low), t, real(negative.low) * s);
  const real power = Gamma == 0 ? one : Gamma == 1 ? miss : miss * miss;
  const real weighted_power = weighted(high, low, power);
  const real hard_grad =
      weighted_power * fma(Gamma == 2 ? slope + slope : real(float{Gamma}) * slope, finite, error);
  real grad = hard_grad;
  if constexpr (Gamma != 0) {
    const real soft_slope = real(Gamma * focusing) * ((v - u) * (a * r));
    const real soft_grad =
        (Gamma == 2 ? high * miss : high) * fma(soft_slope, finite, miss * error);
    grad = select(u * v == zero, hard_grad, soft_grad);
  }
  return {power, weighted_power, cross_entropy, select_by_sign(x, grad, grad ^ real(-0.0f))};
}

constexpr int any_gamma = -1;

/// What the equations in double share: p, q = 1-p, and the softplus of x and of -x.
template <int N>
struct sigmoid_terms {
  pack<double, N> p, q, softplus, softplus_minus;

  VECDET_INLINE explicit sigmoid_terms(const pack<double, N>& x) {
    using real = pack<double, N>;
    const real zero = 0.0, one = 1.0;
    const real e = exp_minus(abs(x));
    const real r = one / (one + e);
    const real er = e * r;
    p = select_by_sign(x, er, r);
    q = select_by_sign(x, r, er);
    const real log1p_e = log1p_unit(e);
    softplus = max(x, zero) + log1p_e;
    softplus_minus = max(zero - x, zero) + log1p_e;
  }
};

/// What those with targets share besides: 1-t, p - t and the cross entropy t softplus(-x) + (1-t)
/// softplus(x).
template <int N>
struct target_terms : sigmoid_terms<N> {
  pack<double, N> s, error, cross_entropy, finite;

  VECDET_INLINE target_terms(const pack<double, N>& x, const pack<double, N>& t)
      : sigmoid_terms<N>(x) {
    using real = pack<double, N>;
    const real zero = 0.0, one = 1.0;
    const sigmoid_terms<N>& of = *this;
    s = one - t;
    error = of.p * s - of.q * t;
    cross_entropy =
        select(t == zero, of.softplus,
               select(t == one, of.softplus_minus, fma(t, of.softplus_minus, s * of.softplus)));
    finite = min(real(largest<double>), cross_entropy);
  }
};

/// Any target t in [0, 1], in double: with miss = 1 - p_t = p (1-t) + (1-p) t and
/// ce = t softplus(-x) + (1-t) softplus(x),
///
///   L = miss^gamma ce       dL/dx = miss^gamma (p - t + gamma (1-2t) p (1-p) / miss ce)
///
/// Gamma is 2 or any_gamma, for which `gamma` tells it. A factor 0 wins over an infinite one, as it
/// does in the limits. `focusing`, 0 or 1, is a factor of the term with gamma.
template <int Gamma, int N>
VECDET_INLINE weighted_focal_terms<double, N> double_focal_terms(const pack<double, N>& x,
                                                                 const pack<double, N>& t,
                                                                 const pack<double, N>& weight,
                                                                 double gamma, double focusing) {
  using real = pack<double, N>;
  const real zero = 0.0, one = 1.0;
  const target_terms<N> of(x, t);
  const real miss = fma(of.p, of.s, of.q * t);
  if constexpr (Gamma == 2) {
    const real power = miss * miss;
    const real focused = (of.s - t) * (of.p + of.p) * of.q * of.finite * real(focusing);
    return {power, weight * power, select(power == zero, of.finite, of.cross_entropy),
            weight * miss * fma(miss, of.error, focused)};
  } else {
    const auto is_negative = t == zero;
    const auto is_positive = t == one;
    const real minus_log_miss =
        select(is_negative, of.softplus_minus, select(is_positive, of.softplus, minus_log(miss)));
    const real power = exp_minus(real(gamma) * min(real(largest<double>), minus_log_miss));
    const real slope = select(is_negative, of.q, select(is_positive, of.p, of.p * of.q / miss));
    const real focused = real(gamma) * (of.s - t) * slope * of.finite * real(focusing);
    return {power, weight * power, select(power == zero, of.finite, of.cross_entropy),
            weight * power * (of.error + focused)};
  }
}

/// double_focal_terms of t = 0 and any gamma, bit for bit, in fewer operations.
template <int N>
VECDET_INLINE weighted_focal_terms<double, N> double_negative_terms(const pack<double, N>& x,
                                                                    const pack<double, N>& weight,
                                                                    double gamma, double focusing) {
  using real = pack<double, N>;
  const real most = largest<double>;
  const sigmoid_terms<N> of(x);
  const real power = exp_minus(real(gamma) * min(most, of.softplus_minus));
  const real finite = min(most, of.softplus);
  const real focused = real(gamma) * of.q * finite * real(focusing);
  return {power, weight * power, select(power == real(0.0), finite, of.softplus),
          weight * power * (of.p + focused)};
}

/// The quality focal loss of a labelled class with target t (Li et al., arXiv 2006.04388): with
/// d = p - t, L = |d|^beta ce and dL/dx = |d|^beta (d + beta p (1-p) ce / d). Where d is 0, so is
/// the gradient.
template <int N>
VECDET_INLINE weighted_focal_terms<double, N> quality_focal_terms(const pack<double, N>& x,
                                                                  const pack<double, N>& t,
                                                                  const pack<double, N>& weight,
                                                                  double beta) {
  using real = pack<double, N>;
  const real zero = 0.0, least = 1e-300;
  const target_terms<N> of(x, t);
  const real distance = abs(of.error);
  const auto is_met = distance < least;
  const real divisor = select(is_met, real(1.0), of.error);
  const real power =
      beta == 2   ? distance * distance
      : beta == 0 ? real(1.0)
                  : select(is_met, zero, exp_minus(real(beta) * minus_log(max(least, distance))));
  const real grad = power * (real(beta) * of.p * of.q * of.finite / divisor + of.error);
  return {power, weight * power, select(power == zero, of.finite, of.cross_entropy),
          weight * select(is_met, zero * of.error, grad)};
}

/// The varifocal loss of a labelled class with target t (Zhang et al., arXiv 2008.13367): t ce.
template <int N>
VECDET_INLINE weighted_focal_terms<double, N> varifocal_terms(const pack<double, N>& x,
                                                              const pack<double, N>& t,
                                                              const pack<double, N>& weight) {
  const target_terms<N> of(x, t);
  return {t, weight * t, select(t == pack<double, N>(0.0), of.finite, of.cross_entropy),
          weight * t * of.error};
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

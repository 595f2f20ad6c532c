// SPDX-License-Identifier: Apache-2.0
// The sigmoid focal loss as an equation on packs (Lin et al., arXiv 1708.02002, eq. 5), for a
// negative: with p = 1/(1+exp(-x)) and softplus(x) = log(1+exp(x)),
//
//   L = p^gamma softplus(x)         dL/dx = p^gamma (gamma (1-p) softplus(x) + p)
//
// A positive is the negative of -x with the gradient's sign flipped. Everything follows from one
// exp(-|x|), one log1p and one division, without loss of accuracy for large |x| of either sign.
// Further below, the same for any target, in float and in double.
#pragma once

#include <vecdet/simd/math.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// (high + low) x, for low much smaller than high.
template <int N>
VECDET_INLINE pack<float, N> weighted(const pack<float, N>& high, const pack<float, N>& low,
                                      const pack<float, N>& x) {
  if constexpr (has_fma) return fma(high, x, low * x);
  return narrow((widen(high) + widen(low)) * widen(x));
}

/// A weight as the sum of two floats: rounding it then costs no accuracy.
struct split_weight {
  float high, low;

  explicit split_weight(double weight)
      : high(VECDET_ORDERED(static_cast<float>(weight))),
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

/// The common terms of a negative's loss and gradient: L = modulation * cross_entropy and dL/dx =
/// modulation * slope.
template <int N>
struct focal_factors {
  pack<float, N> modulation;     ///< p^gamma
  pack<float, N> cross_entropy;  ///< softplus(x)
  pack<float, N> slope;          ///< gamma (1-p) softplus(x) + p
};

/// p = e / (1 + e) with a deliberate error, chosen so that the slope computed from it compensates
/// for some of the error of p^2. e - p - e p is (1 + e) times the error, and p + 2 (e - p - e p)
/// has the opposite error. Without fma, there are more roundings, and the factor 4 compensates for
/// nearly all of it.
template <int N>
VECDET_INLINE pack<float, N> compensated(const pack<float, N>& e, const pack<float, N>& p) {
  if constexpr (has_fma) return fnma(e + e, p, e + e - p);
  return p + pack<float, N>(4.0f) * (e - p - e * p);
}

/// For gamma = 0, 1 or 2. `finite` is softplus(x) clamped to finite numbers; gamma_q = gamma (1-p).
template <int Gamma, int N>
VECDET_INLINE focal_factors<N> focal_factors_of(const pack<float, N>& p,
                                                const pack<float, N>& compensated_p,
                                                const pack<float, N>& gamma_q,
                                                const pack<float, N>& softplus,
                                                const pack<float, N>& finite) {
  if constexpr (Gamma == 0) {
    return {1.0f, softplus, fma(gamma_q, finite, p)};  // only softplus carries NaN
  } else if constexpr (Gamma == 1) {
    return {p, softplus, fma(gamma_q, finite, p)};
  } else {
    return {p * p, softplus, fma(gamma_q, finite, compensated_p)};
  }
}

/// negative_focal_factors_below_zero holds for logits between this and 0. exp_minus_abs does not
/// reach 0. This matters only for gamma = 0: its factors are as small as exp, whereas the other
/// gammas' are as small as the square of exp.
template <int Gamma>
constexpr float least_focal_logit = Gamma == 0 ? -86.63f : -__builtin_huge_valf();

/// gamma = 0, 1 or 2, in float, given exp(-|x|) too. Loss and gradient are as accurate as
/// focal_loss.hpp says, also after multiplication by a weight. `focusing`, 0 or 1, multiplies the
/// slope's term with gamma. At +inf, the loss is inf and the gradient 1; at -inf, both are 0.
template <int Gamma, int N>
VECDET_INLINE focal_factors<N> negative_focal_factors(const pack<float, N>& x,
                                                      const pack<float, N>& exp,
                                                      float focusing = 1.0f) {
  using real = pack<float, N>;
  const real least = exp_minus_abs_end;
  const real e = Gamma == 0 ? select(exp > least, exp, real(0.0f)) : exp;
  const real a = e / (real(1.0f) + e);
  const real softplus = add_positive(real(0.5f) * twice_log1p_unit(e), x);
  const real r = real(1.0f) - a;
  const real ea = fnma(e, a, e);  // e - e a keeps the low bits of a small e
  const real p = select_negative(x, ea, r);
  const real compensated_p = select_negative(x, compensated(e, ea), r);
  const real q = select_negative(x, r, a);
  const real gamma_q = real(focusing) * (Gamma == 2 ? q + q : real(float{Gamma}) * q);
  const real finite = min(real(1e28f), softplus);  // q wins over softplus once it has vanished
  return focal_factors_of<Gamma>(p, compensated_p, gamma_q, softplus, finite);
}

/// The same for least_focal_logit <= x <= 0, bit-identical, in fewer operations, except that
/// `cross_entropy` is twice the cross entropy.
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

/// focal_terms and the gradient, with a separate weight for each element.
template <class T, int N>
struct weighted_focal_terms {
  pack<T, N> modulation, weighted_modulation, cross_entropy;
  pack<T, N> grad;  ///< multiplied by the weight
};

/// -0 or 0, whose sign bit turns a sign. Made of bits, because under -fno-signed-zeros compilers
/// take either zero for the other.
template <class Real>
VECDET_INLINE Real zero_with_sign(bool is_negative) {
  static_assert(sizeof(Real) == 4 || sizeof(Real) == 8, "");
  using bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  const bits sign = bits{is_negative} << (8 * sizeof(Real) - 1);
  Real zero;
  __builtin_memcpy(&zero, &sign, sizeof zero);
  return zero;
}

/// The weights for targets of 1, of 0 and of any t in between. They are expressed through the
/// smaller weight, so that nothing cancels: `least` + `difference` t, or `least` + `difference`
/// (1-t).
struct target_weight {
  split_weight positive, negative, least, difference;
  float falls;  ///< its sign bit is set if the weight of 1 is the smaller

  target_weight(double one_weight, double zero_weight)
      : target_weight(one_weight, zero_weight,
                      __builtin_fabs(one_weight) < __builtin_fabs(zero_weight)) {}

 private:
  target_weight(double one_weight, double zero_weight, bool falling)
      : positive(one_weight),
        negative(zero_weight),
        least(falling ? one_weight : zero_weight),
        difference(falling ? zero_weight - one_weight : one_weight - zero_weight),
        falls(zero_with_sign<float>(falling)) {}
};

/// Targets of 0 and 1, gamma 0, 1 or 2, in float, given exp(-|x|) too. `focusing`, 0 or 1,
/// multiplies the gradient's term with gamma.
template <int Gamma, int N>
VECDET_INLINE weighted_focal_terms<float, N> hard_focal_terms(const pack<float, N>& x,
                                                              const pack<float, N>& exp,
                                                              const pack<float, N>& t,
                                                              const target_weight& weight,
                                                              float focusing) {
  using real = pack<float, N>;
  // 1.0f is 0x3f800000: shifted by 2, its sign bit is set; that of 0 and -0 is not.
  const real is_positive = bit_cast<float>(bit_cast<std::int32_t>(t) << 2);
  const real sign = is_positive & real(-0.0f);
  const real high =
      select_by_sign(is_positive, real(weight.positive.high), real(weight.negative.high));
  const real low =
      select_by_sign(is_positive, real(weight.positive.low), real(weight.negative.low));
  const focal_factors<N> f = negative_focal_factors<Gamma>(x ^ sign, exp, focusing);
  const real modulation = weighted(high, low, f.modulation);
  return {f.modulation, modulation, f.cross_entropy, (modulation * f.slope) ^ sign};
}

/// Targets t between 0 and 1. Let y = -|x|, with target u = t if x is negative and 1-t if not; let
/// a = 1/(1+exp(-y)), r = 1-a and v = 1-u. Then
///
///   miss = a v + r u       ce = log(1 + exp(y)) + |x| u
///   L = miss^gamma ce      dL/dy = miss^gamma (a v - r u) + gamma miss^(gamma-1) (v-u) a r ce
///
/// Only the gradient's terms can cancel each other. Losses are added up after weighting: the
/// modulation includes the weights.
template <int Gamma, int N>
VECDET_INLINE weighted_focal_terms<float, N> soft_focal_terms(const pack<float, N>& x,
                                                              const pack<float, N>& exp,
                                                              const pack<float, N>& t,
                                                              const target_weight& weight,
                                                              float focusing) {
  using real = pack<float, N>;
  const real one = 1.0f;
  const real e = Gamma == 0 ? select(exp > real(exp_minus_abs_end), exp, real(0.0f)) : exp;
  const real a = e / (one + e);
  const real r = one - a;
  const real ea = fnma(e, a, e);
  const real s = one - t;
  const real u = select_by_sign(x, t, s), v = select_by_sign(x, s, t);
  const real cross_entropy = fma(abs(x), u, real(0.5f) * twice_log1p_unit(e));
  const real finite = min(real(100.0f), cross_entropy);  // beyond, a has vanished and wins
  const real target_part = select_by_sign(real(weight.falls), s, t);
  const real least = weight.least.high, difference = weight.difference.high;
  const real high = fma(difference, target_part, least);
  const real rounded = fma(difference, target_part, least - high);
  const real low = fma(real(weight.difference.low), target_part, real(weight.least.low) + rounded);
  const real miss = fma(r, u, ea * v);
  const real minus_slope = real(Gamma * focusing) * ((u - v) * (a * r));
  real power, minus_grad;
  if constexpr (Gamma == 2) {
    // p with its error, corrected, and with the opposite error, which compensates for the first one
    // in miss^2.
    const real lack = fnma(e, ea, e - ea);  // (1 + e) times the error of ea
    const real corrected = fma(r, lack, ea), opposite = fma(r + r, lack, ea);
    const real ru = r * u;
    const real weighted_miss = weighted(high, low, miss);
    power = weighted_miss * fma(opposite, v, ru);
    minus_grad = fma(weighted_miss * minus_slope, finite, power * fnma(corrected, v, ru));
  } else {
    power = weighted(high, low, Gamma == 1 ? miss : one);
    const real minus_error = fnma(ea, v, r * u);  // `finite` carries NaN
    minus_grad = weighted(high, low,
                          fma(minus_slope, finite, Gamma == 1 ? miss * minus_error : minus_error));
  }
  return {power, power, cross_entropy, select_by_sign(x, minus_grad ^ real(-0.0f), minus_grad)};
}

/// Any targets t in [0, 1]; an element's result does not depend on its neighbours.
template <int Gamma, int N>
VECDET_INLINE weighted_focal_terms<float, N> float_focal_terms(const pack<float, N>& x,
                                                               const pack<float, N>& exp,
                                                               const pack<float, N>& t,
                                                               const target_weight& weight,
                                                               float focusing) {
  const auto is_hard = t * t == t;
  auto hard = hard_focal_terms<Gamma>(x, exp, t, weight, focusing);
  if (all(is_hard)) return hard;
  const auto soft = soft_focal_terms<Gamma>(x, exp, t, weight, focusing);
  return {hard.modulation, select(is_hard, hard.weighted_modulation, soft.weighted_modulation),
          select(is_hard, hard.cross_entropy, soft.cross_entropy),
          select(is_hard, hard.grad, soft.grad)};
}

constexpr int any_gamma = -1;

/// Common terms of the equations in double: p, q = 1-p, and the softplus of x and of -x.
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

/// Further common terms of equations with targets: 1-t, p - t and the cross entropy t softplus(-x)
/// + (1-t) softplus(x).
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
/// Gamma is 2, or any_gamma with its value in `gamma`. A factor 0 wins over an infinite one, as it
/// does in the limit. `focusing`, 0 or 1, multiplies the term with gamma.
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

/// double_focal_terms for t = 0 and any gamma, bit-identical, in fewer operations.
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

/// The quality focal loss of a labelled class with target t (Li et al., arXiv 2006.04388): with d =
/// p - t, L = |d|^beta ce and dL/dx = |d|^beta (d + beta p (1-p) ce / d). The gradient is 0 if d is
/// 0.
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

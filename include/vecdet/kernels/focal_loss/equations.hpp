// SPDX-License-Identifier: Apache-2.0
// The equations of the focal loss as a call needs them: with its weights, for its kind of targets
// and its gamma. Those in float take gamma 0, 1 or 2 and targets 0 or 1; those in double, any.
#pragma once

#include <vecdet/kernels/focal_loss/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Rows of 16 lanes that are worked on together: by exp, by the equations in float without targets,
/// and by those with targets. Blocks go through exp first and through the rest afterwards, so that
/// each chain of dependent instructions is short enough for the processor to overlap many, and few
/// registers are live; that is faster than more batches at once. Rounding to bfloat16 takes
/// registers of its own.
constexpr int focal_exp_rows = batch_lanes<float> == 16 ? 4 : 1;
template <class T>
constexpr int focal_label_rows = batch_lanes<float> != 16           ? 1
                                 : std::is_same<T, bfloat16>::value ? 2
                                                                    : 4;
constexpr int focal_target_rows = batch_lanes<float> == 16 ? 2 : 1;

/// The same for the equations in double, whose polynomials are longer.
constexpr int focal_double_rows = batch_lanes<double> == 8 ? 2 : 1;

template <class T>
T minus_infinity() {
  return T(-infinity<compute_type<T>>);
}

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

/// cross_entropy, largest where the weight is 0: 0 wins over an infinite loss.
template <class Real, int N>
VECDET_INLINE pack<Real, N> weighable(Real weight, const pack<Real, N>& cross_entropy) {
  return min(pack<Real, N>(weight == 0 ? largest<Real> : infinity<Real>), cross_entropy);
}

/// Negatives of one weight, gamma 0, 1 or 2, in float. With sign -1 and -x for x, positives.
template <int Gamma>
struct fast_negatives {
  using real = float;
  template <class T>
  static constexpr int rows_in_flight = focal_label_rows<T>;
  static constexpr bool has_targets = false, only_hard = false;
  split_weight loss_weight, grad_weight;

  fast_negatives(double weight, double sign, double)
      : loss_weight(weight), grad_weight(sign * weight) {}

  template <int N>
  VECDET_INLINE focal_terms<float, N> operator()(const pack<float, N>& x,
                                                 const pack<float, N>& e) const {
    return terms_of(negative_focal_factors<Gamma>(x, e));
  }
  static constexpr float least_below_zero = least_focal_logit<Gamma>;
  /// For least_below_zero <= x <= 0, with twice the cross entropy.
  template <int N>
  VECDET_INLINE focal_terms<float, N> below_zero(const pack<float, N>& e) const {
    return terms_of(negative_focal_factors_below_zero<Gamma>(e));
  }
  template <int N>
  VECDET_INLINE pack<float, N> weighted_loss(const pack<float, N>& modulation,
                                             const pack<float, N>& cross_entropy) const {
    return loss_weight.times(modulation) * weighable(loss_weight.high, cross_entropy);
  }

 private:
  template <int N>
  VECDET_INLINE focal_terms<float, N> terms_of(const focal_factors<N>& f) const {
    return {f.modulation, f.cross_entropy, grad_weight.times(f.modulation) * f.slope};
  }
};

/// The same in double, for Gamma 2 or any_gamma.
template <int Gamma>
struct general_negatives {
  using real = double;
  template <class T>
  static constexpr int rows_in_flight = focal_double_rows;
  static constexpr bool has_targets = false, only_hard = false;
  double loss_weight, grad_weight, gamma;

  general_negatives(double weight, double sign, double exponent)
      : loss_weight(weight), grad_weight(sign * weight), gamma(exponent) {}

  template <int N>
  VECDET_INLINE focal_terms<double, N> operator()(const pack<double, N>& x) const {
    return soft_focal_terms<Gamma>(x, pack<double, N>(0.0), pack<double, N>(grad_weight),
                                   pack<double, N>(gamma));
  }
  template <int N>
  VECDET_INLINE pack<double, N> weighted_loss(const pack<double, N>& modulation,
                                              const pack<double, N>& cross_entropy) const {
    return pack<double, N>(loss_weight) * modulation * weighable(loss_weight, cross_entropy);
  }
};

/// Any targets, in double, for Gamma 2 or any_gamma.
template <int Gamma>
struct soft_targets {
  using real = double;
  template <class T>
  static constexpr int rows_in_flight = focal_double_rows;
  static constexpr bool has_targets = true, only_hard = false;
  using soft = soft_targets;
  double positive_weight, negative_weight, gamma;

  template <int N>
  VECDET_INLINE focal_terms<double, N> operator()(const pack<double, N>& x,
                                                  const pack<double, N>& t) const {
    using real_pack = pack<double, N>;
    const real_pack weight =
        fma(real_pack(positive_weight), t, real_pack(negative_weight) * (real_pack(1.0) - t));
    auto terms = soft_focal_terms<Gamma>(x, t, weight, real_pack(gamma));
    terms.modulation = weight * terms.modulation;
    // A weight of 0, or a product so small, wins over an infinite cross entropy.
    terms.cross_entropy =
        select(terms.modulation == real_pack(0.0),
               min(real_pack(largest<double>), terms.cross_entropy), terms.cross_entropy);
    return terms;
  }
  template <int N>
  VECDET_INLINE pack<double, N> weighted_loss(const pack<double, N>& modulation,
                                              const pack<double, N>& cross_entropy) const {
    return modulation * cross_entropy;
  }
};

/// Targets that are all 0 or 1, gamma 0, 1 or 2, in float.
template <int Gamma>
struct hard_targets {
  using real = float;
  template <class T>
  static constexpr int rows_in_flight = focal_target_rows;
  static constexpr bool has_targets = true, only_hard = true;
  split_weight positive_weight, negative_weight;
  using soft = soft_targets<Gamma == 2 ? 2 : any_gamma>;
  soft general;  ///< for blocks with other targets

  explicit hard_targets(const soft& any)
      : positive_weight(any.positive_weight), negative_weight(any.negative_weight), general(any) {}

  /// Not where a weight of 0 may meet an infinite loss.
  bool holds() const { return positive_weight.high != 0 && negative_weight.high != 0; }

  template <int N>
  VECDET_INLINE focal_terms<float, N> operator()(const pack<float, N>& x, const pack<float, N>& e,
                                                 const pack<float, N>& t) const {
    using real_pack = pack<float, N>;
    // 1.0f is 0x3f800000: shifted by 2, its sign bit is set, that of 0 and -0 is not.
    const real_pack is_positive = bit_cast<float>(bit_cast<std::int32_t>(t) << 2);
    const real_pack sign = is_positive & real_pack(-0.0f);
    const real_pack high = select_by_sign(is_positive, real_pack(positive_weight.high),
                                          real_pack(negative_weight.high));
    const real_pack low =
        select_by_sign(is_positive, real_pack(positive_weight.low), real_pack(negative_weight.low));
    const auto [modulation, cross_entropy, slope] = negative_focal_factors<Gamma>(x ^ sign, e);
    const real_pack weighted_modulation = weighted(high, low, modulation);
    return {weighted_modulation, cross_entropy, (weighted_modulation * slope) ^ sign};
  }
  static constexpr float least_below_zero = least_focal_logit<Gamma>;
  /// For least_below_zero <= x <= 0 and t = 0, with twice the cross entropy.
  template <int N>
  VECDET_INLINE focal_terms<float, N> below_zero(const pack<float, N>& e) const {
    const auto [modulation, cross_entropy, slope] = negative_focal_factors_below_zero<Gamma>(e);
    const pack<float, N> weighted_modulation = negative_weight.times(modulation);
    return {weighted_modulation, cross_entropy, weighted_modulation * slope};
  }
  template <int N>
  VECDET_INLINE pack<float, N> weighted_loss(const pack<float, N>& modulation,
                                             const pack<float, N>& cross_entropy) const {
    return modulation * cross_entropy;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

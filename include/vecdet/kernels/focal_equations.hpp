// SPDX-License-Identifier: Apache-2.0
// The equations of the focal loss as a call needs them: with its weights, for its kind of targets
// and its gamma. Those in float take gamma 0, 1 or 2 and targets 0 or 1; those in double, any.
#pragma once

#include <vecdet/kernels/focal_terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Rows of 16 lanes that the equations in float work on together: two batches, whatever their
/// width. A block goes through exp first and through the rest afterwards, so that each chain of
/// dependent instructions is short enough for the processor to overlap many, and few registers
/// are live; that is faster than more batches at once.
constexpr int focal_rows_in_flight = batch_lanes<float> == 16 ? 2 : 1;

/// The same for the equations in double, whose polynomials are longer.
constexpr int focal_double_rows = batch_lanes<double> == 8 ? 2 : 1;

template <class Real>
constexpr Real largest = std::is_same<Real, float>::value ? Real(3.4028234663852886e38)
                                                          : Real(1.7976931348623157e308);
template <class Real>
constexpr Real infinity = Real(__builtin_huge_val());
template <class T>
T minus_infinity() {
  return T(-infinity<compute_type<T>>);
}

/// Negatives of one weight, gamma 0, 1 or 2, in float. With sign -1 and -x for x, positives.
template <int Gamma>
struct fast_negatives {
  using real = float;
  static constexpr int rows_in_flight = focal_rows_in_flight;
  static constexpr bool has_targets = false, only_hard = false;
  float loss_weight, grad_weight;

  fast_negatives(double weight, double sign, double)
      : loss_weight(static_cast<float>(weight)), grad_weight(static_cast<float>(sign * weight)) {}

  template <int N>
  VECDET_INLINE focal_terms<float, N> operator()(const pack<float, N>& x,
                                                 const pack<float, N>& e) const {
    const auto [modulation, cross_entropy, slope] = negative_focal_factors<Gamma>(x, e);
    return {modulation * cross_entropy, pack<float, N>(grad_weight) * modulation * slope};
  }
};

/// The same in double, for Gamma 2 or any_gamma.
template <int Gamma>
struct general_negatives {
  using real = double;
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
};

/// Any targets, in double, for Gamma 2 or any_gamma.
template <int Gamma>
struct soft_targets {
  using real = double;
  static constexpr int rows_in_flight = focal_double_rows;
  static constexpr bool has_targets = true, only_hard = false;
  using soft = soft_targets;
  static constexpr double loss_weight = 1;
  double positive_weight, negative_weight, gamma;

  template <int N>
  VECDET_INLINE focal_terms<double, N> operator()(const pack<double, N>& x,
                                                  const pack<double, N>& t) const {
    using real_pack = pack<double, N>;
    const real_pack weight =
        fma(real_pack(positive_weight), t, real_pack(negative_weight) * (real_pack(1.0) - t));
    auto terms = soft_focal_terms<Gamma>(x, t, weight, real_pack(gamma));
    terms.loss = select(weight == real_pack(0.0),
                        weight * min(real_pack(largest<double>), terms.loss), weight * terms.loss);
    return terms;
  }
};

/// Targets that are all 0 or 1, gamma 0, 1 or 2, in float; both weights other than 0.
template <int Gamma>
struct hard_targets {
  using real = float;
  static constexpr int rows_in_flight = focal_rows_in_flight;
  static constexpr bool has_targets = true, only_hard = true;
  static constexpr float loss_weight = 1;
  float positive_weight, negative_weight;
  using soft = soft_targets<Gamma == 2 ? 2 : any_gamma>;
  soft general;  ///< for blocks with other targets

  explicit hard_targets(const soft& any)
      : positive_weight(static_cast<float>(any.positive_weight)),
        negative_weight(static_cast<float>(any.negative_weight)),
        general(any) {}

  template <int N>
  VECDET_INLINE focal_terms<float, N> operator()(const pack<float, N>& x, const pack<float, N>& e,
                                                 const pack<float, N>& t) const {
    using real_pack = pack<float, N>;
    // 1.0f is 0x3f800000: shifted by 2, its sign bit is set, that of 0 and -0 is not.
    const real_pack is_positive = bit_cast<float>(bit_cast<std::int32_t>(t) << 2);
    const real_pack sign = is_positive & real_pack(-0.0f);
    const real_pack weight =
        select_by_sign(is_positive, real_pack(positive_weight), real_pack(negative_weight));
    const auto [modulation, cross_entropy, slope] = negative_focal_factors<Gamma>(x ^ sign, e);
    const real_pack weighted = weight * modulation;
    return {weighted * cross_entropy, (weighted * slope) ^ sign};
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

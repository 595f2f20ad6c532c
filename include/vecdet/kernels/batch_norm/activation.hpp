// SPDX-License-Identifier: Apache-2.0
// The activations that follow a normalisation, and their derivatives.
#pragma once

#include <vecdet/batch_norm_params.hpp>
#include <vecdet/simd/math.hpp>
#include <vecdet/simd/pack.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// From this |z| on, exp(-|z|) is 0 in the results of SiLU. Limiting z keeps infinity times 0 out.
template <class Real>
constexpr Real silu_end = std::is_same<Real, float>::value ? Real(87) : Real(745);

/// exp(-|z|), 1 / (1 + exp(-|z|)), and with them the sigmoid of z and that of -z.
template <class Real, int N>
struct sigmoids {
  using real = pack<Real, N>;
  real z, e, share;

  VECDET_INLINE explicit sigmoids(const real& of) : z(of) {
    if constexpr (std::is_same<Real, float>::value)
      e = exp_minus_abs(z);
    else
      e = exp_minus(abs(z));
    share = real(Real(1)) / (real(Real(1)) + e);
  }
  VECDET_INLINE real of_z() const { return select_negative(z, e, real(Real(1))) * share; }
  VECDET_INLINE real of_minus_z() const { return select_negative(z, real(Real(1)), e) * share; }
};

/// NaN gives NaN.
template <batch_norm_activation A, class Real, int N>
VECDET_INLINE pack<Real, N> activated(const pack<Real, N>& z) {
  using real = pack<Real, N>;
  if constexpr (A == batch_norm_activation::relu) return max(real(Real(0)), z);
  if constexpr (A == batch_norm_activation::silu)
    return max(real(-silu_end<Real>), z) * sigmoids<Real, N>(z).of_z();
  return z;
}

/// upstream activation'(z). ReLU passes the gradient where z is above 0, or NaN, as PyTorch does.
template <batch_norm_activation A, class Real, int N>
VECDET_INLINE pack<Real, N> activation_grad(const pack<Real, N>& upstream, const pack<Real, N>& z) {
  using real = pack<Real, N>;
  if constexpr (A == batch_norm_activation::relu)
    return select(z <= real(Real(0)), real(Real(0)), upstream);
  if constexpr (A == batch_norm_activation::silu) {
    const sigmoids<Real, N> s(z);
    const real limited = min(real(silu_end<Real>), max(real(-silu_end<Real>), z));
    return upstream * (s.of_z() * fma(limited, s.of_minus_z(), real(Real(1))));
  }
  return upstream;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

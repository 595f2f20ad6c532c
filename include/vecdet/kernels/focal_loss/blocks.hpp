// SPDX-License-Identifier: Apache-2.0
// The focal loss over consecutive elements, for every equation. Blocks have a fixed size and are
// added up in a fixed order on every instruction set.
#pragma once

#include <vecdet/kernels/focal_loss/equations.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Batches that are processed together: by exp, by float equations without targets, by those with
/// targets of 0 and 1, by those with any targets, and by those that compute any output. A block
/// passes through exp first and through the rest afterwards. Each chain of dependent instructions
/// is then short enough for the processor to overlap many of them, and few registers are live; this
/// is faster than more batches at once. AVX-512 has twice the registers, of which rounding to
/// bfloat16 takes some. On the baseline, four batches through exp make loss and gradient 5% faster.
/// Sums write nothing, which leaves registers for four batches everywhere.
constexpr bool has_32_registers = batch_lanes<float> == 16;
constexpr int focal_exp_batches = has_32_registers || !has_fma ? 4 : 2;
template <class T>
constexpr int focal_label_batches = has_32_registers && !std::is_same<T, bfloat16>::value ? 4 : 2;
constexpr int focal_hard_batches = 2;
constexpr int focal_soft_batches = 1;
constexpr int focal_output_batches = has_32_registers ? 1 : 2;

/// The same for the equations in double.
constexpr int focal_double_batches = 4;

/// Blocks that are processed together. In float, several: the processor can then overlap exp with
/// the rest. With targets, fewer: one positive rules out the shorter equation for all of them.
constexpr int focal_negatives_group = 4 * focal_block;
constexpr int focal_targets_group = 2 * focal_block;

/// Elements as numbers of type Real, which may be wider than T's computing type.
template <class Real, int N, class T>
VECDET_INLINE pack<Real, N> load_as(const T* from) {
  if constexpr (std::is_same<Real, compute_type<T>>::value) {
    return load_pack<N>(from);
  } else {
    return widen(load_pack<N / 2>(from));
  }
}
/// NaNs come from stored elements of type T or from invalid operations: weight_of_row() lets no
/// others in.
template <class Real, int N, class T>
VECDET_INLINE void store_as(T* to, const pack<Real, N>& x) {
  if constexpr (std::is_same<Real, compute_type<T>>::value) {
    store_pack<N, rounded_nans::from_bfloat16>(to, x);
  } else {
    store_pack<N / 2, rounded_nans::from_bfloat16>(to, narrow(x));
  }
}

/// exp(-|x|) of `size` elements, and whether all of them have a minus sign, are at least `least`
/// (which is negative), and are not NaN. It is a separate function so that its constants do not
/// compete for registers with those of the rest of the equation.
template <int N, class T>
VECDET_NOINLINE bool exp_of_block(const T* x, float* e, int size, float least) {
  using bits = pack<std::int32_t, 1>;
  const bits least_bits = bit_cast<std::int32_t>(pack<float, 1>(least));
  bits greatest = least_bits;
  for (int i = 0; i < size; i += pack<float, N>::lanes) {
    const auto logit = load_as<float, N>(x + i);
    const auto logit_bits = bit_cast<std::int32_t>(logit);
    VECDET_UNROLL
    for (int k = 0; k < N; ++k) greatest = max(slice<1>(logit_bits, k), greatest);
    store_pack<N>(e + i, exp_minus_abs(logit));
  }
  // As signed integers, bits ascend from -0 down to -inf. Those of negative NaNs and of all
  // positive numbers are greater.
  return all(greatest == least_bits);
}

/// Calls terms_at(i), pack by pack, for the elements from i on. Adds up modulation times cross
/// entropy times `factor`, one row of lanes after the other. A pack is some rows, or a part of one.
template <int N, class Real, class Terms>
VECDET_INLINE void add_losses(int size, Real factor, lane_sums& sums, const Terms& terms_at) {
  constexpr int row = row_pack<Real>::batches;
  // The number of elements added up in Real: with more, losses near Real's limit would overflow.
  constexpr int summed = 2 * focal_block;
  for (int begin = 0; begin < size; begin += summed) {
    const int end = size - begin < summed ? size : begin + summed;
    row_pack<Real> total = 0;
    for (int i = begin; i < end; i += pack<Real, N>::lanes) {
      const focal_terms<Real, N> terms = terms_at(i);
      if constexpr (N < row) {
        const int part = i % row_lanes / batch_lanes<Real>;
        VECDET_UNROLL
        for (int k = 0; k < N; ++k)
          total.v[part + k] =
              fma(terms.modulation.v[k], terms.cross_entropy.v[k], total.v[part + k]);
      } else {
        VECDET_UNROLL
        for (int k = 0; k < N; k += row)
          total = fma(slice<row>(terms.modulation, k), slice<row>(terms.cross_entropy, k), total);
      }
    }
    sums.add(total * row_pack<Real>(factor));
  }
}

// ---- float, the common case in training

/// An output known at compile time: only what it needs is computed.
template <focal_output Output>
using known_focal_output = std::integral_constant<focal_output, Output>;

template <class Output>
constexpr bool is_sum = std::is_same<Output, known_focal_output<focal_output::sum>>::value;

/// The output that the type `Output` fixes; if it is focal_output itself, `any`.
template <class Output>
VECDET_INLINE Output output_as(focal_output any) {
  if constexpr (std::is_same<Output, focal_output>::value) {
    return any;
  } else {
    return {};
  }
}

/// Writes the output for the elements from i on.
template <class Output, class T, int N>
VECDET_INLINE void store_output(Output output, const focal_span<T>& at, int i,
                                const pack<float, N>& loss, const pack<float, N>& grad) {
  if (output == focal_output::loss) {
    store_as<float, N>(at.out + i, loss);
  } else if (output == focal_output::grad) {
    store_as<float, N>(at.out + i, grad);
  } else if (output == focal_output::upstream_times_grad) {
    store_as<float, N>(at.out + i, grad * load_as<float, N>(at.upstream + i));
  }
}

/// Modulation (including the weight) times cross entropy: a modulation of 0 wins over an infinite
/// cross entropy.
template <class Real, int N>
VECDET_INLINE pack<Real, N> weighted_loss(const pack<Real, N>& modulation,
                                          const pack<Real, N>& cross_entropy) {
  using real = pack<Real, N>;
  return modulation * select(modulation == real(Real(0)), min(real(largest<Real>), cross_entropy),
                             cross_entropy);
}

/// Negatives. If no logit is above 0, which is the usual case in training, a shorter equation
/// suffices.
template <int Gamma, class Output, class T>
VECDET_NOINLINE void focal_negatives(const focal_equation<T>& equation, const focal_span<T>& span,
                                     index_t size, lane_sums& sums) {
  constexpr int N = is_sum<Output> ? 4 : focal_label_batches<T>;
  const auto output = output_as<Output>(equation.output);
  // The sign is turned after the product with the upstream gradient: a weight of 0 gives zeros of
  // the other sign.
  const bool turned = equation.mirrored && output == focal_output::grad;
  const auto sign = zero_with_sign<float>(equation.mirrored);
  const split_weight weight(turned ? -equation.negative : equation.negative);
  alignas(64) float e[focal_negatives_group];
  for (index_t i = 0; i < size;) {
    const int step = size - i >= focal_negatives_group ? focal_negatives_group : focal_block;
    const focal_span<T> at = span.at(i);
    // f has the cross entropy, or twice the cross entropy; times `factor`, it is the cross entropy.
    const auto write = [&](int k, const focal_factors<N>& f, float factor) VECDET_INLINE_LAMBDA {
      using real = pack<float, N>;
      const real modulation = weight.times(f.modulation);
      real grad = modulation * f.slope;
      if (output == focal_output::upstream_times_grad) grad = grad ^ real(sign);
      store_output(output, at, k, weighted_loss(modulation, f.cross_entropy * real(factor)), grad);
      return focal_terms<float, N>{f.modulation, f.cross_entropy};
    };
    if (exp_of_block<focal_exp_batches>(at.x, e, step, least_focal_logit<Gamma>)) {
      add_losses<N>(step, 0.5f, sums, [&](int k) VECDET_INLINE_LAMBDA {
        return write(k, negative_focal_factors_below_zero<Gamma>(load_pack<N>(e + k)), 0.5f);
      });
    } else {
      add_losses<N>(step, 1.0f, sums, [&](int k) VECDET_INLINE_LAMBDA {
        return write(
            k, negative_focal_factors<Gamma>(load_as<float, N>(at.x + k), load_pack<N>(e + k)),
            1.0f);
      });
    }
    i += step;
  }
}

/// The kind of `size` targets.
struct target_kinds {
  bool all_zero, all_hard, all_soft;
};
template <class T>
VECDET_INLINE target_kinds kinds_of_targets(const T* t, int size) {
  constexpr int N = row_pack<float>::batches;
  const row_pack<float> zero = 0.0f;
  row_pack<float> any = 0.0f;
  for (int i = 0; i < size; i += row_lanes) any = any | load_pack<N>(t + i);
  if (all(any == zero)) return {true, true, false};
  // t * t - t is exactly 0 only for 0 and 1; it is negative for numbers between them.
  any = zero;
  for (int i = 0; i < size; i += row_lanes) {
    const auto target = load_pack<N>(t + i);
    any = any | (target * target - target);
  }
  if (all(any == zero)) return {false, true, false};
  row_pack<float> greatest = -1.0f;
  for (int i = 0; i < size; i += row_lanes) {
    const auto target = load_pack<N>(t + i);
    greatest = max(target * target - target, greatest);
  }
  return {false, false, all(greatest < zero)};
}

/// Dense targets, gamma 2. Weights are not 0.
template <class Output, class T>
VECDET_NOINLINE void focal_dense_targets(const focal_equation<T>& equation,
                                         const focal_span<T>& span, index_t size, lane_sums& sums) {
  constexpr int N = focal_hard_batches, M = focal_soft_batches;
  constexpr int gamma = 2;
  const auto output = output_as<Output>(equation.output);
  const target_weight weight(equation.positive, equation.negative);
  alignas(64) float e[focal_targets_group];
  for (index_t i = 0; i < size;) {
    const int step = size - i >= focal_targets_group ? focal_targets_group : focal_block;
    const focal_span<T> at = span.at(i);
    const auto write = [&](int k, const auto& terms, float factor) VECDET_INLINE_LAMBDA {
      using real = std::decay_t<decltype(terms.grad)>;
      store_output(output, at, k,
                   weighted_loss(terms.weighted_modulation, terms.cross_entropy * real(factor)),
                   terms.grad);
      return focal_terms<float, real::batches>{terms.weighted_modulation, terms.cross_entropy};
    };
    const target_kinds kinds = kinds_of_targets(at.t, step);
    if (exp_of_block<focal_exp_batches>(at.x, e, step, least_focal_logit<gamma>) &&
        kinds.all_zero) {
      add_losses<N>(step, 0.5f, sums, [&](int k) VECDET_INLINE_LAMBDA {
        const auto f = negative_focal_factors_below_zero<gamma>(load_pack<N>(e + k));
        const auto modulation = weight.negative.times(f.modulation);
        return write(k,
                     weighted_focal_terms<float, N>{f.modulation, modulation, f.cross_entropy,
                                                    modulation * f.slope},
                     0.5f);
      });
    } else if (kinds.all_hard) {
      add_losses<N>(step, 1.0f, sums, [&](int k) VECDET_INLINE_LAMBDA {
        return write(k,
                     hard_focal_terms<gamma>(load_as<float, N>(at.x + k), load_pack<N>(e + k),
                                             load_as<float, N>(at.t + k), weight, 1.0f),
                     1.0f);
      });
    } else if (kinds.all_soft) {
      add_losses<M>(step, 1.0f, sums, [&](int k) VECDET_INLINE_LAMBDA {
        return write(k,
                     soft_focal_terms<gamma>(load_as<float, M>(at.x + k), load_pack<M>(e + k),
                                             load_as<float, M>(at.t + k), weight, 1.0f),
                     1.0f);
      });
    } else {
      add_losses<M>(step, 1.0f, sums, [&](int k) VECDET_INLINE_LAMBDA {
        return write(k,
                     float_focal_terms<gamma>(load_as<float, M>(at.x + k), load_pack<M>(e + k),
                                              load_as<float, M>(at.t + k), weight, 1.0f),
                     1.0f);
      });
    }
    i += step;
  }
}

// ---- everything else

/// The target for equations that take targets when all elements are negatives.
template <class Real>
alignas(64) constexpr Real all_negative[max_focal_group] = {};

/// Writes the output of `formula` for the elements from i on and returns the terms of the sum.
/// There are no branches around packs, because compilers would then keep the packs in memory.
template <class Real, int N>
VECDET_INLINE focal_terms<Real, N> write_output(const focal_formula& formula,
                                                const focal_span<Real>& at, int i,
                                                const weighted_focal_terms<Real, N>& terms) {
  using real = pack<Real, N>;
  const real zero = Real(0);
  // A weight of 0, or a product that rounds to 0, wins over an infinite cross entropy.
  const real cross_entropy =
      select(terms.weighted_modulation == zero, min(real(largest<Real>), terms.cross_entropy),
             terms.cross_entropy);
  const real grad = terms.grad ^ real(zero_with_sign<Real>(formula.mirrored));
  if (formula.output == focal_output::loss) {
    store_pack<N>(at.out + i, terms.weighted_modulation * cross_entropy);
  } else if (formula.output == focal_output::grad) {
    store_pack<N>(at.out + i, grad);
  } else if (formula.output == focal_output::upstream_times_grad) {
    store_pack<N>(at.out + i, grad * load_pack<N>(at.upstream + i));
  }
  const auto is_weighted = real(Real(formula.has_targets)) > zero;
  return {select(is_weighted, terms.weighted_modulation, terms.modulation), cross_entropy};
}

/// At most max_focal_group elements in float, gamma 0, 1 or 2.
template <int Gamma>
VECDET_NOINLINE void focal_in_float(const focal_formula& formula, const focal_span<float>& at,
                                    int size, lane_sums& sums) {
  constexpr int N = focal_output_batches;
  const target_weight weight(formula.positive, formula.negative);
  const auto focusing = static_cast<float>(formula.focusing);
  alignas(64) float e[max_focal_group];
  exp_of_block<focal_exp_batches>(at.x, e, size, 0.0f);
  add_losses<N>(size, 1.0f, sums, [&](int i) VECDET_INLINE_LAMBDA {
    return write_output(formula, at, i,
                        float_focal_terms<Gamma>(load_pack<N>(at.x + i), load_pack<N>(e + i),
                                                 load_pack<N>(at.t + i), weight, focusing));
  });
}

/// The cases computed in double: the focal loss by its gamma (negatives have their own code unless
/// gamma is 2), and the losses of labelled classes in the quality focal loss and the varifocal
/// loss.
enum class double_terms { gamma_2, other_gamma, negatives, quality, varifocal };

/// A block in double.
template <double_terms Terms>
VECDET_NOINLINE void focal_in_double(const focal_formula& formula, const focal_span<double>& at,
                                     int size, lane_sums& sums) {
  constexpr int N = focal_double_batches;
  using real = pack<double, N>;
  add_losses<N>(size, 1.0, sums, [&](int i) VECDET_INLINE_LAMBDA {
    const real x = load_pack<N>(at.x + i);
    const real positive = formula.positive, negative = formula.negative;
    if constexpr (Terms == double_terms::negatives) {
      return write_output(formula, at, i,
                          double_negative_terms(x, negative, formula.gamma, formula.focusing));
    } else {
      const real t = load_pack<N>(at.t + i);
      if constexpr (Terms == double_terms::quality) {
        return write_output(formula, at, i, quality_focal_terms(x, t, positive, formula.gamma));
      } else if constexpr (Terms == double_terms::varifocal) {
        return write_output(formula, at, i, varifocal_terms(x, t, positive));
      } else {
        const real weight = fma(positive, t, negative * (real(1.0) - t));
        constexpr int gamma = Terms == double_terms::gamma_2 ? 2 : any_gamma;
        return write_output(
            formula, at, i,
            double_focal_terms<gamma>(x, t, weight, formula.gamma, formula.focusing));
      }
    }
  });
}

template <class T, class Real>
VECDET_NOINLINE void widen_elements(const T* from, int size, Real* to) {
  constexpr int N = 2 * row_pack<float>::batches;
  for (int i = 0; i < size; i += pack<Real, N>::lanes)
    store_pack<N>(to + i, load_as<Real, N>(from + i));
}
template <class Real, class T>
VECDET_NOINLINE void narrow_elements(const Real* from, int size, T* to) {
  constexpr int N = 2 * row_pack<float>::batches;
  for (int i = 0; i < size; i += pack<Real, N>::lanes)
    store_as<Real, N>(to + i, load_pack<N>(from + i));
}

/// Computes blocks in Real, from copies in that type unless T is Real.
template <class Real, void (*Block)(const focal_formula&, const focal_span<Real>&, int, lane_sums&),
          class T>
void focal_generally(const focal_equation<T>& equation, const focal_span<T>& span, index_t size,
                     lane_sums& sums) {
  for (index_t i = 0; i < size;) {
    const int step = size - i >= equation.group ? equation.group : focal_block;
    const focal_span<T> at = span.at(i);
    if constexpr (std::is_same<T, Real>::value) {
      Block(equation, {at.x, at.t != nullptr ? at.t : all_negative<Real>, at.upstream, at.out},
            step, sums);
    } else {
      alignas(64) Real x[max_focal_group], t[max_focal_group], upstream[max_focal_group],
          out[max_focal_group];
      widen_elements(at.x, step, x);
      if (at.t != nullptr) widen_elements(at.t, step, t);
      if (at.upstream != nullptr) widen_elements(at.upstream, step, upstream);
      Block(equation, {x, at.t != nullptr ? t : all_negative<Real>, upstream, out}, step, sums);
      if (at.out != nullptr) narrow_elements(out, step, at.out);
    }
    i += step;
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

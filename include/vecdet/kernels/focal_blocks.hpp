// SPDX-License-Identifier: Apache-2.0
// The focal loss over consecutive elements, in blocks of a fixed size that are added up in a fixed
// order, whatever the instruction set.
#pragma once

#include <vecdet/detail/rows/focal_loss.hpp>
#include <vecdet/kernels/focal_equations.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::focal_output;

/// Elements that are computed together, and added up in one fixed order.
constexpr int focal_block = 8 * row_lanes;

/// Elements as numbers of type Real, which may be wider than the stored T computes in.
template <class Real, int N, class T>
VECDET_INLINE pack<Real, N> load_as(const T* from) {
  if constexpr (std::is_same<Real, compute_type<T>>::value) {
    return load_pack<N>(from);
  } else {
    return widen(load_pack<N / 2>(from));
  }
}
template <class Real, int N, class T>
VECDET_INLINE void store_as(T* to, const pack<Real, N>& x) {
  if constexpr (std::is_same<Real, compute_type<T>>::value) {
    store_pack<N>(to, x);
  } else {
    store_pack<N / 2>(to, narrow(x));
  }
}

/// Memory of consecutive elements. What a call does not use is null.
template <class T>
struct focal_span {
  const T* x;
  const T* t;
  const T* upstream;
  T* out;

  VECDET_INLINE focal_span at(index_t i) const {
    return {x + i, t != nullptr ? t + i : t, upstream != nullptr ? upstream + i : upstream,
            out != nullptr ? out + i : out};
  }
};

/// exp(-|x|) of `size` elements. A function of its own, so that its constants and those of the rest
/// of the equation do not compete for registers.
template <int N, class T>
VECDET_NOINLINE void exp_of_block(const T* x, float* e, int size) {
  for (int i = 0; i < size; i += pack<float, N>::lanes) {
    store_pack<N>(e + i, exp_minus_abs(load_as<float, N>(x + i)));
  }
}

/// Writes the loss or gradient of Size elements, and adds up their losses row after row.
template <int Size, class Output, class Equation, class T>
VECDET_INLINE void focal_one_block(Output output, const Equation& equation, const focal_span<T>& at,
                                   lane_sums& sums) {
  using real = typename Equation::real;
  constexpr int row = row_pack<real>::batches;
  constexpr int N = row * Equation::rows_in_flight;
  constexpr bool in_float = std::is_same<real, float>::value;
  alignas(64) float e[in_float ? Size : 1];
  if constexpr (in_float) exp_of_block<N>(at.x, e, Size);
  row_pack<real> total = 0;
  for (int i = 0; i < Size; i += pack<real, N>::lanes) {
    const auto x = load_as<real, N>(at.x + i);
    focal_terms<real, N> terms;
    if constexpr (in_float && Equation::has_targets) {
      terms = equation(x, load_pack<N>(e + i), load_as<real, N>(at.t + i));
    } else if constexpr (in_float) {
      terms = equation(x, load_pack<N>(e + i));
    } else if constexpr (Equation::has_targets) {
      terms = equation(x, load_as<real, N>(at.t + i));
    } else {
      terms = equation(x);
    }
    if (output == focal_output::loss) {
      store_as<real, N>(at.out + i, equation.weighted_loss(terms));
    } else if (output == focal_output::grad) {
      store_as<real, N>(at.out + i, terms.grad);
    } else if (output == focal_output::upstream_times_grad) {
      store_as<real, N>(at.out + i, terms.grad * load_as<real, N>(at.upstream + i));
    }
    for (int k = 0; k < N; k += row) {
      total = fma(slice<row>(terms.modulation, k), slice<row>(terms.cross_entropy, k), total);
    }
  }
  sums.add(total);
}

/// Whether Size targets are all 0 or 1: the numbers t with t * t - t = 0, exactly.
template <int Size, class T>
VECDET_INLINE bool all_hard(const T* t) {
  constexpr int N = row_pack<float>::batches;
  row_pack<float> any = 0.0f;
  for (int i = 0; i < Size; i += row_lanes) {
    const auto target = load_pack<N>(t + i);
    any = any | (target * target - target);
  }
  return all(any == row_pack<float>(0.0f));
}

/// A block with targets other than 0 and 1.
template <class Equation, class T>
VECDET_NOINLINE void focal_soft_block(focal_output output, const Equation& equation,
                                      const focal_span<T>& at, lane_sums& sums) {
  focal_one_block<focal_block>(output, equation, at, sums);
}

/// Size elements by the equation that their targets allow.
template <int Size, class Output, class Equation, class T>
VECDET_INLINE void focal_elements(Output output, const Equation& equation, const focal_span<T>& at,
                                  lane_sums& sums) {
  if constexpr (Equation::only_hard) {
    if (!all_hard<Size>(at.t)) {
      for (int i = 0; i < Size; i += focal_block) {
        focal_soft_block(output, equation.general, at.at(i), sums);
      }
      return;
    }
  }
  focal_one_block<Size>(output, equation, at, sums);
}

/// `count` blocks, one after the other; in float two at a time, where the processor has more to
/// overlap between exp and the rest.
template <class Output, class Equation, class T>
VECDET_NOINLINE void focal_blocks(Output output, const Equation& equation,
                                  const focal_span<T>& span, index_t count, lane_sums& sums) {
  index_t b = 0;
  if constexpr (std::is_same<typename Equation::real, float>::value) {
    for (; b + 2 <= count; b += 2) {
      focal_elements<2 * focal_block>(output, equation, span.at(b * focal_block), sums);
    }
  }
  for (; b < count; ++b) {
    focal_elements<focal_block>(output, equation, span.at(b * focal_block), sums);
  }
}

/// `size` elements: whole blocks where they lie, the rest padded with logits of -inf, which add
/// nothing. `masked`, ascending, lists elements to be left out as well: they count nothing, and
/// what is written for them is 0.
template <class Output, class Equation, class T>
VECDET_NOINLINE double focal_run(Output output, const Equation& equation, const focal_span<T>& span,
                                 index_t size, const index_t* masked, int masked_count) {
  lane_sums sums;
  int next = 0;
  for (index_t i = 0; i < size;) {
    const index_t stop = next < masked_count ? masked[next] : size;
    if (const index_t whole = (stop - i) / focal_block; whole > 0) {
      focal_blocks(output, equation, span.at(i), whole, sums);
      i += whole * focal_block;
      continue;
    }
    const int count = static_cast<int>(size - i < focal_block ? size - i : focal_block);
    alignas(64) T x[focal_block], t[focal_block], upstream[focal_block], out[focal_block];
    const focal_span<T> from = span.at(i);
    for (int k = 0; k < focal_block; ++k) {
      x[k] = k < count ? from.x[k] : minus_infinity<T>();
      if (span.t != nullptr) t[k] = k < count ? from.t[k] : T(0.0f);
      if (span.upstream != nullptr) upstream[k] = k < count ? from.upstream[k] : T(0.0f);
    }
    for (; next < masked_count && masked[next] < i + count; ++next) {
      x[masked[next] - i] = minus_infinity<T>();
    }
    focal_blocks(output, equation, focal_span<T>{x, t, upstream, out}, 1, sums);
    if (output != focal_output::sum) {
      for (int k = 0; k < count; ++k) from.out[k] = out[k];
    }
    i += count;
  }
  return sums.total();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

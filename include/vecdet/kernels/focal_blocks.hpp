// SPDX-License-Identifier: Apache-2.0
// The focal loss over consecutive elements, in blocks of a fixed size that are added up in a fixed
// order, whatever the instruction set.
#pragma once

#include <vecdet/detail/rows/focal_loss.hpp>
#include <vecdet/kernels/focal_equations.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::focal_block;
using detail::focal_output;
static_assert(focal_block % row_lanes == 0, "blocks are added up row after row");

/// Elements as numbers of type Real, which may be wider than the stored T computes in.
template <class Real, int N, class T>
VECDET_INLINE pack<Real, N> load_as(const T* from) {
  if constexpr (std::is_same<Real, compute_type<T>>::value) {
    return load_pack<N>(from);
  } else {
    return widen(load_pack<N / 2>(from));
  }
}
/// NaNs come from those of type T or from invalid operations: weight_of_row() lets no others in.
template <class Real, int N, class T>
VECDET_INLINE void store_as(T* to, const pack<Real, N>& x) {
  if constexpr (std::is_same<Real, compute_type<T>>::value) {
    store_pack<N, rounded_nans::of_bfloat16>(to, x);
  } else {
    store_pack<N / 2, rounded_nans::of_bfloat16>(to, narrow(x));
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

/// exp(-|x|) of `size` elements, and whether all of them have a minus sign and none is NaN. A
/// function of its own, so that its constants and those of the rest of the equation do not compete
/// for registers.
template <int N, class T>
VECDET_NOINLINE bool exp_of_block(const T* x, float* e, int size) {
  using bits = pack<std::int32_t, N>;
  const bits minus_infinity_bits = static_cast<std::int32_t>(0xff800000);
  bits greatest = minus_infinity_bits;
  for (int i = 0; i < size; i += pack<float, N>::lanes) {
    const auto logit = load_as<float, N>(x + i);
    greatest = max(bit_cast<std::int32_t>(logit), greatest);
    store_pack<N>(e + i, exp_minus_abs(logit));
  }
  // As integers, the bits from -0 down to -inf ascend to minus_infinity_bits; those of NaN with a
  // sign lie above, and those of all numbers without one.
  return all(greatest == minus_infinity_bits);
}

/// Writes the loss or gradient of Size elements, and adds up their losses row after row. Where all
/// are negatives and no logit is above 0, as nearly everywhere in training, less is to be done.
template <int Size, class Output, class Equation, class T>
VECDET_INLINE void focal_one_block(Output output, const Equation& equation, const focal_span<T>& at,
                                   bool all_negatives, lane_sums& sums) {
  using real = typename Equation::real;
  constexpr int row = row_pack<real>::batches;
  constexpr int N = row * Equation::template rows_in_flight<T>;
  // Elements that are added up in `real`: with more, losses near its limit overflow.
  constexpr int summed = Size < 2 * focal_block ? Size : 2 * focal_block;
  const auto write = [&](auto terms_at) VECDET_INLINE_LAMBDA {
    for (int begin = 0; begin < Size; begin += summed) {
      row_pack<real> total = 0;
      for (int i = begin; i < begin + summed; i += pack<real, N>::lanes) {
        const focal_terms<real, N> terms = terms_at(i);
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
  };
  const auto x = [&](int i) VECDET_INLINE_LAMBDA { return load_as<real, N>(at.x + i); };
  const auto t = [&](int i) VECDET_INLINE_LAMBDA { return load_as<real, N>(at.t + i); };
  if constexpr (std::is_same<real, float>::value) {
    alignas(64) float e[Size];
    const bool below_zero = exp_of_block<row * focal_exp_rows>(at.x, e, Size);
    const auto exp = [&](int i) VECDET_INLINE_LAMBDA { return load_pack<N>(e + i); };
    if (below_zero && all_negatives) {
      write([&](int i) VECDET_INLINE_LAMBDA { return equation.below_zero(exp(i)); });
    } else if constexpr (Equation::has_targets) {
      write([&](int i) VECDET_INLINE_LAMBDA { return equation(x(i), exp(i), t(i)); });
    } else {
      write([&](int i) VECDET_INLINE_LAMBDA { return equation(x(i), exp(i)); });
    }
  } else if constexpr (Equation::has_targets) {
    write([&](int i) VECDET_INLINE_LAMBDA { return equation(x(i), t(i)); });
  } else {
    write([&](int i) VECDET_INLINE_LAMBDA { return equation(x(i)); });
  }
}

/// Whether Size targets are all 0.
template <int Size, class T>
VECDET_INLINE bool all_zero(const T* t) {
  constexpr int N = row_pack<float>::batches;
  row_pack<float> any = 0.0f;
  for (int i = 0; i < Size; i += row_lanes) any = any | load_pack<N>(t + i);
  return all(any == row_pack<float>(0.0f));
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
  focal_one_block<focal_block>(output, equation, at, false, sums);
}

/// Size elements by the equation that their targets allow.
template <int Size, class Output, class Equation, class T>
VECDET_INLINE void focal_elements(Output output, const Equation& equation, const focal_span<T>& at,
                                  lane_sums& sums) {
  bool all_negatives = !Equation::has_targets;
  if constexpr (Equation::only_hard) {
    all_negatives = all_zero<Size>(at.t);
    if (!all_negatives && !all_hard<Size>(at.t)) {
      for (int i = 0; i < Size; i += focal_block) {
        focal_soft_block(output, equation.general, at.at(i), sums);
      }
      return;
    }
  }
  focal_one_block<Size>(output, equation, at, all_negatives, sums);
}

/// `count` blocks, one after the other; in float several at a time, where the processor has more to
/// overlap between exp and the rest. With targets fewer, as one positive costs all of them the
/// shorter way.
template <class Output, class Equation, class T>
VECDET_NOINLINE void focal_blocks(Output output, const Equation& equation,
                                  const focal_span<T>& span, index_t count, lane_sums& sums) {
  index_t b = 0;
  if constexpr (std::is_same<typename Equation::real, float>::value) {
    constexpr int together = Equation::has_targets ? 2 : 4;
    for (; b + together <= count; b += together) {
      focal_elements<together * focal_block>(output, equation, span.at(b * focal_block), sums);
    }
  }
  for (; b < count; ++b) {
    focal_elements<focal_block>(output, equation, span.at(b * focal_block), sums);
  }
}

/// By 16, as a memcpy of constant size becomes moves.
template <class T>
VECDET_INLINE void copy_elements(const T* from, int count, T* to) {
  int k = 0;
  for (; k + row_lanes <= count; k += row_lanes) {
    __builtin_memcpy(to + k, from + k, row_lanes * sizeof(T));
  }
  for (; k < count; ++k) to[k] = from[k];
}

/// A block of its own for elements that are fewer, or of which some are left out: logits of -inf
/// add nothing. One copy of the code serves all equations.
template <class T>
class focal_padded_block {
 public:
  /// The first `count` elements.
  VECDET_NOINLINE focal_padded_block(const focal_span<T>& from, int count)
      : has_targets_(from.t != nullptr), has_upstream_(from.upstream != nullptr), count_(count) {
    copy(from.x, minus_infinity<T>(), x_);
    if (has_targets_) copy(from.t, T(0.0f), t_);
    if (has_upstream_) copy(from.upstream, T(0.0f), upstream_);
  }
  /// Elements `positions`, with -x for x.
  VECDET_NOINLINE focal_padded_block(const focal_span<T>& from, const index_t* positions, int count)
      : has_targets_(false), has_upstream_(from.upstream != nullptr), count_(count) {
    fill(minus_infinity<T>(), x_);
    for (int k = 0; k < count; ++k) x_[k] = T(-compute_type<T>(from.x[positions[k]]));
    if (!has_upstream_) return;
    fill(T(0.0f), upstream_);
    for (int k = 0; k < count; ++k) upstream_[k] = from.upstream[positions[k]];
  }

  void leave_out(index_t position) { x_[position] = minus_infinity<T>(); }

  focal_span<T> span() {
    return {x_, has_targets_ ? t_ : nullptr, has_upstream_ ? upstream_ : nullptr, out_};
  }

  /// Writes what has been computed to where the elements are.
  VECDET_NOINLINE void write(T* to) const { copy_elements(out_, count_, to); }
  void write(T* to, const index_t* positions) const {
    for (int k = 0; k < count_; ++k) to[positions[k]] = out_[k];
  }

 private:
  static VECDET_INLINE void fill(T value, T* to) {
    for (int k = 0; k < focal_block; ++k) to[k] = value;
  }
  VECDET_INLINE void copy(const T* from, T otherwise, T* to) const {
    if (count_ < focal_block) fill(otherwise, to);
    copy_elements(from, count_, to);
  }

  bool has_targets_, has_upstream_;
  int count_;
  alignas(64) T x_[focal_block], t_[focal_block], upstream_[focal_block], out_[focal_block];
};

/// `size` elements: whole blocks where they lie, the rest padded. `masked`, ascending, lists
/// elements to be left out as well: they count nothing, and what is written for them is 0.
template <class Output, class Equation, class T>
VECDET_NOINLINE double focal_run(Output output, const Equation& equation, const focal_span<T>& span,
                                 index_t size, const index_t* masked, int masked_count) {
  lane_sums sums;
  int next = 0;
  for (index_t i = 0; i < size;) {
    const index_t stop = next < masked_count ? masked[next] : size;
    const focal_span<T> from = span.at(i);
    if (const index_t whole = (stop - i) / focal_block; whole > 0) {
      focal_blocks(output, equation, from, whole, sums);
      i += whole * focal_block;
      continue;
    }
    const int count = static_cast<int>(size - i < focal_block ? size - i : focal_block);
    focal_padded_block<T> block(from, count);
    for (; next < masked_count && masked[next] < i + count; ++next) {
      block.leave_out(masked[next] - i);
    }
    focal_blocks(output, equation, block.span(), 1, sums);
    if (output != focal_output::sum) block.write(from.out);
    i += count;
  }
  return sums.total();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The focal loss over consecutive elements, in blocks of a fixed size that are added up in a fixed
// order, whatever the instruction set.
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/kernels/focal_loss/equations.hpp>
#include <vecdet/simd/bits.hpp>

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

/// exp(-|x|) of `size` elements, and whether all of them have a minus sign, are `least` or more,
/// which has one too, and none is NaN. A function of its own, so that its constants and those of
/// the rest of the equation do not compete for registers.
template <int N, class T>
VECDET_NOINLINE bool exp_of_block(const T* x, float* e, int size, float least) {
  using bits = pack<std::int32_t, 1>;
  const bits least_bits = bit_cast<std::int32_t>(pack<float, 1>(least));
  bits greatest = least_bits;
  for (int i = 0; i < size; i += pack<float, N>::lanes) {
    const auto logit = load_as<float, N>(x + i);
    const auto logit_bits = bit_cast<std::int32_t>(logit);
    for (int k = 0; k < N; ++k) greatest = max(slice<1>(logit_bits, k), greatest);
    store_pack<N>(e + i, exp_minus_abs(logit));
  }
  // As integers, the bits from -0 down to -inf ascend; those of NaN with a sign lie above, and
  // those of all numbers without one.
  return all(greatest == least_bits);
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
  // terms_at(i) returns the terms of the elements from i on, and the cross entropy is `share` of
  // what they tell.
  const auto write = [&](real share, auto terms_at) VECDET_INLINE_LAMBDA {
    for (int begin = 0; begin < Size; begin += summed) {
      row_pack<real> total = 0;
      for (int i = begin; i < begin + summed; i += pack<real, N>::lanes) {
        const focal_terms<real, N> terms = terms_at(i);
        if (output == focal_output::loss) {
          store_as<real, N>(
              at.out + i,
              equation.weighted_loss(terms.modulation, terms.cross_entropy * pack<real, N>(share)));
        } else if (output == focal_output::grad) {
          store_as<real, N>(at.out + i, terms.grad);
        } else if (output == focal_output::upstream_times_grad) {
          store_as<real, N>(at.out + i, terms.grad * load_as<real, N>(at.upstream + i));
        }
        for (int k = 0; k < N; k += row) {
          total = fma(slice<row>(terms.modulation, k), slice<row>(terms.cross_entropy, k), total);
        }
      }
      sums.add(total * row_pack<real>(share));
    }
  };
  const auto x = [&](int i) VECDET_INLINE_LAMBDA { return load_as<real, N>(at.x + i); };
  const auto t = [&](int i) VECDET_INLINE_LAMBDA { return load_as<real, N>(at.t + i); };
  if constexpr (std::is_same<real, float>::value) {
    alignas(64) float e[Size];
    const bool below_zero =
        exp_of_block<row * focal_exp_rows>(at.x, e, Size, Equation::least_below_zero);
    const auto exp = [&](int i) VECDET_INLINE_LAMBDA { return load_pack<N>(e + i); };
    if (below_zero && all_negatives) {
      write(0.5f, [&](int i) VECDET_INLINE_LAMBDA { return equation.below_zero(exp(i)); });
    } else if constexpr (Equation::has_targets) {
      write(1, [&](int i) VECDET_INLINE_LAMBDA { return equation(x(i), exp(i), t(i)); });
    } else {
      write(1, [&](int i) VECDET_INLINE_LAMBDA { return equation(x(i), exp(i)); });
    }
  } else if constexpr (Equation::has_targets) {
    write(1, [&](int i) VECDET_INLINE_LAMBDA { return equation(x(i), t(i)); });
  } else {
    write(1, [&](int i) VECDET_INLINE_LAMBDA { return equation(x(i)); });
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

/// 0 where the target is 0 or 1: those are the numbers with t * t - t = 0, exactly.
template <int N>
VECDET_INLINE pack<float, N> softness(const pack<float, N>& t) {
  return t * t - t;
}

/// Whether Size targets are all 0 or 1.
template <int Size, class T>
VECDET_INLINE bool all_hard(const T* t) {
  constexpr int N = row_pack<float>::batches;
  row_pack<float> any = 0.0f;
  for (int i = 0; i < Size; i += row_lanes) any = any | softness(load_pack<N>(t + i));
  return all(any == row_pack<float>(0.0f));
}

/// A block with targets other than 0 and 1.
template <class Equation, class T>
VECDET_NOINLINE void focal_soft_block(focal_output output, const Equation& equation,
                                      const focal_span<T>& at, lane_sums& sums) {
  focal_one_block<focal_block>(output, equation, at, false, sums);
}

template <class Output, class Equation, class T>
VECDET_NOINLINE void focal_blocks(Output output, const Equation& equation,
                                  const focal_span<T>& span, index_t count, lane_sums& sums);

/// A block with targets of both kinds. Elements whose targets are 0 or 1 get the bits that they get
/// among their like; the sum, in double, is that of all.
template <class Output, class Equation, class T>
VECDET_NOINLINE void focal_mixed_block(Output output, const Equation& equation,
                                       const focal_span<T>& at, lane_sums& sums) {
  constexpr int N = row_pack<float>::batches;
  const row_pack<float> zero = 0.0f;
  if (output == focal_output::sum) return focal_soft_block(output, equation.general, at, sums);
  alignas(64) T hard_targets[focal_block], soft_results[focal_block];
  bool any_hard = false;
  for (int i = 0; i < focal_block; i += row_lanes) {
    const auto t = load_pack<N>(at.t + i);
    const auto is_hard = softness(t) == zero;
    any_hard = any_hard || to_bits(is_hard) != 0;
    store_pack<N>(hard_targets + i, select(is_hard, t, zero));
  }
  if (!any_hard) return focal_soft_block(output, equation.general, at, sums);

  focal_span<T> soft = at, hard = at;
  soft.out = soft_results;
  focal_soft_block(output, equation.general, soft, sums);
  hard.t = hard_targets;
  lane_sums of_hard;  // are among the others
  focal_blocks(output, equation, hard, 1, of_hard);
  for (int i = 0; i < focal_block; i += row_lanes) {
    const auto is_hard = softness(load_pack<N>(at.t + i)) == zero;
    store_pack<N, rounded_nans::of_bfloat16>(
        at.out + i, select(is_hard, load_pack<N>(at.out + i), load_pack<N>(soft_results + i)));
  }
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
        focal_mixed_block(output, equation, at.at(i), sums);
      }
      return;
    }
  }
  focal_one_block<Size>(output, equation, at, all_negatives, sums);
}

/// Blocks that are worked on together: in float several, as the processor has more to overlap
/// between exp and the rest. With targets fewer, as one positive costs all of them the shorter way.
template <class Equation>
constexpr int focal_blocks_together = std::is_same<typename Equation::real, double>::value ? 1
                                      : Equation::has_targets                              ? 2
                                                                                           : 4;

/// `count` blocks, one after the other.
template <class Output, class Equation, class T>
VECDET_NOINLINE void focal_blocks(Output output, const Equation& equation,
                                  const focal_span<T>& span, index_t count, lane_sums& sums) {
  constexpr int together = focal_blocks_together<Equation>;
  index_t b = 0;
  for (; b + together <= count; b += together) {
    focal_elements<together * focal_block>(output, equation, span.at(b * focal_block), sums);
  }
  if constexpr (together > 1) {
    for (; b < count; ++b) {
      focal_elements<focal_block>(output, equation, span.at(b * focal_block), sums);
    }
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
template <class T>
VECDET_INLINE void fill_elements(T value, index_t count, T* to) {
  for (index_t k = 0; k < count; ++k) to[k] = value;
}

/// Elements [begin, end) of a run that are left out: they count nothing, and 0 is written for them.
struct focal_hole {
  index_t begin, end;
};

/// Holes that lie one behind the other, none of them empty.
class focal_holes {
 public:
  focal_holes() = default;
  focal_holes(const focal_hole* holes, int count) : next_(holes), last_(holes + count) {}

  /// Forgets those that end before `begin`.
  VECDET_INLINE void skip_to(index_t begin) {
    while (next_ != last_ && next_->end <= begin) ++next_;
  }
  /// The next hole's begin and end; `otherwise` where there is none.
  VECDET_INLINE index_t next_begin(index_t otherwise) const {
    return next_ != last_ ? next_->begin : otherwise;
  }
  VECDET_INLINE index_t next_end(index_t otherwise) const {
    return next_ != last_ ? next_->end : otherwise;
  }
  /// Calls each(begin, end) for what lies within [begin, end), counted from `begin` on.
  template <class Each>
  VECDET_INLINE void within(index_t begin, index_t end, const Each& each) const {
    for (const focal_hole* hole = next_; hole != last_ && hole->begin < end; ++hole) {
      each((hole->begin > begin ? hole->begin : begin) - begin,
           (hole->end < end ? hole->end : end) - begin);
    }
  }

 private:
  const focal_hole *next_ = nullptr, *last_ = nullptr;
};

/// A copy of at most Size elements, a multiple of a block, for those that are fewer or of which
/// some are left out: logits of -inf add nothing. One copy of the code serves all equations.
template <class T, int Size = focal_block>
class focal_padded_block {
  using real = compute_type<T>;
  static constexpr int row = row_pack<real>::batches;

 public:
  /// Elements [begin, begin + count) of a run.
  VECDET_NOINLINE focal_padded_block(const focal_span<T>& run, index_t begin, int count,
                                     focal_holes holes)
      : has_targets_(run.t != nullptr), has_upstream_(run.upstream != nullptr), count_(count) {
    const focal_span<T> from = run.at(begin);
    for (int k = 0; k < Size; k += row_lanes) {
      // Holes are cut in registers: the processor must not load a vector that it has stored in
      // parts, as it waits until all earlier stores are in memory.
      auto x = row_of(from.x, k);
      holes.skip_to(begin + k);
      holes.within(begin + k, begin + k + row_lanes, [&](index_t b, index_t e) {
        const auto lane = load_pack<row>(lane_numbers<real>);
        const auto is_left_out = (lane >= row_pack<real>(static_cast<real>(b))) &
                                 (lane < row_pack<real>(static_cast<real>(e)));
        x = select(is_left_out, row_pack<real>(-infinity<real>), x);
      });
      store_pack<row, rounded_nans::of_bfloat16>(x_ + k, x);
    }
    if (has_targets_) copy(from.t, t_);
    if (has_upstream_) copy(from.upstream, upstream_);
  }
  /// Elements `positions`, with -x for x.
  VECDET_NOINLINE focal_padded_block(const focal_span<T>& from, const index_t* positions, int count)
      : has_targets_(false), has_upstream_(from.upstream != nullptr), count_(count) {
    fill_elements(minus_infinity<T>(), Size, x_);
    for (int k = 0; k < count; ++k) x_[k] = T(-real(from.x[positions[k]]));
    if (!has_upstream_) return;
    fill_elements(T(0.0f), Size, upstream_);
    for (int k = 0; k < count; ++k) upstream_[k] = from.upstream[positions[k]];
  }

  focal_span<T> span() {
    return {x_, has_targets_ ? t_ : nullptr, has_upstream_ ? upstream_ : nullptr, out_};
  }

  /// Writes what has been computed to where the elements are.
  VECDET_NOINLINE void write(T* to) const { copy_elements(out_, count_, to); }
  void write(T* to, const index_t* positions) const {
    for (int k = 0; k < count_; ++k) to[positions[k]] = out_[k];
  }

 private:
  /// Elements k and on; -inf where there are none.
  VECDET_INLINE row_pack<real> row_of(const T* x, int k) const {
    if (k + row_lanes <= count_) return load_pack<row>(x + k);
    if (k >= count_) return -infinity<real>;
    alignas(64) T rest[row_lanes];
    fill_elements(minus_infinity<T>(), row_lanes, rest);
    copy_elements(x + k, count_ - k, rest);
    return load_pack<row>(rest);
  }
  VECDET_INLINE void copy(const T* from, T* to) const {
    if (count_ < Size) fill_elements(T(0.0f), Size, to);
    copy_elements(from, count_, to);
  }

  bool has_targets_, has_upstream_;
  int count_;
  alignas(64) T x_[Size], t_[Size], upstream_[Size], out_[Size];
};

/// Elements [begin, begin + count) of a run, at most Size and with holes, from a copy.
template <int Size, class Output, class Equation, class T>
VECDET_NOINLINE void focal_padded(Output output, const Equation& equation, const focal_span<T>& run,
                                  index_t begin, int count, const focal_holes& holes,
                                  lane_sums& sums) {
  focal_padded_block<T, Size> block(run, begin, count, holes);
  focal_blocks(output, equation, block.span(), Size / focal_block, sums);
  if (output == focal_output::sum) return;
  T* const out = run.out + begin;
  block.write(out);
  // Whatever the weight or the upstream gradient, which may be NaN.
  holes.within(begin, begin + count,
               [&](index_t b, index_t e) { fill_elements(T(0.0f), e - b, out + b); });
}

/// `size` elements but for the holes: whole blocks where they lie, the rest from copies.
template <class Output, class Equation, class T>
VECDET_NOINLINE double focal_run(Output output, const Equation& equation, const focal_span<T>& run,
                                 index_t size, focal_holes holes) {
  constexpr int group = focal_blocks_together<Equation> * focal_block;
  lane_sums sums;
  for (index_t i = 0; i < size;) {
    holes.skip_to(i);
    const int step = size - i >= group ? group : focal_block;
    if (const index_t clear = holes.next_begin(size) - i; clear >= step) {
      const index_t whole = clear / step * step;
      focal_blocks(output, equation, run.at(i), whole / focal_block, sums);
      i += whole;
    } else if (const index_t hole = holes.next_end(i) - i; clear <= 0 && hole >= step) {
      if (output != focal_output::sum) fill_elements(T(0.0f), hole, run.out + i);
      i += hole;
    } else if (size - i >= group) {
      focal_padded<group>(output, equation, run, i, group, holes, sums);
      i += group;
    } else {
      const int count = static_cast<int>(size - i < focal_block ? size - i : focal_block);
      focal_padded<focal_block>(output, equation, run, i, count, holes, sums);
      i += count;
    }
  }
  return sums.total();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss over rows x classes logits: the loops around the equation of focal_terms.hpp.
//
// With integer labels nearly every element is a negative of one weight. Rows that are not ignored
// are walked as one flat run in blocks of 128 elements; a positive is taken out of its block by a
// logit of -inf, whose loss and gradient are 0, and computed with the other positives of the run,
// as a negative of -x. With dense targets that are all 0 or 1, a block flips the signs of its
// positives in registers; other targets take the general equation in double.
#pragma once

#include <vecdet/detail/rows/focal_loss.hpp>
#include <vecdet/kernels/focal_terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::focal_loss_args;
using detail::focal_output;

/// Elements that are computed together, and added up in one fixed order.
constexpr int focal_block = 8 * row_lanes;

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

// ---- what is computed for a pack of logits
// ---------------------------------------------------------

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

// ---- blocks of 128 elements, or two at a time
// ------------------------------------------------------------------------

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
      const pack<real, N> weight = equation.loss_weight;
      const pack<real, N> cap = equation.loss_weight == 0 ? largest<real> : infinity<real>;
      store_as<real, N>(at.out + i, weight * min(cap, terms.loss));  // weight 0 wins over inf
    } else if (output == focal_output::grad) {
      store_as<real, N>(at.out + i, terms.grad);
    } else if (output == focal_output::upstream_times_grad) {
      store_as<real, N>(at.out + i, terms.grad * load_as<real, N>(at.upstream + i));
    }
    for (int k = 0; k < N; k += row) total = total + slice<row>(terms.loss, k);
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

// ---- rows
// ------------------------------------------------------------------------------------------

/// weight * sum, 0 where a weight of 0 meets an infinite sum.
inline double weigh(double weight, double sum) {
  return weight == 0 && (sum == infinity<double> || sum == -infinity<double>) ? 0 : weight * sum;
}

/// Whether consecutive rows are consecutive memory and weigh the same.
template <class T>
bool rows_are_flat(const focal_loss_args<T>& a) {
  return a.row_weights == nullptr && a.logits_stride == a.cols &&
         (a.targets == nullptr || a.targets_stride == a.cols) &&
         (a.out == nullptr || a.out_stride == a.cols) &&
         (a.upstream == nullptr || a.upstream_stride == a.cols);
}

template <class T>
focal_span<T> span_of_row(const focal_loss_args<T>& a, index_t row) {
  return {a.logits + row * a.logits_stride,
          a.targets != nullptr ? a.targets + row * a.targets_stride : nullptr,
          a.upstream != nullptr ? a.upstream + row * a.upstream_stride : nullptr,
          a.out != nullptr ? a.out + row * a.out_stride : nullptr};
}

/// The losses of the positives of a run, gathered before the run may overwrite them.
template <class Output, class Equation, class T>
class gathered_positives {
 public:
  gathered_positives(const focal_span<T>& run, const index_t* positions, int count)
      : positions_(positions), count_(count) {
    for (int k = 0; k < focal_block; ++k) {
      x_[k] = k < count ? minus(run.x[positions[k]]) : minus_infinity<T>();
      if (run.upstream != nullptr) {
        upstream_[k] = k < count ? run.upstream[positions[k]] : T(0.0f);
      }
    }
  }

  /// Writes what belongs to them into the run and returns the sum of their losses.
  double finish(Output output, const Equation& positives, const focal_span<T>& run) {
    alignas(64) T out[focal_block];
    lane_sums sums;
    focal_blocks(output, positives, focal_span<T>{x_, nullptr, upstream_, out}, 1, sums);
    if (output != focal_output::sum) {
      for (int k = 0; k < count_; ++k) run.out[positions_[k]] = out[k];
    }
    return sums.total();
  }

 private:
  static T minus(T x) { return T(-compute_type<T>(x)); }

  const index_t* positions_;
  int count_;
  alignas(64) T x_[focal_block];
  alignas(64) T upstream_[focal_block];
};

template <class Output, class Equation, class T>
double focal_rows_from_labels(Output output, const focal_loss_args<T>& a, index_t first,
                              index_t last) {
  const bool flat = rows_are_flat(a);
  double sum = 0;
  for (index_t row = first; row < last;) {
    if (a.labels[row] == a.ignore) {
      if (output != focal_output::sum) {
        for (index_t j = 0; j < a.cols; ++j) a.out[row * a.out_stride + j] = T(0.0f);
      }
      ++row;
      continue;
    }
    // The run: rows up to an ignored one, or as many positives as are computed together.
    index_t positives[focal_block];
    int positive_count = 0;
    index_t end = row;
    do {
      if (a.labels[end] != a.background) {
        positives[positive_count++] = (end - row) * a.cols + a.labels[end];
      }
      ++end;
    } while (flat && end < last && a.labels[end] != a.ignore && positive_count < focal_block);

    const double row_weight = a.row_weights != nullptr ? a.row_weights[row] : 1.0;
    const double negative_weight = row_weight * a.negative_weight;
    const double positive_weight = row_weight * a.positive_weight;
    const focal_span<T> run = span_of_row(a, row);
    const index_t size = (end - row) * a.cols;
    const Equation negatives(negative_weight, 1, a.gamma);
    if (positive_count == 0) {
      sum += weigh(negative_weight, focal_run(output, negatives, run, size, nullptr, 0));
    } else {
      gathered_positives<Output, Equation, T> gathered(run, positives, positive_count);
      sum += weigh(negative_weight,
                   focal_run(output, negatives, run, size, positives, positive_count));
      sum += weigh(positive_weight,
                   gathered.finish(output, Equation(positive_weight, -1, a.gamma), run));
    }
    row = end;
  }
  return sum;
}

template <class Output, class Equation, class T>
double focal_rows_from_targets(Output output, const focal_loss_args<T>& a, index_t first,
                               index_t last) {
  const index_t rows_a_run = rows_are_flat(a) ? last - first : 1;
  double sum = 0;
  for (index_t row = first; row < last; row += rows_a_run) {
    const double row_weight = a.row_weights != nullptr ? a.row_weights[row] : 1.0;
    const typename Equation::soft general{row_weight * a.positive_weight,
                                          row_weight * a.negative_weight, a.gamma};
    const focal_span<T> run = span_of_row(a, row);
    const index_t size = rows_a_run * a.cols;
    if constexpr (Equation::only_hard) {
      if (general.positive_weight != 0 && general.negative_weight != 0) {
        sum += focal_run(output, Equation(general), run, size, nullptr, 0);
        continue;
      }
    }
    sum += focal_run(output, general, run, size, nullptr, 0);
  }
  return sum;
}

// ---- the variant that a call asks for
// ----------------------------------------------------------------

/// An output known when compiling: only what it needs is computed.
template <focal_output Output>
using known_output = std::integral_constant<focal_output, Output>;

template <class Equation, class Output, class T>
double focal_rows(Output output, const focal_loss_args<T>& a, index_t first, index_t last) {
  if constexpr (Equation::has_targets) {
    return focal_rows_from_targets<Output, Equation>(output, a, first, last);
  } else {
    return focal_rows_from_labels<Output, Equation>(output, a, first, last);
  }
}

/// By gamma and output. The fast equations are in float, so double storage always takes the general
/// one; the outputs that training rarely asks for share one copy of the code.
template <template <int> class Fast, template <int> class General, class T>
double focal_rows_by_gamma(const focal_loss_args<T>& a, index_t first, index_t last) {
  if constexpr (!std::is_same<T, double>::value) {
    if (a.gamma == 2 && a.output == focal_output::grad) {
      return focal_rows<Fast<2>>(known_output<focal_output::grad>{}, a, first, last);
    }
    if (a.gamma == 2 && a.output == focal_output::sum) {
      return focal_rows<Fast<2>>(known_output<focal_output::sum>{}, a, first, last);
    }
    if (a.gamma == 2) return focal_rows<Fast<2>>(a.output, a, first, last);
    if (a.gamma == 1) return focal_rows<Fast<1>>(a.output, a, first, last);
    if (a.gamma == 0) return focal_rows<Fast<0>>(a.output, a, first, last);
  } else {
    if (a.gamma == 2) return focal_rows<General<2>>(a.output, a, first, last);
  }
  return focal_rows<General<any_gamma>>(a.output, a, first, last);
}

template <class T>
constexpr detail::focal_loss_row<T> focal_loss_kernels() {
  return {focal_rows_by_gamma<fast_negatives, general_negatives, T>,
          focal_rows_by_gamma<hard_targets, soft_targets, T>};
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

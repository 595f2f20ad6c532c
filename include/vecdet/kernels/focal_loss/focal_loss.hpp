// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss over rows x classes logits: the loop over rows.
//
// With integer labels nearly every element is a negative of one weight. Rows are walked as one flat
// run in blocks of 128 elements, in which positives and ignored rows are holes: in a copy of their
// blocks, logits of -inf take their places, whose loss and gradient are 0. The positives are
// computed with the others of the run, as negatives of -x. With dense targets that are all 0 or 1,
// a block flips the signs of its positives in registers; other targets take the general equation in
// double. What an element's result is depends on the element alone: not on those around it, the
// strides or the block that it happens to lie in.
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/kernels/focal_loss/blocks.hpp>
#include <vecdet/kernels/focal_loss/label_search.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::focal_loss_args;

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

/// A row's weight; any NaN as the one that computations make, which lies within bfloat16's bits. By
/// the weight's bits, as -ffast-math knows no NaN.
template <class T>
double weight_of_row(const focal_loss_args<T>& a, index_t row) {
  if (a.row_weights == nullptr) return 1;
  std::uint32_t bits;
  __builtin_memcpy(&bits, a.row_weights + row, sizeof bits);
  return (bits & 0x7fffffffu) > 0x7f800000u ? __builtin_nan("") : a.row_weights[row];
}

template <class T>
focal_span<T> span_of_row(const focal_loss_args<T>& a, index_t row) {
  return {a.logits + row * a.logits_stride,
          a.targets != nullptr ? a.targets + row * a.targets_stride : nullptr,
          a.upstream != nullptr ? a.upstream + row * a.upstream_stride : nullptr,
          a.out != nullptr ? a.out + row * a.out_stride : nullptr};
}

template <class Output, class Equation, class T>
double focal_rows_from_labels(Output output, const focal_loss_args<T>& a, index_t first,
                              index_t last) {
  const bool flat = rows_are_flat(a);
  double sum = 0;
  for (index_t row = first; row < last;) {
    if (a.labels[row] == a.ignore) {
      if (output != focal_output::sum) fill_elements(T(0.0f), a.cols, a.out + row * a.out_stride);
      ++row;
      continue;
    }
    // The run: all rows or this one, up to as many holes as there is room for.
    index_t positives[focal_block];
    focal_hole holes[focal_block];
    int positive_count = 0, hole_count = 0;
    const index_t limit = flat ? last : row + 1;
    index_t end = row;
    while (hole_count < focal_block) {
      end = find_labelled(a.labels, end, limit, a.background);
      if (end == limit) break;
      const index_t label = a.labels[end], begin = (end - row) * a.cols;
      if (label == a.ignore) {
        holes[hole_count++] = {begin, begin + a.cols};
      } else {
        holes[hole_count++] = {begin + label, begin + label + 1};
        positives[positive_count++] = begin + label;
      }
      ++end;
    }

    const double row_weight = weight_of_row(a, row);
    const double negative_weight = row_weight * a.negative_weight;
    const double positive_weight = row_weight * a.positive_weight;
    const focal_span<T> run = span_of_row(a, row);
    const index_t size = (end - row) * a.cols;
    const auto add_negatives = [&] {
      sum += weigh(negative_weight, focal_run(output, Equation(negative_weight, 1, a.gamma), run,
                                              size, focal_holes(holes, hole_count)));
    };
    if (positive_count == 0) {
      add_negatives();
    } else {
      // Gathered before the run may overwrite them.
      focal_padded_block<T> gathered(run, positives, positive_count);
      add_negatives();
      lane_sums sums;
      focal_blocks(output, Equation(positive_weight, -1, a.gamma), gathered.span(), 1, sums);
      if (output != focal_output::sum) gathered.write(run.out, positives);
      sum += weigh(positive_weight, sums.total());
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
    const double row_weight = weight_of_row(a, row);
    const typename Equation::soft general{row_weight * a.positive_weight,
                                          row_weight * a.negative_weight, a.gamma};
    const focal_span<T> run = span_of_row(a, row);
    const index_t size = rows_a_run * a.cols;
    if constexpr (Equation::only_hard) {
      if (const Equation hard(general); hard.holds()) {
        sum += focal_run(output, hard, run, size, {});
        continue;
      }
    }
    sum += focal_run(output, general, run, size, {});
  }
  return sum;
}

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

/// What equations can take a row's weights.
enum class weight_range {
  of_float,   ///< all
  of_double,  ///< the general one
  infinite,   ///< none
};

/// By gamma and output. The fast equations are in float, so double storage and weights that float
/// cannot take use the general one; the outputs that training rarely asks for share one copy of the
/// code.
template <template <int> class Fast, template <int> class General, class T>
double focal_rows_by_gamma(const focal_loss_args<T>& a, index_t first, index_t last,
                           weight_range range) {
  if constexpr (!std::is_same<T, double>::value) {
    if (range == weight_range::of_float) {
      if (a.gamma == 2 && a.output == focal_output::grad) {
        return focal_rows<Fast<2>>(known_output<focal_output::grad>{}, a, first, last);
      }
      if (a.gamma == 2 && a.output == focal_output::sum) {
        return focal_rows<Fast<2>>(known_output<focal_output::sum>{}, a, first, last);
      }
      if (a.gamma == 2) return focal_rows<Fast<2>>(a.output, a, first, last);
      if (a.gamma == 1) return focal_rows<Fast<1>>(a.output, a, first, last);
      if (a.gamma == 0) return focal_rows<Fast<0>>(a.output, a, first, last);
    }
  } else {
    if (a.gamma == 2) return focal_rows<General<2>>(a.output, a, first, last);
  }
  return focal_rows<General<any_gamma>>(a.output, a, first, last);
}

/// Whether the fast equations keep their accuracy with this weight. A greater one lifts results
/// that were too small for float without it, a smaller one is itself too small.
inline bool is_of_float(double weight, double gamma) {
  const double magnitude = __builtin_fabs(weight);
  return !(magnitude > (gamma == 0 ? 1e7 : 1e26)) && !(magnitude > 0 && magnitude < 1e-37);
}

template <class T>
weight_range range_of(const focal_loss_args<T>& a, float row_weight) {
  // By the bits, as -ffast-math knows no infinity.
  std::uint32_t bits;
  __builtin_memcpy(&bits, &row_weight, sizeof bits);
  if ((bits & 0x7fffffffu) == 0x7f800000u) return weight_range::infinite;
  return is_of_float(a.positive_weight * row_weight, a.gamma) &&
                 is_of_float(a.negative_weight * row_weight, a.gamma)
             ? weight_range::of_float
             : weight_range::of_double;
}

/// x times infinity, where 0 wins.
template <class T>
T infinite_unless_zero(T x) {
  using bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  bits sign, of_x, infinite;
  const T minus_zero(-0.0f), minus_inf = minus_infinity<T>();
  __builtin_memcpy(&sign, &minus_zero, sizeof sign);
  __builtin_memcpy(&of_x, &x, sizeof of_x);
  __builtin_memcpy(&infinite, &minus_inf, sizeof infinite);
  const bits magnitude = of_x & bits(~sign);
  infinite = bits(infinite & ~sign);
  if (magnitude == 0 || magnitude > infinite) return x;
  of_x = bits(infinite | (of_x & sign));
  __builtin_memcpy(&x, &of_x, sizeof x);
  return x;
}

/// A row of infinite weight: computed with 1 for it, what is not 0 becomes infinite.
template <class Rows, class T>
double focal_row_of_infinite_weight(const Rows& rows, const focal_loss_args<T>& a, index_t row) {
  focal_loss_args<T> one = a;
  one.row_weights = nullptr;
  if (a.row_weights[row] < 0) {
    one.positive_weight = -a.positive_weight;
    one.negative_weight = -a.negative_weight;
  }
  const double sum = rows(one, row);
  if (a.output != focal_output::sum) {
    T* const out = a.out + row * a.out_stride;
    for (index_t k = 0; k < a.cols; ++k) out[k] = infinite_unless_zero(out[k]);
  }
  return infinite_unless_zero(sum);
}

/// By the ranges of the rows' weights: with finite weights, results are what the formula gives,
/// rounded; with an infinite one, the limit of growing ones.
template <template <int> class Fast, template <int> class General, class T>
double focal_rows_by_weight(const focal_loss_args<T>& a, index_t first, index_t last) {
  const weight_range unweighted = range_of(a, 1);
  if (a.row_weights == nullptr)
    return focal_rows_by_gamma<Fast, General>(a, first, last, unweighted);
  double sum = 0;
  while (first < last) {
    const weight_range range = range_of(a, a.row_weights[first]);
    index_t end = first + 1;
    if (range == weight_range::infinite) {
      sum += focal_row_of_infinite_weight(
          [&](const focal_loss_args<T>& one, index_t row) {
            return focal_rows_by_gamma<Fast, General>(one, row, row + 1, unweighted);
          },
          a, first);
    } else {
      while (end < last && range_of(a, a.row_weights[end]) == range) ++end;
      sum += focal_rows_by_gamma<Fast, General>(a, first, end, range);
    }
    first = end;
  }
  return sum;
}

template <class T>
struct kernels_of<detail::focal_loss_kernels<T>> {
  static constexpr detail::focal_loss_kernels<T> get() {
    detail::focal_loss_kernels<T> kernels{};
    kernels.find_invalid_label = find_invalid_label;
    kernels.from_labels = focal_rows_by_weight<fast_negatives, general_negatives, T>;
    kernels.from_targets = focal_rows_by_weight<hard_targets, soft_targets, T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

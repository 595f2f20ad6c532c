// SPDX-License-Identifier: Apache-2.0
// Focal loss of rows whose weights are in the same range. With integer labels, they form a run of
// negatives in which positives and ignored rows are holes; with dense targets, a run with targets.
//
// The equation is chosen here. Common training cases have their own code: gamma 2 with labels and
// with dense targets, and cross entropy with labels. All other cases share code: in float, one
// function for each of gamma 0, 1 and 2; in double, one function for gamma 2, one for any other
// gamma, and one for negatives only.
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/kernels/focal_loss/blocks.hpp>
#include <vecdet/kernels/focal_loss/label_search.hpp>
#include <vecdet/kernels/focal_loss/runs.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::focal_loss_args;

/// weight * sum; 0 if a weight of 0 meets an infinite sum.
inline double weigh(double weight, double sum) {
  return weight == 0 && (sum == infinity<double>() || sum == -infinity<double>()) ? 0
                                                                                  : weight * sum;
}

/// Whether consecutive rows are consecutive in memory and have equal weights.
template <class T>
bool rows_are_flat(const focal_loss_args<T>& a) {
  return a.row_weights == nullptr && a.logits_stride == a.cols &&
         (a.targets == nullptr || a.targets_stride == a.cols) &&
         (a.out == nullptr || a.out_stride == a.cols) &&
         (a.upstream == nullptr || a.upstream_stride == a.cols);
}

/// A row's weight. Any NaN becomes the NaN that computations produce, which bfloat16 can hold.
template <class T>
double weight_of_row(const focal_loss_args<T>& a, index_t row) {
  if (a.row_weights == nullptr) return 1;
  return is_nan(a.row_weights[row]) ? not_a_number<double>() : a.row_weights[row];
}

template <class T>
focal_span<T> span_of_row(const focal_loss_args<T>& a, index_t row) {
  return {a.logits + row * a.logits_stride,
          a.targets != nullptr ? a.targets + row * a.targets_stride : nullptr,
          a.upstream != nullptr ? a.upstream + row * a.upstream_stride : nullptr,
          a.out != nullptr ? a.out + row * a.out_stride : nullptr};
}

/// Weight ranges. They determine which equations are accurate for a run:
enum class weight_range {
  in_float,   ///< all equations
  in_double,  ///< those in double
  infinite,   ///< none: computed as a limit
};

/// Whether the fast equations keep their accuracy with this weight. A greater weight magnifies
/// results that are too small for float before they are weighted; a smaller one is itself too
/// small.
inline bool is_of_float(double weight, double gamma) {
  const double magnitude = __builtin_fabs(weight);
  return !(magnitude > (gamma == 0 ? 1e7 : 1e26)) && !(magnitude > 0 && magnitude < 1e-37);
}

template <class T>
weight_range range_of(const focal_loss_args<T>& a, float row_weight) {
  if (detail::magnitude_bits(row_weight) == 0x7f800000) return weight_range::infinite;
  return is_of_float(a.positive_weight * row_weight, a.gamma) &&
                 is_of_float(a.negative_weight * row_weight, a.gamma)
             ? weight_range::in_float
             : weight_range::in_double;
}

/// The code for an equation in float and the output `Output`.
template <class Output, class T>
auto focal_code_with(const focal_loss_args<T>& a) {
  return a.targets != nullptr ? focal_dense_targets<Output, T>
         : a.gamma == 2       ? focal_negatives<2, Output, T>
                              : focal_negatives<0, Output, T>;
}

/// The code for gamma 0, 1 or 2 in float.
template <class T>
auto focal_code_in_float(const focal_loss_args<T>& a) {
  if (a.focusing == 1 && (a.gamma == 2 || (a.gamma == 0 && a.targets == nullptr))) {
    // With fused multiply-add, the sum and the gradient have their own code. On the baseline, code
    // is twice as large, so only sums of float do: they become 10% to 33% faster.
    constexpr bool is_float = std::is_same<T, float>::value;
    if constexpr (has_fma || is_float) {
      if (a.output == focal_output::sum)
        return focal_code_with<known_focal_output<focal_output::sum>>(a);
    }
    if constexpr (has_fma) {
      if (a.output == focal_output::grad)
        return focal_code_with<known_focal_output<focal_output::grad>>(a);
    }
    return focal_code_with<focal_output>(a);
  }
  if (a.gamma == 2) return focal_generally<float, focal_in_float<2>, T>;
  return a.gamma == 1 ? focal_generally<float, focal_in_float<1>, T>
                      : focal_generally<float, focal_in_float<0>, T>;
}

/// The equation for elements with these weights; the positives' weight matters only with dense
/// targets. Double storage and weights beyond float's range are computed in double.
template <class T>
focal_equation<T> focal_equation_of(const focal_loss_args<T>& a, weight_range range,
                                    double positive_weight, double negative_weight) {
  const bool dense = a.targets != nullptr;
  focal_equation<T> equation{
      {positive_weight, negative_weight, a.gamma, a.focusing, dense, false, a.output},
      focal_block,
      nullptr};
  if constexpr (!std::is_same<T, double>::value) {
    // Not if a target's weight of 0 may meet an infinite loss.
    const bool is_weighable = !dense || (static_cast<float>(positive_weight) != 0 &&
                                         static_cast<float>(negative_weight) != 0);
    const bool has_code = a.gamma == 0 || a.gamma == 1 || a.gamma == 2;
    if (has_code && range == weight_range::in_float && is_weighable) {
      equation.group = dense ? focal_targets_group : focal_negatives_group;
      equation.compute = focal_code_in_float(a);
      return equation;
    }
  }
  if (a.gamma == 2) {
    equation.compute = focal_generally<double, focal_in_double<double_terms::gamma_2>, T>;
  } else if (dense) {
    equation.compute = focal_generally<double, focal_in_double<double_terms::other_gamma>, T>;
  } else {
    equation.compute = focal_generally<double, focal_in_double<double_terms::negatives>, T>;
  }
  return equation;
}

/// The elements of a labelled run that are not negatives.
struct focal_marks {
  focal_hole holes[focal_block];   ///< their positions
  index_t positives[focal_block];  ///< the positives among them
  index_t labels[focal_block];     ///< their labels' indices
  int hole_count = 0, positive_count = 0;

  bool full() const { return hole_count == focal_block; }
  void add_ignored(index_t begin, index_t end) { holes[hole_count++] = {begin, end}; }
  void add_positive(index_t at, index_t label) {
    holes[hole_count++] = {at, at + 1};
    labels[positive_count] = label;
    positives[positive_count++] = at;
  }
};

/// Computes positives with targets of 1, as negatives of their negated logits.
template <class T>
class hard_positives {
 public:
  hard_positives(const focal_span<T>& run, const focal_marks& marks) : marks_(marks) {
    fill_elements(minus_infinity<T>(), focal_block, x_);
    if (run.upstream != nullptr) fill_elements(T(0.0f), focal_block, upstream_);
    for (int k = 0; k < marks.positive_count; ++k) {
      const index_t i = marks.positives[k];
      x_[k] = T(-compute_type<T>(run.x[i]));
      if (run.upstream != nullptr) upstream_[k] = run.upstream[i];
    }
  }
  VECDET_NOINLINE double compute(const focal_loss_args<T>& a, weight_range range, double weight,
                                 const focal_span<T>& run) {
    focal_equation<T> equation = focal_equation_of(a, range, weight, weight);
    equation.mirrored = true;
    lane_sums sums;
    equation.compute(equation,
                     {x_, nullptr, run.upstream != nullptr ? upstream_ : nullptr,
                      run.out != nullptr ? out_ : nullptr},
                     focal_block, sums);
    if (run.out != nullptr)
      for (int k = 0; k < marks_.positive_count; ++k) run.out[marks_.positives[k]] = out_[k];
    return weigh(weight, sums.total());
  }

 private:
  const focal_marks& marks_;
  alignas(64) T x_[focal_block], upstream_[focal_block], out_[focal_block];
};

/// Computes positives with their own targets, in double.
template <class T>
class scored_positives {
 public:
  scored_positives(const focal_loss_args<T>& a, const focal_span<T>& run, const focal_marks& marks)
      : marks_(marks) {
    for (int k = 0; k < focal_block; ++k) {
      const bool is_one = k < marks.positive_count;
      const index_t i = is_one ? marks.positives[k] : 0;
      x_[k] = is_one ? double{compute_type<T>(run.x[i])} : -infinity<double>();
      t_[k] = is_one ? double{a.scores[marks.labels[k]]} : 0;
      upstream_[k] =
          is_one && run.upstream != nullptr ? double{compute_type<T>(run.upstream[i])} : 0;
    }
  }
  VECDET_NOINLINE double compute(const focal_loss_args<T>& a, double positive_weight,
                                 double negative_weight, const focal_span<T>& run) {
    const focal_formula formula{positive_weight, negative_weight, a.gamma, 1, true,
                                false,           a.output};
    const auto block =
        a.labelled == detail::labelled_loss::quality     ? focal_in_double<double_terms::quality>
        : a.labelled == detail::labelled_loss::varifocal ? focal_in_double<double_terms::varifocal>
        : a.gamma == 2                                   ? focal_in_double<double_terms::gamma_2>
                       : focal_in_double<double_terms::other_gamma>;
    constexpr int together = pack<double, focal_double_batches>::lanes;
    const int size = (marks_.positive_count + together - 1) / together * together;
    lane_sums sums;
    block(formula, {x_, t_, run.upstream != nullptr ? upstream_ : nullptr, out_}, size, sums);
    if (run.out != nullptr) {
      for (int k = 0; k < marks_.positive_count; ++k)
        run.out[marks_.positives[k]] = T(static_cast<compute_type<T>>(out_[k]));
    }
    return sums.total();
  }

 private:
  const focal_marks& marks_;
  alignas(64) double x_[focal_block], t_[focal_block], upstream_[focal_block], out_[focal_block];
};

/// Computes a labelled run whose rows have equal weights, and adds its losses to `sum`.
template <class T>
void focal_labelled_run(const focal_loss_args<T>& a, weight_range range, double weight,
                        const focal_span<T>& run, index_t size, const focal_marks& marks,
                        double& sum) {
  const double positive_weight = weight * a.positive_weight;
  const double negative_weight = weight * a.negative_weight;
  const auto add_negatives = [&] {
    sum += weigh(negative_weight,
                 focal_run(focal_equation_of(a, range, negative_weight, negative_weight), run, size,
                           focal_holes(marks.holes, marks.hole_count)));
  };
  // Gather positives before the run overwrites them.
  if (marks.positive_count == 0) {
    add_negatives();
  } else if (a.scores == nullptr) {
    hard_positives<T> positives(run, marks);
    add_negatives();
    sum += positives.compute(a, range, positive_weight, run);
  } else {
    scored_positives<T> positives(a, run, marks);
    add_negatives();
    sum += positives.compute(a, positive_weight, negative_weight, run);
  }
}

template <class T>
double focal_rows_from_labels(const focal_loss_args<T>& a, index_t first, index_t last,
                              weight_range range) {
  const bool flat = rows_are_flat(a);
  double sum = 0;
  for (index_t row = first; row < last;) {
    if (a.labels[a.first_label + row] == a.ignore) {
      if (a.out != nullptr) fill_elements(T(0.0f), a.cols, a.out + row * a.out_stride);
      ++row;
      continue;
    }
    // The run: all rows or only this one, limited by the memory for holes in `marks`.
    focal_marks marks;
    const index_t limit = flat ? last : row + 1;
    index_t end = row;
    while (!marks.full()) {
      end = find_labelled(a.labels, a.first_label + end, a.first_label + limit, a.background) -
            a.first_label;
      if (end == limit) break;
      const index_t at = a.first_label + end, label = a.labels[at], begin = (end - row) * a.cols;
      if (label == a.ignore) {
        marks.add_ignored(begin, begin + a.cols);
      } else {
        marks.add_positive(begin + label, at);
      }
      ++end;
    }
    focal_labelled_run(a, range, weight_of_row(a, row), span_of_row(a, row), (end - row) * a.cols,
                       marks, sum);
    row = end;
  }
  return sum;
}

template <class T>
double focal_rows_from_targets(const focal_loss_args<T>& a, index_t first, index_t last,
                               weight_range range) {
  const index_t rows_a_run = rows_are_flat(a) ? last - first : 1;
  double sum = 0;
  for (index_t row = first; row < last; row += rows_a_run) {
    const double weight = weight_of_row(a, row);
    sum += focal_run(
        focal_equation_of(a, range, weight * a.positive_weight, weight * a.negative_weight),
        span_of_row(a, row), rows_a_run * a.cols, {});
  }
  return sum;
}

template <class T>
double focal_rows(const focal_loss_args<T>& a, index_t first, index_t last, weight_range range) {
  return a.targets != nullptr ? focal_rows_from_targets(a, first, last, range)
                              : focal_rows_from_labels(a, first, last, range);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

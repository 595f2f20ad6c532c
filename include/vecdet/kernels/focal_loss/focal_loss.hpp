// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss over rows x classes logits.
//
// With integer labels, nearly every element is a negative, and all negatives have the same weight.
// Rows are processed as one flat run in blocks of 128 elements, in which positives and ignored rows
// are holes: in a copy of the block, they are replaced by logits of -inf, whose loss and gradient
// are 0. All positives of a run are computed together, as negatives of -x; those with their own
// targets are computed in double. In an NCHW head, the planes of an anchor's classes are such runs.
// With dense targets, each block uses the shortest equation that its targets allow: all 0, all 0 or
// 1, all in between, any. An element's result depends only on the element: not on its neighbours,
// the strides or its position in a block.
#pragma once

#include <vecdet/kernels/focal_loss/label_search.hpp>
#include <vecdet/kernels/focal_loss/planes.hpp>
#include <vecdet/kernels/focal_loss/rows.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// x times infinity, except that 0 and NaN stay.
template <class T>
T infinite_unless_zero(T x) {
  using bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  bits sign, x_bits, infinite;
  const T minus_zero(-0.0f), minus_inf = minus_infinity<T>();
  __builtin_memcpy(&sign, &minus_zero, sizeof sign);
  __builtin_memcpy(&x_bits, &x, sizeof x_bits);
  __builtin_memcpy(&infinite, &minus_inf, sizeof infinite);
  const bits magnitude = x_bits & bits(~sign);
  infinite = bits(infinite & ~sign);
  if (magnitude == 0 || magnitude > infinite) return x;
  x_bits = bits(infinite | (x_bits & sign));
  __builtin_memcpy(&x, &x_bits, sizeof x);
  return x;
}

/// Computes a row of infinite weight: with weight 1, then replaces everything other than 0 by
/// infinity.
template <class T>
double focal_row_of_infinite_weight(const focal_loss_args<T>& a, index_t row) {
  focal_loss_args<T> one = a;
  one.row_weights = nullptr;
  if (a.row_weights[row] < 0) {
    one.positive_weight = -a.positive_weight;
    one.negative_weight = -a.negative_weight;
  }
  const double sum = focal_rows(one, row, row + 1, range_of(a, 1));
  if (a.output != focal_output::sum) {
    T* const out = a.out + row * a.out_stride;
    for (index_t k = 0; k < a.cols; ++k) out[k] = infinite_unless_zero(out[k]);
  }
  return infinite_unless_zero(sum);
}

/// Whether all rows' weights are in_float, which is the usual case. The smallest nonzero magnitude
/// and the largest decide. Returns false if a weight is NaN; each row is then tested.
template <class T>
bool are_of_float(const focal_loss_args<T>& a, index_t first, index_t last) {
  constexpr std::uint32_t infinite = 0x7f800000u;
  std::uint32_t least = infinite, greatest = 0;  // magnitudes other than 0, ordered as their bits
  for (index_t row = first; row < last; ++row) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, a.row_weights + row, sizeof bits);
    bits &= 0x7fffffffu;
    least = bits != 0 && bits < least ? bits : least;
    greatest = bits > greatest ? bits : greatest;
  }
  if (greatest == 0) return true;
  if (greatest >= infinite) return false;
  float lightest, heaviest;
  __builtin_memcpy(&lightest, &least, sizeof least);
  __builtin_memcpy(&heaviest, &greatest, sizeof greatest);
  return range_of(a, lightest) == weight_range::in_float &&
         range_of(a, heaviest) == weight_range::in_float;
}

/// Computes rows [first, last), processing neighbours with the same weight range together. With
/// finite weights, results are the formula's, rounded; with an infinite weight, they are the limit
/// for growing weights.
template <class T>
double focal_rows_by_weight(const focal_loss_args<T>& a, index_t first, index_t last) {
  if (a.row_weights == nullptr) return focal_rows(a, first, last, range_of(a, 1));
  if (are_of_float(a, first, last)) return focal_rows(a, first, last, weight_range::in_float);
  double sum = 0;
  while (first < last) {
    const weight_range range = range_of(a, a.row_weights[first]);
    index_t end = first + 1;
    if (range == weight_range::infinite) {
      sum += focal_row_of_infinite_weight(a, first);
    } else {
      while (end < last && range_of(a, a.row_weights[end]) == range) ++end;
      sum += focal_rows(a, first, end, range);
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
    kernels.compute_rows = focal_rows_by_weight<T>;
    kernels.compute_planes = focal_planes_of_labels<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(focal_loss_kernels)

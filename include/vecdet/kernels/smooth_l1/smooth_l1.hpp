// SPDX-License-Identifier: Apache-2.0
// Smooth L1 over N x 4 deltas. Each number is computed by itself, so 16 boxes are four rows of 16
// elements as they lie in memory.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/smooth_l1.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/smooth_l1/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T, class Output>
struct smooth_l1_of_boxes {
  using real = compute_type<T>;
  static constexpr bool adds_up = true, lanes_are_boxes = false;
  smooth_l1_curve<real> curve;
  real scale;
  Output output;

  VECDET_INLINE row_pack<real> operator()(const box_streams<T>& at) const {
    constexpr int N = row_pack<real>::batches;
    const row_pack<real> factor(scale);
    row_pack<real> sum(real(0));
    VECDET_UNROLL_ROWS
    for (int i = 0; i < 4 * box_group; i += row_lanes) {
      const auto terms = curve(load_pack<N>(at.in + i) - load_pack<N>(at.boxes[0] + i));
      sum = sum + terms.loss;
      if (output == loss_output::grad) store_pack<N>(at.out + i, terms.slope * factor);
      if (output == loss_output::loss) store_pack<N>(at.out + i, terms.loss * factor);
    }
    return sum;
  }
};

/// The same with weights of the boxes, or with a scale of 0, which acts as a weight of 0 does.
/// Plain weights are those of are_plain_weights.
template <class T, bool Plain>
struct weighted_smooth_l1_of_boxes {
  using real = compute_type<T>;
  static constexpr bool adds_up = true, lanes_are_boxes = false;
  smooth_l1_curve<real> curve;
  real scale;
  loss_output output;

  VECDET_INLINE row_pack<real> operator()(const box_streams<T>& at) const {
    const element_weights weight(at.weights);
    row_pack<real> sum(real(0));
    if constexpr (Plain) {
      VECDET_UNROLL_ROWS
      for (int i = 0; i < 4 * box_group; i += row_lanes) {
        sum = sum + row(at, i, weight,
                        [](const row_pack<real>& x, const row_pack<real>& y)
                            VECDET_INLINE_LAMBDA { return x * y; });
      }
    } else {
      VECDET_NO_UNROLL
      for (int i = 0; i < 4 * box_group; i += row_lanes)
        sum = sum + row(at, i, weight, vanishing_row);
    }
    return sum;
  }

 private:
  /// One weight an element, that of its box; 1 where boxes have none.
  struct element_weights {
    alignas(64) real of[4 * box_group];

    VECDET_INLINE explicit element_weights(const float* of_boxes) {
      store_for_each_number(of, load_box_weights<real, row_pack<real>::batches>(of_boxes, 0));
    }
  };

  static VECDET_NOINLINE row_pack<real> vanishing_row(const row_pack<real>& x,
                                                      const row_pack<real>& y) {
    return vanishing_product(x, y);
  }

  /// Writes what is asked for of 16 elements from i on, and returns their losses.
  template <class Times>
  VECDET_INLINE row_pack<real> row(const box_streams<T>& at, int i, const element_weights& weight,
                                   const Times& times) const {
    constexpr int N = row_pack<real>::batches;
    const row_pack<real> factor(scale);
    const auto terms = curve(load_pack<N>(at.in + i) - load_pack<N>(at.boxes[0] + i));
    const row_pack<real> w = load_pack<N>(weight.of + i);
    const row_pack<real> loss = times(terms.loss, w);
    if (output == loss_output::grad) {
      store_pack<N>(at.out + i, times(terms.slope, times(factor, w)));
    }
    if (output == loss_output::loss) store_pack<N>(at.out + i, times(loss, factor));
    return loss;
  }
};

/// Whether all weights of whole groups are above 0 and plain: they are if the least and the
/// greatest are. Groups with a negative weight, which are rare, go the special way, to the same
/// bits.
template <class Real>
VECDET_NOINLINE bool groups_have_plain_weights(Real scale, const float* weights, index_t groups) {
  constexpr int N = row_pack<float>::batches;
  using bits = row_pack<std::int32_t>;
  // As integers, floats with a minus sign lie below all others, and NaN without one above.
  bits least = 0x7fffffff, greatest = 0;
  for (index_t i = 0; i < groups * box_group; i += row_lanes) {
    const bits weight = bit_cast<std::int32_t>(load_pack<N>(weights + i));
    least = min(least, weight);
    greatest = max(greatest, weight);
  }
  const auto are_plain = [&](const bits& of_weights) VECDET_INLINE_LAMBDA {
    if constexpr (std::is_same<Real, double>::value) {
      return are_plain_weights(scale, widen(bit_cast<float>(of_weights)));
    } else {
      return are_plain_weights(scale, bit_cast<float>(of_weights));
    }
  };
  return all(least > bits(0)) && are_plain(least) && are_plain(greatest);
}

/// Runs the operation over 64 groups at a time, with plain products where all of their weights are
/// plain, else group by group, each by its own weights. Asking for each group within its loop would
/// take registers from that loop.
template <class T>
void run_weighted_smooth_l1(const void* op, const box_streams<T>& streams, index_t groups,
                            int valid, lane_sums& sums) {
  using plain = weighted_smooth_l1_of_boxes<T, true>;
  using special = weighted_smooth_l1_of_boxes<T, false>;
  const plain of_plain = *static_cast<const plain*>(op);
  const special of_special{of_plain.curve, of_plain.scale, of_plain.output};
  const auto are_plain = [&](index_t first, index_t count) {
    return streams.weights != nullptr &&
           groups_have_plain_weights(of_plain.scale, streams.weights + first * box_group, count);
  };
  constexpr index_t together = 64;
  const auto at_most = [&](index_t count, index_t g) {
    return groups - g < count ? groups - g : count;
  };
  index_t step = together;
  for (index_t g = 0; g < groups;) {
    if (g % together == 0) step = are_plain(g, at_most(together, g)) ? together : 1;
    const index_t count = at_most(step, g);
    const box_streams<T> at = streams.at(g * box_group);
    if (step == together || are_plain(g, 1)) {
      run_groups<plain>(&of_plain, at, count, valid, sums);
    } else {
      run_groups<special>(&of_special, at, count, valid, sums);
    }
    g += count;
  }
}

template <class T>
box_streams<T> streams_of(const detail::smooth_l1_args<T>& a) {
  return {a.predictions, {a.targets, nullptr}, a.box_weights, a.out, nullptr};
}

/// The training case is compiled by itself, the others share one copy of the code.
template <class T>
double smooth_l1(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  using grad = known_box_output<loss_output::grad>;
  const smooth_l1_curve<compute_type<T>> curve(a.beta);
  const auto scale = static_cast<compute_type<T>>(a.scale);
  const weighted_smooth_l1_of_boxes<T, true> weighted{curve, scale, a.output};
  const smooth_l1_of_boxes<T, grad> for_grad{curve, scale, {}};
  const smooth_l1_of_boxes<T, loss_output> for_others{curve, scale, a.output};
  const auto op = a.box_weights != nullptr || scale == 0
                      ? box_operation<T>{&weighted, run_weighted_smooth_l1<T>}
                  : a.output == loss_output::grad ? as_operation<T>(for_grad)
                                                  : as_operation<T>(for_others);
  return run_selected(op, streams_of(a), a.selected, nullptr, first, last);
}
template <class T>
void smooth_l1_clear(const detail::smooth_l1_args<T>& a, index_t first, index_t last) {
  clear_boxes(streams_of(a), first, last);
}

template <class T>
struct kernels_of<detail::smooth_l1_kernels<T>> {
  static constexpr detail::smooth_l1_kernels<T> get() {
    detail::smooth_l1_kernels<T> kernels{};
    kernels.run = smooth_l1<T>;
    kernels.clear = smooth_l1_clear<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

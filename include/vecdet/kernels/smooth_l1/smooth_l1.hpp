// SPDX-License-Identifier: Apache-2.0
// Smooth L1 over N x 4 deltas. Each number is independent, so 16 boxes are four rows of 16
// consecutive elements in memory.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/smooth_l1.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/smooth_l1/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Batches that are computed together: one, so that registers suffice for all steps of the
/// equation; two for bfloat16, which is read and written in pairs.
template <class T>
constexpr int batches_at_once =
    row_pack<float>::batches % 2 == 0 && std::is_same<T, bfloat16>::value ? 2 : 1;

/// The losses of 16 boxes, with their four rows added up. loss(i) gives the losses of
/// batches_at_once batches from element i on.
template <class T, bool Unrolled, class Loss>
VECDET_INLINE row_pack<compute_type<T>> sum_of_rows(const Loss& loss) {
  using real = compute_type<T>;
  // -0 + x is x for every x, so the compiler drops the first addition of unrolled rows; 0 + x
  // differs from x if x is -0.
  row_pack<real> sum(real(-0.0));
  const auto add_row = [&](int first) VECDET_INLINE_LAMBDA {
    VECDET_UNROLL
    for (int b = 0; b < row_pack<real>::batches; b += batches_at_once<T>) {
      const auto losses = loss(first + b * batch_lanes<real>);
      VECDET_UNROLL
      for (int k = 0; k < batches_at_once<T>; ++k) sum.v[b + k] = sum.v[b + k] + losses.v[k];
    }
  };
  if constexpr (Unrolled) {
    VECDET_UNROLL_ROWS
    for (int row = 0; row < 4; ++row) add_row(row * row_lanes);
  } else {
    VECDET_NO_UNROLL
    for (int row = 0; row < 4; ++row) add_row(row * row_lanes);
  }
  return sum;
}

template <class T, class Output>
struct smooth_l1_of_boxes {
  using real = compute_type<T>;
  static constexpr bool adds_up = true, lanes_are_boxes = false;
  smooth_l1_curve<real> curve;
  real scale;
  Output output;

  VECDET_INLINE row_pack<real> operator()(const box_streams<T>& at) const {
    constexpr int N = batches_at_once<T>;
    const pack<real, N> factor(scale);
    return sum_of_rows<T, true>([&](int i) VECDET_INLINE_LAMBDA {
      const auto terms = curve(load_pack<N>(at.in + i) - load_pack<N>(at.boxes[0] + i));
      if (output == loss_output::grad) store_pack<N>(at.out + i, terms.slope * factor);
      if (output == loss_output::loss) store_pack<N>(at.out + i, terms.loss * factor);
      return terms.loss;
    });
  }
};

/// The same with one weight per box, or with a scale of 0, which acts like a weight of 0. Plain:
/// neither the scale, nor a weight, nor their product is 0, infinite or NaN.
template <class T, bool Plain>
struct weighted_smooth_l1_of_boxes {
  using real = compute_type<T>;
  static constexpr bool adds_up = true, lanes_are_boxes = false;
  smooth_l1_curve<real> curve;
  real scale;
  loss_output output;

  VECDET_INLINE row_pack<real> operator()(const box_streams<T>& at) const {
    constexpr int N = batches_at_once<T>;
    // One weight per element, that of its box; 1 if there are no weights.
    alignas(64) real weight[4 * box_group];
    store_for_each_number(weight, load_box_weights<real, row_pack<real>::batches>(at.weights, 0));
    const pack<real, N> factor(scale);
    return sum_of_rows<T, Plain>([&](int i) VECDET_INLINE_LAMBDA {
      const auto terms = curve(load_pack<N>(at.in + i) - load_pack<N>(at.boxes[0] + i));
      const auto w = load_pack<N>(weight + i);
      const auto loss = times(terms.loss, w);
      if (output == loss_output::grad) {
        store_pack<N>(at.out + i, times(terms.slope, times(factor, w)));
      }
      if (output == loss_output::loss) store_pack<N>(at.out + i, times(loss, factor));
      return loss;
    });
  }

 private:
  template <int N>
  static VECDET_INLINE pack<real, N> times(const pack<real, N>& x, const pack<real, N>& y) {
    if constexpr (Plain) return x * y;
    return vanishing_product(x, y);
  }
};

/// Whether all weights of whole groups are between 2^-63 and 2^65, and the scale's magnitude is
/// between 2^-62 and 2^62: no product of them is then 0, infinite or NaN. The only other common
/// weight is 0; groups that have it take the special path, with bit-identical results.
template <class Real>
VECDET_NOINLINE bool groups_have_plain_weights(Real scale, const float* weights, index_t groups) {
  constexpr int N = row_pack<float>::batches;
  using bits = row_pack<std::int32_t>;
  const Real magnitude = scale < 0 ? -scale : scale;
  if (!(magnitude >= Real(0x1p-62) && magnitude <= Real(0x1p62))) return false;
  // After subtracting 64 from their exponents, exactly these weights have two leading zero bits.
  bits leading(0);
  for (index_t i = 0; i < groups * box_group; i += row_lanes) {
    leading = leading | (bit_cast<std::int32_t>(load_pack<N>(weights + i)) - bits(64 << 23));
  }
  return all((leading & bits(-0x40000000)) == bits(0));
}

/// Runs the operation over 64 groups at a time, with plain products if all of their weights are
/// plain; if not, group by group, each according to its own weights. Testing each group inside the
/// loop would take registers from the loop.
template <class T>
void run_weighted_smooth_l1(const void* op, const box_streams<T>& streams, index_t groups,
                            int valid, lane_sums& sums) {
  using plain = weighted_smooth_l1_of_boxes<T, true>;
  using special = weighted_smooth_l1_of_boxes<T, false>;
  const plain plain_op = *static_cast<const plain*>(op);
  const special special_op{plain_op.curve, plain_op.scale, plain_op.output};
  const auto are_plain = [&](index_t first, index_t count) {
    return streams.weights != nullptr &&
           groups_have_plain_weights(plain_op.scale, streams.weights + first * box_group, count);
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
      run_groups<plain>(&plain_op, at, count, valid, sums);
    } else {
      run_groups<special>(&special_op, at, count, valid, sums);
    }
    g += count;
  }
}

template <class T>
box_streams<T> streams_of(const detail::smooth_l1_args<T>& a) {
  return {a.predictions, {a.targets, nullptr}, a.box_weights, a.out, nullptr};
}

/// The training case has its own code; all other cases share one copy.
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

VECDET_KERNELS_OF_ALL_TYPES(smooth_l1_kernels)

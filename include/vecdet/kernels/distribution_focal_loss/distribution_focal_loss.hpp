// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss and the decoding of box distributions, 16 rows at a time.
//
// A target y between two bins gives bin c the share max(0, 1 - |c - y|). The loss of a row is the
// sum of share * (log_sum - (x - max)), and its gradient is softmax - share.
#pragma once

#include <vecdet/args/distribution_focal_loss.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/softmax_rows.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::distribution_decoding_args;
using detail::distribution_focal_loss_args;

/// 16 numbers; if there are only `count`, the last is repeated.
VECDET_INLINE float_row load_or_repeat(const float* from, int count) {
  if (count == row_lanes) return load_pack<float_row::batches>(from);
  alignas(64) float lane[row_lanes];
  for (int i = 0; i < row_lanes; ++i) lane[i] = from[i < count ? i : count - 1];
  return load_pack<float_row::batches>(lane);
}

/// The logits of the two bins around a target, minus the maximum, and the bins' shares.
struct neighbouring_bins {
  float_row lower, upper, lower_share, upper_share;

  /// Targets are whole numbers or between two of `bins`; 0 replaces NaN.
  VECDET_INLINE neighbouring_bins(const row_group& rows, const float_row& target,
                                  const float_row& greatest, index_t bins) {
    constexpr int N = float_row::batches;
    alignas(64) float y[row_lanes], below[row_lanes], lower_logit[row_lanes];
    alignas(64) float upper_logit[row_lanes];
    store_pack<N>(y, target);
    for (int r = 0; r < row_lanes; ++r) {
      const index_t bin = static_cast<index_t>(y[r]);
      below[r] = static_cast<float>(bin);
      lower_logit[r] = rows.in[r][bin];
      upper_logit[r] = rows.in[r][bin + 1 < bins ? bin + 1 : bin];
    }
    upper_share = target - load_pack<N>(below);
    lower_share = float_row(1.0f) - upper_share;
    lower = load_pack<N>(lower_logit) - greatest;
    upper = load_pack<N>(upper_logit) - greatest;
  }
};

/// x * share; 0 if the share is 0.
VECDET_INLINE float_row times_share(const float_row& x, const float_row& share) {
  return select(share > float_row(0.0f), x * share, float_row(0.0f));
}

/// Computes `count` rows from `first` on; returns their unscaled losses.
VECDET_INLINE float_row distribution_focal_rows(const distribution_focal_loss_args& args,
                                                index_t first, int count) {
  const float_row zero = 0.0f, one = 1.0f;
  row_group rows;
  set_rows(rows, args.logits, args.stride, args.grad, args.grad_stride, count,
           [=](int r) { return first + r; });
  const float_row given = load_or_repeat(args.targets + first, count);
  const float_row last_bin = static_cast<float>(args.bins - 1);
  const float_row target = min(max(given, zero), last_bin);  // NaN becomes 0
  float_row weight = one;
  if (args.weights != nullptr) weight = load_or_repeat(args.weights + first, count);

  softmax_group group(rows, args.bins);
  const neighbouring_bins bins(rows, target, group.greatest, args.bins);
  const float_row log_sum = group.log_sum();
  float_row loss = times_share(log_sum - bins.lower, bins.lower_share) +
                   times_share(log_sum - bins.upper, bins.upper_share);
  // NaN in the target or the logits makes the row NaN.
  loss = select(group.sum == group.sum, select(given == given, loss, given), group.sum);
  const auto counts = weight != zero;
  loss = select(counts, loss * weight, zero);
  if (args.grad != nullptr) {
    const float_row factor = weight * float_row(static_cast<float>(args.scale));
    const float_row factor_of_exp = select(given == given, factor / group.sum, given);
    const float_row softmax_factor = select(counts, factor_of_exp, zero);
    group.for_each_panel(
        [&](index_t begin, index_t size, const float(*panel)[row_lanes]) VECDET_INLINE_LAMBDA {
          store_panel(rows, begin, size, panel,
                      [&](index_t c, const float_row& e) VECDET_INLINE_LAMBDA {
                        const float_row bin = static_cast<float>(begin + c);
                        const float_row share_of_bin = max(one - abs(bin - target), zero);
                        return fnma(share_of_bin, factor, e * softmax_factor);
                      });
        });
  }
  if (args.loss != nullptr) {
    store_lanes(args.loss + first,
                vanishing_product(loss, float_row(static_cast<float>(args.scale))), count);
  }
  return loss;
}

inline double distribution_focal_loss_of_rows(const distribution_focal_loss_args& args,
                                              index_t first, index_t last) {
  lane_sums sums;
  for_row_groups(first, last, [&](index_t begin, int count) {
    const float_row loss = distribution_focal_rows(args, begin, count);
    sums.add(count == row_lanes ? loss : first_lanes<float>(loss, count));
  });
  return sums.total();
}

/// The expectations of `count` rows from `first` on.
VECDET_INLINE float_row expectations_of(const distribution_decoding_args& args, index_t first,
                                        int count) {
  row_group rows;
  set_rows(rows, args.logits, args.stride, nullptr, 0, count, [=](int r) { return first + r; });
  softmax_group group(rows, args.bins);
  long_sum weighted;
  group.for_each_panel(
      [&](index_t first_bin, index_t size, const float(*panel)[row_lanes]) VECDET_INLINE_LAMBDA {
        for (index_t begin = 0; begin < size; begin += summed_columns) {
          const index_t end = size - begin < summed_columns ? size : begin + summed_columns;
          // Two alternating sums, because each waits for its last addition.
          float_row sum = 0.0f, other = 0.0f;
          const auto add = [&](float_row& to, index_t c) VECDET_INLINE_LAMBDA {
            to = fma(float_row(static_cast<float>(first_bin + c)),
                     load_pack<float_row::batches>(panel[c]), to);
          };
          index_t c = begin;
          for (; c + 2 <= end; c += 2) {
            add(sum, c);
            add(other, c + 1);
          }
          if (c < end) add(sum, c);
          weighted.add(sum + other);
        }
      });
  return weighted.total() / group.sum;
}

inline void expectations_of_rows(const distribution_decoding_args& args, index_t first,
                                 index_t last) {
  for_row_groups(first, last, [&](index_t begin, int count) {
    store_lanes(args.out + begin, expectations_of(args, begin, count), count);
  });
}

/// Four boxes are 16 rows: left, top, right and bottom of each.
inline void boxes_of_rows(const distribution_decoding_args& args, index_t first, index_t last) {
  constexpr int N = float_row::batches, boxes = row_lanes / 4;
  for (; first < last; first += boxes) {
    const int count = static_cast<int>(last - first < boxes ? last - first : boxes);
    const float_row distance = expectations_of(args, 4 * first, 4 * count);
    alignas(64) float point[row_lanes], step[row_lanes];
    for (int i = 0; i < boxes; ++i) {
      const index_t box = first + (i < count ? i : count - 1);
      for (int k = 0; k < 4; ++k) {
        point[4 * i + k] = args.points[2 * box + (k & 1)];
        step[4 * i + k] = k < 2 ? -args.strides[box] : args.strides[box];
      }
    }
    const float_row corner = fma(distance, load_pack<N>(step), load_pack<N>(point));
    store_lanes(args.out + 4 * first, corner, 4 * count);
  }
}

template <>
struct kernels_of<detail::distribution_focal_loss_kernels> {
  static constexpr detail::distribution_focal_loss_kernels get() {
    detail::distribution_focal_loss_kernels k{};
    k.loss = distribution_focal_loss_of_rows;
    k.expectations = expectations_of_rows;
    k.boxes = boxes_of_rows;
    return k;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(distribution_focal_loss_kernels)

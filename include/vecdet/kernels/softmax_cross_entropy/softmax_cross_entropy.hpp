// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy, 16 rows at a time. The loss of a row is log_sum - (x_label - max); its
// gradient is the softmax, minus 1 at the label.
#pragma once

#include <vecdet/args/softmax_cross_entropy.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/score_key.hpp>
#include <vecdet/kernels/softmax_cross_entropy/mining.hpp>
#include <vecdet/kernels/softmax_rows.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

using detail::softmax_cross_entropy_args;

/// Computes `count` rows from `first` on, of the list or of all rows; returns their unscaled
/// losses.
VECDET_INLINE float_row cross_entropy_rows(const softmax_cross_entropy_args& args, index_t first,
                                           int count) {
  constexpr int N = float_row::batches;
  const auto row_of = [&](int r) VECDET_INLINE_LAMBDA {
    return args.rows != nullptr ? args.rows[first + r] : first + r;
  };
  row_group rows;
  set_rows(rows, args.logits, args.stride, args.grad, args.grad_stride, count, row_of);
  index_t label[row_lanes];
  alignas(64) float labelled[row_lanes], counts[row_lanes];
  for (int r = 0; r < row_lanes; ++r) {
    label[r] = args.labels[row_of(r < count ? r : count - 1)];
    counts[r] = label[r] == args.ignore ? 0.0f : 1.0f;
    // Read before the gradient overwrites the same memory.
    labelled[r] = label[r] == args.ignore ? 0.0f : rows.in[r][label[r]];
  }
  softmax_group group(rows, args.classes);
  const auto counted = load_pack<N>(counts) > float_row(0.0f);
  const float_row labelled_logit = load_pack<N>(labelled) - group.greatest;
  const float_row loss = select(counted, group.log_sum() - labelled_logit, float_row(0.0f));
  if (args.grad != nullptr) {
    const float scale = static_cast<float>(args.scale);
    const float_row factor = select(counted, float_row(scale) / group.sum, float_row(0.0f));
    group.for_each_panel(
        [&](index_t begin, index_t size, const float(*panel)[row_lanes]) VECDET_INLINE_LAMBDA {
          store_panel(rows, begin, size, panel,
                      [&](index_t, const float_row& e) VECDET_INLINE_LAMBDA { return e * factor; });
        });
    for (int r = 0; r < count; ++r)
      if (label[r] != args.ignore) rows.out[r][label[r]] -= scale;
  }
  if (args.loss != nullptr) {
    store_lanes(args.loss + first,
                vanishing_product(loss, float_row(static_cast<float>(args.scale))), count);
  }
  return loss;
}

inline double cross_entropy_of_rows(const softmax_cross_entropy_args& args, index_t first,
                                    index_t last) {
  lane_sums sums;
  for_row_groups(first, last, [&](index_t begin, int count) {
    const float_row loss = cross_entropy_rows(args, begin, count);
    sums.add(count == row_lanes ? loss : first_lanes<float>(loss, count));
  });
  return sums.total();
}

template <class Bits>
VECDET_INLINE index_t find_invalid_class(const detail::label_bits<Bits>& labels, index_t size,
                                         index_t classes, bool has_ignore, Bits ignore) {
  using natural = std::make_unsigned_t<Bits>;
  const auto is_invalid = [&](Bits label) VECDET_INLINE_LAMBDA {
    // No class is out of range for the labels' type.
    return static_cast<unsigned>(static_cast<std::uint64_t>(static_cast<natural>(label)) >=
                                 static_cast<std::uint64_t>(classes)) &
           ~static_cast<unsigned>(has_ignore && label == ignore);
  };
  index_t i = 0;
  // Blocks without an early exit, which compilers vectorise.
  for (constexpr int block = 64; i + block <= size; i += block) {
    unsigned any = 0;
    for (int k = 0; k < block; ++k) any |= is_invalid(labels[i + k]) & 1u;
    if (any != 0) break;
  }
  while (i < size && (is_invalid(labels[i]) & 1u) == 0) ++i;
  return i;
}

inline index_t find_invalid_class_label(const softmax_cross_entropy_args& args) {
  const bool has_ignore = args.labels.can_be(args.ignore);
  return detail::with_bits(args.labels, [&](auto bits) VECDET_INLINE_LAMBDA {
    using value = decltype(bits[0]);
    return find_invalid_class(bits, args.labels.size(), args.classes, has_ignore,
                              static_cast<value>(args.ignore));
  });
}

inline void mining_keys(const softmax_cross_entropy_args& args, index_t first, index_t last,
                        uint32_t* keys) {
  softmax_cross_entropy_args loss_only = args;
  loss_only.grad = nullptr;
  for_row_groups(first, last, [&](index_t begin, int count) {
    alignas(64) float loss[row_lanes];
    store_pack<float_row::batches>(loss, cross_entropy_rows(loss_only, begin, count));
    for (int r = 0; r < count; ++r) {
      const index_t label = args.labels[begin + r];
      keys[begin + r] = label == args.ignore       ? detail::ignored_key
                        : label == args.background ? descending_key(loss[r])
                                                   : detail::foreground_key;
    }
    if (args.grad_stride == args.classes) {
      store_zeros(args.grad + begin * args.classes, count * args.classes);
    } else {
      for (int r = 0; r < count; ++r)
        store_zeros(args.grad + (begin + r) * args.grad_stride, args.classes);
    }
  });
}

template <>
struct kernels_of<detail::softmax_cross_entropy_kernels> {
  static constexpr detail::softmax_cross_entropy_kernels get() {
    detail::softmax_cross_entropy_kernels k{};
    k.loss = cross_entropy_of_rows;
    k.find_invalid = find_invalid_class_label;
    k.keys = mining_keys;
    k.mine = mined_rows;
    return k;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(softmax_cross_entropy_kernels)

// SPDX-License-Identifier: Apache-2.0
// RoIAlign forward in NHWC: lanes are channels, and all channels of every location that samples
// touch are read together.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/kernels/channels.hpp>
#include <vecdet/kernels/roi_align/plan.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Calls use(first channel, size, batches, whether all lanes are channels) over the channels of a
/// task: four batches at a time, then rows of 16, then the remainder.
template <class Real, class Use>
VECDET_INLINE void for_each_channel_pack(index_t first, index_t last, const Use& use) {
  constexpr int row = row_pack<Real>::batches, N = row < 4 ? row : 4;
  constexpr int wide = 4 * batch_lanes<Real>, lanes = N * batch_lanes<Real>;
  index_t c = first;
  if constexpr (wide > lanes)
    for (; c + wide <= last; c += wide) use.template run<4, true>(c, index_t{wide});
  for (; c + lanes <= last; c += lanes) use.template run<N, true>(c, index_t{lanes});
  if (c < last) use.template run<N, false>(c, last - c);
}

/// Computes some channels of a bin.
template <class T>
struct bin_of_channels {
  using real = compute_type<T>;
  using entries = const detail::roi_entry<real>*;
  const T* map;  ///< the image's feature map
  index_t row_step, column_step;
  entries row, end_row, column, end_column;
  T* out;

  template <int N, bool IsWhole>
  VECDET_INLINE void run(index_t c, index_t size) const {
    using reals = pack<real, N>;
    reals sum(real(0));
    for (entries x = column; x != end_column; ++x) {
      const T* const map_column = map + x->at * column_step + c;
      reals row_sum(real(0));
      for (entries y = row; y != end_row; ++y) {
        const T* const at = map_column + y->at * row_step;
        row_sum = fma(reals(y->weight), load_channels<N, IsWhole>(at, size), row_sum);
      }
      sum = fma(reals(x->weight), row_sum, sum);
    }
    store_channels<N, IsWhole>(out + c, sum, size);
  }
};

template <class T>
void roi_align_nhwc(const detail::roi_align_args<T>& a, const detail::roi_task& task) {
  for (index_t k = task.first_plan; k < task.last_plan; ++k) {
    const detail::roi_plan& plan = a.plans[k];
    const auto& level = a.levels[plan.level];
    const roi_tables<compute_type<T>> t = tables_of(a, plan);
    bin_of_channels<T> bin{level.features + plan.image * level.height * level.width * a.channels,
                           level.width * a.channels,
                           a.channels,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr,
                           a.out + plan.box * a.rows * a.columns * a.channels};
    for (index_t p = 0; p < a.rows; ++p) {
      bin.row = t.row + t.row_begin[p];
      bin.end_row = t.row + t.row_begin[p + 1];
      for (index_t q = 0; q < a.columns; ++q) {
        bin.column = t.column + t.column_begin[q];
        bin.end_column = t.column + t.column_begin[q + 1];
        for_each_channel_pack<compute_type<T>>(task.first_channel, task.last_channel, bin);
        bin.out += a.channels;
      }
    }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

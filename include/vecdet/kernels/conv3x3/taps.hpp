// SPDX-License-Identifier: Apache-2.0
// Copies the taps of 3x3 weights, or of their gradient, between the caller's memory and rows of 16
// targets. The numbers of many sources are copied together: those of one source lie on up to 288
// cache lines, often in so few sets of the cache that the next source finds none of them there.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/kernels/channel_rows.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// The taps of `sources` neighbouring sources and of a panel of targets. In memory, w[target *
/// target_step + source * source_step + tap * tap_step].
class tap_rows {
 public:
  static constexpr index_t most_sources = 16;

  tap_rows(index_t target_step, index_t source_step, index_t tap_step)
      : target_step_(target_step), source_step_(source_step), tap_step_(tap_step) {}

  /// Tap `tap` of a source: the numbers of targets from `lane` on.
  const float* at(index_t source, int tap, int lane) const {
    return rows_[lane / lanes] + row(source, tap) * lanes + lane % lanes;
  }
  float* at(index_t source, int tap, int lane) {
    return rows_[lane / lanes] + row(source, tap) * lanes + lane % lanes;
  }

  /// Copies `sources` sources and `targets` targets, at most a panel; other targets become 0.
  void gather(const float* weights, index_t sources, index_t targets) {
    for_each_run(sources, targets,
                 [&](index_t offset, index_t location, index_t channels, index_t columns,
                     float* rows) VECDET_INLINE_LAMBDA {
                   gather_channel_rows(weights + offset, location, target_step_, channels, columns,
                                       rows);
                 });
  }
  void scatter(float* weights, index_t sources, index_t targets) {
    for_each_run(sources, targets,
                 [&](index_t offset, index_t location, index_t channels, index_t columns,
                     float* rows) VECDET_INLINE_LAMBDA {
                   scatter_channel_rows(rows, columns, channels, weights + offset, location,
                                        target_step_);
                 });
  }

 private:
  static constexpr int lanes = static_cast<int>(detail::conv_lanes);
  static constexpr index_t halves = detail::conv_panel / detail::conv_lanes;

  /// If taps are adjacent in memory, their rows are, too; otherwise, those of sources are.
  bool has_adjacent_taps() const { return tap_step_ == 1; }
  index_t row(index_t source, index_t tap) const {
    return has_adjacent_taps() ? source * 9 + tap : tap * most_sources + source;
  }

  template <class Work>
  VECDET_INLINE void for_each_run(index_t sources, index_t targets, const Work& work) {
    const index_t runs = has_adjacent_taps() ? sources : 9;
    for (index_t half = 0; half < halves; ++half) {
      const index_t left = targets - half * lanes;
      const index_t channels = left < 0 ? 0 : left < lanes ? left : lanes;
      // A half without targets has no place in the caller's memory.
      const index_t first = channels == 0 ? 0 : half * lanes * target_step_;
      for (index_t run = 0; run < runs; ++run) {
        if (has_adjacent_taps())
          work(first + run * source_step_, 1, channels, 9, rows_[half] + row(run, 0) * lanes);
        else
          work(first + run * tap_step_, source_step_, channels, sources,
               rows_[half] + row(0, run) * lanes);
      }
    }
  }

  index_t target_step_, source_step_, tap_step_;
  alignas(64) float rows_[halves][9 * most_sources * lanes];
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The convolution of a tile, and the gradient of its inputs. Lanes are target channels. The sums of
// up to 16 neighbouring targets stay in registers, while each source channel of the rows of sources
// that they read is spread over the lanes of its group, once per location.
//
// Each sum is one chain of multiply-adds from the bias on: over rows of taps from the first source
// row on, source channels, and source columns. Its bits thus depend neither on the tiles nor on the
// width of vectors.
//
// Bound: with 4 channels a group, stride 1 and AVX-512, 36 multiply-adds and some 14 shuffles per
// 16 outputs.
#pragma once

#include <vecdet/args/grouped_conv3x3.hpp>
#include <vecdet/kernels/grouped_conv3x3/tiles.hpp>
#include <vecdet/simd/spread.hpp>

#include <utility>

namespace vecdet {
namespace VECDET_TARGET {

template <class Work, int... I>
VECDET_INLINE void for_each_constant(const Work& work, std::integer_sequence<int, I...>) {
  (work(std::integral_constant<int, I>()), ...);
}
/// Calls work(std::integral_constant<int, i>()) for i in [0, Count).
template <int Count, class Work>
VECDET_INLINE void for_each_constant(const Work& work) {
  for_each_constant(work, std::make_integer_sequence<int, Count>());
}

/// The target that reads source x with tap j along one axis, both relative to the first ones of a
/// tile; -1 if there is none.
template <grouped_steps Steps>
constexpr int target_of(int x, int j) {
  if constexpr (Steps == grouped_steps::one) return x - j;
  if constexpr (Steps == grouped_steps::two) return (x - j) % 2 == 0 ? (x - j) / 2 : -1;
  return 2 * x + j - 1;
}

/// The first source that a target reads, likewise relative.
template <grouped_steps Steps>
constexpr index_t first_source(index_t target) {
  if constexpr (Steps == grouped_steps::one) return target;
  return Steps == grouped_steps::two ? 2 * target : target / 2;
}

/// The most sums that stay in registers, beside three weights, a source and the indices of
/// shuffles.
constexpr int most_targets = batch_lanes<float> == 16 ? 16 : 8;

/// What the targets of a row read.
struct grouped_rows {
  int count;                ///< of source rows, at most 3
  const float* sources[3];  ///< of the row's first target
  const float* weights[3];  ///< group_sources x 3 taps x 16
  index_t group_sources;
  index_t chunk;  ///< the distance between chunks of 16 source channels
  const float* bias;
};

/// Computes `Targets` neighbouring targets and a batch of their channels from `lane` on, and writes
/// `valid` of them, `step` apart. `source` is the index of their first source column.
template <grouped_steps Steps, int Group, int Targets>
VECDET_NOINLINE void sum_targets(const grouped_rows& rows, index_t source, int lane, float* to,
                                 index_t step, index_t valid) {
  constexpr int positions = static_cast<int>(detail::grouped_reach(Steps, Targets));
  f32_batch sum[Targets];
  const f32_batch bias = load(rows.bias + lane);
  for_each_constant<Targets>([&](auto k) VECDET_INLINE_LAMBDA { sum[k] = bias; });
  for (int r = 0; r < rows.count; ++r) {
    const float* weights = rows.weights[r] + lane;
    const float* at = rows.sources[r] + source * row_lanes;
    for (index_t left = rows.group_sources; left > 0; left -= row_lanes, at += rows.chunk) {
      const int sources = left < row_lanes ? static_cast<int>(left) : row_lanes;
      for (int c = 0; c < sources; ++c, weights += 3 * row_lanes) {
        const spread<Group> over(c, lane);
        const f32_batch w[3] = {load(weights), load(weights + row_lanes),
                                load(weights + 2 * row_lanes)};
        for_each_constant<positions>([&](auto x) VECDET_INLINE_LAMBDA {
          const f32_batch number = over(at + x * row_lanes);
          for_each_constant<3>([&](auto j) VECDET_INLINE_LAMBDA {
            constexpr int k = target_of<Steps>(decltype(x)::value, decltype(j)::value);
            if constexpr (k >= 0 && k < Targets) sum[k] = VECDET_TARGET::fma(number, w[j], sum[k]);
          });
        });
      }
    }
  }
  for_each_constant<Targets>([&](auto k) VECDET_INLINE_LAMBDA {
    if (k < valid) store(to + k * step, sum[k]);
  });
}

using sum_targets_function = void (*)(const grouped_rows& rows, index_t source, int lane, float* to,
                                      index_t step, index_t valid);

/// The function for `targets` targets, rounded up to a multiple of 4, or for the most.
template <grouped_steps Steps, int Group, int Targets = most_targets>
VECDET_INLINE sum_targets_function sum_function(index_t targets) {
  if constexpr (Targets > 4) {
    if (targets <= Targets - 4) return sum_function<Steps, Group, Targets - 4>(targets);
  }
  return sum_targets<Steps, Group, Targets>;
}

/// Computes a block of the targets of a tile. `sources` are those of the tile, in chunks of 16
/// channels.
template <grouped_steps Steps, int Group>
void run_block(const detail::grouped_conv3x3_args& a, index_t block, const grouped_area& targets,
               const grouped_area& sources, const float* source, float* scratch) {
  const index_t channel = block * row_lanes, left = a.targets - channel;
  const index_t channels = left < row_lanes ? left : row_lanes;
  alignas(64) float bias[row_lanes] = {};
  if (a.bias != nullptr)
    for (index_t c = 0; c < channels; ++c) bias[c] = a.bias[channel + c];
  const float* const weights = a.weights + block * a.block_weights();
  const index_t source_row = sources.columns * row_lanes;
  grouped_rows rows{0, {}, {}, a.group_sources, sources.rows * source_row, bias};
  const bool is_direct = channels == row_lanes && a.target.channel == 1;
  for (index_t y = 0; y < targets.rows; ++y) {
    rows.count = 0;
    // Source rows from the first one that the target reads on; none without source channels,
    // because their weights may be null.
    const int o = static_cast<int>(y), first_row = static_cast<int>(first_source<Steps>(y));
    for (int r = first_row; r < first_row + 3; ++r)
      for (int i = 0; i < 3; ++i)
        if (a.group_sources > 0 && target_of<Steps>(r, i) == o) {
          rows.sources[rows.count] = source + r * source_row;
          rows.weights[rows.count++] = weights + i * a.group_sources * 3 * row_lanes;
        }
    float* const map = a.target.data + targets.image * a.target.image +
                       ((targets.y + y) * a.target.width + targets.x) * a.target.location +
                       channel * a.target.channel;
    float* const to = is_direct ? map : scratch;
    const index_t step = is_direct ? a.target.location : row_lanes;
    for (index_t x = 0; x < targets.columns; x += most_targets) {
      const index_t valid = targets.columns - x;
      const auto sum = sum_function<Steps, Group>(valid);
      for (int lane = 0; lane < row_lanes; lane += batch_lanes<float>)
        sum(rows, first_source<Steps>(x), lane, to + x * step + lane, step, valid);
    }
    if (!is_direct)
      scatter_channel_rows(scratch, targets.columns, channels, map, a.target.location,
                           a.target.channel);
  }
}

using run_block_function = void (*)(const detail::grouped_conv3x3_args&, index_t block,
                                    const grouped_area& targets, const grouped_area& sources,
                                    const float* source, float* scratch);

template <grouped_steps Steps>
run_block_function block_function_of(const detail::grouped_conv3x3_args& a) {
  if (!a.shares_blocks()) return run_block<Steps, 16>;
  return a.group_targets == 4 ? run_block<Steps, 4> : run_block<Steps, 8>;
}

inline void run_grouped(const detail::grouped_conv3x3_args& a, index_t first, index_t last,
                        float* scratch) {
  const auto run = a.steps == grouped_steps::one   ? block_function_of<grouped_steps::one>(a)
                   : a.steps == grouped_steps::two ? block_function_of<grouped_steps::two>(a)
                                                   : block_function_of<grouped_steps::two_back>(a);
  const index_t blocks = a.blocks();
  float* const targets_scratch =
      scratch + a.chunks() * detail::grouped_source_size(a.steps, a.tiles.rows, a.tiles.columns);
  index_t gathered_tile = -1, gathered_source = -1;
  for (index_t item = first; item < last; ++item) {
    const index_t tile = item / blocks, block = item % blocks;
    const grouped_area targets = tile_targets(a.tiles, a.target, tile);
    const grouped_area sources = tile_sources(a.steps, a.tiles, targets);
    const index_t source = a.first_source(block);
    if (tile != gathered_tile || source != gathered_source) {
      const index_t end = source + a.block_sources(block);
      float* to = scratch;
      for (index_t c = source; c < end;
           c += row_lanes, to += sources.rows * sources.columns * row_lanes)
        gather_area(a.source, sources, c, end - c < row_lanes ? end - c : row_lanes, to);
      gathered_tile = tile;
      gathered_source = source;
    }
    run(a, block, targets, sources, scratch, targets_scratch);
  }
}

inline void arrange_grouped(const detail::grouped_conv3x3_args& a,
                            const detail::grouped_weights_args& w, index_t first, index_t last) {
  for (index_t block = first; block < last; ++block) {
    const index_t left = a.targets - block * row_lanes;
    const int lanes = left < row_lanes ? static_cast<int>(left) : row_lanes;
    const float* from[row_lanes];
    for (int lane = 0; lane < lanes; ++lane) {
      const index_t k = block * row_lanes + lane;
      from[lane] =
          w.weights + k / a.group_targets * w.group_step + k % a.group_targets * w.target_step;
    }
    float* to = w.arranged + block * a.block_weights();
    for (int i = 0; i < 3; ++i)
      for (index_t c = 0; c < a.group_sources; ++c)
        for (int j = 0; j < 3; ++j, to += row_lanes) {
          const int tap = w.turned ? 8 - (3 * i + j) : 3 * i + j;
          const index_t at = c * w.source_step + tap * w.tap_step;
          for (int lane = 0; lane < lanes; ++lane) to[lane] = from[lane][at];
          for (int lane = lanes; lane < row_lanes; ++lane) to[lane] = 0;
        }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The gradient of the weights of grouped convolutions. Lanes are target channels. For one row of
// taps and a few source channels of the groups, the products of a tile are added in registers, in
// float; the sums of tiles are added in double.
//
// Each sum of a tile is one chain of multiply-adds over its targets, row by row. Tiles and parts
// are added in order.
#pragma once

#include <vecdet/args/grouped_conv3x3.hpp>
#include <vecdet/kernels/grouped_conv3x3/sums.hpp>
#include <vecdet/kernels/grouped_conv3x3/tiles.hpp>
#include <vecdet/simd/spread.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// A tile of targets and the sources that it reads, in rows of 16 channels.
struct product_tile {
  const float* sources;
  index_t source_row;
  const float* upstream;
  index_t upstream_row;
  index_t rows, columns;
};

/// Source channels whose products are added together, and targets that are in registers: 12 or 6
/// registers hold sums.
constexpr int product_sources = batch_lanes<float> == 16 ? 4 : 2;
constexpr int product_targets = batch_lanes<float> == 16 ? 8 : 4;

/// Adds the products of `Targets` neighbouring targets.
template <grouped_steps Steps, int Targets, int Group>
VECDET_INLINE void add_targets(const float* source, const float* upstream,
                               const spread<Group> (&over)[product_sources],
                               f32_batch (&sum)[product_sources][3]) {
  constexpr int positions = static_cast<int>(detail::grouped_reach(Steps, Targets));
  f32_batch gradient[Targets];
  for_each_constant<Targets>(
      [&](auto k) VECDET_INLINE_LAMBDA { gradient[k] = load(upstream + k * row_lanes); });
  for_each_constant<positions>([&](auto x) VECDET_INLINE_LAMBDA {
    for_each_constant<product_sources>([&](auto c) VECDET_INLINE_LAMBDA {
      const f32_batch number = over[c](source + x * row_lanes);
      for_each_constant<3>([&](auto j) VECDET_INLINE_LAMBDA {
        constexpr int k = target_of<Steps>(decltype(x)::value, decltype(j)::value);
        if constexpr (k >= 0 && k < Targets)
          sum[c][j] = VECDET_TARGET::fma(number, gradient[k], sum[c][j]);
      });
    });
  });
}

/// Adds the products of a tile for source channels from `first` on and the row of taps that
/// `tile.sources` begins with. `to` are the sums of the first source channel and tap, 9 taps per
/// source channel.
template <grouped_steps Steps, int Group>
VECDET_NOINLINE void add_row_of_taps(const product_tile& tile, int first, int lane, double* to) {
  static_assert(product_sources == 4 || product_sources == 2, "as many spreads");
  f32_batch sum[product_sources][3];
  for_each_constant<product_sources>(
      [&](auto c) VECDET_INLINE_LAMBDA { sum[c][0] = sum[c][1] = sum[c][2] = f32_batch(0.0f); });
  const auto add_rows = [&](const spread<Group>(&over)[product_sources]) VECDET_INLINE_LAMBDA {
    for (index_t y = 0; y < tile.rows; ++y) {
      const float* source = tile.sources + first_source<Steps>(y) * tile.source_row;
      const float* upstream = tile.upstream + y * tile.upstream_row + lane;
      index_t x = 0;
      for (; x + product_targets <= tile.columns; x += product_targets)
        add_targets<Steps, product_targets, Group>(source + first_source<Steps>(x) * row_lanes,
                                                   upstream + x * row_lanes, over, sum);
      for (; x < tile.columns; ++x)
        add_targets<Steps, 1, Group>(source + first_source<Steps>(x) * row_lanes,
                                     upstream + x * row_lanes, over, sum);
    }
  };
  if constexpr (product_sources == 4)
    add_rows({{first, lane}, {first + 1, lane}, {first + 2, lane}, {first + 3, lane}});
  else
    add_rows({{first, lane}, {first + 1, lane}});
  for_each_constant<product_sources>([&](auto c) VECDET_INLINE_LAMBDA {
    for_each_constant<3>([&](auto j) VECDET_INLINE_LAMBDA {
      f64_batch lower, upper;
      widen(sum[c][j], lower, upper);
      double* const at = to + (c * 9 + j) * row_lanes + lane;
      store(at, load(at) + lower);
      store(at + batch_lanes<double>, load(at + batch_lanes<double>) + upper);
    });
  });
}

using add_row_function = void (*)(const product_tile&, int first, int lane, double* to);

template <grouped_steps Steps>
add_row_function add_row_of(const detail::grouped_conv3x3_args& a) {
  if (!a.shares_blocks()) return add_row_of_taps<Steps, 16>;
  return a.group_targets == 4 ? add_row_of_taps<Steps, 4> : add_row_of_taps<Steps, 8>;
}

inline void add_grouped_products(const detail::grouped_conv3x3_args& a,
                                 const detail::grouped_weight_grad& grad, index_t part,
                                 index_t first, index_t last, float* scratch) {
  const auto add_row = a.steps == grouped_steps::one ? add_row_of<grouped_steps::one>(a)
                                                     : add_row_of<grouped_steps::two>(a);
  const index_t chunks = a.chunks(), blocks = a.blocks(), sources = a.chunk_sources();
  const index_t size = sources * 9 * row_lanes;
  double* const sums = grad.sums + part * blocks * chunks * size;
  for (index_t i = first * size; i < last * size; ++i) sums[i] = 0;
  const auto bias_of = [&](index_t block) {
    return grad.bias_sums + (part * blocks + block) * row_lanes;
  };
  if (grad.bias_sums != nullptr)
    for (index_t item = first; item < last; ++item)
      if (item % chunks == 0)
        for (int lane = 0; lane < row_lanes; ++lane) bias_of(item / chunks)[lane] = 0;
  float* const upstream =
      scratch + detail::grouped_source_size(a.steps, a.tiles.rows, a.tiles.columns);
  const index_t tiles = grad.all_tiles(a.tiles);
  for (index_t tile = tiles * part / grad.parts; tile < tiles * (part + 1) / grad.parts; ++tile) {
    const grouped_area targets = tile_targets(a.tiles, grad.upstream, tile);
    const grouped_area reach = tile_sources(a.steps, a.tiles, targets);
    // Blocks are the inner loop: they share sources, whose copies take longer than those of the
    // upstream gradient.
    for (index_t chunk = 0; chunk < chunks; ++chunk) {
      index_t gathered = -1;
      const index_t first_block = (first - chunk + chunks - 1) / chunks;
      for (index_t block = first_block; block * chunks + chunk < last; ++block) {
        const index_t channel = block * row_lanes, left = a.targets - channel;
        gather_area(grad.upstream, targets, channel, left < row_lanes ? left : row_lanes, upstream);
        if (chunk == 0 && grad.bias_sums != nullptr) {
          constexpr int N = row_pack<double>::batches;
          row_pack<double> sum = load_pack<N>(bias_of(block));
          for (index_t i = 0; i < targets.rows * targets.columns; ++i)
            sum = sum + widen(load_pack<row_pack<float>::batches>(upstream + i * row_lanes));
          store_pack<N>(bias_of(block), sum);
        }
        const index_t source = a.first_source(block) + chunk * row_lanes;
        if (source != gathered) {
          const index_t rest = a.block_sources(block) - chunk * row_lanes;
          gather_area(a.source, reach, source, rest < row_lanes ? rest : row_lanes, scratch);
          gathered = source;
        }
        product_tile at{scratch,      reach.columns * row_lanes,
                        upstream,     targets.columns * row_lanes,
                        targets.rows, targets.columns};
        double* const to = sums + (block * chunks + chunk) * size;
        for (int i = 0; i < 3; ++i, at.sources += at.source_row)
          for (int c = 0; c < sources; c += product_sources)
            for (int lane = 0; lane < row_lanes; lane += batch_lanes<float>)
              add_row(at, c, lane, to + (c * 9 + 3 * i) * row_lanes);
      }
    }
  }
}

inline void finish_grouped_weight_grad(const detail::grouped_conv3x3_args& a,
                                       const detail::grouped_weight_grad& grad, index_t first,
                                       index_t last) {
  const index_t sources = a.chunk_sources(), chunks = a.chunks();
  const index_t size = sources * 9 * row_lanes, part = a.blocks() * chunks * size;
  const auto total = [&](const double* of, index_t between) {
    constexpr int N = row_pack<double>::batches;
    row_pack<double> sum = load_pack<N>(of);
    for (index_t p = 1; p < grad.parts; ++p) sum = sum + load_pack<N>(of + p * between);
    return narrow(sum);
  };
  alignas(64) float value[row_lanes];
  for (index_t block = first; block < last; ++block) {
    const index_t left = a.targets - block * row_lanes;
    const index_t lanes = left < row_lanes ? left : row_lanes;
    for (index_t c = 0; c < a.group_sources; ++c)
      for (index_t tap = 0; tap < 9; ++tap) {
        store_pack<row_pack<float>::batches>(
            value, total(grad.sums + (block * chunks + c / row_lanes) * size +
                             (c % row_lanes * 9 + tap) * row_lanes,
                         part));
        for (index_t lane = 0; lane < lanes; ++lane)
          grad.data[(block * row_lanes + lane) * grad.target_step + c * grad.source_step +
                    tap * grad.tap_step] = value[lane];
      }
    if (grad.bias == nullptr) continue;
    store_pack<row_pack<float>::batches>(
        value, total(grad.bias_sums + block * row_lanes, a.blocks() * row_lanes));
    for (index_t lane = 0; lane < lanes; ++lane) grad.bias[block * row_lanes + lane] = value[lane];
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

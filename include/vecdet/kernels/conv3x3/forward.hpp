// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution by minimal filtering: transforms the weights, and computes the outputs of a block
// of tiles. Lanes are always channels.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/kernels/conv3x3/minimal_filtering.hpp>
#include <vecdet/kernels/conv3x3/products.hpp>
#include <vecdet/kernels/conv3x3/taps.hpp>
#include <vecdet/kernels/conv3x3/tiles.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using conv_vector = pack<float, 1>;

/// Calls work(offset) for each vector in `Lanes` numbers.
template <int Lanes, class Work>
VECDET_INLINE void for_each_vector(const Work& work) {
  VECDET_NO_UNROLL
  for (int at = 0; at < Lanes; at += batch_lanes<float>) work(at);
}

/// Writes the transformed weights: points x panels x sources x conv_panel.
template <class Filtering>
void transform_conv_weights_of(const detail::conv3x3_weights_args<float>& a, index_t first,
                               index_t last) {
  // One cache line if it is written past the cache.
  using vector = pack<float, has_stores_past_cache ? row_pack<float>::batches : 1>;
  constexpr int P = weight_points<Filtering>, panel = static_cast<int>(detail::conv_panel);
  const index_t point = detail::conv_weights_point(a.targets, a.sources);
  for (index_t item = first; item < last;) {
    const index_t k = item / a.sources, begin = item % a.sources;
    const index_t end = last - item < a.sources - begin ? begin + last - item : a.sources;
    const index_t targets = a.targets - k * panel < panel ? a.targets - k * panel : panel;
    item += end - begin;
    tap_rows taps(a.target_step, a.source_step, a.tap_step);
    for (index_t c = begin; c < end; ++c) {
      const index_t in_group = (c - begin) % tap_rows::most_sources;
      if (in_group == 0)
        taps.gather(a.weights + k * panel * a.target_step + c * a.source_step,
                    end - c < tap_rows::most_sources ? end - c : tap_rows::most_sources, targets);
      float* const to = a.transformed + (k * a.sources + c) * panel;
      VECDET_NO_UNROLL
      for (int lane = 0; lane < panel; lane += vector::lanes)
        times_both_sides<typename Filtering::weights, vector>(
            [&](int i, int j) VECDET_INLINE_LAMBDA {
              const int tap = 3 * i + j;
              return load_pack<vector::batches>(taps.at(in_group, a.turned ? 8 - tap : tap, lane));
            },
            [&](int i, int j, const vector& x) VECDET_INLINE_LAMBDA {
              float* const line = to + (i * P + j) * point + lane;
              if (has_stores_past_cache && a.past_cache) {
                VECDET_UNROLL
                for (int v = 0; v < vector::batches; ++v)
                  store_past_cache(line + v * batch_lanes<float>, x.v[v]);
              } else {
                store_pack<vector::batches>(line, x);
              }
            });
    }
  }
  if (a.past_cache) finish_stores_past_cache();
}

inline void transform_conv_weights(const detail::conv3x3_weights_args<float>& a, index_t first,
                                   index_t last) {
  if (a.tile == 4)
    transform_conv_weights_of<minimal_filtering<4>>(a, first, last);
  else
    transform_conv_weights_of<minimal_filtering<2>>(a, first, last);
}

/// Transforms 16 channels of the inputs of a run of tiles. `to` is the memory of the run's first
/// tile. `row` is the distance between tiles, `point` that between points.
template <class Filtering>
VECDET_NOINLINE void transform_inputs_of_run(const float* band, index_t columns, index_t tiles,
                                             float* to, index_t row, index_t point) {
  constexpr int lanes = static_cast<int>(detail::conv_lanes);
  for (index_t t = 0; t < tiles; ++t)
    for_each_vector<lanes>([&](int lane) {
      const float* const from = band + Filtering::source_tile * t * lanes + lane;
      float* const v = to + t * row + lane;
      times_both_sides<typename Filtering::input, conv_vector>(
          [&](int i, int j)
              VECDET_INLINE_LAMBDA { return load_pack<1>(from + (i * columns + j) * lanes); },
          [&](int i, int j, const conv_vector& x) VECDET_INLINE_LAMBDA {
            store_pack<1>(v + (i * source_points<Filtering> + j) * point, x);
          });
    });
}

/// Transforms the products of a run of tiles to 16 channels of its outputs: one row of 16 per
/// location.
template <class Filtering>
VECDET_NOINLINE void outputs_of_run(const float* products, index_t point, index_t tiles,
                                    const float* bias, bool relu, float* band) {
  constexpr int lanes = static_cast<int>(detail::conv_lanes);
  constexpr index_t tile = Filtering::target_tile;
  const index_t columns = tile * tiles;
  const float least = relu ? 0 : -infinity<float>();
  for (index_t t = 0; t < tiles; ++t)
    for_each_vector<lanes>([&](int lane) {
      const float* const from = products + t * detail::conv_panel + lane;
      float* const to = band + tile * t * lanes + lane;
      const conv_vector shift = load_pack<1>(bias + lane);
      times_both_sides<typename Filtering::output, conv_vector>(
          [&](int i, int j) VECDET_INLINE_LAMBDA {
            return load_pack<1>(from + (i * target_points<Filtering> + j) * point);
          },
          [&](int i, int j, const conv_vector& x) VECDET_INLINE_LAMBDA {
            store_pack<1>(to + (i * columns + j) * lanes, max(conv_vector(least), x + shift));
          });
    });
}

/// Transforms channels [first, last), in whole groups, of tiles [first_tile, last_tile). `to` is
/// the memory of the first tile and channel.
template <class Filtering, class T>
VECDET_INLINE void transform_channels(const detail::conv3x3_args<T>& a, index_t first_tile,
                                      index_t last_tile, index_t first, index_t last, float* to,
                                      index_t row, index_t point, float* bands) {
  constexpr index_t lanes = detail::conv_lanes;
  constexpr index_t most = run_tiles<Filtering>;
  for_each_run<most>(a, first_tile, last_tile, [&](const tile_run<T>& run) {
    const detail::conv3x3_level<T>& level = *run.level;
    for (index_t c = first; c < last; c += lanes) {
      const index_t left = a.source_channels - c;
      const index_t columns = gather_band<source_area<Filtering>, most>(
          run, {level.height, level.width}, level.source, level.mask, c,
          left < lanes ? left : lanes, bands);
      transform_inputs_of_run<Filtering>(bands, columns, run.count,
                                         to + run.first * row + (c - first), row, point);
    }
  });
}

/// Transforms the products of tiles [first_tile, last_tile) to target channels [first, last), in
/// whole groups. `products` is the memory of the first tile of the first channel's panel.
template <class Filtering, class T>
VECDET_INLINE void finish_channels(const detail::conv3x3_args<T>& a, index_t first_tile,
                                   index_t last_tile, index_t first, index_t last,
                                   const float* products, index_t point, float* bands) {
  constexpr index_t planes = target_points<Filtering> * target_points<Filtering>;
  constexpr index_t lanes = detail::conv_lanes, panel = detail::conv_panel;
  for_each_run<run_tiles<Filtering>>(a, first_tile, last_tile, [&](const tile_run<T>& run) {
    for (index_t c = first; c < last; c += lanes) {
      const index_t left = a.target_channels - c, channels = left < lanes ? left : lanes;
      alignas(64) float bias[lanes] = {};
      if (a.bias != nullptr)
        for (index_t i = 0; i < channels; ++i) bias[i] = a.bias[c + i];
      const index_t before = (c / panel - first / panel) * planes * point + c % panel;
      outputs_of_run<Filtering>(products + before + run.first * panel, point, run.count, bias,
                                a.relu, bands);
      scatter_band<target_area<Filtering>>(run, c, channels, bands);
    }
  });
}

template <class Filtering, class T>
void run_conv_of(const detail::conv3x3_args<T>& a, const detail::conv3x3_task& task,
                 float* scratch) {
  using all_products = plane_products<Filtering, &axis_product::target>;
  constexpr index_t panel = detail::conv_panel;
  constexpr index_t source_planes = source_points<Filtering> * source_points<Filtering>;
  constexpr index_t planes = target_points<Filtering> * target_points<Filtering>;
  const index_t tiles = task.last_tile - task.first_tile, sources = a.source_channels;
  const index_t weights_point = detail::conv_weights_point(a.target_channels, sources);
  const index_t row = detail::conv_row(task.channels_at_once);
  const index_t point = detail::conv_point_size(tiles, row);
  const index_t product_point = detail::conv_point_size(tiles, panel);
  float* const transformed = scratch;
  float* const products = transformed + source_planes * point;
  float* const bands = products + task.panels_at_once * planes * product_point;

  const auto transform = [&](index_t first, index_t last) {
    transform_channels<Filtering>(a, task.first_tile, task.last_tile, first, last, transformed, row,
                                  point, bands);
  };

  const bool transforms_once = sources <= task.channels_at_once;
  if (transforms_once) transform(0, sources);
  for (index_t k = task.first_panel; k < task.last_panel; k += task.panels_at_once) {
    const index_t left = task.last_panel - k;
    const index_t panels = left < task.panels_at_once ? left : task.panels_at_once;
    index_t c = 0;
    do {
      const index_t end = sources - c < task.channels_at_once ? sources : c + task.channels_at_once;
      if (!transforms_once) transform(c, end);
      const auto columns = [&](int weight, index_t panel_number) {
        return a.weights + weight * weights_point + (panel_number * sources + c) * panel;
      };
      const auto rows = [&](const plane_product& p) { return transformed + p.source * point; };
      // Panels are the inner loop: the tiles of a weight's points stay in the cache for all of
      // them, and a panel of the weight for all its points.
      for (const plane_product *first = all_products::begin(), *last; first != all_products::end();
           first = last) {
        last = all_products::end_of_weight(first);
        const int next_weight = last != all_products::end() ? last->weight : 0;
        for (index_t p = k; p < k + panels; ++p) {
          const index_t channels = a.target_channels - p * panel;
          const float* const next =
              p + 1 < k + panels ? columns(first->weight, p + 1) : columns(next_weight, k);
          for (const plane_product* product = first; product != last; ++product) {
            const product_part part{rows(*product), columns(product->weight, p), end - c,
                                    product + 1 != last ? rows(product[1]) : next};
            add_panel<rows_apart>(
                {&part, 1, tiles, row, row, channels < panel ? channels : panel,
                 c > 0 || !product->begins,
                 products + ((p - k) * planes + product->target) * product_point});
          }
        }
      }
      c = end;
    } while (c < sources);
    for (index_t p = k; p < k + panels; ++p) {
      const index_t end = (p + 1) * panel;
      finish_channels<Filtering>(a, task.first_tile, task.last_tile, p * panel,
                                 end < a.target_channels ? end : a.target_channels,
                                 products + (p - k) * planes * product_point, product_point, bands);
    }
  }
}

template <class Filtering, class T>
void transform_conv_tiles_of(const detail::conv3x3_args<T>& a, const detail::conv3x3_pass& pass,
                             const detail::conv3x3_transform& part, float* scratch) {
  constexpr index_t lanes = detail::conv_lanes;
  const index_t first = part.first_group * lanes, end = part.last_group * lanes;
  transform_channels<Filtering>(
      a, part.first_tile, part.last_tile, first, end < a.source_channels ? end : a.source_channels,
      pass.transformed + (part.first_tile - pass.first_tile) * pass.row + first, pass.row,
      pass.point, scratch);
}

template <class Filtering, class T>
void finish_conv_tiles_of(const detail::conv3x3_args<T>& a, const detail::conv3x3_pass& pass,
                          const detail::conv3x3_transform& part, float* scratch) {
  constexpr index_t planes = target_points<Filtering> * target_points<Filtering>;
  constexpr index_t lanes = detail::conv_lanes, panel = detail::conv_panel;
  const index_t first = part.first_group * lanes, end = part.last_group * lanes;
  finish_channels<Filtering>(a, part.first_tile, part.last_tile, first,
                             end < a.target_channels ? end : a.target_channels,
                             pass.products + first / panel * planes * pass.product_point +
                                 (part.first_tile - pass.first_tile) * panel,
                             pass.product_point, scratch);
}

/// For filterings in which each product has a source and a sum of its own.
template <class T>
void multiply_conv_tiles(const detail::conv3x3_args<T>& a, const detail::conv3x3_pass& pass,
                         index_t first, index_t last) {
  constexpr index_t panel = detail::conv_panel;
  const index_t sources = a.source_channels, points = (a.tile + 2) * (a.tile + 2);
  const index_t weights_point = detail::conv_weights_point(a.target_channels, sources);
  const auto columns = [&](index_t i) {
    return a.weights + i / pass.panels * weights_point + i % pass.panels * sources * panel;
  };
  for (index_t item = first; item < last;) {
    const index_t i = item / pass.parts, begin = item % pass.parts;
    // Parts of the same tiles and panel together: weights are read once.
    const index_t end = last - item < pass.parts - begin ? begin + last - item : pass.parts;
    item += end - begin;
    const index_t point = i / pass.panels, k = i % pass.panels;
    const index_t tile = pass.tiles() * begin / pass.parts;
    const index_t tiles = pass.tiles() * end / pass.parts - tile;
    const index_t left = a.target_channels - k * panel;
    const product_part part{pass.transformed + point * pass.point + tile * pass.row, columns(i),
                            sources, columns(item < last ? item / pass.parts : i)};
    add_panel<rows_apart>(
        {&part, 1, tiles, pass.row, pass.row, left < panel ? left : panel, false,
         pass.products + (k * points + point) * pass.product_point + tile * panel});
  }
}

template <class T>
void transform_conv_tiles(const detail::conv3x3_args<T>& a, const detail::conv3x3_pass& pass,
                          const detail::conv3x3_transform& part, float* scratch) {
  if (a.tile == 4)
    transform_conv_tiles_of<minimal_filtering<4>>(a, pass, part, scratch);
  else
    transform_conv_tiles_of<minimal_filtering<2>>(a, pass, part, scratch);
}
template <class T>
void finish_conv_tiles(const detail::conv3x3_args<T>& a, const detail::conv3x3_pass& pass,
                       const detail::conv3x3_transform& part, float* scratch) {
  if (a.tile == 4)
    finish_conv_tiles_of<minimal_filtering<4>>(a, pass, part, scratch);
  else
    finish_conv_tiles_of<minimal_filtering<2>>(a, pass, part, scratch);
}

template <class T>
void run_conv(const detail::conv3x3_args<T>& a, const detail::conv3x3_task& task, float* scratch) {
  if (a.tile == 4)
    run_conv_of<minimal_filtering<4>>(a, task, scratch);
  else
    run_conv_of<minimal_filtering<2>>(a, task, scratch);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

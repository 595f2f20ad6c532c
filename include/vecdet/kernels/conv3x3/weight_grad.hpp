// SPDX-License-Identifier: Apache-2.0
// The gradient of the weights by minimal filtering: products of transformed inputs and gradients,
// summed over the tiles in their order. Rows of products are source channels, and lanes are target
// channels.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/kernels/conv3x3/forward.hpp>
#include <vecdet/kernels/conv3x3/minimal_filtering.hpp>
#include <vecdet/kernels/conv3x3/products.hpp>
#include <vecdet/kernels/conv3x3/taps.hpp>
#include <vecdet/kernels/conv3x3/tiles.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class Filtering, class T>
void transform_conv_inputs_of(const detail::conv3x3_args<T>& a,
                              const detail::conv3x3_weight_grad_block& block,
                              const detail::conv3x3_transform& part, float* scratch) {
  constexpr index_t lanes = detail::conv_lanes;
  const detail::conv3x3_map<const T> no_mask{};
  const index_t before = part.first_tile - block.first_tile;
  constexpr index_t most = run_tiles<Filtering>;
  for_each_run<most>(a, part.first_tile, part.last_tile, [&](const tile_run<T>& run) {
    const detail::conv3x3_level<T>& level = *run.level;
    for (index_t g = part.first_group; g < part.last_group; ++g) {
      const index_t c = block.first_source + g * lanes, left = block.last_source - c;
      const index_t columns = gather_band<source_area<Filtering>, most>(
          run, {level.height, level.width}, level.source, no_mask, c, left < lanes ? left : lanes,
          scratch);
      transform_inputs_of_run<Filtering>(
          scratch, columns, run.count,
          block.inputs + g * block.input_group() + (before + run.first) * lanes, lanes,
          block.input_point());
    }
  });
}

/// Transforms the gradients of a run of tiles: A (gradient tile) A^T. Writes the sum of each tile,
/// in double, to rows of `tile_sums` at a distance of `step` unless that is null.
template <class Filtering>
VECDET_NOINLINE void transform_gradients_of_run(const float* band, index_t tiles, float* to,
                                                index_t point, double* tile_sums, index_t step) {
  constexpr int lanes = static_cast<int>(detail::conv_lanes);
  constexpr int tile = Filtering::target_tile;
  const index_t columns = tile * tiles;
  for (index_t t = 0; t < tiles; ++t)
    for_each_vector<lanes>([&](int lane) {
      const float* const from = band + tile * t * lanes + lane;
      float* const w = to + t * detail::conv_panel + lane;
      const auto at = [&](int i, int j) VECDET_INLINE_LAMBDA {
        return load_pack<1>(from + (i * columns + j) * lanes);
      };
      times_both_sides<transposed<typename Filtering::output>, conv_vector>(
          at, [&](int i, int j, const conv_vector& x) VECDET_INLINE_LAMBDA {
            store_pack<1>(w + (i * target_points<Filtering> + j) * point, x);
          });
      if (tile_sums != nullptr) {
        auto sum = widen(at(0, 0));
        VECDET_UNROLL
        for (int i = 1; i < tile * tile; ++i) sum = sum + widen(at(i / tile, i % tile));
        store_pack<2>(tile_sums + t * step + lane, sum);
      }
    });
}

template <class Filtering, class T>
void transform_conv_gradients_of(const detail::conv3x3_args<T>& a,
                                 const detail::conv3x3_weight_grad_block& block,
                                 const detail::conv3x3_transform& part, float* scratch) {
  constexpr index_t lanes = detail::conv_lanes, panel = detail::conv_panel;
  const index_t panel_size = block.tiles() * panel, step = block.panels() * panel;
  const index_t before = part.first_tile - block.first_tile;
  constexpr index_t most = run_tiles<Filtering>;
  for_each_run<most>(a, part.first_tile, part.last_tile, [&](const tile_run<T>& run) {
    const detail::conv3x3_level<T>& level = *run.level;
    const index_t tile = before + run.first;
    for (index_t g = part.first_group; g < part.last_group; ++g) {
      const index_t k = block.first_panel * panel + g * lanes, left = a.target_channels - k;
      gather_band<target_area<Filtering>, most>(run, {level.target_height, level.target_width},
                                                level.upstream, level.mask, k,
                                                left < lanes ? left : lanes, scratch);
      transform_gradients_of_run<Filtering>(
          scratch, run.count,
          block.gradients + g * lanes / panel * panel_size + tile * panel + g * lanes % panel,
          block.panels() * panel_size,
          block.bias_sums == nullptr ? nullptr : block.tile_sums + tile * step + g * lanes, step);
    }
  });
}

template <class T>
void transform_conv_inputs(const detail::conv3x3_args<T>& a,
                           const detail::conv3x3_weight_grad_block& block,
                           const detail::conv3x3_transform& part, float* scratch) {
  if (a.tile == 4)
    transform_conv_inputs_of<minimal_filtering<4>>(a, block, part, scratch);
  else
    transform_conv_inputs_of<minimal_filtering<2>>(a, block, part, scratch);
}
template <class T>
void transform_conv_gradients(const detail::conv3x3_args<T>& a,
                              const detail::conv3x3_weight_grad_block& block,
                              const detail::conv3x3_transform& part, float* scratch) {
  if (a.tile == 4)
    transform_conv_gradients_of<minimal_filtering<4>>(a, block, part, scratch);
  else
    transform_conv_gradients_of<minimal_filtering<2>>(a, block, part, scratch);
}

/// Adds the sums of the block's tiles, in their order, to those of a panel's bias.
inline void add_bias_sums(const detail::conv3x3_sizes& a,
                          const detail::conv3x3_weight_grad_block& block, index_t k) {
  constexpr index_t lanes = detail::conv_lanes, panel = detail::conv_panel;
  const index_t step = block.panels() * panel, first = (block.first_panel + k) * panel;
  for (index_t c = 0; c < panel && first + c < a.target_channels; c += lanes)
    for (index_t lane = c; lane < c + lanes; lane += 2 * batch_lanes<double>) {
      double* const to = block.bias_sums + first + lane;
      auto sum = load_pack<2>(to);
      for (index_t t = 0; t < block.tiles(); ++t)
        sum = sum + load_pack<2>(block.tile_sums + t * step + k * panel + lane);
      store_pack<2>(to, sum);
    }
}

/// Adds products [first, last), which have the same sums, for panel `k` and `count` half groups of
/// source channels, from channel `c` of the block on.
inline void add_products_of(const detail::conv3x3_sizes& a,
                            const detail::conv3x3_weight_grad_block& block,
                            const plane_product* first, const plane_product* last, index_t k,
                            index_t c, index_t count) {
  constexpr index_t panel = detail::conv_panel, half = detail::conv_lanes / 2;
  const index_t left = a.target_channels - (block.first_panel + k) * panel;
  const index_t rest = block.sources() - c;
  const index_t rows = rest < count * half ? rest : count * half;
  if (rows <= 0) return;
  float* const sums =
      block.sums + first->weight * block.sums_point() + (k * block.sources() + c) * panel;
  const bool is_alone = first + 1 == last;
  const index_t unit = is_alone ? block.tiles() : detail::conv_strided_unit;
  // The sums stay in registers for many parts.
  constexpr int most_parts = 64;
  product_part parts[most_parts];
  int filled = 0;
  bool continues = block.first_tile > 0;
  for (index_t t = 0; t < block.tiles(); t += unit) {
    const index_t tiles = block.tiles() - t < unit ? block.tiles() - t : unit;
    for (const plane_product* product = first; product != last; ++product) {
      // A group's inputs are contiguous, so that the processor fetches them ahead.
      const float* const inputs = block.inputs + product->source * block.input_point() +
                                  c / detail::conv_lanes * block.input_group() +
                                  t * detail::conv_lanes + c % detail::conv_lanes;
      if (filled > 0) parts[filled - 1].next = inputs;
      parts[filled++] = {
          inputs,
          block.gradients + ((product->target * block.panels() + k) * block.tiles() + t) * panel,
          tiles, sums + rows * panel};
      const bool is_last = t + unit >= block.tiles() && product + 1 == last;
      if (filled < most_parts && !is_last) continue;
      add_panel<rows_adjacent>({parts, filled, rows, 1, detail::conv_lanes,
                                left < panel ? left : panel, continues, sums});
      continues = true;
      filled = 0;
    }
  }
}

template <class Filtering>
void add_weight_grad_products_of(const detail::conv3x3_sizes& a,
                                 const detail::conv3x3_weight_grad_block& block, index_t first,
                                 index_t last) {
  using all_products = plane_products<Filtering, &axis_product::weight>;
  const index_t halves = 2 * block.groups(), items = block.panels() * halves;
  const plane_product* const all = all_products::begin();
  for (const plane_product *product = all, *next; product != all_products::end(); product = next) {
    next = all_products::end_of_weight(product);
    // The items of these products whose first number is in the range.
    const index_t before = (product - all) * items, size = next - product;
    const auto item_from = [&](index_t number) {
      return number <= before                  ? 0
             : number >= before + items * size ? items
                                               : (number - before + size - 1) / size;
    };
    const index_t last_item = item_from(last);
    for (index_t item = item_from(first); item < last_item;) {
      const index_t k = item / halves, c = item % halves * (detail::conv_lanes / 2);
      // Whole groups where possible: on AVX2, half a group does not fill the registers.
      const index_t count = c % detail::conv_lanes == 0 && item + 1 < last_item ? 2 : 1;
      add_products_of(a, block, product, next, k, c, count);
      if (product == all && c == 0 && block.bias_sums != nullptr) add_bias_sums(a, block, k);
      item += count;
    }
  }
}

inline void add_weight_grad_products(const detail::conv3x3_sizes& a,
                                     const detail::conv3x3_weight_grad_block& block, index_t first,
                                     index_t last) {
  if (a.tile == 4)
    add_weight_grad_products_of<minimal_filtering<4>>(a, block, first, last);
  else
    add_weight_grad_products_of<minimal_filtering<2>>(a, block, first, last);
}

template <class Filtering>
void finish_weight_grad_of(const detail::conv3x3_sizes& a,
                           const detail::conv3x3_weight_grad_block& block,
                           const detail::conv3x3_weight_grad<float>& out, index_t first,
                           index_t last) {
  constexpr int panel = static_cast<int>(detail::conv_panel);
  const index_t point = block.sums_point();
  for (index_t item = first; item < last;) {
    const index_t k = item / block.sources(), begin = item % block.sources();
    const index_t left_items = last - item, rest = block.sources() - begin;
    const index_t end = begin + (left_items < rest ? left_items : rest);
    item += end - begin;
    const index_t channel = (block.first_panel + k) * panel, left = a.target_channels - channel;
    const index_t targets = left < panel ? left : panel;
    tap_rows taps(out.target_step, out.source_step, out.tap_step);
    for (index_t c = begin; c < end; c += tap_rows::most_sources) {
      const index_t sources = end - c < tap_rows::most_sources ? end - c : tap_rows::most_sources;
      for (index_t s = 0; s < sources; ++s) {
        const float* const from = block.sums + (k * block.sources() + c + s) * panel;
        for_each_vector<panel>([&](int lane) {
          times_both_sides<transposed<typename Filtering::weights>, conv_vector>(
              [&](int i, int j) VECDET_INLINE_LAMBDA {
                return load_pack<1>(from + (i * weight_points<Filtering> + j) * point + lane);
              },
              [&](int i, int j, const conv_vector& x)
                  VECDET_INLINE_LAMBDA { store_pack<1>(taps.at(s, 3 * i + j, lane), x); });
        });
      }
      taps.scatter(
          out.data + channel * out.target_step + (block.first_source + c) * out.source_step,
          sources, targets);
    }
  }
}

inline void finish_weight_grad(const detail::conv3x3_sizes& a,
                               const detail::conv3x3_weight_grad_block& block,
                               const detail::conv3x3_weight_grad<float>& out, index_t first,
                               index_t last) {
  if (a.tile == 4)
    finish_weight_grad_of<minimal_filtering<4>>(a, block, out, first, last);
  else
    finish_weight_grad_of<minimal_filtering<2>>(a, block, out, first, last);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

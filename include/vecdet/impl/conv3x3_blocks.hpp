// SPDX-License-Identifier: Apache-2.0
// How the work of conv3x3.hpp is divided into blocks that fit the caches, and into pieces for
// threads.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/conv3x3_tile.hpp>
#include <vecdet/impl/chunks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <numeric>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

constexpr index_t conv_panels(index_t channels) noexcept {
  return conv_rounded(channels, conv_panel) / conv_panel;
}
constexpr conv3x3_filtering filtering_of(conv3x3_tile tile) noexcept {
  return tile == conv3x3_tile::f4x4 ? conv3x3_filtering{4, 36, 36, 36, 36, 1}
                                    : conv3x3_filtering{2, 16, 16, 16, 16, 1};
}

/// The size of transformed weights in bytes.
template <class T>
constexpr index_t conv_weights_bytes(const conv3x3_filtering& filtering, index_t targets,
                                     index_t sources) noexcept {
  return index_t{sizeof(T)} *
         (std::is_same<T, double>::value
              ? 9 * targets * sources
              : filtering.weight_points * conv_weights_point(targets, sources));
}

/// The most source channels and panels of target channels in a block. The transformed tiles and
/// products of one point take 102 KB for 48 tiles, 208 KB for 98 and 305 KB for 144. They stay in
/// the second-level cache while the weights stream through it.
constexpr index_t conv_block_sources = 256, conv_block_panels = 8;
/// If the transformed weights take more bytes than this, they are written past the caches: a
/// processor shares the last-level cache with others, and would read the lines before it writes
/// them.
constexpr index_t conv_streamed_bytes = index_t{12} * 1024 * 1024;
/// If they take more than this, blocks have more tiles.
constexpr index_t conv_cached_bytes = index_t{32} * 1024 * 1024;
constexpr index_t conv_uncached_block_tiles = 144;
/// The most tiles in a block. The weights are read once per block, so larger blocks pay if the
/// second-level cache does not hold the weights. They need a part of the last-level cache; each
/// thread's part is larger if there are few threads. On AVX-512, 98 tiles are seven blocks of
/// products.
constexpr index_t conv_least_block_tiles = 48, conv_most_block_tiles = 98;
constexpr index_t conv_second_level_bytes = index_t{4} * 1024 * 1024;
constexpr index_t conv_block_tiles(index_t weights_bytes, index_t threads) noexcept {
  if (weights_bytes > conv_cached_bytes) return conv_uncached_block_tiles;
  if (weights_bytes <= conv_second_level_bytes) return conv_least_block_tiles;
  return std::max(conv_least_block_tiles,
                  2 * conv_most_block_tiles / std::max(threads, index_t{2}));
}
/// Each task transforms its own tiles if it has at least this many. Weights that stay in the
/// second-level cache are quickly read again.
constexpr index_t conv_least_tiles(index_t weights_bytes) noexcept {
  return weights_bytes <= 1024 * 1024 ? 12 : 28;
}
/// The workspace of a call whose threads share transformed tiles and products has at most this many
/// bytes per thread, about its part of the caches.
constexpr index_t conv_shared_bytes(index_t weights_bytes) noexcept {
  return (weights_bytes > conv_cached_bytes ? index_t{12} : index_t{4}) * 1024 * 1024;
}
/// The part of these bytes, for all threads together, that the tiles of a pass may take. The rest
/// is for bands, and for gaps between points.
constexpr index_t conv_pass_bytes(index_t weights_bytes, const conv3x3_filtering& filtering,
                                  index_t panels, index_t threads) noexcept {
  const index_t gaps = filtering.source_points + filtering.target_points * panels + 2;
  return index_t{sizeof(float)} *
         (threads * (conv_shared_bytes(weights_bytes) / index_t{sizeof(float)} - conv_band_size -
                     conv_lanes) -
          gaps * conv_lanes);
}

/// How the tiles and target channels of a call are divided. With many tiles per thread, a task has
/// some tiles and all panels, and transforms its tiles itself. Otherwise threads compute all tiles
/// together, in one pass or more: they transform the tiles of the pass, multiply them point by
/// point, so that each weight is read by one thread, and transform the products.
///
/// In three cases, a task instead has some tiles and some panels, and transforms its tiles itself.
/// With very many channels, few tiles fit into a pass, and the weights would be read in many
/// passes. With few source and many target channels, transforming a tile several times takes less
/// time than moving its products between threads. With stride 2, there are no passes.
struct conv3x3_blocks {
  index_t tiles, panels;            ///< in total
  index_t passes = 0;               ///< 0: each task transforms its tiles itself
  index_t tile_parts, panel_parts;  ///< a task has one part of each
  index_t channels_at_once, panels_at_once;
  index_t product_parts = 1;  ///< a product of a pass has one part of its tiles

  conv3x3_blocks(index_t all_tiles, index_t sources, index_t targets, index_t weights_bytes,
                 const conv3x3_filtering& filtering, index_t threads)
      : tiles(all_tiles), panels(conv_panels(targets)), panel_parts(1) {
    channels_at_once =
        std::min(conv_rounded(std::max(sources, index_t{1}), conv_lanes), conv_block_sources);
    panels_at_once = std::min(panels, conv_block_panels);
    const index_t most = conv_block_tiles(weights_bytes, threads);
    tile_parts = (tiles + most - 1) / most;
    const index_t even = (tile_parts + threads - 1) / threads * threads;
    if (threads == 1) return;
    if (tiles >= even * conv_least_tiles(weights_bytes)) {
      tile_parts = even;
      return;
    }
    if (filtering.products > filtering.source_points ||
        filtering.products > filtering.target_points) {
      // Several products have the same source or the same sum. Passes have no kernels for that.
      tile_parts = std::max(tile_parts, std::min(threads, tiles / conv_least_tiles(0)));
      panel_parts = std::min(panels, (threads + tile_parts - 1) / tile_parts);
      return;
    }
    const index_t parts = std::min(panels, threads / std::gcd(tile_parts, threads));
    const index_t tile_bytes = (filtering.source_points * conv_row(sources) +
                                filtering.target_points * panels * conv_panel) *
                               index_t{sizeof(float)};
    const index_t in_pass = conv_pass_bytes(weights_bytes, filtering, panels, threads) / tile_bytes;
    if (in_pass < std::min(tiles, conv_uncached_block_tiles) || 2 * parts * sources <= targets) {
      panel_parts = parts;
      return;
    }
    passes = (tiles + in_pass - 1) / in_pass;
    product_parts = even_parts(most_in_pass(), filtering.products * panels, threads);
  }

  /// The number of tasks.
  index_t count() const { return tile_parts * panel_parts; }
  index_t most_tiles() const { return (tiles + tile_parts - 1) / tile_parts; }  ///< in a task
  index_t first_tile(index_t pass) const { return tiles * pass / passes; }
  index_t most_in_pass() const { return (tiles + passes - 1) / passes; }

  /// Tasks of the same panels follow each other: they read the same weights.
  conv3x3_task task(index_t i) const {
    const index_t p = i / tile_parts, t = i % tile_parts;
    return {tiles * t / tile_parts,   tiles * (t + 1) / tile_parts,
            panels * p / panel_parts, panels * (p + 1) / panel_parts,
            channels_at_once,         panels_at_once};
  }

 private:
  /// The number of parts of the tiles with which the thread with the most products finishes first.
  static index_t even_parts(index_t tiles, index_t products, index_t threads) {
    constexpr index_t least = 12, overhead = 1;
    index_t best = 1, shortest = -1;
    for (index_t parts = 1; parts == 1 || parts * least <= tiles; ++parts) {
      const index_t turns = (products * parts + threads - 1) / threads;
      const index_t time = turns * ((tiles + parts - 1) / parts + overhead);
      if (shortest >= 0 && time >= shortest) continue;
      shortest = time;
      best = parts;
    }
    return best;
  }
};

/// The most source channels, panels of target channels and tiles in a block of the gradient of the
/// weights.
constexpr index_t weight_grad_sources = 256, weight_grad_panels = 8, weight_grad_tiles = 160;
/// The transformed tiles of a block take about this many bytes if there are more threads than
/// weight_grad_tiles suffice for: threads wait for each other after each block.
constexpr index_t weight_grad_bytes(index_t threads) noexcept {
  constexpr index_t kib = 1024;
  return std::max(threads * 64 * kib, std::min(threads * 256 * kib, 8 * kib * kib));
}

/// The division of the gradient of the weights into blocks of nearly the same size.
struct conv3x3_weight_grad_blocks {
  index_t source_groups, source_parts, panels, panel_parts, tiles, tile_parts;
  index_t tile_unit;
  index_t most_sources, most_panels, most_tiles;

  conv3x3_weight_grad_blocks(index_t all_tiles, index_t sources, index_t targets,
                             const conv3x3_filtering& filtering, index_t threads)
      : panels(conv_panels(targets)), tiles(all_tiles), tile_unit(filtering.tile_unit) {
    source_groups = std::max(index_t{1}, conv_rounded(sources, conv_lanes) / conv_lanes);
    source_parts = (source_groups * conv_lanes + weight_grad_sources - 1) / weight_grad_sources;
    panel_parts = (panels + weight_grad_panels - 1) / weight_grad_panels;
    most_sources = (source_groups + source_parts - 1) / source_parts * conv_lanes;
    most_panels = (panels + panel_parts - 1) / panel_parts;
    // The sums are read and written once per block of tiles, so blocks have more tiles if there are
    // more sums.
    const index_t channels = most_sources + most_panels * conv_panel;
    index_t room =
        std::min(weight_grad_tiles, std::max(conv_least_block_tiles * threads, 3 * channels / 8));
    // With stride 2, a tile has more transformed inputs, and products with the same sum reuse them.
    // If there are several parts of the panels, they share the inputs of a block of all tiles.
    if (tile_unit > 1 && panel_parts == 1)
      room = std::min(room, std::max(tile_unit * threads, channels / 8));
    if (threads > 1)
      room = std::max(room, weight_grad_bytes(threads) /
                                (filtering.source_points * channels * index_t{sizeof(float)}));
    const index_t room_units = std::max(index_t{1}, room / tile_unit);
    tile_parts = (units() + room_units - 1) / room_units;
    most_tiles =
        tile_parts == 0 ? 0 : std::min(tiles, (units() + tile_parts - 1) / tile_parts * tile_unit);
  }

  index_t first_tile(index_t part) const {
    return std::min(tiles, units() * part / tile_parts * tile_unit);
  }

 private:
  index_t units() const { return (tiles + tile_unit - 1) / tile_unit; }
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

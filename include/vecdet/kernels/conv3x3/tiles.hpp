// SPDX-License-Identifier: Apache-2.0
// Finds the tiles of a task, and copies their locations from maps to rows of 16 channels and back.
// These rows are the same for both layouts, and in float for maps of bfloat16; locations outside
// the map are zeros.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/kernels/channel_rows.hpp>
#include <vecdet/kernels/conv3x3/minimal_filtering.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// The most tiles in a run, i.e. neighbours in a row of tiles. The numbers of a run stay in the
/// first-level cache.
constexpr index_t most_run_tiles = 16;
template <class Filtering>
constexpr index_t run_tiles =
    Filtering::source_tile > 4 || Filtering::target_tile > 4 ? 8 : most_run_tiles;

template <class T>
struct tile_run {
  const detail::conv3x3_level<T>* level;
  index_t image, row, column;  ///< in tiles
  index_t first, count;        ///< `first` counts the tiles of the task
};

/// Calls work(run) for the tiles [first, last), at most `Most` at once.
template <index_t Most, class T, class Work>
VECDET_INLINE void for_each_run(const detail::conv3x3_args<T>& a, index_t first, index_t last,
                                const Work& work) {
  index_t l = 0;
  for (index_t tile = first; tile < last;) {
    while (tile >= a.levels[l].last_tile) ++l;
    const detail::conv3x3_level<T>& level = a.levels[l];
    const index_t in_level = tile - level.first_tile;
    const index_t row = in_level / level.tile_columns;
    tile_run<T> run{
        &level,       row / level.tile_rows, row % level.tile_rows, in_level % level.tile_columns,
        tile - first, level.tile_columns};
    run.count -= run.column;
    if (run.count > last - tile) run.count = last - tile;
    if (run.count > Most) run.count = Most;
    work(run);
    tile += run.count;
  }
}

/// The locations of a run of tiles. Along each axis, tiles are `Step` locations apart, and each has
/// `Reach` of them, from `Before` locations before its own first one on.
template <int Step, int Before, int Reach>
struct run_area {
  static constexpr index_t rows = Reach;
  static constexpr index_t columns(index_t tiles) { return Step * (tiles - 1) + Reach; }
  static constexpr index_t first(index_t tile) { return Step * tile - Before; }
};

/// The locations that the tiles read.
template <class Filtering>
using source_area = run_area<Filtering::source_tile, Filtering::before, filtering_reach<Filtering>>;
/// The locations that the tiles write, or those of the upstream gradient.
template <class Filtering>
using target_area = run_area<Filtering::target_tile, 0, Filtering::target_tile>;

/// The size of a map.
struct map_size {
  index_t height, width;
};

/// Copies the locations of a run of tiles: `channels` channels from `channel` on. Writes zeros
/// outside the map and where the mask is not above 0. Returns the number of columns.
template <class Area, index_t Most, class T>
VECDET_NOINLINE index_t gather_band(const tile_run<T>& run, const map_size& size,
                                    const detail::conv3x3_map<const T>& map,
                                    const detail::conv3x3_map<const T>& mask, index_t channel,
                                    index_t channels, compute_type<T>* to) {
  using number = compute_type<T>;
  constexpr index_t lanes = detail::conv_lanes;
  constexpr int N = row_pack<number>::batches;
  static_assert(Area::rows * Area::columns(Most) * lanes <= detail::conv_band_size,
                "a band fits its memory");
  const index_t columns = Area::columns(run.count);
  const index_t first_x = Area::first(run.column), first_y = Area::first(run.row);
  const index_t begin = first_x < 0 ? 0 : first_x;
  const index_t end = first_x + columns < size.width ? first_x + columns : size.width;
  for (index_t r = 0; r < Area::rows; ++r) {
    number* const row = to + r * columns * lanes;
    const index_t y = first_y + r;
    if (y < 0 || y >= size.height) {
      clear_channel_rows(row, 0, columns);
      continue;
    }
    clear_channel_rows(row, 0, begin - first_x);
    clear_channel_rows(row, end - first_x, columns);
    number* const inside = row + (begin - first_x) * lanes;
    const auto at = [&](const detail::conv3x3_map<const T>& m) {
      return m.data + run.image * m.image + (y * size.width + begin) * m.location +
             channel * m.channel;
    };
    gather_channel_rows(at(map), map.location, map.channel, channels, end - begin, inside);
    if (mask.data != nullptr) {
      alignas(64) number masks[Area::columns(Most) * lanes];
      gather_channel_rows(at(mask), mask.location, mask.channel, channels, end - begin, masks);
      for (index_t x = 0; x < end - begin; ++x) {
        const row_pack<number> zero(number(0));
        store_pack<N>(inside + x * lanes, select(load_pack<N>(masks + x * lanes) > zero,
                                                 load_pack<N>(inside + x * lanes), zero));
      }
    }
  }
  return columns;
}

/// Copies the outputs of a run to the map, rounded if T is bfloat16. Outputs outside the map are
/// dropped.
template <class Area, class T>
VECDET_NOINLINE void scatter_band(const tile_run<T>& run, index_t channel, index_t channels,
                                  const compute_type<T>* from) {
  using number = compute_type<T>;
  constexpr index_t lanes = detail::conv_lanes;
  const detail::conv3x3_level<T>& level = *run.level;
  const detail::conv3x3_map<T>& map = level.target;
  const index_t first_x = Area::first(run.column), first_y = Area::first(run.row);
  const index_t columns = Area::columns(run.count);
  const index_t width = level.target_width;
  const index_t valid = first_x + columns < width ? columns : width - first_x;
  for (index_t r = 0; r < Area::rows && first_y + r < level.target_height; ++r) {
    const number* const row = from + r * columns * lanes;
    T* const to = map.data + run.image * map.image +
                  ((first_y + r) * width + first_x) * map.location + channel * map.channel;
    scatter_channel_rows(row, valid, channels, to, map.location, map.channel);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

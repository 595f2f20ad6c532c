// SPDX-License-Identifier: Apache-2.0
// The tiles of grouped convolutions: which locations they cover, and copies of these locations to
// rows of 16 channels, where those outside the map are zeros.
#pragma once

#include <vecdet/args/grouped_conv3x3.hpp>
#include <vecdet/kernels/channel_rows.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::grouped_steps;

/// A rectangle of locations of an image. It may reach beyond the map.
struct grouped_area {
  index_t image, y, x, rows, columns;
};

/// The targets of a tile, without those outside the map.
template <class T>
grouped_area tile_targets(const detail::grouped_tiles& tiles, const detail::grouped_map<T>& map,
                          index_t tile) {
  const index_t in_image = tile % tiles.in_image();
  const index_t y = in_image / tiles.in_row * tiles.rows;
  const index_t x = in_image % tiles.in_row * tiles.columns;
  const index_t rows = map.height - y, columns = map.width - x;
  return {tile / tiles.in_image(), y, x, rows < tiles.rows ? rows : tiles.rows,
          columns < tiles.columns ? columns : tiles.columns};
}

/// The sources that whole tiles read, from the one of the first target on.
inline grouped_area tile_sources(grouped_steps steps, const detail::grouped_tiles& tiles,
                                 const grouped_area& targets) {
  const auto first = [&](index_t target) {
    return steps == grouped_steps::one   ? target - 1
           : steps == grouped_steps::two ? 2 * target - 1
                                         : target / 2;
  };
  return {targets.image, first(targets.y), first(targets.x),
          detail::grouped_reach(steps, targets.rows), detail::grouped_reach(steps, tiles.columns)};
}

/// Copies an area of `channels` channels, at most 16, to rows of 16.
inline void gather_area(const detail::grouped_map<const float>& map, const grouped_area& area,
                        index_t channel, index_t channels, float* to) {
  const auto within = [](index_t x, index_t end) { return x < 0 ? 0 : x < end ? x : end; };
  const index_t begin = within(area.x, map.width);
  const index_t end = within(area.x + area.columns, map.width);
  for (index_t r = 0; r < area.rows; ++r) {
    float* const row = to + r * area.columns * row_lanes;
    const index_t y = area.y + r;
    if (channels == 0 || y < 0 || y >= map.height) {
      clear_channel_rows(row, 0, area.columns);
      continue;
    }
    clear_channel_rows(row, 0, begin - area.x);
    clear_channel_rows(row, end - area.x, area.columns);
    gather_channel_rows(map.data + area.image * map.image + (y * map.width + begin) * map.location +
                            channel * map.channel,
                        map.location, map.channel, channels, end - begin,
                        row + (begin - area.x) * row_lanes);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

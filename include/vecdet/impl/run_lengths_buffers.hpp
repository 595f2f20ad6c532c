// SPDX-License-Identifier: Apache-2.0
// The buffers of run_lengths_workspace.
#pragma once

#include <vecdet/args/mask_bits.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A mask that is encoded: the rectangle x1 y1 x2 y2 of its picture, and where its pixels change.
struct encoded_mask {
  grid_size picture;
  index_t x1, y1, x2, y2;
  change_list found;

  index_t width() const noexcept { return x2 - x1; }
  index_t height() const noexcept { return y2 - y1; }
};

/// What the overlaps of a mask are computed from.
struct measured_mask {
  index_t first, runs;  ///< its bounds begin at bounds[first]: begin and end of each run of pixels
  index_t area, box[4];
};

/// A horizontal edge of one pixel's length, from (x, y) to (x + 1, y), and the horizontal edge that
/// follows it around the object; -1 once it belongs to a polygon.
struct outline_edge {
  index_t x, y, next;
};

struct run_lengths_buffers {
  std::vector<grid_size> sizes;
  std::vector<index_t> offsets;
  std::vector<std::uint32_t> counts;
  std::vector<index_t> text_offsets;
  std::vector<char> text;
  std::vector<encoded_mask> masks;
  std::vector<measured_mask> measured;
  std::vector<std::uint32_t> bounds;
  std::vector<std::uint64_t> changes;
  std::vector<outline_edge> edges;
  std::vector<double> points;
  std::vector<index_t> polygon_offsets, outline_offsets;
  aligned_vector<cache_line> found, scratch;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

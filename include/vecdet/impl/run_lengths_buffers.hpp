// SPDX-License-Identifier: Apache-2.0
// The buffers of run_lengths_workspace.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A mask that is encoded: the rectangle x1 y1 x2 y2 of its picture as lines of bits, the lowest of
/// a byte first. A line is a row or, of whole pictures, a column.
struct encoded_mask {
  grid_size picture;
  index_t x1, y1, x2, y2;
  const std::uint8_t* bits;
  index_t line_bytes;
};

/// What the overlaps of a mask are computed from.
struct measured_mask {
  index_t first, runs;  ///< its bounds begin at bounds[first]: begin and end of each run of pixels
  index_t area, box[4];
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
  aligned_vector<cache_line> packed, scratch;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

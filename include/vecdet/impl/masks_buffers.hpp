// SPDX-License-Identifier: Apache-2.0
// The buffers of masks_workspace.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct masks_buffers {
  std::vector<mask_plan> plans;
  std::vector<paste_plan> pastes;
  std::vector<mask_picture> pictures;
  std::vector<std::int32_t> locations;
  std::vector<float> weights;
  std::vector<index_t> boxes, offsets;
  aligned_vector<cache_line> scratch, pixels;

  /// Makes room for the rectangles of `count` masks.
  void make_rectangles(index_t count) {
    grown(boxes, 4 * count);
    grown(offsets, count + 1)[0] = 0;
  }
  /// Sets the rectangle of mask i of `count`, and returns where its pixels begin: after those of
  /// the masks before it.
  /// @throws std::invalid_argument if the pixels exceed what memory can address
  index_t set_rectangle(const char* function, index_t i, index_t count, const mask_span& x,
                        const mask_span& y, index_t row_bytes) {
    index_t* const box = boxes.data() + 4 * i;
    box[0] = x.begin;
    box[1] = y.begin;
    box[2] = x.end;
    box[3] = y.end;
    index_t* const offset = offsets.data() + i;
    const index_t own = y.size() * row_bytes;
    check(offset[0] <= (index_t{1} << 48) - own, function, "boxes.size()", count,
          "masks that fit into memory");
    offset[1] = offset[0] + own;
    return offset[0];
  }
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Checks that the functions that make and read masks share.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/views.hpp>

#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// @param params the argument's name in messages
inline void check_mask_pixels(const char* function, mask_pixels kind,
                              const char* params = "params") {
  check_member(kind == mask_pixels::bits || kind == mask_pixels::bytes, function, params, "pixels",
               static_cast<int>(kind), "a mask_pixels");
}

constexpr index_t longest_mask_side = 1 << 20;

/// Checks the division of `count` objects among images, if it is given, and the pictures' sizes.
inline void check_pictures(const char* function, const vector_view<const index_t>& image_offsets,
                           const vector_view<const grid_size>& sizes, index_t images,
                           index_t count) {
  if (!image_offsets.empty())
    check_offsets(function, "image_offsets", image_offsets, count, "the number of boxes");
  if (sizes.size() != 1)
    check_size(function, "sizes.size()", sizes.size(), images, "the number of images");
  for (index_t k = 0; k < sizes.size(); ++k)
    for (const index_t side : {sizes[k].height, sizes[k].width})
      if (side < 0 || side > longest_mask_side)
        throw_invalid_argument(function, element("sizes", k), side, "sides of 0 to 2^20 pixels");
}

/// Checks masks that are read.
/// @param sizes of the pictures in which rectangles must lie, one or one per mask; null: anywhere
inline void check_masks(const char* function, const char* name, const masks_view& masks,
                        const vector_view<const grid_size>* sizes = nullptr) {
  constexpr index_t longest = (index_t{1} << 31) - 1;
  const index_t count = masks.size();
  const std::string own = name;
  if (masks.kind != mask_pixels::bits && masks.kind != mask_pixels::bytes)
    throw_invalid_argument(function, own + ".kind", static_cast<int>(masks.kind), "a mask_pixels");
  if (count == 0 && masks.offsets.empty()) return;
  if (masks.offsets.size() != count + 1)
    check_size(function, (own + ".offsets.size()").c_str(), masks.offsets.size(), count + 1,
               "one more than there are masks");
  check_offsets(function, (own + ".offsets").c_str(), masks.offsets, masks.pixels.size(),
                "the number of bytes");
  for (index_t i = 0; i < count; ++i) {
    const index_t* const box = masks.boxes[i];
    const grid_size most =
        sizes == nullptr ? grid_size{longest, longest} : (*sizes)[sizes->size() == 1 ? 0 : i];
    const auto is_side = [](index_t from, index_t to, index_t end) {
      return from >= 0 && from <= to && to <= end;
    };
    if (!is_side(box[0], box[2], most.width) || !is_side(box[1], box[3], most.height)) {
      std::string text;
      for (int k = 0; k < 4; ++k) text += (k > 0 ? " " : "") + std::to_string(box[k]);
      throw_invalid_argument(
          function, element((own + ".boxes").c_str(), i), text,
          sizes == nullptr ? "a rectangle of whole pixels: 0 <= x1 <= x2 <= 2^31 - 1, likewise y"
                           : "a rectangle of whole pixels in the picture of " +
                                 std::to_string(most.height) + " x " + std::to_string(most.width));
    }
    const index_t bytes = (box[3] - box[1]) * masks.row_bytes(i);
    if (masks.offsets[i + 1] - masks.offsets[i] != bytes)
      throw_invalid_argument(function, "the number of bytes of " + element(name, i),
                             masks.offsets[i + 1] - masks.offsets[i],
                             std::to_string(bytes) + ", those of its rectangle");
  }
}

/// Checks that an output shares no memory with masks.
inline void check_apart_from_masks(const char* function, const char* output,
                                   const address_range& out, const char* name,
                                   const masks_view& masks) {
  const std::string own = name;
  check_apart(function, output, out, (own + ".boxes").c_str(), masks.boxes);
  check_apart(function, output, out, (own + ".offsets").c_str(), masks.offsets);
  check_apart(function, output, out, (own + ".pixels").c_str(), masks.pixels);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Masks pasted from any maps, boxes and sizes: rectangles lie in the picture, bits and bytes agree,
// and pixels are those of the reference unless a number is near the threshold or not finite.
// Instruction sets must agree.
#include "fuzz_input.hpp"
#include "mask_checks.hpp"
#include <vecdet/reference/masks.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace vecdet;

namespace {

/// Adds the numbers of a mask to the results, if the map is finite. Other pixels must be 0.
void check_soft(fuzz::results& results, const fuzz::tensor<float>& pictures, index_t i,
                const grid_size& size, const masks_view& masks, bool is_tame) {
  for (index_t y = 0; y < size.height; ++y)
    for (index_t x = 0; x < size.width; ++x) {
      const float number = pictures.data()[(i * size.height + y) * size.width + x];
      const bool is_inside = x >= masks.boxes(i, 0) && x < masks.boxes(i, 2) &&
                             y >= masks.boxes(i, 1) && y < masks.boxes(i, 3);
      if (!is_inside && !(number == 0)) fuzz::fail("a soft pixel outside its rectangle is not 0");
      if (is_inside && is_tame) results.add(static_cast<double>(number));
    }
}

template <class T>
void fuzz_type(fuzz::input& in) {
  const index_t height = in.integer(0, 20), width = in.integer(0, 40), count = in.integer(0, 4);
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  const bool is_batch = in.flag();
  std::vector<index_t> offsets;
  if (is_batch) offsets = {0, in.integer(0, count), count};
  std::vector<grid_size> sizes;
  for (int k = 0; k < (is_batch && in.flag() ? 2 : 1); ++k)
    sizes.push_back({in.integer(0, 90), in.integer(0, 90)});
  paste_masks_params params;
  params.threshold = in.one_of({0.5, 0.0, 0.25, -1.0, 3.0});
  const auto maps = in.numbers<T>(count * height * width);
  const fuzz::tensor<float> boxes(4 * count);
  for (float& x : boxes)
    x = in.flag() ? static_cast<float>(in.integer(-60, 200)) / 2 : in.number<float>();
  const feature_view<const T> view(maps.data(), count, 1, height, width, feature_layout::nchw);
  masks_workspace workspace, of_bytes;
  fuzz::on_every_isa("paste_masks", [&](fuzz::results& results) {
    params.pixels = mask_pixels::bits;
    const boxes_view<const float> corners(boxes.data(), count);
    const masks_view bits = paste_masks(view, corners, offsets, sizes, params, workspace, policy);
    params.pixels = mask_pixels::bytes;
    const masks_view bytes = paste_masks(view, corners, offsets, sizes, params, of_bytes, policy);
    fuzz::check_rectangles(bits, count);
    fuzz::check_rectangles(bytes, count);
    for (const std::uint8_t byte : bits.pixels) results.add(byte);
    const grid_size own = sizes[0];
    const fuzz::tensor<float> pictures(count * own.height * own.width);
    for (float& number : pictures) number = 7;
    paste_soft_masks(
        view, corners,
        feature_view<float>(pictures.data(), count, 1, own.height, own.width, feature_layout::nchw),
        workspace, policy);
    for (index_t i = 0; i < count; ++i) {
      const std::size_t image = is_batch && i >= offsets[1] ? 1 : 0;
      const grid_size size = sizes[sizes.size() == 1 ? 0 : image];
      if (bits.boxes(i, 2) > size.width || bits.boxes(i, 3) > size.height)
        fuzz::fail("a mask reaches beyond its picture");
      const T* const map = maps.data() + i * height * width;
      double most = 0;
      bool is_tame = true;
      for (index_t k = 0; k < height * width; ++k) {
        const double number = std::abs(static_cast<double>(map[k]));
        is_tame = is_tame && number < 1e37;  // false for NaN
        most = std::max(most, number);
      }
      if (image == 0 || sizes.size() == 1) check_soft(results, pictures, i, own, bits, is_tame);
      for (index_t y = 0; y < size.height; ++y)
        for (index_t x = 0; x < size.width; ++x) {
          const bool has = bits.has(i, x, y);
          if (has != bytes.has(i, x, y)) fuzz::fail("bits and bytes differ");
          const bool is_inside = x >= bits.boxes(i, 0) && x < bits.boxes(i, 2) &&
                                 y >= bits.boxes(i, 1) && y < bits.boxes(i, 3);
          const double number = reference::pasted(map, height, width, corners[i], x, y);
          if (!is_inside && has) fuzz::fail("a pixel lies outside its rectangle");
          if (!is_inside && number != 0) fuzz::fail("a pixel is missing");
          const double error = 0x1p-20 * (most + std::abs(params.threshold)) + 0x1p-140;
          if (is_inside && is_tame && std::abs(number - params.threshold) > error &&
              has != (number > params.threshold))
            fuzz::fail("a pixel differs");
        }
    }
  });
}

}  // namespace

void fuzz::target(input& in) {
  if (in.flag())
    fuzz_type<float>(in);
  else
    fuzz_type<bfloat16>(in);
}

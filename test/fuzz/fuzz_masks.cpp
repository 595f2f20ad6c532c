// SPDX-License-Identifier: Apache-2.0
// Masks from any prototypes, coefficients, boxes and sizes: rectangles lie in the picture, bits and
// bytes agree, and pixels are those of the reference unless a logit is near 0 or not finite.
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

template <class T>
void fuzz_type(fuzz::input& in) {
  const index_t images = in.integer(1, 2), channels = in.integer(0, 5);
  const index_t height = in.integer(0, 20), width = in.integer(0, 40);
  const index_t count = in.integer(0, 3);
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  std::vector<grid_size> sizes;
  const index_t size_count = in.flag() ? 1 : images;
  for (index_t k = 0; k < size_count; ++k) {
    const index_t factor = in.one_of<index_t>({4, 1, 2, 0});
    sizes.push_back(factor > 0 ? grid_size{factor * height, factor * width}
                               : grid_size{in.integer(0, 90), in.integer(0, 90)});
  }
  prototype_masks_params params;
  params.rule = in.one_of({mask_rule::native, mask_rule::upsampled, mask_rule::cropped});
  const auto prototypes = in.numbers<T>(images * channels * height * width);
  const auto coefficients = in.numbers<float>(count * channels);
  const fuzz::tensor<float> boxes(4 * count);
  for (float& x : boxes)
    x = in.flag() ? static_cast<float>(in.integer(-20, 160)) / 2 : in.number<float>();
  std::vector<index_t> offsets{0, in.integer(0, count), count};
  if (images == 1) offsets.pop_back(), offsets.back() = count;
  const feature_view<const T> maps(prototypes.data(), images, channels, height, width,
                                   feature_layout::nchw);
  const matrix_view<const float> rows(coefficients.data(), count, channels);
  const boxes_view<const float> corners(boxes.data(), count);
  masks_workspace workspace, of_bytes;
  fuzz::on_every_isa("masks", [&](fuzz::results& results) {
    params.pixels = mask_pixels::bits;
    const masks_view bits =
        masks_from_prototypes(maps, rows, corners, offsets, sizes, params, workspace, policy);
    params.pixels = mask_pixels::bytes;
    const masks_view bytes =
        masks_from_prototypes(maps, rows, corners, offsets, sizes, params, of_bytes, policy);
    fuzz::check_rectangles(bits, count);
    fuzz::check_rectangles(bytes, count);
    for (const std::uint8_t byte : bits.pixels) results.add(byte);
    for (index_t image = 0; image < images; ++image) {
      const grid_size size = sizes[size_count == 1 ? 0 : static_cast<std::size_t>(image)];
      const reference::prototype_masks<T> exact(maps, image, size, params.rule);
      const bool is_empty = height == 0 || width == 0 || size.height == 0 || size.width == 0;
      for (index_t i = offsets[static_cast<std::size_t>(image)];
           i < offsets[static_cast<std::size_t>(image + 1)]; ++i) {
        if (is_empty && bits.row_bytes(i) != 0) fuzz::fail("an empty picture has pixels");
        if (is_empty) continue;
        if (bits.boxes(i, 2) > exact.size().width || bits.boxes(i, 3) > exact.size().height)
          fuzz::fail("a mask reaches beyond its picture");
        for (index_t y = 0; y < exact.size().height; ++y)
          for (index_t x = 0; x < exact.size().width; ++x) {
            if (bits.has(i, x, y) != bytes.has(i, x, y)) fuzz::fail("bits and bytes differ");
            const reference::mask_logit logit = exact.at(rows.row(i), corners[i], x, y);
            const bool is_certain =
                std::isfinite(logit.value) && logit.magnitude < 1e37 &&
                std::abs(logit.value) >
                    static_cast<double>(channels + 16) * (0x1p-24 * logit.magnitude + 0x1p-140);
            if ((is_certain || logit.magnitude == 0) && bits.has(i, x, y) != (logit.value > 0))
              fuzz::fail("a pixel differs");
          }
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

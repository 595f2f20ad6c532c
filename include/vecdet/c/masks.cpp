// SPDX-License-Identifier: Apache-2.0
// Masks of objects: rectangles of pixels.
#include <vecdet/c/support.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/paste_masks.hpp>

/// Masks: rectangles of a picture's pixels, and which of them belong to the object. Pixels outside
/// the rectangle do not. A mask has the pixels in columns [x1, x2) and rows [y1, y2), row by row; a
/// row of bits, the lowest bit of a byte first, is padded with zeros to whole bytes.
typedef struct vecdet_masks {
  int64_t count;
  const int64_t* boxes;    ///< count x 4: x1 y1 x2 y2
  const int64_t* offsets;  ///< count + 1: where the pixels of each mask begin
  const uint8_t* pixels;   ///< of all masks
  vecdet_mask_pixels kind;
} vecdet_masks;

namespace vecdet_c {
namespace {

vecdet_masks c_masks(const masks_view& masks) {
  return {masks.size(), masks.boxes.data(), masks.offsets.data(), masks.pixels.data(),
          static_cast<vecdet_mask_pixels>(masks.kind)};
}

std::vector<grid_size> pictures_of(const char* function, const vecdet_grid_size* sizes,
                                   int64_t count) {
  detail::check(count >= 0, function, "size_count", count, "0 or more");
  check_pointer(sizes, function, "sizes", count);
  std::vector<grid_size> all;
  for (int64_t i = 0; i < count; ++i) all.push_back({sizes[i].height, sizes[i].width});
  return all;
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// The masks of `count` objects, from prototypes (images x channels x height x width of float or
/// bfloat16, NCHW) and each object's coefficients: row i begins at i * coefficient_stride. `boxes`
/// are x1 y1 x2 y2 in pixels of the object's picture. The objects of image k are [image_offsets[k],
/// image_offsets[k + 1]); null: there is one image. `sizes` are those of the pictures, one per
/// image, or one for all (`size_count` 1). `params` null: the defaults. The memory of `masks`
/// belongs to `workspace`, which must not be null, and is valid until its next use.
VECDET_C vecdet_status vecdet_masks_from_prototypes(
    vecdet_dtype type, const void* prototypes, int64_t images, int64_t channels, int64_t height,
    int64_t width, const float* coefficients, int64_t coefficient_stride, const float* boxes,
    int64_t count, const int64_t* image_offsets, const vecdet_grid_size* sizes, int64_t size_count,
    const vecdet_prototype_masks_params* params, vecdet_workspace* workspace, vecdet_masks* masks) {
  constexpr const char* function = "masks_from_prototypes";
  return guarded([&] {
    check_pointer(workspace, function, "workspace");
    check_pointer(masks, function, "masks");
    const auto p = params_of<prototype_masks_params>(params, function);
    const std::vector<grid_size> all = pictures_of(function, sizes, size_count);
    with_type<float, bfloat16>(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      const feature_view<const T> maps(as<T>(prototypes), images, channels, height, width,
                                       feature_layout::nchw);
      const matrix_view<const float> rows(coefficients, count, channels, coefficient_stride);
      on_threads([&](threading policy) {
        *masks = c_masks(masks_from_prototypes(
            maps, rows, boxes_view<const float>(boxes, count),
            image_offsets == nullptr ? vector_view<const index_t>()
                                     : vector_view<const index_t>(image_offsets, images + 1),
            vector_view<const grid_size>(all), p, workspace->get<masks_workspace>(), policy));
      });
    });
  });
}

/// The masks of `count` objects, from a map of probabilities of each (count x height x width of
/// float or bfloat16), enlarged to its box and pasted into the picture by the rule of torchvision's
/// paste_masks_in_image. `boxes` are x1 y1 x2 y2 in pixels. The objects of image k are
/// [image_offsets[k], image_offsets[k + 1]) of `images` images; null: there is one image. `sizes`
/// are those of the pictures, one per image, or one for all (`size_count` 1). `params` null: the
/// defaults. The memory of `masks` belongs to `workspace`, which must not be null, and is valid
/// until its next use.
VECDET_C vecdet_status vecdet_paste_masks(vecdet_dtype type, const void* maps, int64_t height,
                                          int64_t width, const float* boxes, int64_t count,
                                          const int64_t* image_offsets, int64_t images,
                                          const vecdet_grid_size* sizes, int64_t size_count,
                                          const vecdet_paste_masks_params* params,
                                          vecdet_workspace* workspace, vecdet_masks* masks) {
  constexpr const char* function = "paste_masks";
  return guarded([&] {
    check_pointer(workspace, function, "workspace");
    check_pointer(masks, function, "masks");
    const auto p = params_of<paste_masks_params>(params, function);
    const std::vector<grid_size> all = pictures_of(function, sizes, size_count);
    detail::check(images >= 0 && images < detail::max_elements<index_t>, function, "images", images,
                  "0 or more");
    with_type<float, bfloat16>(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      const feature_view<const T> view(as<T>(maps), count, 1, height, width, feature_layout::nchw);
      on_threads([&](threading policy) {
        *masks = c_masks(paste_masks(
            view, boxes_view<const float>(boxes, count), optional_view(image_offsets, images + 1),
            vector_view<const grid_size>(all), p, workspace->get<masks_workspace>(), policy));
      });
    });
  });
}

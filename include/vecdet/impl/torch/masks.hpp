// SPDX-License-Identifier: Apache-2.0
// Masks of objects, from prototypes or from maps of the objects.
#pragma once

#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/paste_masks.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Rectangles, offsets, and the pixels of all masks.
using mask_tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

inline mask_tensors copied(const masks_view& found) {
  return mask_tensors(copied(found.boxes.data(), {found.boxes.size(), 4}, at::kLong),
                      copied(vector_view<const index_t>(found.offsets)),
                      copied(found.pixels.data(), {found.pixels.size()}, at::kByte));
}

/// The sizes of pictures, from alternating heights and widths.
inline std::vector<grid_size> pictures_from(const char* function, at::IntArrayRef sizes) {
  check(sizes.size() % 2 == 0, function, "sizes.size()", sizes.size(),
        "height and width of each picture, or of all");
  std::vector<grid_size> pictures;
  for (std::size_t i = 0; i < sizes.size(); i += 2) pictures.push_back({sizes[i], sizes[i + 1]});
  return pictures;
}

/// The offsets of the objects of each image; without counts, there is one image.
inline std::vector<index_t> object_offsets(const char* function, at::IntArrayRef counts,
                                           index_t objects) {
  return counts.empty() ? std::vector<index_t>()
                        : image_offsets_from(function, "counts", counts, objects, "boxes");
}

/// The boxes of objects.
inline at::Tensor object_boxes(const char* function, const at::Tensor& boxes) {
  check_boxes(function, "boxes", boxes);
  check_shape(boxes.dim() == 2, function, "boxes", boxes, "[N, 4]");
  return contiguous("boxes", boxes, at::kFloat);
}

/// Calls use(maps) with the views of maps, NCHW, of float or bfloat16.
template <class Use>
auto with_maps(const char* function, const char* argument, const at::Tensor& tensor,
               const Use& use) {
  check_dense(function, argument, tensor);
  check_shape(tensor.dim() == 4, function, argument, tensor, "four dimensions");
  const at::ScalarType type = computed_type(function, argument, tensor);
  check(type != at::kDouble, function, (std::string(argument) + ".dtype").c_str(),
        c10::toString(type), "float32, bfloat16 or float16");
  const at::Tensor x = contiguous(argument, tensor, type);
  const auto view = [&](auto element) {
    using T = decltype(element);
    return feature_view<const T>(static_cast<const T*>(x.data_ptr()), x.size(0), x.size(1),
                                 x.size(2), x.size(3), feature_layout::nchw);
  };
  return type == at::kBFloat16 ? use(view(bfloat16())) : use(view(float()));
}

namespace cpu {

/// The masks of N objects from prototypes (masks.hpp): rectangles, N x 4 (int64), x1 y1 x2 y2 in
/// whole pixels; where the pixels of each mask begin, N + 1 (int64); and the pixels of all masks
/// (uint8), as in masks_view.
/// @param prototypes images x P x height x width
/// @param coefficients N x P
/// @param boxes N x 4: x1 y1 x2 y2 in pixels
/// @param sizes height and width of each image's picture, alternating, or of all pictures
/// @param counts the number of objects per image; empty: all belong to one image
inline mask_tensors masks_from_prototypes(const at::Tensor& prototypes,
                                          const at::Tensor& coefficients, const at::Tensor& boxes_,
                                          at::IntArrayRef sizes, at::IntArrayRef counts,
                                          const prototype_masks_params& params) {
  constexpr const char* function = "masks_from_prototypes";
  return translated([&] {
    const at::Tensor b = object_boxes(function, boxes_);
    const index_t count = b.size(0);
    check_dense(function, "coefficients", coefficients);
    check_shape(coefficients.dim() == 2 && coefficients.size(0) == count, function, "coefficients",
                coefficients, "[N, prototypes], one row per box");
    const rows c("coefficients", coefficients, at::kFloat);
    const std::vector<index_t> offsets = object_offsets(function, counts, count);
    const std::vector<grid_size> pictures = pictures_from(function, sizes);
    return with_maps(function, "prototypes", prototypes, [&](const auto& maps) {
      const matrix_view<const float> factors(static_cast<const float*>(c.tensor.data_ptr()), count,
                                             c.size, c.stride);
      return copied(vecdet::masks_from_prototypes(maps, factors, boxes<const float>(b),
                                                  vector_view<const index_t>(offsets),
                                                  vector_view<const grid_size>(pictures), params,
                                                  thread_workspace<masks_workspace>(), threads()));
    });
  });
}

/// The masks of N objects, from a map of each (paste_masks.hpp), in the form of
/// masks_from_prototypes().
/// @param maps N x 1 x height x width: probabilities
/// @param boxes N x 4: x1 y1 x2 y2 in pixels
/// @param sizes height and width of each image's picture, alternating, or of all pictures
/// @param counts the number of objects per image; empty: all belong to one image
inline mask_tensors paste_masks(const at::Tensor& maps_, const at::Tensor& boxes_,
                                at::IntArrayRef sizes, at::IntArrayRef counts,
                                const paste_masks_params& params) {
  constexpr const char* function = "paste_masks";
  return translated([&] {
    const at::Tensor b = object_boxes(function, boxes_);
    const std::vector<index_t> offsets = object_offsets(function, counts, b.size(0));
    const std::vector<grid_size> pictures = pictures_from(function, sizes);
    return with_maps(function, "maps", maps_, [&](const auto& maps) {
      return copied(vecdet::paste_masks(maps, boxes<const float>(b),
                                        vector_view<const index_t>(offsets),
                                        vector_view<const grid_size>(pictures), params,
                                        thread_workspace<masks_workspace>(), threads()));
    });
  });
}

/// The numbers of pasted masks, without a threshold (paste_masks.hpp): N x 1 x height x width
/// (float32), 0 outside the masks.
/// @param maps N x 1 x height x width: probabilities
/// @param boxes N x 4: x1 y1 x2 y2 in pixels
/// @param size height and width of the picture
inline at::Tensor paste_soft_masks(const at::Tensor& maps_, const at::Tensor& boxes_,
                                   at::IntArrayRef size) {
  constexpr const char* function = "paste_soft_masks";
  return translated([&] {
    const at::Tensor b = object_boxes(function, boxes_);
    check_size(function, "size.size()", static_cast<index_t>(size.size()), 2, "height and width");
    for (const index_t side : size)
      check(side >= 0 && side <= 1 << 20, function, "size", side, "sides of 0 to 2^20 pixels");
    const index_t count = b.size(0);
    return with_maps(function, "maps", maps_, [&](const auto& maps) {
      const at::Tensor pictures = at::empty({count, 1, size[0], size[1]}, at::kFloat);
      vecdet::paste_soft_masks(maps, boxes<const float>(b),
                               feature_view<float>(static_cast<float*>(pictures.data_ptr()), count,
                                                   1, size[0], size[1], feature_layout::nchw),
                               thread_workspace<masks_workspace>(), threads());
      return pictures;
    });
  });
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline at::Tensor paste_soft_masks(const at::Tensor& maps, const at::Tensor& boxes,
                                   at::IntArrayRef size) {
  TORCH_CHECK(size.size() == 2, "vecdet::paste_soft_masks: expected height and width");
  const c10::SymInt sizes[] = {boxes.sym_size(0), c10::SymInt(1), c10::SymInt(size[0]),
                               c10::SymInt(size[1])};
  return maps.new_empty_symint(sizes, maps.options().dtype(at::kFloat));
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

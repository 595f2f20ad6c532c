// SPDX-License-Identifier: Apache-2.0
// The function of yolo_masks.hpp: checks, and the two calls.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/mask_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/yolo_masks.hpp>

#include <algorithm>
#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Checks everything that only the two calls together require.
inline void check_yolo_masks(index_t images, index_t prototype_images, index_t prototypes,
                             index_t transforms, const postprocess_yolo_params& params,
                             const prototype_masks_params& mask_params,
                             const grid_size& input_size) {
  constexpr const char* function = "postprocess_yolo";
  check_size(function, "prototypes.images()", prototype_images, images, "the number of images");
  if (params.extras != postprocess_yolo_params::unknown_extras)
    check_member(params.extras == prototypes, function, "params", "extras", params.extras,
                 "the number of prototypes, because the extras are the masks' coefficients");
  check_member(params.keypoint_size == 0, function, "params", "keypoint_size", params.keypoint_size,
               "0, because the extras are the masks' coefficients");
  check_member(!params.rotated, function, "params", "rotated", "true",
               "false: masks are those of upright boxes");
  check_member(!params.normalised, function, "params", "normalised", "true",
               "false: masks are those of images that keep their aspect ratio");
  check_member(params.result_format == box_format::xyxy, function, "params", "result_format",
               params.result_format == box_format::xywh     ? "xywh"
               : params.result_format == box_format::cxcywh ? "cxcywh"
                                                            : "unknown",
               "xyxy, in which boxes have masks");
  mask_rule_name(function, mask_params.rule, "mask_params");
  check_mask_pixels(function, mask_params.pixels, "mask_params");
  if (transforms > 0) {
    check(mask_params.rule == mask_rule::native, function, "mask_params.rule",
          mask_rule_name(function, mask_params.rule),
          "native, because the boxes are in the images' pixels");
    constexpr const char* expected = "0: the transforms have the sizes of the pictures";
    check_member(input_size.height == 0, function, "input_size", "height", input_size.height,
                 expected);
    check_member(input_size.width == 0, function, "input_size", "width", input_size.width,
                 expected);
    return;
  }
  for (const index_t side : {input_size.height, input_size.width})
    check(images == 0 || (side > 0 && side <= longest_mask_side), function, "a side of input_size",
          side, "1 to 2^20 pixels of the network's input, because there are no transforms");
}

/// The picture of an image.
/// @throws std::invalid_argument if the masks would not remove its letterbox
inline grid_size picture_in_letterbox(const letterbox_transform& transform, index_t k,
                                      const grid_size& map) {
  constexpr const char* function = "postprocess_yolo";
  const auto whole = [&](double side, const char* name) {
    const double pixels = std::nearbyint(side);
    if (!(pixels >= 1 && pixels <= double{longest_mask_side}))
      throw_invalid_argument(function, element("transforms", k) + ".size." + name, side,
                             "1 to 2^20 pixels, because there are masks");
    return pixels;
  };
  const double height = whole(transform.size.height, "height");
  const double width = whole(transform.size.width, "width");
  const grid_size picture{static_cast<index_t>(height), static_cast<index_t>(width)};
  if (map.height == 0 || map.width == 0) return picture;
  const double gain = std::min(quotient(static_cast<double>(map.height), height),
                               quotient(static_cast<double>(map.width), width));
  const auto check_side = [&](double side, double scale, double pad, index_t locations,
                              const char* name) {
    // The locations of the network's input that the image covers. The margin is that of rounded
    // padding.
    const double pixel = quotient(static_cast<double>(locations), side * scale + 2 * pad);
    if (!(std::abs(side * scale * pixel - side * gain) <= 0.5 + 2 * pixel))
      throw_invalid_argument(function, element("transforms", k) + "." + name, pad,
                             "the padding of a centred letterbox that the image fills in one "
                             "direction, because there are masks");
  };
  check_side(width, transform.scale_x, transform.pad_x, map.width, "pad_x");
  check_side(height, transform.scale_y, transform.pad_y, map.height, "pad_y");
  return picture;
}

/// postprocess_yolo() with masks, of the detections that detect(params, workspace) finds in
/// `images` images.
template <class T, class Detect>
yolo_masks_view run_yolo_masks(index_t images, const feature_view<T>& prototypes,
                               const vector_view<const letterbox_transform>& transforms,
                               const postprocess_yolo_params& params,
                               const prototype_masks_params& mask_params,
                               const grid_size& input_size, yolo_masks_buffers& buffers,
                               threading policy, const Detect& detect) {
  check_yolo_masks(images, prototypes.images(), prototypes.channels(), transforms.size(), params,
                   mask_params, input_size);
  postprocess_yolo_params with_extras = params;
  with_extras.extras = prototypes.channels();
  const detections_view found = detect(with_extras, buffers.detections);
  const grid_size map{prototypes.height(), prototypes.width()};
  const index_t size_count = std::max(transforms.size(), index_t{1});
  grid_size* const sizes = grown(buffers.sizes, size_count);
  sizes[0] = input_size;
  for (index_t k = 0; k < transforms.size(); ++k)
    sizes[k] = picture_in_letterbox(transforms[k], k, map);
  return {found, masks_from_prototypes(prototypes, found.extras, found.boxes, found.offsets,
                                       vector_view<const grid_size>(sizes, size_count), mask_params,
                                       buffers.masks, policy)};
}

}  // namespace detail

template <class Outputs, class T>
yolo_masks_view postprocess_yolo(const Outputs& outputs, feature_view<T> prototypes,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 const prototype_masks_params& mask_params, grid_size input_size,
                                 yolo_masks_workspace& workspace, threading policy) {
  return detail::run_yolo_masks(
      outputs.images, prototypes, transforms, params, mask_params, input_size,
      detail::workspace_access::buffers(workspace), policy,
      [&](const postprocess_yolo_params& own, postprocess_workspace& scratch) {
        return postprocess_yolo(outputs, transforms, own, scratch, policy);
      });
}

}  // namespace VECDET_ABI
}  // namespace vecdet

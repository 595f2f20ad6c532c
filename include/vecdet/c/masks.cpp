// SPDX-License-Identifier: Apache-2.0
// Masks of objects: rectangles of pixels.
#include <vecdet/c/detections.hpp>
#include <vecdet/c/masks.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/mask_bits.hpp>
#include <vecdet/mask_merging.hpp>
#include <vecdet/mask_nms.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/paste_masks.hpp>
#include <vecdet/yolo_masks.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vecdet_c {

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

masks_view masks_in(const char* function, const char* what, const vecdet_masks* masks) {
  check_pointer(masks, function, what);
  const index_t count = masks->count;
  const std::string own = what;
  detail::check_member(is_count(count), function, what, "count", count,
                       "0 to what memory can hold");
  check_pointer(masks->offsets, function, (own + ".offsets").c_str());
  const vector_view<const index_t> offsets(masks->offsets, count + 1);
  detail::check_offsets(function, (own + ".offsets").c_str(), offsets, offsets[count],
                        "the number of bytes");
  return {boxes_view<const index_t>(masks->boxes, count), offsets,
          vector_view<const std::uint8_t>(masks->pixels, offsets[count]),
          enum_of<mask_pixels>(masks->kind, function, (own + ".kind").c_str())};
}

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
    on_type<float, bfloat16>(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const feature_view<const T> maps(as<T>(prototypes), images, channels, height, width,
                                       feature_layout::nchw);
      const matrix_view<const float> rows(coefficients, count, channels, coefficient_stride);
      *masks = c_masks(masks_from_prototypes(maps, rows, boxes_view<const float>(boxes, count),
                                             optional_view(image_offsets, images + 1),
                                             vector_view<const grid_size>(all), p,
                                             workspace->get<masks_workspace>(), policy));
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
    detail::check(is_count(images), function, "images", images, "0 to what memory can hold");
    on_type<float, bfloat16>(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const feature_view<const T> view(as<T>(maps), count, 1, height, width, feature_layout::nchw);
      *masks = c_masks(paste_masks(
          view, boxes_view<const float>(boxes, count), optional_view(image_offsets, images + 1),
          vector_view<const grid_size>(all), p, workspace->get<masks_workspace>(), policy));
    });
  });
}

/// The numbers of pasted masks, without a threshold, into `pictures` (count x size.height x
/// size.width), which must not overlap an input; 0 outside the masks. `workspace` may be null.
VECDET_C vecdet_status vecdet_paste_soft_masks(vecdet_dtype type, const void* maps, int64_t height,
                                               int64_t width, const float* boxes, int64_t count,
                                               vecdet_grid_size size, vecdet_workspace* workspace,
                                               float* pictures) {
  constexpr const char* function = "paste_soft_masks";
  return guarded([&] {
    scratch memory(workspace);
    on_type<float, bfloat16>(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const feature_view<const T> view(as<T>(maps), count, 1, height, width, feature_layout::nchw);
      const feature_view<float> to(pictures, count, 1, size.height, size.width,
                                   feature_layout::nchw);
      paste_soft_masks(view, boxes_view<const float>(boxes, count), to,
                       memory.get<masks_workspace>(), policy);
    });
  });
}

/// vecdet_postprocess_yolo_of_matrices() and, in the same call, the masks of the detections:
/// vecdet_masks_from_prototypes() with the extras as coefficients. `prototypes` are images x
/// channels x height x width of float or bfloat16. With `transforms`, boxes and masks are in the
/// images' pixels, the rule is VECDET_MASK_RULE_NATIVE, and `input_size` is null. Without them,
/// both are in the pixels of the network's input, whose size `input_size` is. `params`: null, or
/// with extras of -1 or `channels`. `mask_params` null: the defaults. The memory of `masks` belongs
/// to `workspace`, which must not be null, and is valid until its next use.
VECDET_C vecdet_status vecdet_postprocess_yolo_masks(
    const vecdet_matrix* coordinates, const vecdet_matrix* numbers, vecdet_dtype type,
    const void* prototypes, int64_t images, int64_t channels, int64_t height, int64_t width,
    const vecdet_letterbox_transform* transforms, const vecdet_grid_size* input_size,
    const vecdet_postprocess_yolo_params* params, const vecdet_prototype_masks_params* mask_params,
    vecdet_workspace* workspace, float* boxes, float* scores, int64_t* labels, int64_t* sources,
    float* extras, int64_t* offsets, vecdet_masks* masks) {
  constexpr const char* function = "postprocess_yolo";
  return guarded([&] {
    check_pointer(workspace, function, "workspace");
    check_pointer(masks, function, "masks");
    const auto p = params_of<postprocess_yolo_params>(params, function);
    const auto m = params_of<prototype_masks_params>(mask_params, function);
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check(function, images, p.max_detections);
    const auto undone = transforms_of(transforms, images);
    const vector_view<const letterbox_transform> all(undone);
    const grid_size input =
        input_size == nullptr ? grid_size{} : grid_size{input_size->height, input_size->width};
    auto& buffers = detail::workspace_access::buffers(workspace->get<yolo_masks_workspace>());
    on_type<float, bfloat16>(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const feature_view<const T> maps(as<T>(prototypes), images, channels, height, width,
                                       feature_layout::nchw);
      const yolo_masks_view found = detail::run_yolo_masks(
          images, maps, all, p, m, input, buffers, policy,
          [&](const postprocess_yolo_params& own, postprocess_workspace& own_workspace) {
            return yolo_detections_of(coordinates, numbers, images, all, own, own_workspace,
                                      policy);
          });
      write_raw(found.detections, out, sources, extras);
      *masks = c_masks(found.masks);
    });
  });
}

/// The number of pixels of each mask of pixels, into `areas` (masks.count).
VECDET_C vecdet_status vecdet_pixel_mask_areas(const vecdet_masks* masks, int64_t* areas) {
  constexpr const char* function = "mask_areas";
  return guarded([&] {
    const masks_view view = masks_in(function, "masks", masks);
    on_threads([&](threading policy) {
      mask_areas(view, vector_view<index_t>(areas, view.size()), policy);
    });
  });
}

/// The smallest rectangle of whole pixels that contains each object, into `boxes` (masks.count x
/// 4): x1 y1 x2 y2; 0 0 0 0 if the object has no pixels.
VECDET_C vecdet_status vecdet_pixel_mask_boxes(const vecdet_masks* masks, int64_t* boxes) {
  constexpr const char* function = "mask_boxes";
  return guarded([&] {
    const masks_view view = masks_in(function, "masks", masks);
    on_threads([&](threading policy) {
      mask_boxes(view, boxes_view<index_t>(boxes, view.size()), policy);
    });
  });
}

/// The overlap of each mask of pixels of `a` and each of `b`, into `overlaps` (a.count x b.count):
/// the number of common pixels divided by that of the union or of the smaller mask, 0 if there are
/// no common pixels. `is_crowd`: one byte per mask of `b`, not 0 for COCO's crowds, for which the
/// divisor is the area of the mask of `a`; null: there are none. `a` and `b` may be the same.
VECDET_C vecdet_status vecdet_pixel_mask_iou(const vecdet_masks* a, const vecdet_masks* b,
                                             vecdet_mask_overlap overlap, const uint8_t* is_crowd,
                                             vecdet_workspace* workspace, double* overlaps) {
  constexpr const char* function = "mask_iou";
  return guarded([&] {
    const masks_view rows = masks_in(function, "a", a), cols = masks_in(function, "b", b);
    const auto by = enum_of<mask_overlap>(overlap, function, "overlap");
    scratch memory(workspace);
    on_threads([&](threading policy) {
      mask_iou(rows, cols, by, optional_view(is_crowd, cols.size()),
               matrix_view<double>(overlaps, rows.size(), cols.size()),
               memory.get<mask_bits_workspace>(), policy);
    });
  });
}

/// NMS of masks of pixels by their overlap, per class and image: two masks suppress each other only
/// if their elements in `classes` and `images` are equal, each of which may be null. Writes the
/// indices of the kept masks to `kept`, which has memory for all, in descending score. Ties of
/// scores are broken by lower index; masks with NaN scores come first. `params` null: the IoU and a
/// threshold of 0.5; overlap may be smaller_area. The type is that of the scores.
VECDET_C vecdet_status vecdet_mask_nms(const vecdet_masks* masks, vecdet_dtype type,
                                       const void* scores, const int64_t* classes,
                                       const int64_t* images, const vecdet_nms_params* params,
                                       vecdet_workspace* workspace, int64_t* kept,
                                       int64_t* kept_count) {
  constexpr const char* function = "mask_nms";
  return guarded([&] {
    const masks_view view = masks_in(function, "masks", masks);
    const index_t count = view.size();
    check_pointer(kept, function, "kept", count);
    check_pointer(kept_count, function, "kept_count");
    const auto p = params_of<nms_params>(params, function);
    scratch memory(workspace);
    on_type(type, function, [&](auto of, threading policy) {
      const auto result =
          mask_nms(view, of.vector(scores, count), groups_of(classes, images, count), p,
                   memory.get<mask_nms_workspace>(), policy);
      copy_view(result, kept);
      *kept_count = result.size();
    });
  });
}

/// Non-maximum merging of masks of pixels, per class and image as in vecdet_mask_nms(): a mask
/// takes the masks with lower scores whose overlap with it, and then with the union of what it has
/// taken, is at least `match_threshold`. Writes the number of groups to `group_count`. The groups
/// are in descending score; `members`, with memory for all masks, has the members of all groups,
/// the best of each first. Those of group k are [offsets[k], offsets[k + 1]); `offsets` has memory
/// for one more than there are masks. The type is that of the scores; masks with NaN scores are
/// left out.
VECDET_C vecdet_status vecdet_group_masks(const vecdet_masks* masks, vecdet_dtype type,
                                          const void* scores, const int64_t* classes,
                                          const int64_t* images, vecdet_mask_overlap overlap,
                                          double match_threshold, vecdet_workspace* workspace,
                                          int64_t* members, int64_t* offsets,
                                          int64_t* group_count) {
  constexpr const char* function = "group_masks";
  return guarded([&] {
    const masks_view view = masks_in(function, "masks", masks);
    const index_t count = view.size();
    check_pointer(members, function, "members", count);
    check_pointer(offsets, function, "offsets");
    check_pointer(group_count, function, "group_count");
    const auto by = enum_of<mask_overlap>(overlap, function, "overlap");
    scratch memory(workspace);
    on_type(type, function, [&](auto of, threading policy) {
      const mask_groups found =
          group_masks(view, of.vector(scores, count), groups_of(classes, images, count), by,
                      match_threshold, memory.get<mask_merging_workspace>(), policy);
      copy_view(found.members, members);
      copy_view(found.offsets, offsets);
      *group_count = found.offsets.size() - 1;
    });
  });
}

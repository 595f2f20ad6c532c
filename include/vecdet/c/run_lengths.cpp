// SPDX-License-Identifier: Apache-2.0
// Masks of objects as COCO's run lengths.
#include <vecdet/c/masks.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/run_lengths.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// Masks as COCO's run lengths: the pixels of a picture are counted column by column, from the top
/// of each, those that do not belong to the object first. The counts of a mask add up to the pixels
/// of its picture, which are less than 2^32.
typedef struct vecdet_run_lengths {
  int64_t count;
  const vecdet_grid_size* sizes;  ///< count: of the pictures
  const int64_t* offsets;         ///< count + 1: where the counts of each mask begin
  const uint32_t* counts;         ///< of all masks
} vecdet_run_lengths;

/// `count` pictures of one size with one byte per pixel: that of column x and row y of picture i is
/// i * stride + y * row_stride + x * column_stride bytes after the first. Strides have any sign.
typedef struct vecdet_byte_pictures {
  int64_t count;
  int64_t height;
  int64_t width;
  int64_t stride;
  int64_t row_stride;
  int64_t column_stride;
} vecdet_byte_pictures;

namespace vecdet_c {
namespace {

static_assert(sizeof(vecdet_grid_size) == sizeof(grid_size), "both are a height and a width");

vecdet_run_lengths c_runs(const run_lengths_view& runs) {
  return {runs.size(), reinterpret_cast<const vecdet_grid_size*>(runs.sizes.data()),
          runs.offsets.data(), runs.counts.data()};
}

/// `what` is the argument's name.
run_lengths_view runs_of(const char* function, const char* what, const vecdet_run_lengths* runs) {
  check_pointer(runs, function, what);
  const index_t last = runs->count;
  detail::check_member(is_count(last), function, what, "count", last, "0 to what memory can hold");
  if (last == 0) return {};
  detail::check_member(runs->offsets != nullptr, function, what, "offsets", "null",
                       "a valid pointer");
  const vector_view<const index_t> offsets(runs->offsets, last + 1);
  detail::check_offsets(function, (std::string(what) + ".offsets").c_str(), offsets, offsets[last],
                        "the number of counts");
  return {vector_view<const grid_size>(reinterpret_cast<const grid_size*>(runs->sizes), last),
          offsets, vector_view<const std::uint32_t>(runs->counts, offsets[last])};
}

template <class T>
byte_pictures<T> pictures_in(const char* function, const vecdet_byte_pictures* pictures,
                             T* pixels) {
  check_pointer(pictures, function, "pictures");
  return {pixels,           pictures->count,      {pictures->height, pictures->width},
          pictures->stride, pictures->row_stride, pictures->column_stride};
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// The run lengths of masks. `sizes` are those of the pictures, one per mask, or one for all
/// (`size_count` 1). The memory of `runs` belongs to `workspace`, which must not be null, and is
/// valid until the workspace is used for other run lengths.
VECDET_C vecdet_status vecdet_encode_masks(const vecdet_masks* masks, const vecdet_grid_size* sizes,
                                           int64_t size_count, vecdet_workspace* workspace,
                                           vecdet_run_lengths* runs) {
  constexpr const char* function = "encode_masks";
  return guarded([&] {
    const masks_view view = masks_in(function, "masks", masks);
    check_pointer(workspace, function, "workspace");
    check_pointer(runs, function, "runs");
    const std::vector<grid_size> all = pictures_of(function, sizes, size_count);
    on_threads([&](threading policy) {
      *runs = c_runs(encode_masks(view, vector_view<const grid_size>(all),
                                  workspace->get<run_lengths_workspace>(), policy));
    });
  });
}

/// The same for whole pictures: a byte other than 0 is a pixel of the object. `pixels` points to
/// column 0 and row 0 of the first picture.
VECDET_C vecdet_status vecdet_encode_pictures(const vecdet_byte_pictures* pictures,
                                              const uint8_t* pixels, vecdet_workspace* workspace,
                                              vecdet_run_lengths* runs) {
  constexpr const char* function = "encode_masks";
  return guarded([&] {
    const auto view = pictures_in(function, pictures, pixels);
    check_pointer(workspace, function, "workspace");
    check_pointer(runs, function, "runs");
    on_threads([&](threading policy) {
      *runs = c_runs(encode_masks(view, workspace->get<run_lengths_workspace>(), policy));
    });
  });
}

/// The masks as rectangles that are whole pictures. Their memory belongs to `workspace`, which must
/// not be null, and is valid until the workspace is used for other masks.
VECDET_C vecdet_status vecdet_decode_masks(const vecdet_run_lengths* runs,
                                           vecdet_mask_pixels pixels, vecdet_workspace* workspace,
                                           vecdet_masks* masks) {
  constexpr const char* function = "decode_masks";
  return guarded([&] {
    const run_lengths_view view = runs_of(function, "runs", runs);
    check_pointer(workspace, function, "workspace");
    check_pointer(masks, function, "masks");
    const auto kind = enum_of<mask_pixels>(pixels, function, "pixels");
    on_threads([&](threading policy) {
      *masks = c_masks(decode_masks(view, kind, workspace->get<masks_workspace>(), policy));
    });
  });
}

/// Writes the masks into pictures of their size: 1 for pixels of the object, else 0. `pixels`
/// points to column 0 and row 0 of the first picture. Pixels must not share bytes.
VECDET_C vecdet_status vecdet_decode_pictures(const vecdet_run_lengths* runs,
                                              const vecdet_byte_pictures* pictures,
                                              uint8_t* pixels) {
  constexpr const char* function = "decode_masks";
  return guarded([&] {
    const run_lengths_view view = runs_of(function, "runs", runs);
    const auto to = pictures_in(function, pictures, pixels);
    on_threads([&](threading policy) { decode_masks(view, to, policy); });
  });
}

/// The number of pixels of each object, into `areas` (runs.count).
VECDET_C vecdet_status vecdet_mask_areas(const vecdet_run_lengths* runs, int64_t* areas) {
  constexpr const char* function = "mask_areas";
  return guarded([&] {
    const run_lengths_view view = runs_of(function, "runs", runs);
    mask_areas(view, vector_view<index_t>(areas, view.size()));
  });
}

/// The smallest rectangle of whole pixels that contains each object, into `boxes` (runs.count x 4):
/// x1 y1 x2 y2; 0 0 0 0 if the object has no pixels.
VECDET_C vecdet_status vecdet_mask_boxes(const vecdet_run_lengths* runs, int64_t* boxes) {
  constexpr const char* function = "mask_boxes";
  return guarded([&] {
    const run_lengths_view view = runs_of(function, "runs", runs);
    mask_boxes(view, boxes_view<index_t>(boxes, view.size()));
  });
}

/// The overlap of each mask of `a` and each of `b`, into `ious` (a.count x b.count): the number of
/// common pixels divided by that of the union or of the smaller mask, 0 if there are no common
/// pixels. All pictures have the same size. `is_crowd`: one byte per mask of `b`, not 0 for COCO's
/// crowds, for which the divisor is the area of the mask of `a`; null: there are none.
VECDET_C vecdet_status vecdet_mask_iou(const vecdet_run_lengths* a, const vecdet_run_lengths* b,
                                       vecdet_mask_overlap overlap, const uint8_t* is_crowd,
                                       vecdet_workspace* workspace, double* ious) {
  constexpr const char* function = "mask_iou";
  return guarded([&] {
    const run_lengths_view rows = runs_of(function, "a", a), cols = runs_of(function, "b", b);
    const auto by = enum_of<mask_overlap>(overlap, function, "overlap");
    scratch memory(workspace);
    on_threads([&](threading policy) {
      mask_iou(rows, cols, by, optional_view(is_crowd, cols.size()),
               matrix_view<double>(ious, rows.size(), cols.size()),
               memory.get<run_lengths_workspace>(), policy);
    });
  });
}

/// The union or intersection of all masks, of which there is one or more, as one mask. All pictures
/// have the same size. The memory of `merged` belongs to `workspace`, which must not be null, and
/// is valid until the workspace is used for other run lengths. `runs` must not be in it.
VECDET_C vecdet_status vecdet_merge_masks(const vecdet_run_lengths* runs,
                                          vecdet_mask_merging merging, vecdet_workspace* workspace,
                                          vecdet_run_lengths* merged) {
  constexpr const char* function = "merge_masks";
  return guarded([&] {
    const run_lengths_view view = runs_of(function, "runs", runs);
    check_pointer(workspace, function, "workspace");
    check_pointer(merged, function, "merged");
    *merged = c_runs(merge_masks(view, enum_of<mask_merging>(merging, function, "merging"),
                                 workspace->get<run_lengths_workspace>()));
  });
}

/// COCO's compressed strings, one after the other: string i is [offsets[i], offsets[i + 1]) of
/// `text`, without a zero at its end. They belong to `workspace`, which must not be null, and are
/// valid until it is used for other strings.
VECDET_C vecdet_status vecdet_run_lengths_to_strings(const vecdet_run_lengths* runs,
                                                     vecdet_workspace* workspace, const char** text,
                                                     const int64_t** offsets) {
  constexpr const char* function = "run_lengths_to_strings";
  return guarded([&] {
    const run_lengths_view view = runs_of(function, "runs", runs);
    check_pointer(workspace, function, "workspace");
    check_pointer(text, function, "text");
    check_pointer(offsets, function, "offsets");
    const run_length_strings strings =
        run_lengths_to_strings(view, workspace->get<run_lengths_workspace>());
    *text = strings.text.data();
    *offsets = strings.offsets.data();
  });
}

/// The run lengths of `count` compressed strings: string i is [offsets[i], offsets[i + 1]) of
/// `text`. `sizes` are those of the pictures. The memory of `runs` belongs to `workspace`, which
/// must not be null, and is valid until the workspace is used for other run lengths.
VECDET_C vecdet_status vecdet_run_lengths_from_strings(const char* text, const int64_t* offsets,
                                                       const vecdet_grid_size* sizes, int64_t count,
                                                       vecdet_workspace* workspace,
                                                       vecdet_run_lengths* runs) {
  constexpr const char* function = "run_lengths_from_strings";
  return guarded([&] {
    check_pointer(workspace, function, "workspace");
    check_pointer(runs, function, "runs");
    detail::check(is_count(count), function, "count", count, "0 to what memory can hold");
    check_pointer(offsets, function, "offsets", count);
    const std::vector<grid_size> all = pictures_of(function, sizes, count);
    run_length_strings strings;
    if (count > 0) {
      strings.offsets = vector_view<const index_t>(offsets, count + 1);
      detail::check_offsets(function, "offsets", strings.offsets, offsets[count],
                            "the number of characters");
      strings.text = vector_view<const char>(text, offsets[count]);
    }
    *runs = c_runs(run_lengths_from_strings(strings, vector_view<const grid_size>(all),
                                            workspace->get<run_lengths_workspace>()));
  });
}

/// The masks of `count` polygons, exactly as COCO's mask API draws them. `points` are x y in
/// pixels, at most 2^27 in magnitude; polygon i has [offsets[i], offsets[i + 1]), 3 or more.
/// `sizes` are those of the pictures, one per polygon, or one for all (`size_count` 1). The memory
/// of `runs` belongs to `workspace`, which must not be null, and is valid until the workspace is
/// used for other run lengths.
VECDET_C vecdet_status vecdet_run_lengths_from_polygons(
    const double* points, const int64_t* offsets, int64_t count, const vecdet_grid_size* sizes,
    int64_t size_count, vecdet_workspace* workspace, vecdet_run_lengths* runs) {
  constexpr const char* function = "run_lengths_from_polygons";
  return guarded([&] {
    check_pointer(workspace, function, "workspace");
    check_pointer(runs, function, "runs");
    detail::check(is_count(count), function, "count", count, "0 to what memory can hold");
    check_pointer(offsets, function, "offsets", count);
    const std::vector<grid_size> all = pictures_of(function, sizes, size_count);
    vector_view<const index_t> begins;
    vector_view<const double> numbers;
    if (count > 0) {
      begins = vector_view<const index_t>(offsets, count + 1);
      detail::check_offsets(function, "offsets", begins, offsets[count], "the number of points");
      numbers = vector_view<const double>(points, product(offsets[count], 2, function, "offsets"));
    }
    *runs = c_runs(run_lengths_from_polygons(numbers, begins, vector_view<const grid_size>(all),
                                             workspace->get<run_lengths_workspace>()));
  });
}

/// The polygons around the pixels of each mask, along the borders of pixels: mask i has the
/// polygons [mask_offsets[i], mask_offsets[i + 1]), and polygon k has the points from offsets[k] to
/// offsets[k + 1] - 1 of `points`, x y in whole numbers. Those around an object go clockwise, as
/// seen in a picture, and those around its holes the other way. They belong to `workspace`, which
/// must not be null, and are valid until it is used for other polygons.
VECDET_C vecdet_status vecdet_mask_polygons(const vecdet_run_lengths* runs,
                                            vecdet_workspace* workspace,
                                            const int64_t** mask_offsets, const int64_t** offsets,
                                            const double** points) {
  constexpr const char* function = "mask_polygons";
  return guarded([&] {
    const run_lengths_view view = runs_of(function, "runs", runs);
    check_pointer(workspace, function, "workspace");
    check_pointer(mask_offsets, function, "mask_offsets");
    check_pointer(offsets, function, "offsets");
    check_pointer(points, function, "points");
    const mask_polygons_view found = mask_polygons(view, workspace->get<run_lengths_workspace>());
    *mask_offsets = found.mask_offsets.data();
    *offsets = found.offsets.data();
    *points = found.points.data();
  });
}

/// The masks of `count` boxes: those of the polygons of their corners. `boxes` (count x 4) are x1
/// y1 x2 y2 in pixels, at most 2^27 in magnitude. `sizes` are those of the pictures, one per box,
/// or one for all (`size_count` 1). The memory of `runs` belongs to `workspace`, which must not be
/// null, and is valid until the workspace is used for other run lengths.
VECDET_C vecdet_status vecdet_run_lengths_from_boxes(const double* boxes, int64_t count,
                                                     const vecdet_grid_size* sizes,
                                                     int64_t size_count,
                                                     vecdet_workspace* workspace,
                                                     vecdet_run_lengths* runs) {
  constexpr const char* function = "run_lengths_from_boxes";
  return guarded([&] {
    check_pointer(workspace, function, "workspace");
    check_pointer(runs, function, "runs");
    const std::vector<grid_size> all = pictures_of(function, sizes, size_count);
    *runs = c_runs(run_lengths_from_boxes(boxes_view<const double>(boxes, count),
                                          vector_view<const grid_size>(all),
                                          workspace->get<run_lengths_workspace>()));
  });
}

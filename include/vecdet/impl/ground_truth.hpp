// SPDX-License-Identifier: Apache-2.0
// Access to the images of the ground truth, and checks of the ground truth.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline index_t image_count(const ground_truth& truth) {
  return truth.image_offsets.empty() ? 1 : truth.image_offsets.size() - 1;
}

/// The index of the image's first box, of `boxes` in all. For the image after the last one, the
/// number of boxes.
inline index_t first_image_box(const vector_view<const index_t>& offsets, index_t boxes,
                               index_t image) {
  return offsets.empty() ? image * boxes : offsets[image];
}
inline index_t first_image_box(const ground_truth& truth, index_t image) {
  return first_image_box(truth.image_offsets, truth.boxes.size(), image);
}

/// The image's part of `boxes`, which are either the ground-truth boxes or the regions.
inline boxes_view<const float> image_boxes(const boxes_view<const float>& boxes,
                                           const vector_view<const index_t>& offsets,
                                           index_t image) {
  if (offsets.empty()) return boxes;
  return {boxes[offsets[image]], offsets[image + 1] - offsets[image]};
}

/// Calls use(name, memory) for each array of the ground truth. No output may share memory with
/// them.
template <class Use>
void for_each_memory_of(const ground_truth& truth, const Use& use) {
  use("truth.boxes", address_range(truth.boxes));
  use("truth.classes", address_range(truth.classes));
  use("truth.image_offsets", address_range(truth.image_offsets));
  use("truth.regions", address_range(truth.regions));
  use("truth.region_offsets", address_range(truth.region_offsets));
}

/// The class of box k, or 0 if no classes are given.
inline index_t class_of(const ground_truth& truth, index_t k) {
  return truth.classes.size() == 0 ? 0 : truth.classes[k];
}

/// Throws unless the ignore regions are divided into as many images as the boxes.
inline void check_regions(const char* function, const ground_truth& truth) {
  if (!truth.region_offsets.empty())
    check_offsets(function, "truth.region_offsets", truth.region_offsets, truth.regions.size(),
                  "the number of regions");
  if (!truth.regions.empty() || !truth.region_offsets.empty()) {
    check_size(function, "truth.region_offsets.size()", truth.region_offsets.size(),
               truth.image_offsets.size(), "the size of image_offsets");
  }
}

/// Throws unless each of `boxes` boxes has a class from `first_class` to `classes` - 1.
inline void check_classes(const char* function, const ground_truth& truth, index_t boxes,
                          index_t classes, index_t first_class = 0) {
  if (truth.classes.size() == 0 && first_class == 0 && classes > 0) return;
  check_size(function, "truth.classes.size()", truth.classes.size(), boxes, "the number of boxes");
  for (index_t k = 0; k < truth.classes.size(); ++k) {
    const index_t label = truth.classes[k];
    if (label >= first_class && label < classes) continue;
    throw_invalid_argument(function, element("truth.classes", k), label_text(truth.classes, k),
                           first_class == 0
                               ? index_range(classes, "classes") + label_hint(label, classes)
                               : std::to_string(first_class) + " to " +
                                     std::to_string(classes - 1) + ", as 0 is background");
  }
}

/// Throws unless the offsets match the boxes and each box has a class from `first_class` to
/// `classes` - 1.
inline void check_classified(const char* function, const ground_truth& truth, index_t classes,
                             index_t first_class = 0) {
  if (!truth.image_offsets.empty())
    check_offsets(function, "truth.image_offsets", truth.image_offsets, truth.boxes.size(),
                  "the number of boxes");
  check_classes(function, truth, truth.boxes.size(), classes, first_class);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The functions of ground_truth_batch.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/ground_truth.hpp>

#include <cstddef>

namespace vecdet {
inline namespace VECDET_ABI {

inline void ground_truth_batch::clear() noexcept {
  for (std::vector<float>* numbers : {&boxes_, &regions_}) numbers->clear();
  classes_.clear();
  for (std::vector<index_t>* offsets : {&image_offsets_, &region_offsets_}) offsets->resize(1);
}

inline void ground_truth_batch::add_image(boxes_view<const float> boxes, labels_view classes,
                                          boxes_view<const float> regions) {
  constexpr const char* function = "ground_truth_batch::add_image";
  const index_t before = image_offsets_.back();
  if (before > 0 && classes_.empty())
    detail::check_size(function, "classes.size()", classes.size(), 0,
                       "because the boxes before have none");
  else if (classes.size() > 0 || !classes_.empty())
    detail::check_size(function, "classes.size()", classes.size(), boxes.size(),
                       "the number of boxes");
  for (index_t k = 0; k < classes.size(); ++k)
    if (classes.is_too_large(k))
      detail::throw_invalid_argument(function, detail::element("classes", k),
                                     detail::label_text(classes, k), "at most 2^63 - 1");
  // Room for everything first: if memory runs out, nothing has been added.
  const auto grow = [](auto& to, index_t more) {
    const std::size_t size = to.size() + static_cast<std::size_t>(more);
    if (size > to.capacity()) to.reserve(size < 2 * to.capacity() ? 2 * to.capacity() : size);
  };
  grow(boxes_, 4 * boxes.size());
  grow(classes_, classes.size());
  grow(image_offsets_, 1);
  grow(regions_, 4 * regions.size());
  grow(region_offsets_, 1);
  boxes_.insert(boxes_.end(), boxes.data(), boxes.data() + 4 * boxes.size());
  for (index_t k = 0; k < classes.size(); ++k) classes_.push_back(classes[k]);
  image_offsets_.push_back(before + boxes.size());
  regions_.insert(regions_.end(), regions.data(), regions.data() + 4 * regions.size());
  region_offsets_.push_back(region_offsets_.back() + regions.size());
}

inline ground_truth_batch::operator ground_truth() const {
  ground_truth truth;
  truth.boxes = boxes_;
  truth.classes = classes_;
  truth.image_offsets = image_offsets_;
  if (!regions_.empty()) {
    truth.regions = regions_;
    truth.region_offsets = region_offsets_;
  }
  return truth;
}

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// From the candidates of each image to the detections of all. Shared by the functions that
// postprocess a detector's outputs.
#pragma once

#include <vecdet/impl/postprocess_buffers.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Rounds up to a power of two, so that memory grows in few steps.
inline index_t grown_capacity(index_t size) {
  index_t capacity = 1024;
  while (capacity < size) capacity *= 2;
  return capacity;
}

/// Calls collect(image, candidates, policy) for each image.
template <class Collect>
void collect_candidates(postprocess_buffers& buffers, index_t images, threading policy,
                        const Collect& collect) {
  if (static_cast<index_t>(buffers.images.size()) < images)
    buffers.images.resize(static_cast<std::size_t>(images));
  // With few images, the search of each is spread over the threads instead.
  const bool image_by_thread = images >= policy.threads();
  const threading inner = image_by_thread ? threading::sequential : policy;
  for_each_chunk(image_by_thread ? policy : threading::sequential, chunking(images, 1),
                 [&](index_t, index_t first, index_t last) {
                   for (index_t i = first; i < last; ++i)
                     collect(i, buffers.images[static_cast<std::size_t>(i)], inner);
                 });
}

/// Concatenates the candidates of all images to one list with offsets.
inline index_t concatenate_candidates(postprocess_buffers& buffers, index_t images,
                                      threading policy) {
  index_t* const offsets = grown(buffers.offsets, images + 1);
  offsets[0] = 0;
  for (index_t i = 0; i < images; ++i)
    offsets[i + 1] = offsets[i] + buffers.images[static_cast<std::size_t>(i)].count;
  const index_t count = offsets[images];
  float* const boxes = grown(buffers.boxes, 4 * count);
  float* const scores = grown(buffers.scores, count);
  index_t* const labels = grown(buffers.labels, count);
  constexpr index_t smallest_chunk = 8192;
  for_each_chunk(policy, chunking(count, smallest_chunk), [&](index_t, index_t at, index_t last) {
    for (index_t i = 0; at < last; ++i) {
      if (offsets[i + 1] <= at) continue;
      const auto& found = buffers.images[static_cast<std::size_t>(i)];
      const index_t first = at - offsets[i], part = std::min(last, offsets[i + 1]) - at;
      std::copy_n(found.boxes.data() + 4 * first, 4 * part, boxes + 4 * at);
      std::copy_n(found.scores.data() + first, part, scores + at);
      std::copy_n(found.labels.data() + first, part, labels + at);
      at += part;
    }
  });
  return count;
}

/// The groups of the candidates of all images.
inline nms_groups candidate_groups(const postprocess_buffers& buffers, index_t images,
                                   bool class_agnostic) {
  const index_t* const offsets = buffers.offsets.data();
  nms_groups groups;
  if (!class_agnostic)
    groups.classes = vector_view<const index_t>(buffers.labels.data(), offsets[images]);
  groups.image_offsets = {offsets, images + 1};
  return groups;
}

/// The candidates that NMS keeps, image by image, best score first.
inline vector_view<const index_t> suppress_candidates(
    postprocess_buffers& buffers, index_t images, double iou_threshold, index_t max_per_image,
    bool class_agnostic, const vector_view<const index_t>& class_groups, isa target,
    threading policy) {
  nms_params params = nms_params::torchvision(iou_threshold);
  params.order = nms_order::image_score;
  params.max_per_image = max_per_image;
  params.class_groups = class_groups;
  const nms_groups groups = candidate_groups(buffers, images, class_agnostic);
  const index_t count = buffers.offsets[static_cast<std::size_t>(images)];
  return run_nms<float, float>("batched_nms", target, {buffers.boxes.data(), count},
                               {buffers.scores.data(), count}, groups, params, buffers.nms, policy);
}

/// Copies the boxes, scores and labels of the kept candidates, with the offsets of the images.
inline void gather_kept(postprocess_buffers& buffers, index_t images,
                        const vector_view<const index_t>& kept) {
  const index_t* const offsets = buffers.offsets.data();
  float* const boxes = grown(buffers.kept_boxes, 4 * kept.size());
  float* const scores = grown(buffers.kept_scores, kept.size());
  index_t* const labels = grown(buffers.kept_labels, kept.size());
  index_t* const kept_offsets = grown(buffers.kept_offsets, images + 1);
  index_t image = 0;
  kept_offsets[0] = 0;
  for (index_t i = 0; i < kept.size(); ++i) {
    const index_t at = kept[i];
    while (at >= offsets[image + 1]) kept_offsets[++image] = i;
    std::copy_n(buffers.boxes.data() + 4 * at, 4, boxes + 4 * i);
    scores[i] = buffers.scores[static_cast<std::size_t>(at)];
    labels[i] = buffers.labels[static_cast<std::size_t>(at)];
  }
  while (image < images) kept_offsets[++image] = kept.size();
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

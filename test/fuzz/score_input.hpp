// SPDX-License-Identifier: Apache-2.0
// Detections for NMS from a fuzzer's bytes: small scenes byte by byte, large ones from a seed.
#pragma once

#include "box_input.hpp"
#include "support/random.hpp"

#include <vector>

namespace vecdet::fuzz {

/// Boxes of T with scores of S.
template <class T, class S>
struct some_detections {
  tensor<T> boxes;
  tensor<S> scores;
  tensor<index_t> classes, images;  ///< of every box, or empty
  tensor<index_t> image_offsets;    ///< the same as offsets, or empty

  index_t size() const { return scores.size(); }
  boxes_view<const T> b() const { return {boxes.data(), size()}; }
  vector_view<const S> s() const { return {scores.data(), size()}; }

  /// With images as offsets, if there are any.
  nms_groups groups() const {
    nms_groups all{classes};
    if (image_offsets.size() > 0) {
      all.image_offsets = image_offsets;
    } else {
      all.images = images;
    }
    return all;
  }
};

/// Boxes of a detector, some 30 around each of a few objects: enough to build NMS's index.
template <class T, class S>
some_detections<T, S> large_scene(input& in, index_t boxes) {
  test::random_generator random(in.bits<std::uint64_t>());
  const double jitter = in.one_of({2.0, 20.0}), extent = in.one_of({300.0, 800.0, 1e5});
  std::vector<T> corners;
  std::vector<S> scores;
  double object[4] = {};
  for (index_t i = 0; i < boxes; ++i) {
    if (i % 30 == 0) {
      for (int k = 0; k < 2; ++k) object[k] = random.uniform(-extent, extent);
      for (int k = 2; k < 4; ++k) object[k] = object[k - 2] + random.uniform(1, extent / 4);
    }
    for (const double side : object)
      corners.push_back(test::to<T>(side + jitter * random.normal()));
    scores.push_back(test::to<S>(random.uniform()));
  }
  const tensor<index_t> none(0);
  return {tensor<T>(corners), tensor<S>(scores), none, none, none};
}

template <class T, class S>
some_detections<T, S> small_scene(input& in, index_t boxes) {
  const box_kind kind = any_box_kind(in);
  const bool tied = in.flag();
  std::vector<S> scores;
  for (index_t i = 0; i < boxes; ++i)
    scores.push_back(tied ? test::to<S>((in.byte() % 8) / 8.0) : in.number<S>());
  std::vector<index_t> classes, images, offsets;
  if (in.flag()) {
    const index_t step = in.one_of<index_t>({1, 1, 1000, index_t{1} << 61});
    for (index_t i = 0; i < boxes; ++i) classes.push_back((in.byte() % 4 - 1) * step);
  }
  const int by_image = in.byte() % 4;
  if (by_image == 1)
    for (index_t i = 0; i < boxes; ++i) images.push_back(in.byte() % 3 - 1);
  if (by_image == 2) {
    offsets.push_back(0);
    for (index_t image = 0; offsets.back() < boxes; ++image) {
      const index_t last = std::min(boxes, offsets.back() + in.byte() % 16 + image / 8);
      for (index_t i = offsets.back(); i < last; ++i) images.push_back(image);
      offsets.push_back(last);
    }
  }
  return {some_boxes<T>(in, boxes, kind), tensor<S>(scores), tensor<index_t>(classes),
          tensor<index_t>(images), tensor<index_t>(offsets)};
}

/// Occasionally a large scene: the reference's time is quadratic.
template <class T, class S = T>
some_detections<T, S> any_scene(input& in, index_t most) {
  return in.byte() < 8 ? large_scene<T, S>(in, in.integer(most / 2, most))
                       : small_scene<T, S>(in, in.integer(0, 90));
}

}  // namespace vecdet::fuzz

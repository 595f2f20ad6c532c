// SPDX-License-Identifier: Apache-2.0
// A benchmark's picture from a COCO file.
#pragma once

#include "coco.hpp"
#include "scene.hpp"

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

namespace vecdet::bench {

/// The objects of one image, without crowds, on a canvas whose longer side is 800 pixels.
inline picture picture_of(const coco_dataset& dataset, const coco_image& image) {
  picture out;
  out.width = image.width;
  out.height = image.height;
  for (const coco_box& object : dataset.objects)
    if (object.image_id == image.id && !object.crowd)
      out.add(object.x, object.y, object.x + object.width, object.y + object.height,
              object.category_id);
  return scaled(out, 800);
}

/// The first image of the file whose number of objects is nearest to the mean.
inline picture typical_picture(const std::string& path) {
  const coco_dataset dataset = load_coco(path);
  if (dataset.images.empty()) throw std::runtime_error(path + ": holds no image");
  std::map<index_t, double> counts;
  double total = 0;
  for (const coco_box& object : dataset.objects) {
    if (object.crowd) continue;
    ++counts[object.image_id];
    ++total;
  }
  const double mean = total / static_cast<double>(dataset.images.size());
  const coco_image* best = nullptr;
  for (const coco_image& image : dataset.images)
    if (!best || std::abs(counts[image.id] - mean) < std::abs(counts[best->id] - mean))
      best = &image;
  return picture_of(dataset, *best);
}

}  // namespace vecdet::bench

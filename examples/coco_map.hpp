// SPDX-License-Identifier: Apache-2.0
// Average precision of detections by COCO's rules (https://cocodataset.org/#detection-eval): IoU
// .50:.05:.95, precision at the 101 recalls 0, 0.01 ... 1, at most 100 detections per image and
// category, objects of any size, crowds neither found nor missed. The numbers are those of
// pycocotools.
#pragma once

#include "../bench/support/coco.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace vecdet::coco {

using bench::coco_box;
using bench::coco_dataset;

/// Means over the categories that have ground-truth boxes; NaN if there are none.
struct average_precision {
  double ap;    ///< Over the ten IoU thresholds.
  double ap50;  ///< At IoU 0.50.
  double ap75;  ///< At IoU 0.75.
};

constexpr std::size_t iou_count = 10;

inline double iou_threshold(std::size_t t) {
  return 0.5 + static_cast<double>(t) * ((0.95 - 0.5) / 9);
}

/// The IoU of a detection and an object. If the object is a crowd, the intersection divided by the
/// detection's area.
inline double overlap(const coco_box& detection, const coco_box& object) {
  const double w = std::min(detection.x + detection.width, object.x + object.width) -
                   std::max(detection.x, object.x);
  const double h = std::min(detection.y + detection.height, object.y + object.height) -
                   std::max(detection.y, object.y);
  if (w <= 0 || h <= 0) return 0;
  const double detection_area = detection.width * detection.height;
  const double object_area = object.crowd ? w * h : object.width * object.height;
  return w * h / (detection_area + object_area - w * h);
}

enum class verdict : char { wrong, right, ignored };

/// A detection's score, and whether it is correct at each IoU threshold.
struct judged {
  double score;
  std::array<verdict, iou_count> at;
};

/// Judges the detections of one category in one image, in the order of their scores. Each takes the
/// free object with the largest overlap of at least the threshold, and a crowd only if there is no
/// such object.
inline void judge(std::vector<coco_box> detections, std::vector<coco_box> objects,
                  std::vector<judged>& out) {
  constexpr std::size_t max_detections = 100;
  std::stable_sort(detections.begin(), detections.end(),
                   [](const coco_box& a, const coco_box& b) { return a.score > b.score; });
  if (detections.size() > max_detections) detections.resize(max_detections);
  std::stable_partition(objects.begin(), objects.end(),
                        [](const coco_box& object) { return !object.crowd; });

  const std::size_t first = out.size();
  for (const coco_box& detection : detections) out.push_back({detection.score, {}});
  for (std::size_t t = 0; t < iou_count; ++t) {
    std::vector<bool> taken(objects.size());
    for (std::size_t d = 0; d < detections.size(); ++d) {
      double best = iou_threshold(t);
      std::size_t match = objects.size();
      for (std::size_t g = 0; g < objects.size(); ++g) {
        if (taken[g] && !objects[g].crowd) continue;
        if (objects[g].crowd && match < objects.size() && !objects[match].crowd) break;
        const double iou = overlap(detections[d], objects[g]);
        if (iou < best) continue;
        best = iou;
        match = g;
      }
      const bool found = match < objects.size();
      if (found) taken[match] = true;
      out[first + d].at[t] = !found                 ? verdict::wrong
                             : objects[match].crowd ? verdict::ignored
                                                    : verdict::right;
    }
  }
}

/// The mean over 101 recalls of the best precision at that recall or above. `sorted` is in
/// descending score; `objects` is the number of objects to find.
inline double precision_at_recalls(const std::vector<judged>& sorted, std::size_t t,
                                   std::size_t objects) {
  std::vector<double> recall;
  std::vector<double> precision;
  double right = 0;
  double wrong = 0;
  for (const judged& detection : sorted) {
    right += detection.at[t] == verdict::right;
    wrong += detection.at[t] == verdict::wrong;
    recall.push_back(right / static_cast<double>(objects));
    precision.push_back(right + wrong > 0 ? right / (right + wrong) : 0);
  }
  for (std::size_t i = precision.size(); i-- > 1;)
    precision[i - 1] = std::max(precision[i - 1], precision[i]);

  double sum = 0;
  for (int r = 0; r <= 100; ++r) {
    const auto at = std::lower_bound(recall.begin(), recall.end(), r * 0.01) - recall.begin();
    if (at < static_cast<std::ptrdiff_t>(recall.size()))
      sum += precision[static_cast<std::size_t>(at)];
  }
  return sum / 101;
}

/// Average precision of `detections` on the data set.
inline average_precision evaluate(const coco_dataset& truth,
                                  const std::vector<coco_box>& detections) {
  struct content {
    std::vector<coco_box> detections, objects;
  };
  // Ascending by category, then by image: the order that ranks equal scores.
  std::map<index_t, std::map<index_t, content>> categories;
  for (const coco_box& object : truth.objects)
    categories[object.category_id][object.image_id].objects.push_back(object);
  for (const coco_box& detection : detections)
    categories[detection.category_id][detection.image_id].detections.push_back(detection);

  std::array<double, iou_count> sums = {};
  double counted = 0;
  for (const auto& category : categories) {
    std::vector<judged> all;
    std::size_t to_find = 0;
    for (const auto& image : category.second) {
      judge(image.second.detections, image.second.objects, all);
      for (const coco_box& object : image.second.objects) to_find += !object.crowd;
    }
    if (to_find == 0) continue;
    std::stable_sort(all.begin(), all.end(),
                     [](const judged& a, const judged& b) { return a.score > b.score; });
    for (std::size_t t = 0; t < iou_count; ++t) sums[t] += precision_at_recalls(all, t, to_find);
    ++counted;
  }
  double sum = 0;
  for (const double at_threshold : sums) sum += at_threshold;
  return {sum / (counted * iou_count), sums[0] / counted, sums[5] / counted};
}

}  // namespace vecdet::coco

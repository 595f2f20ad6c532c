// SPDX-License-Identifier: Apache-2.0
#include "postprocess.hpp"

#include "nms.hpp"
#include "terms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

/// Calls use(value, element) for all logits of a level.
template <class Use>
inline void for_each_logit(const plain_level& level, bool planes, const Use& use) {
  const std::int64_t channels = level.at_location * level.classes;
  if (!planes) {
    for (std::int64_t i = 0; i < level.locations * channels; ++i) use(level.logits[i], i);
    return;
  }
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const float* const plane = level.logits + channel * level.locations;
    for (std::int64_t i = 0; i < level.locations; ++i) use(plane[i], i * channels + channel);
  }
}

void keep_best(std::int64_t k, std::vector<plain_candidate>& best) {
  const auto better = [](const plain_candidate& a, const plain_candidate& b) {
    return a.value > b.value || (a.value == b.value && a.element < b.element);
  };
  const auto last = best.begin() + std::min(k, static_cast<std::int64_t>(best.size()));
  std::nth_element(best.begin(), last, best.end(), better);
  best.erase(last, best.end());
  std::sort(best.begin(), best.end(), better);
}

/// Finds FCOS's scores above the threshold, sqrt(sigmoid(x) sigmoid(centerness)). An anchor's
/// centre-ness bounds the logits that can pass.
void find_centered(const plain_level& level, bool planes, float threshold,
                   std::vector<plain_candidate>& found, std::vector<float>& centers) {
  const auto size = static_cast<std::size_t>(level.locations);
  centers.resize(2 * size);
  float* const sigmoids = centers.data();
  float* const least = centers.data() + size;
  for (std::size_t i = 0; i < size; ++i) {
    sigmoids[i] = sigmoid(level.centerness[i]);
    const float share = threshold * threshold / sigmoids[i];
    least[i] = share < 1 ? std::log(share / (1 - share)) : 1e30f;
  }
  found.clear();
  for_each_logit(level, planes, [&](float x, std::int64_t element) {
    const auto i = static_cast<std::size_t>(element / level.classes);
    if (x > least[i]) found.push_back({std::sqrt(sigmoid(x) * sigmoids[i]), element});
  });
}

plain_box box_of(const plain_level& level, const float* anchors, std::int64_t anchor,
                 const plain_postprocess_params& params) {
  plain_box d;
  if (params.planes) {
    const std::int64_t channel = 4 * (anchor % level.at_location);
    d = load<plain_layout::planes>(level.deltas + channel * level.locations,
                                   anchor / level.at_location, level.locations);
  } else {
    d = load(level.deltas, anchor);
  }
  const plain_box a = load(anchors, anchor);
  return clipped(params.detector == plain_detector::fcos ? decoded_distances<true>(d, a)
                                                         : decoded_corners(d, a),
                 params.width, params.height);
}

/// Collects the best candidates of each level whose boxes are large enough.
void collect(const plain_level* levels, std::int64_t level_count, const float* anchors,
             const plain_postprocess_params& params, plain_postprocess_memory& memory) {
  memory.boxes.clear();
  memory.scores.clear();
  memory.labels.clear();
  const bool is_fcos = params.detector == plain_detector::fcos;
  const bool is_rpn = params.detector == plain_detector::rpn;
  const float threshold =
      is_rpn ? -1e30f : std::log(params.score_threshold / (1 - params.score_threshold));
  for (std::int64_t l = 0; l < level_count; ++l) {
    const plain_level& level = levels[l];
    if (is_fcos) {
      find_centered(level, params.planes, params.score_threshold, memory.candidates,
                    memory.nms.boxes);
      keep_best(params.max_candidates, memory.candidates);
    } else {
      plain_topk(level, params.planes, threshold, params.max_candidates, memory.candidates);
    }
    for (const plain_candidate& c : memory.candidates) {
      const plain_box box = box_of(level, anchors, c.element / level.classes, params);
      if (!is_large(box, params.min_size)) continue;
      memory.boxes.insert(memory.boxes.end(), {box.x1, box.y1, box.x2, box.y2});
      memory.scores.push_back(is_fcos ? c.value : sigmoid(c.value));
      memory.labels.push_back(is_rpn ? l : c.element % level.classes);
    }
    anchors += 4 * level.locations * level.at_location;
  }
}

}  // namespace

void plain_topk(const plain_level& level, bool planes, float threshold, std::int64_t k,
                std::vector<plain_candidate>& best) {
  best.clear();
  for_each_logit(level, planes, [&](float x, std::int64_t element) {
    if (x > threshold) best.push_back({x, element});
  });
  keep_best(k, best);
}

void plain_postprocess(const plain_level* levels, std::int64_t level_count, const float* anchors,
                       const plain_postprocess_params& params, plain_postprocess_memory& memory) {
  collect(levels, level_count, anchors, params, memory);
  const auto count = static_cast<std::int64_t>(memory.scores.size());
  const std::int64_t classes =
      params.detector == plain_detector::rpn ? level_count : levels[0].classes;
  plain_batched_nms(memory.boxes.data(), memory.scores.data(), memory.labels.data(), classes, count,
                    params.iou_threshold, params.max_detections, memory.nms);
  memory.best_boxes.clear();
  memory.best_scores.clear();
  for (const std::int64_t i : memory.nms.all_kept) {
    const plain_box box = load(memory.boxes.data(), i);
    memory.best_boxes.insert(memory.best_boxes.end(), {box.x1, box.y1, box.x2, box.y2});
    memory.best_scores.push_back(memory.scores[static_cast<std::size_t>(i)]);
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET

// SPDX-License-Identifier: Apache-2.0
#include "assigners.hpp"

#include "rotated_terms.hpp"
#include "terms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

inline float iou_of_boxes(plain_box a, plain_box b) {
  const float w = std::max(0.0f, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const float h = std::max(0.0f, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const float both = w * h;
  return both / (a.width() * a.height() + b.width() * b.height() - both);
}

inline float ciou_of_boxes(plain_box a, plain_box b) {
  const float iou = iou_of_boxes(a, b);
  const float cw = std::max(a.x2, b.x2) - std::min(a.x1, b.x1);
  const float ch = std::max(a.y2, b.y2) - std::min(a.y1, b.y1);
  const float dx = 0.5f * (a.x1 + a.x2 - b.x1 - b.x2), dy = 0.5f * (a.y1 + a.y2 - b.y1 - b.y2);
  const float angle = std::atan(a.width() / a.height()) - std::atan(b.width() / b.height());
  const float v = 0.40528473f * angle * angle;
  return iou - (dx * dx + dy * dy) / (cw * cw + ch * ch + 1e-7f) - v * v / (1 - iou + v + 1e-7f);
}

inline bool is_inside(plain_box box, float x, float y, float margin) {
  return x - box.x1 > margin && y - box.y1 > margin && box.x2 - x > margin && box.y2 - y > margin;
}

using candidate =
    std::pair<float, std::int64_t>;  ///< the number that it is chosen by, and its index

}  // namespace

void plain_atss(const float* anchors, const std::int64_t* level_sizes, std::int64_t levels,
                const float* truth, std::int64_t boxes, std::int64_t* matches) {
  static std::vector<candidate> level, chosen;
  static std::vector<float> best;
  std::int64_t points = 0;
  for (std::int64_t l = 0; l < levels; ++l) points += level_sizes[l];
  best.assign(static_cast<std::size_t>(points), -1.0f);
  std::fill(matches, matches + points, std::int64_t{-1});
  for (std::int64_t g = 0; g < boxes; ++g) {
    const plain_box box = load(truth, g);
    const float x = 0.5f * (box.x1 + box.x2), y = 0.5f * (box.y1 + box.y2);
    chosen.clear();
    std::int64_t first = 0;
    for (std::int64_t l = 0; l < levels; ++l) {
      level.resize(static_cast<std::size_t>(level_sizes[l]));
      for (std::int64_t i = 0; i < level_sizes[l]; ++i) {
        const plain_box anchor = load(anchors, first + i);
        const float dx = 0.5f * (anchor.x1 + anchor.x2) - x;
        const float dy = 0.5f * (anchor.y1 + anchor.y2) - y;
        level[static_cast<std::size_t>(i)] = {std::sqrt(dx * dx + dy * dy), first + i};
      }
      const auto nine = level.begin() + std::min(std::int64_t{9}, level_sizes[l]);
      if (nine != level.end()) std::nth_element(level.begin(), nine, level.end());
      chosen.insert(chosen.end(), level.begin(), nine);
      first += level_sizes[l];
    }
    double sum = 0, squares = 0;
    for (candidate& c : chosen) {
      c.first = iou_of_boxes(box, load(anchors, c.second));
      sum += c.first;
    }
    const double n = static_cast<double>(chosen.size()), mean = sum / n;
    for (const candidate& c : chosen) squares += (c.first - mean) * (c.first - mean);
    const auto threshold = static_cast<float>(mean + std::sqrt(squares / (n - 1)));
    for (const candidate& c : chosen) {
      const plain_box a = load(anchors, c.second);
      const auto at = static_cast<std::size_t>(c.second);
      if (c.first < threshold || c.first <= best[at] ||
          !is_inside(box, 0.5f * (a.x1 + a.x2), 0.5f * (a.y1 + a.y2), 0.01f))
        continue;
      best[at] = c.first;
      matches[at] = g;
    }
  }
}

void plain_assign_fcos(const float* anchors, const std::int64_t* level_sizes, std::int64_t levels,
                       const float* truth, std::int64_t boxes, std::int64_t* matches) {
  static std::vector<float> smallest;
  std::int64_t first = 0;
  for (std::int64_t l = 0; l < levels; ++l) {
    const std::int64_t size = level_sizes[l];
    const float low = l == 0 ? 0.0f : 4.0f, high = l + 1 == levels ? 1e30f : 8.0f;
    smallest.assign(static_cast<std::size_t>(size), 1e8f);
    std::fill(matches + first, matches + first + size, std::int64_t{-1});
    for (std::int64_t g = 0; g < boxes; ++g) {
      const plain_box box = load(truth, g), centre = centre_form(box);
      const float area = box.width() * box.height();
      for (std::int64_t i = 0; i < size; ++i) {
        const plain_box a = centre_form(load(anchors, first + i));
        const float width = a.x2;
        const float off = std::max(std::abs(a.x1 - centre.x1), std::abs(a.y1 - centre.y1));
        const float left = a.x1 - box.x1, right = box.x2 - a.x1;
        const float above = a.y1 - box.y1, below = box.y2 - a.y1;
        const float nearest = std::min(std::min(left, right), std::min(above, below));
        const float farthest = std::max(std::max(left, right), std::max(above, below));
        float& least = smallest[static_cast<std::size_t>(i)];
        const bool better = (off < 1.5f * width) & (nearest > 0) & (farthest > low * width) &
                            (farthest < high * width) & (area < least);
        least = better ? area : least;
        matches[first + i] = better ? g : matches[first + i];
      }
    }
    first += size;
  }
}

/// The task-aligned assigner with is_in_box(point, box) and overlap(point, box), 0 or more.
template <class IsInBox, class Overlap>
void task_aligned_loop(const float* scores, std::int64_t class_count, std::int64_t count,
                       const std::int64_t* classes, std::int64_t boxes, std::int64_t* matches,
                       float* targets, const IsInBox& is_in_box, const Overlap& overlap) {
  static std::vector<candidate> inside;
  static std::vector<char> times;
  static std::vector<float> metrics, most_aligned, most_overlap;
  const auto metric = [&](std::int64_t i, std::int64_t g, float o) {
    return std::sqrt(scores[i * class_count + classes[g]]) * o * o * o * o * o * o;
  };
  times.assign(static_cast<std::size_t>(count), 0);
  metrics.resize(static_cast<std::size_t>(count));
  most_aligned.assign(static_cast<std::size_t>(boxes), 0.0f);
  most_overlap.assign(static_cast<std::size_t>(boxes), 0.0f);
  std::fill(matches, matches + count, std::int64_t{-1});
  std::fill(targets, targets + count, 0.0f);
  for (std::int64_t g = 0; g < boxes; ++g) {
    inside.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      if (!is_in_box(i, g)) continue;
      const float m = metric(i, g, overlap(i, g));
      if (m > 0) inside.push_back({-m, i});
    }
    const auto top =
        inside.begin() + std::min<std::ptrdiff_t>(10, static_cast<std::ptrdiff_t>(inside.size()));
    if (top != inside.end()) std::nth_element(inside.begin(), top, inside.end());
    for (auto c = inside.begin(); c != top; ++c) {
      matches[c->second] = g;
      ++times[static_cast<std::size_t>(c->second)];
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (matches[i] < 0) continue;
    const auto at = static_cast<std::size_t>(i);
    if (times[at] > 1) {
      float greatest = -1;
      for (std::int64_t g = 0; g < boxes; ++g) {
        if (!is_in_box(i, g)) continue;
        const float o = overlap(i, g);
        if (o <= greatest) continue;
        greatest = o;
        matches[i] = g;
      }
    }
    const auto g = static_cast<std::size_t>(matches[i]);
    const float o = overlap(i, matches[i]);
    metrics[at] = metric(i, matches[i], o);
    most_aligned[g] = std::max(most_aligned[g], metrics[at]);
    most_overlap[g] = std::max(most_overlap[g], o);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (matches[i] < 0) continue;
    const auto g = static_cast<std::size_t>(matches[i]);
    targets[i] = metrics[static_cast<std::size_t>(i)] * most_overlap[g] / (most_aligned[g] + 1e-9f);
  }
}

void plain_task_aligned(const float* scores, std::int64_t class_count, const float* predictions,
                        const float* points, std::int64_t count, const float* truth,
                        const std::int64_t* classes, std::int64_t boxes, std::int64_t* matches,
                        float* targets) {
  task_aligned_loop(
      scores, class_count, count, classes, boxes, matches, targets,
      [&](std::int64_t i, std::int64_t g) {
        return is_inside(load(truth, g), points[2 * i], points[2 * i + 1], 1e-9f);
      },
      [&](std::int64_t i, std::int64_t g) {
        return std::max(0.0f, ciou_of_boxes(load(truth, g), load(predictions, i)));
      });
}

void plain_rotated_task_aligned(const float* scores, std::int64_t class_count,
                                const float* predictions, const float* points, std::int64_t count,
                                const float* truth, const std::int64_t* classes, std::int64_t boxes,
                                std::int64_t* matches, float* targets) {
  static std::vector<turned_box> own;
  static std::vector<gaussian> first, second;
  own.clear(), first.clear(), second.clear();
  for (std::int64_t g = 0; g < boxes; ++g) {
    own.push_back(turned(truth + 5 * g));
    first.push_back(gaussian_of(truth + 5 * g));
  }
  for (std::int64_t i = 0; i < count; ++i) second.push_back(gaussian_of(predictions + 5 * i));
  task_aligned_loop(
      scores, class_count, count, classes, boxes, matches, targets,
      [&](std::int64_t i, std::int64_t g) {
        const turned_box& box = own[static_cast<std::size_t>(g)];
        const float dx = points[2 * i] - box.x, dy = points[2 * i + 1] - box.y;
        return std::abs(dx * box.cosine + dy * box.sine) <= 0.5f * box.w &&
               std::abs(dy * box.cosine - dx * box.sine) <= 0.5f * box.h;
      },
      [&](std::int64_t i, std::int64_t g) {
        return std::max(0.0f, prob_iou_of(first[static_cast<std::size_t>(g)],
                                          second[static_cast<std::size_t>(i)]));
      });
}

void plain_sim_ota(const float* logits, const float* objectness, std::int64_t class_count,
                   const float* predictions, const float* points, const float* strides,
                   std::int64_t count, const float* truth, const std::int64_t* classes,
                   std::int64_t boxes, std::int64_t* matches, float* targets) {
  static std::vector<std::int64_t> near;
  static std::vector<float> background, ious, costs;
  static std::vector<candidate> order;
  static std::vector<char> times;
  const auto is_in_centre = [&](std::int64_t i, std::int64_t g) {
    const plain_box c = centre_form(load(truth, g));
    return std::max(std::abs(points[2 * i] - c.x1), std::abs(points[2 * i + 1] - c.y1)) <
           2.5f * strides[i];
  };
  const auto is_in_box = [&](std::int64_t i, std::int64_t g) {
    return is_inside(load(truth, g), points[2 * i], points[2 * i + 1], 0);
  };
  const auto probability = [&](std::int64_t i, std::int64_t c) {
    return 1 /
           std::sqrt((1 + std::exp(-logits[i * class_count + c])) * (1 + std::exp(-objectness[i])));
  };
  near.clear();
  background.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    bool is_near = false;
    for (std::int64_t g = 0; g < boxes && !is_near; ++g)
      is_near = is_in_box(i, g) || is_in_centre(i, g);
    if (!is_near) continue;
    float sum = 0;
    for (std::int64_t c = 0; c < class_count; ++c) sum -= std::log(1 - probability(i, c));
    near.push_back(i);
    background.push_back(sum);
  }
  const auto size = near.size();
  times.assign(static_cast<std::size_t>(count), 0);
  ious.resize(static_cast<std::size_t>(boxes) * size);
  costs.resize(ious.size());
  std::fill(matches, matches + count, std::int64_t{-1});
  std::fill(targets, targets + count, 0.0f);
  for (std::int64_t g = 0; g < boxes; ++g) {
    float* const own = costs.data() + static_cast<std::size_t>(g) * size;
    float* const overlap = ious.data() + static_cast<std::size_t>(g) * size;
    for (std::size_t k = 0; k < size; ++k)
      overlap[k] = iou_of_boxes(load(truth, g), load(predictions, near[k]));
    order.resize(size);
    for (std::size_t k = 0; k < size; ++k) {
      const std::int64_t i = near[k];
      const float p = probability(i, classes[g]);
      const bool is_in_prior = is_in_box(i, g) && is_in_centre(i, g);
      own[k] = background[k] + std::log(1 - p) - std::log(p) - 3 * std::log(overlap[k] + 1e-8f) +
               (is_in_prior ? 0 : 1e5f);
      order[k] = {-overlap[k], static_cast<std::int64_t>(k)};
    }
    const auto ten =
        order.begin() + std::min<std::ptrdiff_t>(10, static_cast<std::ptrdiff_t>(size));
    if (ten != order.end()) std::nth_element(order.begin(), ten, order.end());
    float sum = 0;
    for (auto c = order.begin(); c != ten; ++c) sum -= c->first;
    for (std::size_t k = 0; k < size; ++k) order[k] = {own[k], static_cast<std::int64_t>(k)};
    const auto wanted = order.begin() + std::min(std::max<std::ptrdiff_t>(1, static_cast<int>(sum)),
                                                 static_cast<std::ptrdiff_t>(size));
    if (wanted != order.end()) std::nth_element(order.begin(), wanted, order.end());
    for (auto c = order.begin(); c != wanted; ++c) {
      const std::int64_t i = near[static_cast<std::size_t>(c->second)];
      matches[i] = g;
      ++times[static_cast<std::size_t>(i)];
    }
  }
  for (std::size_t k = 0; k < size; ++k) {
    const std::int64_t i = near[k];
    if (matches[i] < 0) continue;
    const auto at = [&](std::int64_t g) { return static_cast<std::size_t>(g) * size + k; };
    if (times[static_cast<std::size_t>(i)] > 1) {
      matches[i] = 0;
      for (std::int64_t g = 1; g < boxes; ++g)
        if (costs[at(g)] < costs[at(matches[i])]) matches[i] = g;
    }
    targets[i] = ious[at(matches[i])];
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET

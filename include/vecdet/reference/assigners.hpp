// SPDX-License-Identifier: Apache-2.0
// ATSS, arXiv 1912.02424, algorithm 1; the task-aligned assigner, arXiv 2108.07755, section 3.3, in
// YOLOv8's and YOLO26's form; and SimOTA, arXiv 2107.08430, section 2.3; on whole matrices of boxes
// x points, for one image.
//
// ATSS compares distances and IoUs in float, as torch does. The task-aligned assigner computes
// everything in double, and SimOTA all but IoUs.
#pragma once

#include <vecdet/reference/box.hpp>
#include <vecdet/reference/iou.hpp>
#include <vecdet/reference/matching.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Per point: the index of its ground-truth box, -1 or -2 (ignored), and for the task-aligned
/// assigner and SimOTA its target.
struct assignment {
  std::vector<index_t> matches;
  std::vector<double> targets;
};

/// The first `wanted` of `candidates` in the order defined by comes_first. Ties keep their order.
template <class ComesFirst>
std::vector<index_t> first_of(std::vector<index_t> candidates, index_t wanted,
                              const ComesFirst& comes_first) {
  std::stable_sort(candidates.begin(), candidates.end(), comes_first);
  if (static_cast<index_t>(candidates.size()) > wanted)
    candidates.resize(static_cast<std::size_t>(wanted));
  return candidates;
}

/// `level_sizes` holds the number of anchors per level.
inline assignment atss(boxes_view<const float> anchors, const std::vector<index_t>& level_sizes,
                       boxes_view<const float> truth, index_t k) {
  const index_t points = anchors.size();
  assignment result{std::vector<index_t>(static_cast<std::size_t>(points), -1), {}};
  std::vector<float> best(static_cast<std::size_t>(points));
  for (index_t g = 0; g < truth.size(); ++g) {
    const box_of<float> own = load_box<float>(truth, g);
    const auto x_of = [&](const box_of<float>& b) { return (b.x1 + b.x2) / 2; };
    const auto y_of = [&](const box_of<float>& b) { return (b.y1 + b.y2) / 2; };
    if (!std::isfinite(x_of(own)) || !std::isfinite(y_of(own))) continue;
    const auto distance = [&](index_t i) {
      const box_of<float> anchor = load_box<float>(anchors, i);
      const float dx = x_of(anchor) - x_of(own), dy = y_of(anchor) - y_of(own);
      return std::sqrt(rounded_product(dx, dx) + rounded_product(dy, dy));
    };
    std::vector<index_t> candidates;
    index_t first = 0;
    for (const index_t size : level_sizes) {
      std::vector<index_t> level(static_cast<std::size_t>(size));
      for (index_t i = 0; i < size; ++i) level[static_cast<std::size_t>(i)] = first + i;
      first += size;
      const auto nearest =
          first_of(level, k, [&](index_t a, index_t b) { return distance(a) < distance(b); });
      candidates.insert(candidates.end(), nearest.begin(), nearest.end());
    }
    const auto n = static_cast<double>(candidates.size());
    const auto iou_of = [&](index_t i) { return iou(own, load_box<float>(anchors, i)); };
    double sum = 0, squares = 0;
    for (const index_t i : candidates) sum += static_cast<double>(iou_of(i));
    for (const index_t i : candidates)
      squares += rounded_product(static_cast<double>(iou_of(i)) - sum / n,
                                 static_cast<double>(iou_of(i)) - sum / n);
    const auto threshold = static_cast<float>(sum / n + std::sqrt(squares / (n - 1)));
    for (const index_t i : candidates) {
      const box_of<float> anchor = load_box<float>(anchors, i);
      const float x = x_of(anchor), y = y_of(anchor);
      const float inside = std::min({x - own.x1, y - own.y1, own.x2 - x, own.y2 - y});
      if (!(iou_of(i) >= threshold) || !(inside > 0.01f)) continue;
      const auto at = static_cast<std::size_t>(i);
      if (result.matches[at] >= 0 && !(iou_of(i) > best[at])) continue;
      result.matches[at] = g;
      best[at] = iou_of(i);
    }
  }
  return result;
}

struct task_aligned_params {
  index_t top = 10;
  double alpha = 0.5, beta = 6;
  /// Sides below `least_side` are `grown_side` in the search for points.
  float least_side = 0, grown_side = 0;
  /// The points of each box after points of several boxes are assigned; 0: all.
  index_t final_top = 0;
};

/// The task-aligned assigner of `boxes` boxes and the points that `scores` has rows of, with
/// is_inside(point, box) and overlap(point, box), which is 0 or more.
template <class IsInside, class Overlap>
assignment task_aligned_by(matrix_view<const float> scores, index_t boxes,
                           vector_view<const index_t> classes, const task_aligned_params& params,
                           const IsInside& is_inside, const Overlap& overlap) {
  const index_t count = scores.rows();
  assignment result{std::vector<index_t>(static_cast<std::size_t>(count), -1),
                    std::vector<double>(static_cast<std::size_t>(count), 0.0)};
  const auto metric = [&](index_t i, index_t g) {
    const auto score = static_cast<double>(scores(i, classes[g]));
    return score > 0 && overlap(i, g) > 0
               ? std::pow(score, params.alpha) * std::pow(overlap(i, g), params.beta)
               : 0;
  };
  std::vector<index_t> times(static_cast<std::size_t>(count));
  for (index_t g = 0; g < boxes; ++g) {
    std::vector<index_t> inside;
    std::vector<double> metrics(static_cast<std::size_t>(count));
    for (index_t i = 0; i < count; ++i) {
      if (!is_inside(i, g)) continue;
      metrics[static_cast<std::size_t>(i)] = metric(i, g);
      if (metrics[static_cast<std::size_t>(i)] > 0) inside.push_back(i);
    }
    for (const index_t i : first_of(inside, params.top, [&](index_t a, index_t b) {
           return metrics[static_cast<std::size_t>(a)] > metrics[static_cast<std::size_t>(b)];
         })) {
      result.matches[static_cast<std::size_t>(i)] = g;
      ++times[static_cast<std::size_t>(i)];
    }
  }
  for (index_t i = 0; i < count; ++i) {
    if (times[static_cast<std::size_t>(i)] < 2) continue;
    double greatest = -1;
    for (index_t g = 0; g < boxes; ++g) {
      if (!is_inside(i, g) || !(overlap(i, g) > greatest)) continue;
      greatest = overlap(i, g);
      result.matches[static_cast<std::size_t>(i)] = g;
    }
  }
  for (index_t g = 0; params.final_top > 0 && g < boxes; ++g) {
    std::vector<index_t> own;
    for (index_t i = 0; i < count; ++i)
      if (result.matches[static_cast<std::size_t>(i)] == g) own.push_back(i);
    for (const index_t i : own) result.matches[static_cast<std::size_t>(i)] = -1;
    for (const index_t i : first_of(own, params.final_top, [&](index_t a, index_t b) {
           return metric(a, g) > metric(b, g);
         }))
      result.matches[static_cast<std::size_t>(i)] = g;
  }
  std::vector<double> most_aligned(static_cast<std::size_t>(boxes));
  std::vector<double> most_overlap(most_aligned.size());
  for (index_t i = 0; i < count; ++i) {
    const index_t match = result.matches[static_cast<std::size_t>(i)];
    if (match < 0) continue;
    const auto g = static_cast<std::size_t>(match);
    most_aligned[g] = std::max(most_aligned[g], metric(i, match));
    most_overlap[g] = std::max(most_overlap[g], overlap(i, match));
  }
  for (index_t i = 0; i < count; ++i) {
    const index_t match = result.matches[static_cast<std::size_t>(i)];
    if (match < 0) continue;
    const auto g = static_cast<std::size_t>(match);
    result.targets[static_cast<std::size_t>(i)] =
        metric(i, match) * most_overlap[g] / (most_aligned[g] + 1e-9);
  }
  return result;
}

inline assignment task_aligned(matrix_view<const float> scores, boxes_view<const float> predictions,
                               matrix_view<const float> points, boxes_view<const float> truth,
                               vector_view<const index_t> classes,
                               const task_aligned_params& params = {}) {
  const auto is_inside = [&](index_t i, index_t g) {
    box_of<float> own = load_box<float>(truth, g);
    const auto grow = [&](float& low, float& high) {
      if (!(high - low < params.least_side)) return;
      const float centre = (low + high) / 2, half = params.grown_side / 2;
      low = centre - half;
      high = centre + half;
    };
    if (params.least_side > 0) {
      grow(own.x1, own.x2);
      grow(own.y1, own.y2);
    }
    const float x = points(i, 0), y = points(i, 1), margin = 1e-9f;
    return x - own.x1 > margin && y - own.y1 > margin && own.x2 - x > margin && own.y2 - y > margin;
  };
  const auto overlap = [&](index_t i, index_t g) {
    const double value = ciou(load_box(truth, g), load_box(predictions, i));
    return value > 0 ? value : 0;
  };
  return task_aligned_by(scores, truth.size(), classes, params, is_inside, overlap);
}

struct sim_ota_params {
  index_t candidates = 10;
  double radius = 2.5, iou_weight = 3;
};

/// -log(p), at most 87.
inline double minus_log(double p) { return std::min(-std::log(p), 87.0); }

/// `strides` has one stride per point.
inline assignment sim_ota(matrix_view<const float> logits, vector_view<const float> objectness,
                          boxes_view<const float> predictions, matrix_view<const float> points,
                          const std::vector<double>& strides, boxes_view<const float> truth,
                          vector_view<const index_t> classes, const sim_ota_params& params = {}) {
  const index_t count = points.rows(), boxes = truth.size();
  assignment result{std::vector<index_t>(static_cast<std::size_t>(count), -1),
                    std::vector<double>(static_cast<std::size_t>(count), 0.0)};
  const auto is_finite_box = [&](index_t g) {
    const box_of<float> b = load_box<float>(truth, g);
    return std::isfinite(b.x1) && std::isfinite(b.y1) && std::isfinite(b.x2) && std::isfinite(b.y2);
  };
  const auto is_within = [&](index_t i, float x1, float y1, float x2, float y2) {
    const float x = points(i, 0), y = points(i, 1);
    return x - x1 > 0 && y - y1 > 0 && x2 - x > 0 && y2 - y > 0;
  };
  const auto is_in_box = [&](index_t i, index_t g) {
    const box_of<float> b = load_box<float>(truth, g);
    return is_within(i, b.x1, b.y1, b.x2, b.y2);
  };
  const auto is_in_centre = [&](index_t i, index_t g) {
    const box_of<float> b = load_box<float>(truth, g);
    const float x = (b.x1 + b.x2) / 2, y = (b.y1 + b.y2) / 2;
    const float reach = rounded_product(static_cast<float>(params.radius),
                                        static_cast<float>(strides[static_cast<std::size_t>(i)]));
    return is_within(i, x - reach, y - reach, x + reach, y + reach);
  };
  const auto is_in_prior = [&](index_t i, index_t g) {
    return is_in_box(i, g) && is_in_centre(i, g);
  };
  const auto iou_of = [&](index_t i, index_t g) {
    return static_cast<double>(iou(load_box<float>(truth, g), load_box<float>(predictions, i)));
  };
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-static_cast<double>(x))); };
  const auto cost = [&](index_t i, index_t g) {
    // p = sqrt(a b), and 1 - p = (1 - a b) / (1 + p), where 1 - a b = (1 - a) + a (1 - b).
    const double b = sigmoid(objectness[i]), not_b = sigmoid(-objectness[i]);
    double sum = 0;
    for (index_t c = 0; c < logits.cols(); ++c) {
      const double a = sigmoid(logits(i, c)), p = std::sqrt(a * b);
      const double not_p = (sigmoid(-logits(i, c)) + a * not_b) / (1 + p);
      sum += minus_log(c == classes[g] ? p : not_p);
    }
    return sum + params.iou_weight * minus_log(iou_of(i, g) + 1e-8);
  };
  std::vector<index_t> near;
  for (index_t i = 0; i < count; ++i) {
    bool is_near = false;
    for (index_t g = 0; g < boxes; ++g)
      is_near = is_near || (is_finite_box(g) && (is_in_box(i, g) || is_in_centre(i, g)));
    if (is_near) near.push_back(i);
  }
  const auto numbered = [](index_t i) { return static_cast<std::size_t>(i); };
  std::vector<std::vector<double>> costs(numbered(boxes), std::vector<double>(numbered(count)));
  for (index_t g = 0; g < boxes; ++g)
    for (const index_t i : near) costs[numbered(g)][numbered(i)] = cost(i, g);
  std::vector<index_t> times(numbered(count));
  for (index_t g = 0; g < boxes; ++g) {
    if (!is_finite_box(g)) continue;
    const std::vector<double>& own = costs[numbered(g)];
    std::vector<double> ious;
    std::vector<index_t> known;
    for (const index_t i : near) {
      if (iou_of(i, g) > 0) ious.push_back(iou_of(i, g));
      if (!std::isnan(own[numbered(i)])) known.push_back(i);
    }
    std::sort(ious.rbegin(), ious.rend());
    double sum = 0;
    for (std::size_t k = 0; k < std::min(ious.size(), numbered(params.candidates)); ++k)
      sum += ious[k];
    const auto comes_first = [&](index_t a, index_t b) {
      if (is_in_prior(a, g) != is_in_prior(b, g)) return is_in_prior(a, g);
      return own[numbered(a)] < own[numbered(b)];
    };
    const index_t wanted = std::max(index_t{1}, static_cast<index_t>(sum));
    for (const index_t i : first_of(known, std::min(wanted, params.candidates), comes_first)) {
      result.matches[numbered(i)] = g;
      ++times[numbered(i)];
    }
  }
  for (index_t i = 0; i < count; ++i) {
    index_t& match = result.matches[numbered(i)];
    for (index_t g = 0; times[numbered(i)] > 1 && g < boxes; ++g) {
      if (!is_finite_box(g) || g == match || std::isnan(costs[numbered(g)][numbered(i)])) continue;
      const double own = costs[numbered(g)][numbered(i)],
                   least = costs[numbered(match)][numbered(i)];
      const bool is_cheaper = is_in_prior(i, g) != is_in_prior(i, match)
                                  ? is_in_prior(i, g)
                                  : own < least || (!(own > least) && g < match);
      if (is_cheaper) match = g;
    }
    if (match >= 0) result.targets[numbered(i)] = iou_of(i, match);
  }
  return result;
}

/// Ignores the unmatched anchors in a region, as matching does.
inline void ignore_anchors(std::vector<index_t>& matches, boxes_view<const float> anchors,
                           boxes_view<const float> regions, double threshold) {
  for (index_t i = 0; i < anchors.size(); ++i) {
    index_t& match = matches[static_cast<std::size_t>(i)];
    if (match < 0 && is_in_region(load_box<float>(anchors, i), regions, threshold))
      match = match_ignore;
  }
}

/// Ignores the unmatched points inside a region.
inline void ignore_points(std::vector<index_t>& matches, matrix_view<const float> points,
                          boxes_view<const float> regions) {
  for (index_t i = 0; i < points.rows(); ++i) {
    index_t& match = matches[static_cast<std::size_t>(i)];
    for (index_t k = 0; k < regions.size(); ++k) {
      const box_of<float> region = load_box<float>(regions, k);
      const float x = points(i, 0), y = points(i, 1);
      if (match < 0 && x > region.x1 && x < region.x2 && y > region.y1 && y < region.y2)
        match = match_ignore;
    }
  }
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Greedy non-maximum suppression in plain scalars. Going down the scores, a box is kept unless a
// kept box of its image and class overlaps it too much. Ties of scores are broken by lower index.
// The options are those of nms_params.hpp. Overlaps are computed in the kernels' compute type with
// one rounding per operation, so that decisions at the threshold are those of the framework.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/reference/box.hpp>
#include <vecdet/reference/iou.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

using vecdet::nms_format;
using vecdet::nms_order;
using vecdet::nms_overlap;
using vecdet::nms_params;
using vecdet::no_limit;

/// A box's corners in the order that the overlap requires.
template <class Real>
box_of<Real> corners_of(const box_of<Real>& b, nms_format format) {
  if (format == nms_format::corners) return b;
  if (format == nms_format::any_corners) {
    return {b.x1 >= b.x2 ? b.x2 : b.x1, b.y1 >= b.y2 ? b.y2 : b.y1, b.x1 >= b.x2 ? b.x1 : b.x2,
            b.y1 >= b.y2 ? b.y1 : b.y2};
  }
  const Real half_w = b.x2 / 2;
  const Real half_h = b.y2 / 2;
  return {b.x1 - half_w, b.y1 - half_h, b.x1 + half_w, b.y1 + half_h};
}

template <class Real>
Real nms_area(const box_of<Real>& b, bool plus_one) {
  const Real one = plus_one ? 1 : 0;
  return rounded_product(b.width() + one, b.height() + one);
}

/// The overlap of a kept box and a later one. Unlike in iou(), a NaN side of the intersection
/// counts as 0, as in std::max(0, side); the areas still make the quotient NaN.
template <class Real>
Real overlap_of(const box_of<Real>& kept, const box_of<Real>& other, const nms_params& params) {
  const Real one = params.plus_one ? 1 : 0;
  const auto side = [&](Real low_a, Real low_b, Real high_a, Real high_b) {
    const Real length = std::min(high_a, high_b) - std::max(low_a, low_b) + one;
    return std::max(Real(0), length);
  };
  const Real intersection = rounded_product(side(kept.x1, other.x1, kept.x2, other.x2),
                                            side(kept.y1, other.y1, kept.y2, other.y2));
  const Real kept_area = nms_area(kept, params.plus_one);
  const Real other_area = nms_area(other, params.plus_one);
  const Real both = kept_area + other_area;
  const Real joined = both - intersection;
  switch (params.overlap) {
    case nms_overlap::plain:
      break;
    case nms_overlap::positive_area:
      if (!(intersection > 0 && kept_area > 0 && other_area > 0 && joined > 0)) return 0;
      break;
    case nms_overlap::smaller_area:
      if (!(kept_area > 0 && other_area > 0)) return 0;
      return intersection / std::min(kept_area, other_area);
    case nms_overlap::jaccard:
      if (!(both > std::numeric_limits<Real>::epsilon())) return 1;
      return static_cast<Real>(1.0f - static_cast<float>(1 - static_cast<double>(intersection) /
                                                                 static_cast<double>(joined)));
  }
  return intersection / joined;
}

template <class Real>
bool suppresses(const box_of<Real>& kept, const box_of<Real>& other, const nms_params& params) {
  const double overlap = static_cast<double>(overlap_of(kept, other, params));
  double threshold = params.iou_threshold;
  if (params.float_threshold) {
    threshold = params.overlap == nms_overlap::jaccard
                    ? static_cast<double>(static_cast<float>(threshold))
                    : static_cast<double>(static_cast<Real>(threshold));
  }
  return params.suppress_equal ? overlap >= threshold : overlap > threshold;
}

template <class Real>
bool is_degenerate(const box_of<Real>& b, bool plus_one) {
  const Real one = plus_one ? 1 : 0;
  return !(b.width() + one > 0 && b.height() + one > 0);
}

/// The image and class of every box. An empty view means that all are the same.
struct nms_groups {
  lasting<vector_view<const index_t>> classes;
  lasting<vector_view<const index_t>> images;

  index_t class_of(index_t i) const { return classes.empty() ? 0 : classes[i]; }
  index_t image_of(index_t i) const { return images.empty() ? 0 : images[i]; }
  std::pair<index_t, index_t> operator()(index_t i) const { return {image_of(i), class_of(i)}; }
};

/// The kept indices in the requested order. Boxes, scores and groups have the same length.
template <class T, class S>
std::vector<index_t> nms(boxes_view<T> boxes, vector_view<S> scores, const nms_params& params,
                         const nms_groups& groups = {}) {
  using real = compute_type<value_of<T>>;
  const auto corners = [&](index_t i) {
    return corners_of(load_box<real>(boxes, i), params.format);
  };
  const auto score = [&](index_t i) { return static_cast<double>(scores[i]); };
  const auto score_threshold = [&](index_t i) {
    const double threshold = params.class_thresholds.empty()
                                 ? params.score_threshold
                                 : params.class_thresholds[groups.class_of(i)];
    return params.float_threshold
               ? static_cast<double>(static_cast<compute_type<value_of<S>>>(threshold))
               : threshold;
  };
  const auto group_of = [&](index_t i) {
    const index_t own = groups.class_of(i);
    return std::make_pair(groups.image_of(i),
                          params.class_groups.empty() ? own : params.class_groups[own]);
  };

  std::vector<index_t> order;
  for (index_t i = 0; i < boxes.size(); ++i) {
    if (!params.classes.empty() && std::find(params.classes.begin(), params.classes.end(),
                                             groups.class_of(i)) == params.classes.end())
      continue;
    const bool is_nan = std::isnan(score(i));
    if (is_nan ? params.drop_nan_scores
               : !(score(i) > score_threshold(i) ||
                   score_threshold(i) == -std::numeric_limits<double>::infinity()))
      continue;
    if (params.drop_degenerate && is_degenerate(corners(i), params.plus_one)) continue;
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) {
    return std::isnan(score(a)) ? !std::isnan(score(b)) : score(a) > score(b);
  });

  std::vector<index_t> kept;
  std::map<std::pair<index_t, index_t>, std::vector<index_t>> kept_of_group;
  std::map<index_t, index_t> count_per_image;
  for (const index_t i : order) {
    std::vector<index_t>& rivals = kept_of_group[group_of(i)];
    index_t& count = count_per_image[groups.image_of(i)];
    if (static_cast<index_t>(rivals.size()) >= params.max_per_class ||
        count >= params.max_per_image || static_cast<index_t>(kept.size()) >= params.max_total)
      continue;
    const box_of<real> candidate = corners(i);
    if (std::any_of(rivals.begin(), rivals.end(),
                    [&](index_t k) { return suppresses(corners(k), candidate, params); }))
      continue;
    rivals.push_back(i);
    ++count;
    kept.push_back(i);
  }

  if (params.order == nms_order::index) std::sort(kept.begin(), kept.end());
  if (params.order == nms_order::image_score)
    std::stable_sort(kept.begin(), kept.end(),
                     [&](index_t a, index_t b) { return groups.image_of(a) < groups.image_of(b); });
  if (params.order == nms_order::image_class_score)
    std::stable_sort(kept.begin(), kept.end(),
                     [&](index_t a, index_t b) { return group_of(a) < group_of(b); });
  return kept;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// NMSBoxes and NMSBoxesBatched of opencv.hpp: the candidates, the ways to compare them, checks.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/opencv_rectangles.hpp>
#include <vecdet/impl/rotated_boxes.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/rotated_boxes.hpp>
#include <vecdet/rotated_nms.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include <opencv2/core/types.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Checks the arguments that NMSBoxes and softNMSBoxes share.
template <class Rectangle>
void check_rectangles(const char* function, const std::vector<Rectangle>& bboxes,
                      const std::vector<float>& scores, float score_threshold,
                      float nms_threshold) {
  check_size(function, "scores.size()", static_cast<index_t>(scores.size()),
             static_cast<index_t>(bboxes.size()), "the number of boxes");
  check(bboxes.size() <= std::size_t{std::numeric_limits<int>::max()}, function, "bboxes.size()",
        bboxes.size(), "at most 2^31 - 1");
  check(!is_nan(score_threshold) && score_threshold >= 0, function, "score_threshold",
        score_threshold, "0 or more");
  check(!is_nan(nms_threshold) && nms_threshold >= 0, function, "nms_threshold", nms_threshold,
        "0 or more");
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  for (std::size_t i = 0; i < bboxes.size(); ++i)
    check_element(has_finite_numbers(bboxes[i]), function, "bboxes", static_cast<index_t>(i),
                  "NaN or infinite", "finite numbers under -ffast-math");
#endif
}

/// Compares boxes by their scores, greatest first. Ties are broken by lower index.
struct by_score {
  const std::vector<float>& scores;

  bool operator()(int a, int b) const {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return x > y || (!(y > x) && a < b);
  }
};

/// The boxes with a score above the threshold, but only the best top_k of them if top_k is above
/// 0, in ascending index.
inline std::vector<int> candidates_of(const std::vector<float>& scores, float threshold,
                                      int top_k) {
  std::vector<int> candidates;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (is_above(scores[i], threshold)) candidates.push_back(static_cast<int>(i));
  if (top_k > 0 && candidates.size() > static_cast<std::size_t>(top_k)) {
    const auto end = candidates.begin() + top_k;
    std::nth_element(candidates.begin(), end, candidates.end(), by_score{scores});
    candidates.erase(end, candidates.end());
    std::sort(candidates.begin(), candidates.end());
  }
  return candidates;
}

/// The least precise numbers in which nms() computes with rectangles as OpenCV does.
enum class rectangle_numbers { floats, doubles, nearly_doubles, none };

template <class T>
rectangle_numbers numbers_of(const std::vector<cv::Rect_<T>>& bboxes,
                             const std::vector<int>& candidates) {
  bool are_integers = true;
  double greatest_area = 0, farthest = 0;
  for (const int i : candidates) {
    const cv::Rect_<T>& r = bboxes[static_cast<std::size_t>(i)];
    if (!is_usual(r)) return rectangle_numbers::none;
    const double x = r.x, y = r.y, width = r.width, height = r.height;
    if constexpr (!std::is_integral<T>::value)
      are_integers = are_integers && is_equal(std::trunc(x), x) && is_equal(std::trunc(y), y) &&
                     is_equal(std::trunc(width), width) && is_equal(std::trunc(height), height);
    greatest_area = std::max(greatest_area, width * height);
    farthest = std::max({farthest, std::abs(x) + width, std::abs(y) + height});
  }
  if (are_integers && greatest_area <= 0x1p23 && farthest <= 0x1p24)
    return rectangle_numbers::floats;
  if (are_integers && greatest_area <= 0x1p50 && farthest <= 0x1p50)
    return rectangle_numbers::doubles;
  return rectangle_numbers::nearly_doubles;
}

/// The candidates as arguments of nms().
template <class Real>
struct nms_candidates {
  std::vector<std::array<Real, 4>> boxes;
  std::vector<float> scores;

  template <class T>
  nms_candidates(const std::vector<cv::Rect_<T>>& bboxes, const std::vector<float>& all_scores,
                 const std::vector<int>& candidates) {
    boxes.reserve(candidates.size());
    scores.reserve(candidates.size());
    for (const int i : candidates) {
      const auto corners = corners_of(bboxes[static_cast<std::size_t>(i)]);
      boxes.push_back({static_cast<Real>(corners[0]), static_cast<Real>(corners[1]),
                       static_cast<Real>(corners[2]), static_cast<Real>(corners[3])});
      scores.push_back(all_scores[static_cast<std::size_t>(i)]);
    }
  }

  /// The kept ones, best score first.
  std::vector<index_t> kept(double threshold) const {
    const auto params = nms_params::opencv(std::min(std::max(threshold, 0.0), 1.0), 0);
    return nms(boxes, scores, params, threading::sequential);
  }
};

/// Compares each candidate with every kept box; eta and threshold as in OpenCV.
template <class T>
std::vector<int> compare_with_all(const std::vector<cv::Rect_<T>>& bboxes,
                                  const std::vector<float>& scores, std::vector<int> candidates,
                                  float threshold, float eta) {
  std::sort(candidates.begin(), candidates.end(), by_score{scores});
  std::vector<measured_rectangle<T>> kept;
  std::vector<int> indices;
  for (const int i : candidates) {
    const measured_rectangle<T> box(bboxes[static_cast<std::size_t>(i)]);
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const auto& by) { return is_suppressed(box, by, threshold); }))
      continue;
    kept.push_back(box);
    indices.push_back(i);
    if (eta < 1 && threshold > 0.5f) threshold = rounded(threshold * eta);
  }
  return indices;
}

/// The kept ones of `candidates`, best score first, without comparing all of them; nothing and
/// false if that is not certain to give OpenCV's result.
template <class T>
bool kept_by_nms(const std::vector<cv::Rect_<T>>& bboxes, const std::vector<float>& scores,
                 const std::vector<int>& candidates, double threshold, std::vector<index_t>& kept) {
  switch (numbers_of(bboxes, candidates)) {
    case rectangle_numbers::floats:
      kept = nms_candidates<float>(bboxes, scores, candidates).kept(threshold);
      return true;
    case rectangle_numbers::doubles:
      kept = nms_candidates<double>(bboxes, scores, candidates).kept(threshold);
      return true;
    case rectangle_numbers::nearly_doubles: {
      // OpenCV computes sides and intersections in another order, which moves an overlap, a
      // multiple of 2^-24 where it is below 1, by at most 2^-24. If both of these thresholds keep
      // the same boxes, OpenCV keeps them, too: no two of them overlap by more than the lower one,
      // and each of the others overlaps a better one of them by more than the upper one.
      if (threshold < 0x1p-23) return false;
      const nms_candidates<double> input(bboxes, scores, candidates);
      kept = input.kept(threshold - 0x1p-23);
      return kept == input.kept(threshold + 0x1p-23);
    }
    case rectangle_numbers::none:
      break;
  }
  return false;
}

inline void check_eta(const char* function, float eta) {
  check(!is_nan(eta) && eta > 0, function, "eta", eta, "above 0");
}

/// NMSBoxes with arguments that were checked.
template <class T>
std::vector<int> kept_boxes(const std::vector<cv::Rect_<T>>& bboxes,
                            const std::vector<float>& scores, float score_threshold,
                            float nms_threshold, float eta, int top_k) {
  const std::vector<int> candidates = candidates_of(scores, score_threshold, top_k);
  std::vector<index_t> kept;
  if ((eta < 1 && nms_threshold > 0.5f) ||
      !kept_by_nms(bboxes, scores, candidates, static_cast<double>(nms_threshold), kept))
    return compare_with_all(bboxes, scores, candidates, nms_threshold, eta);
  std::vector<int> indices;
  indices.reserve(kept.size());
  for (const index_t i : kept) indices.push_back(candidates[static_cast<std::size_t>(i)]);
  return indices;
}

static_assert(sizeof(cv::RotatedRect) == 5 * sizeof(float),
              "a cv::RotatedRect is five floats: centre, size, angle");

/// The rectangles of a std::vector<cv::RotatedRect>, const if T is, as rows, in place.
template <class T, class Rectangles>
matrix_view<T> rows_of(Rectangles& rectangles) {
  return {rectangles.empty() ? nullptr : &rectangles.front().center.x,
          static_cast<index_t>(rectangles.size()), 5};
}

/// compare_with_all() of rotated rectangles.
inline std::vector<int> compare_with_all(const std::vector<cv::RotatedRect>& bboxes,
                                         const std::vector<float>& scores,
                                         std::vector<int> candidates, float threshold, float eta) {
  std::sort(candidates.begin(), candidates.end(), by_score{scores});
  const matrix_view<const float> rows = rows_of<const float>(bboxes);
  std::vector<float> kept(5 * candidates.size()), overlaps(candidates.size());
  // The kernel itself: the function would add an entry to the profile for each candidate.
  const auto compute = kernels<rotated_boxes_kernels<float>>(active_isa()).pairwise_iou;
  rotated_iou_args<float> args{};
  args.b = kept.data();
  args.a_stride = args.b_stride = 5;
  args.out = overlaps.data();
  args.angles = rule_of("opencv::NMSBoxes", angle_convention::opencv);
  args.rule = empty_iou::zero;
  std::vector<int> indices;
  for (const int i : candidates) {
    const auto count = static_cast<index_t>(indices.size());
    args.a = rows.row(i);
    args.columns = args.out_stride = count;
    compute(args, 0, 1, 0, count);
    if (std::any_of(overlaps.begin(), overlaps.begin() + count,
                    [&](float iou) { return iou > threshold; }))
      continue;
    std::copy_n(rows.row(i), 5, kept.data() + 5 * count);
    indices.push_back(i);
    if (eta < 1 && threshold > 0.5f) threshold = rounded(threshold * eta);
  }
  return indices;
}

/// NMSBoxes of rotated rectangles with arguments that were checked.
inline std::vector<int> kept_boxes(const std::vector<cv::RotatedRect>& bboxes,
                                   const std::vector<float>& scores, float score_threshold,
                                   float nms_threshold, float eta, int top_k) {
  const std::vector<int> candidates = candidates_of(scores, score_threshold, top_k);
  if (eta < 1 && nms_threshold > 0.5f)
    return compare_with_all(bboxes, scores, candidates, nms_threshold, eta);
  std::vector<cv::RotatedRect> boxes;
  std::vector<float> own_scores;
  for (const int i : candidates) {
    boxes.push_back(bboxes[static_cast<std::size_t>(i)]);
    own_scores.push_back(scores[static_cast<std::size_t>(i)]);
  }
  const auto kept = rotated_nms(rows_of<const float>(boxes), vector_view<const float>(own_scores),
                                {}, angle_convention::opencv,
                                nms_params(std::min(static_cast<double>(nms_threshold), 1.0)),
                                threading::sequential);
  std::vector<int> indices;
  for (const index_t i : kept) indices.push_back(candidates[static_cast<std::size_t>(i)]);
  return indices;
}

/// The rectangles, moved apart by class as OpenCV does it.
template <class T>
std::vector<cv::Rect_<T>> moved_by_class(const char* function,
                                         const std::vector<cv::Rect_<T>>& bboxes,
                                         const std::vector<int>& class_ids) {
  const auto fits = [](double corner) {
    return !std::is_integral<T>::value ||
           (corner >= std::numeric_limits<int>::min() && corner <= std::numeric_limits<int>::max());
  };
  double farthest = 0;
  for (std::size_t i = 0; i < bboxes.size(); ++i) {
    for (const double corner : corners_of(bboxes[i])) {
      check_element(fits(corner), function, "bboxes", static_cast<index_t>(i), corner,
                    "corners that fit an int");
      farthest = corner < farthest ? farthest : corner;  // NaN counts as greater
    }
  }
  std::vector<cv::Rect_<T>> moved = bboxes;
  for (std::size_t i = 0; i < bboxes.size(); ++i) {
    const double offset = rounded(static_cast<double>(class_ids[i]) * rounded(farthest + 1));
    for (T* const position : {&moved[i].x, &moved[i].y}) {
      const double to = static_cast<double>(*position) + offset;
      check_element(fits(to), function, "class_ids", static_cast<index_t>(i), class_ids[i],
                    "a class whose rectangles still fit an int when moved by it");
      *position = static_cast<T>(to);
    }
  }
  return moved;
}

template <class T>
void nms_boxes_batched(const std::vector<cv::Rect_<T>>& bboxes, const std::vector<float>& scores,
                       const std::vector<int>& class_ids, float score_threshold,
                       float nms_threshold, std::vector<int>& indices, float eta, int top_k) {
  constexpr const char* function = "opencv::NMSBoxesBatched";
  check_rectangles(function, bboxes, scores, score_threshold, nms_threshold);
  check_size(function, "class_ids.size()", static_cast<index_t>(class_ids.size()),
             static_cast<index_t>(bboxes.size()), "the number of boxes");
  check_eta(function, eta);
  indices = kept_boxes(moved_by_class(function, bboxes, class_ids), scores, score_threshold,
                       nms_threshold, eta, top_k);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

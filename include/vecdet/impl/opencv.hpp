// SPDX-License-Identifier: Apache-2.0
// The functions of opencv.hpp.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/impl/opencv_nms.hpp>
#include <vecdet/impl/opencv_rectangles.hpp>
#include <vecdet/impl/rotated_boxes.hpp>
#include <vecdet/letterbox.hpp>
#include <vecdet/opencv.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <opencv2/core.hpp>
#include <opencv2/core/check.hpp>
#include <opencv2/dnn/dnn.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct soft_candidate {
  measured_rectangle<int> box;
  int index;
  float score;
};

/// Whether `a` is picked before `b`.
inline bool is_better(const soft_candidate& a, const soft_candidate& b) {
  return a.score > b.score || (!(b.score > a.score) && a.index < b.index);
}

}  // namespace detail

namespace opencv {

template <class Real, class T>
std::vector<std::array<Real, 4>> corners(const std::vector<cv::Rect_<T>>& rectangles) {
  static_assert(std::is_same<Real, float>::value || std::is_same<Real, double>::value,
                "corners<float> or corners<double>");
  std::vector<std::array<Real, 4>> boxes;
  boxes.reserve(rectangles.size());
  for (std::size_t i = 0; i < rectangles.size(); ++i) {
    const std::array<double, 4> exact = detail::corners_of(rectangles[i]);
    std::array<Real, 4>& box = boxes.emplace_back();
    for (std::size_t k = 0; k < 4; ++k) {
      box[k] = static_cast<Real>(exact[k]);
      if constexpr (std::is_integral<T>::value)
        detail::check_element(detail::is_equal(static_cast<double>(box[k]), exact[k]),
                              "opencv::corners", "rectangles", static_cast<index_t>(i), exact[k],
                              "a corner that the result's type represents exactly");
    }
  }
  return boxes;
}

template <class T, class Boxes>
std::vector<cv::Rect_<T>> rectangles(const Boxes& boxes) {
  const auto view = detail::boxes_in(boxes, "opencv::rectangles", "boxes");
  std::vector<cv::Rect_<T>> rectangles;
  rectangles.reserve(static_cast<std::size_t>(view.size()));
  const auto fitting = [](index_t i, double number) {
    if constexpr (std::is_integral<T>::value)
      detail::check_element(detail::is_finite(number) && number >= std::numeric_limits<T>::min() &&
                                number <= std::numeric_limits<T>::max(),
                            "opencv::rectangles", "boxes", i, number,
                            "corners and sides that fit the rectangles' integers");
    return static_cast<T>(number);
  };
  for (index_t i = 0; i < view.size(); ++i) {
    double box[4];
    for (index_t k = 0; k < 4; ++k) {
      box[k] = static_cast<double>(view(i, k));
      if constexpr (std::is_integral<T>::value) box[k] = std::nearbyint(box[k]);
    }
    rectangles.emplace_back(fitting(i, box[0]), fitting(i, box[1]), fitting(i, box[2] - box[0]),
                            fitting(i, box[3] - box[1]));
  }
  return rectangles;
}

inline byte_image image(const cv::Mat& mat) {
  detail::check(!mat.empty(), "opencv::image", "mat", "empty",
                "an image: cv::imread() returns an empty one for a file that it cannot read");
  detail::check(mat.type() == CV_8UC3, "opencv::image", "mat.type()", cv::typeToString(mat.type()),
                "CV_8UC3, three bytes per pixel");
  detail::check(mat.dims == 2, "opencv::image", "mat.dims", mat.dims, "2");
  return {mat.data, mat.rows, mat.cols, static_cast<index_t>(mat.step[0])};
}

inline matrix_view<const float> matrix(const cv::Mat& mat) {
  detail::check(mat.dims >= 2, "opencv::matrix", "mat.dims", mat.dims, "2 or more");
  detail::check(mat.type() == CV_32FC1, "opencv::matrix", "mat.type()",
                cv::typeToString(mat.type()), "CV_32FC1, a float per element");
  const auto* const data = reinterpret_cast<const float*>(mat.data);
  if (mat.dims == 2)
    return {data, mat.rows, mat.cols, static_cast<index_t>(mat.step[0] / sizeof(float))};
  detail::check(mat.isContinuous(), "opencv::matrix", "mat.isContinuous()", "false",
                "true if there are more than two dimensions");
  const index_t columns = mat.size[mat.dims - 1];
  return {data, columns == 0 ? 0 : static_cast<index_t>(mat.total()) / columns, columns};
}

inline matrix_view<const float> matrix(const std::vector<cv::RotatedRect>& rectangles) {
  return detail::rows_of<const float>(rectangles);
}
inline matrix_view<float> matrix(std::vector<cv::RotatedRect>& rectangles) {
  return detail::rows_of<float>(rectangles);
}

inline std::vector<cv::RotatedRect> rotated_rectangles(matrix_view<const float> boxes,
                                                       angle_convention angles) {
  constexpr const char* function = "opencv::rotated_rectangles";
  const detail::angle_rule rule = detail::rule_of(function, angles);
  detail::check_rotated(function, "boxes.cols()", boxes);
  const double per_degree = rule.degrees ? 1 : 57.29577951308232;
  const double factor = rule.clockwise ? per_degree : -per_degree;
  std::vector<cv::RotatedRect> rectangles;
  rectangles.reserve(static_cast<std::size_t>(boxes.rows()));
  for (index_t i = 0; i < boxes.rows(); ++i)
    rectangles.emplace_back(cv::Point2f(boxes(i, 0), boxes(i, 1)),
                            cv::Size2f(boxes(i, 2), boxes(i, 3)),
                            // + 0: an angle of 0 does not become -0.
                            static_cast<float>(factor * static_cast<double>(boxes(i, 4)) + 0.0));
  return rectangles;
}

inline void NMSBoxes(const std::vector<cv::Rect>& bboxes, const std::vector<float>& scores,
                     float score_threshold, float nms_threshold, std::vector<int>& indices,
                     float eta, int top_k) {
  detail::check_rectangles("opencv::NMSBoxes", bboxes, scores, score_threshold, nms_threshold);
  detail::check_eta("opencv::NMSBoxes", eta);
  indices = detail::kept_boxes(bboxes, scores, score_threshold, nms_threshold, eta, top_k);
}
inline void NMSBoxes(const std::vector<cv::Rect2d>& bboxes, const std::vector<float>& scores,
                     float score_threshold, float nms_threshold, std::vector<int>& indices,
                     float eta, int top_k) {
  detail::check_rectangles("opencv::NMSBoxes", bboxes, scores, score_threshold, nms_threshold);
  detail::check_eta("opencv::NMSBoxes", eta);
  indices = detail::kept_boxes(bboxes, scores, score_threshold, nms_threshold, eta, top_k);
}

inline void NMSBoxes(const std::vector<cv::RotatedRect>& bboxes, const std::vector<float>& scores,
                     float score_threshold, float nms_threshold, std::vector<int>& indices,
                     float eta, int top_k) {
  detail::check_rectangles("opencv::NMSBoxes", bboxes, scores, score_threshold, nms_threshold);
  detail::check_eta("opencv::NMSBoxes", eta);
  indices = detail::kept_boxes(bboxes, scores, score_threshold, nms_threshold, eta, top_k);
}

inline void NMSBoxesBatched(const std::vector<cv::Rect>& bboxes, const std::vector<float>& scores,
                            const std::vector<int>& class_ids, float score_threshold,
                            float nms_threshold, std::vector<int>& indices, float eta, int top_k) {
  detail::nms_boxes_batched(bboxes, scores, class_ids, score_threshold, nms_threshold, indices, eta,
                            top_k);
}
inline void NMSBoxesBatched(const std::vector<cv::Rect2d>& bboxes, const std::vector<float>& scores,
                            const std::vector<int>& class_ids, float score_threshold,
                            float nms_threshold, std::vector<int>& indices, float eta, int top_k) {
  detail::nms_boxes_batched(bboxes, scores, class_ids, score_threshold, nms_threshold, indices, eta,
                            top_k);
}

inline void softNMSBoxes(const std::vector<cv::Rect>& bboxes, const std::vector<float>& scores,
                         std::vector<float>& updated_scores, float score_threshold,
                         float nms_threshold, std::vector<int>& indices, std::size_t top_k,
                         float sigma, cv::dnn::SoftNMSMethod method) {
  constexpr const char* function = "opencv::softNMSBoxes";
  detail::check_rectangles(function, bboxes, scores, score_threshold, nms_threshold);
  detail::check(!detail::is_nan(sigma) && sigma > 0, function, "sigma", sigma, "above 0");
  const bool is_linear = method == cv::dnn::SoftNMSMethod::SOFTNMS_LINEAR;
  detail::check(is_linear || method == cv::dnn::SoftNMSMethod::SOFTNMS_GAUSSIAN, function, "method",
                static_cast<int>(method), "SOFTNMS_LINEAR or SOFTNMS_GAUSSIAN");
  std::vector<detail::soft_candidate> rest;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    detail::check_element(detail::is_finite(scores[i]), function, "scores", static_cast<index_t>(i),
                          scores[i], "a finite number");
    if (scores[i] >= score_threshold)
      rest.push_back({detail::measured_rectangle<int>(bboxes[i]), static_cast<int>(i), scores[i]});
  }

  std::vector<int> picked;
  std::vector<float> picked_scores;
  auto best = std::min_element(rest.begin(), rest.end(), detail::is_better);
  while (!rest.empty() && (top_k == 0 || picked.size() < top_k)) {
    const detail::soft_candidate pick = *best;
    picked.push_back(pick.index);
    picked_scores.push_back(pick.score);
    *best = rest.back();
    rest.pop_back();
    // One pass reduces the scores, drops the boxes below the threshold and finds the next best.
    std::size_t left = 0, next = 0;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      detail::soft_candidate other = rest[i];
      if (!detail::are_apart(pick.box, other.box)) {
        const float overlap = detail::overlap_of(pick.box, other.box);
        if (!is_linear)
          other.score *= std::exp(detail::quotient(-detail::rounded(overlap * overlap), sigma));
        else if (overlap > nms_threshold)
          other.score *= detail::rounded(1 - overlap);
      }
      if (other.score < score_threshold) continue;
      if (left == 0 || detail::is_better(other, rest[next])) next = left;
      rest[left++] = other;
    }
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left), rest.end());
    best = rest.begin() + static_cast<std::ptrdiff_t>(next);
  }
  indices = std::move(picked);
  updated_scores = std::move(picked_scores);
}

}  // namespace opencv
}  // namespace VECDET_ABI
}  // namespace vecdet

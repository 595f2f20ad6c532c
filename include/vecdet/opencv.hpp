// SPDX-License-Identifier: Apache-2.0
// vecdet for OpenCV's types, in namespace vecdet::opencv. vecdet.hpp does not include this header,
// which needs the headers of OpenCV 4.6 or newer (modules core and dnn) and links its core.
//
// Rectangles and images become vecdet's own types:
//
//     std::vector<cv::Rect>   corners()      boxes of vecdet's functions, such as nms()
//     boxes                   rectangles()   std::vector<cv::Rect_<T>>
//     cv::Mat                 image()        the image of letterbox()
//     cv::Mat                 matrix()       the output of a network
//     std::vector<cv::RotatedRect>
//                             matrix()       rows of vecdet's functions of rotated boxes, with
//                                            angle_convention::opencv
//     rotated boxes           rotated_rectangles()   std::vector<cv::RotatedRect>
//
// NMSBoxes(), NMSBoxesBatched() and softNMSBoxes() have the arguments of the functions in cv::dnn
// and return the same indices in the same order, for any cv::Rect and cv::Rect2d: also empty or
// inverted ones, with NaN or infinity, and where the area of an integer rectangle wraps around.
//
// NMSBoxes() calls nms() with nms_params::opencv, which is sub-quadratic. In these cases it
// compares every box with every kept one, as OpenCV does:
//
// - eta is below 1 and the threshold above 0.5, because the threshold then falls with each kept
//   box;
// - a candidate is inverted or has NaN or infinity; as integers, it is wider than 2^31 - 1 - x,
//   higher than 2^31 - 1 - y or has an area of 2^30 or more; in double, it has a side below 1e-6 or
//   1e-5 times its position (0 is allowed), or a side or position above 1e100;
// - rectangles in double are not all integers, and the threshold is below 2^-23, or an overlap
//   within 2^-23 of the threshold decides about a box.
//
// NMSBoxes() of rotated rectangles computes the exact IoU, within 1e-5 (rotated_boxes.hpp).
// OpenCV's overlap is 1 for a rectangle inside another one, and may be wrong where sides or corners
// touch. The indices are OpenCV's if none of its wrong overlaps and no overlap within 1e-5 and
// OpenCV's own rounding of the threshold decides about a box. A rectangle with NaN, infinity, a
// negative side or an angle beyond 1e6 degrees in magnitude suppresses nothing and is kept.
//
// Functions throw std::invalid_argument, and change nothing, where OpenCV throws cv::Exception.
// softNMSBoxes() also throws for scores that are NaN or infinite and for sigma = 0, because
// OpenCV's result then depends on the order of its comparisons. Compiled with -ffast-math, NMSBoxes
// and softNMSBoxes throw for rectangles with NaN or infinity. All run on the calling thread.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/box_layout.hpp>
#include <vecdet/letterbox.hpp>
#include <vecdet/views.hpp>

#include <array>
#include <cstddef>
#include <vector>

#include <opencv2/core.hpp>
#include <opencv2/dnn/dnn.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Lets convert_boxes() read and write rectangles. Functions that take corners reject them at
/// compile time: use opencv::corners().
template <class T>
struct box_layout<cv::Rect_<T>> : box_numbers<T, box_format::xywh> {};

namespace opencv {

/// The corners x, y, x + width, y + height of rectangles. Each is computed in double and rounded to
/// Real, which is float or double. Throws std::invalid_argument if Real cannot represent a corner
/// of an integer rectangle: use double beyond 2^24.
template <class Real = float, class T>
std::vector<std::array<Real, 4>> corners(const std::vector<cv::Rect_<T>>& rectangles);

/// The inverse: boxes (corners) as rectangles of T. For integers, corners are rounded to the
/// nearest integer, half to even, before the sides are computed. Throws std::invalid_argument if a
/// rounded corner or side does not fit.
template <class T, class Boxes>
std::vector<cv::Rect_<T>> rectangles(const Boxes& boxes);

/// The image in `mat`, which must have two dimensions and the type CV_8UC3. A region of another
/// image is used in place. `mat` must outlive the result.
byte_image image(const cv::Mat& mat);

/// The numbers in `mat`, of type CV_32FC1. With more than two dimensions, all but the last are the
/// rows, and the elements must be consecutive. `mat` must outlive the result.
matrix_view<const float> matrix(const cv::Mat& mat);

/// The numbers of rotated rectangles in place, N x 5: centre, width, height and angle, as
/// angle_convention::opencv. `rectangles` must outlive the result.
matrix_view<const float> matrix(const std::vector<cv::RotatedRect>& rectangles);
matrix_view<float> matrix(std::vector<cv::RotatedRect>& rectangles);

/// Rotated boxes of any convention (N x 5: centre, width, height, angle), such as the results of
/// postprocess_yolo(), as rectangles. Throws std::invalid_argument if boxes do not have five
/// numbers.
std::vector<cv::RotatedRect> rotated_rectangles(matrix_view<const float> boxes,
                                                angle_convention angles);

/// As cv::dnn::NMSBoxes.
void NMSBoxes(const std::vector<cv::Rect>& bboxes, const std::vector<float>& scores,
              float score_threshold, float nms_threshold, std::vector<int>& indices, float eta = 1,
              int top_k = 0);
void NMSBoxes(const std::vector<cv::Rect2d>& bboxes, const std::vector<float>& scores,
              float score_threshold, float nms_threshold, std::vector<int>& indices, float eta = 1,
              int top_k = 0);
void NMSBoxes(const std::vector<cv::RotatedRect>& bboxes, const std::vector<float>& scores,
              float score_threshold, float nms_threshold, std::vector<int>& indices, float eta = 1,
              int top_k = 0);

/// As cv::dnn::NMSBoxesBatched, which OpenCV itself has from 4.7 on: NMSBoxes of rectangles that
/// are moved by class_ids[i] times the greatest corner + 1, in both directions. Rectangles of
/// different classes therefore suppress each other only if they have negative coordinates or no
/// area. Throws std::invalid_argument if a corner of an integer rectangle, also after the move,
/// does not fit.
void NMSBoxesBatched(const std::vector<cv::Rect>& bboxes, const std::vector<float>& scores,
                     const std::vector<int>& class_ids, float score_threshold, float nms_threshold,
                     std::vector<int>& indices, float eta = 1, int top_k = 0);
void NMSBoxesBatched(const std::vector<cv::Rect2d>& bboxes, const std::vector<float>& scores,
                     const std::vector<int>& class_ids, float score_threshold, float nms_threshold,
                     std::vector<int>& indices, float eta = 1, int top_k = 0);

/// As cv::dnn::softNMSBoxes.
void softNMSBoxes(const std::vector<cv::Rect>& bboxes, const std::vector<float>& scores,
                  std::vector<float>& updated_scores, float score_threshold, float nms_threshold,
                  std::vector<int>& indices, std::size_t top_k = 0, float sigma = 0.5f,
                  cv::dnn::SoftNMSMethod method = cv::dnn::SoftNMSMethod::SOFTNMS_GAUSSIAN);

}  // namespace opencv
}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/opencv.hpp>

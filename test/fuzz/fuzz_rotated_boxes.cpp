// SPDX-License-Identifier: Apache-2.0
// IoU of any rotated boxes, of all pairs and of corresponding boxes: equal to the reference for
// moderate boxes, in [0, 1] or NaN for all, the same on AVX2 and AVX-512. The same for ProbIoU.
// Conversions there and back. NMS by either overlap keeps what the loop over the matrix keeps.
#include "fuzz_input.hpp"
#include "support/matrix_nms.hpp"
#include <vecdet/prob_iou.hpp>
#include <vecdet/prob_iou_nms.hpp>
#include <vecdet/reference/prob_iou.hpp>
#include <vecdet/rotated_boxes.hpp>
#include <vecdet/rotated_nms.hpp>

#include <algorithm>
#include <cmath>

using namespace vecdet;

namespace {

enum class box_kind { any, moderate, aligned };

template <class T>
fuzz::tensor<T> some_rotated(fuzz::input& in, index_t count, box_kind kind) {
  const fuzz::tensor<T> boxes(5 * count);
  const auto all = static_cast<std::size_t>(boxes.size());
  for (std::size_t i = 0; i < all; ++i) {
    if (kind == box_kind::any)
      boxes[i] = in.number<T>();
    else if (i % 5 < 2)
      boxes[i] = static_cast<T>(in.tame(-30, 30));
    else if (i % 5 < 4)
      boxes[i] = static_cast<T>(in.tame(1, 40));
    else
      boxes[i] =
          static_cast<T>(kind == box_kind::aligned ? 90 * (in.byte() % 9 - 4) : in.tame(-400, 400));
  }
  // Copies, exact or nearly so.
  for (std::size_t i = 5; i + 5 <= all; i += 5)
    if (in.byte() < 64)
      for (std::size_t k = 0; k < 5; ++k)
        boxes[i + k] = k == 4 && in.flag() ? boxes[i - 1] + T(90) : boxes[i + k - 5];
  return boxes;
}

/// The IoU, or ProbIoU, and the conversions.
template <class T>
void overlaps(fuzz::input& in, bool by_prob) {
  const index_t rows = in.integer(0, 20);
  const index_t cols = in.byte() < 16 ? in.integer(250, 270) : in.integer(0, 40);
  const auto angles = static_cast<angle_convention>(in.byte() % 6);
  const empty_iou empty = by_prob || in.flag() ? empty_iou::nan : empty_iou::zero;
  const auto kind = in.one_of({box_kind::any, box_kind::moderate, box_kind::aligned});
  const auto first = some_rotated<T>(in, rows, kind), second = some_rotated<T>(in, cols, kind);
  const matrix_view<const T> a(first.data(), rows, 5), b(second.data(), cols, 5);
  const index_t pairs = std::min(rows, cols);
  const matrix_view<const T> a_of_pairs(a.data(), pairs, 5), b_of_pairs(b.data(), pairs, 5);
  const fuzz::tensor<T> out(rows * cols), each(pairs), corners(8 * rows), back(5 * rows);
  const matrix_view<T> matrix(out.data(), rows, cols);
  const vector_view<T> list(each.data(), pairs);
  fuzz::on_every_isa(
      std::string(by_prob ? "ProbIoU " : "rotated IoU ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        if (by_prob) {
          pairwise_prob_iou(a, b, angles, matrix);
          elementwise_prob_iou(a_of_pairs, b_of_pairs, angles, list, threading::sequential);
        } else {
          pairwise_rotated_iou(a, b, angles, matrix, empty);
          elementwise_rotated_iou(a_of_pairs, b_of_pairs, angles, list, empty,
                                  threading::sequential);
        }
        for (index_t i = 0; i < pairs; ++i)
          if (!fuzz::same_number(static_cast<double>(list[i]), static_cast<double>(matrix(i, i))))
            fuzz::fail("the overlap of a pair differs from the matrix");
        results.add(out);
        convert_rotated_boxes(a, rotated_format::cxcywhr, rotated_format::xyxyxyxy, angles,
                              matrix_view<T>(corners.data(), rows, 8));
        convert_rotated_boxes(matrix_view<const T>(corners.data(), rows, 8),
                              rotated_format::xyxyxyxy, rotated_format::cxcywhr, angles,
                              matrix_view<T>(back.data(), rows, 5));
        results.add(corners);
        results.add(back);
      },
      [&](const char* set, const std::vector<double>& values) {
        const double within = std::is_same<T, float>::value ? 1e-5 : 1e-12;
        std::size_t at = 0;
        for (index_t i = 0; i < rows; ++i) {
          for (index_t j = 0; j < cols; ++j, ++at) {
            const double overlap = values[at];
            const auto what = [&] {
              return std::string(set) + " pair " + std::to_string(i) + ", " + std::to_string(j);
            };
            // Doubles of ProbIoU may overflow.
            if (!std::isnan(overlap) &&
                !(by_prob ? std::is_same<T, double>::value || (overlap >= -2e-7 && overlap < 1)
                          : overlap >= 0 && overlap <= 1))
              fuzz::fail(what() + " is out of range");
            if (empty == empty_iou::zero && std::isnan(overlap)) fuzz::fail(what() + " is NaN");
            if (kind == box_kind::any) continue;
            const auto exact = by_prob ? reference::prob_iou : reference::rotated_iou;
            fuzz::expect_near(what, overlap,
                              exact(reference::load_rotated_box(a, i, angles),
                                    reference::load_rotated_box(b, j, angles)),
                              0, within);
          }
        }
        at += static_cast<std::size_t>(8 * rows);
        if (kind == box_kind::any) return;
        for (index_t i = 0; i < rows; ++i)
          for (index_t k = 0; k < 4; ++k)
            fuzz::expect_near(
                [&] { return std::string(set) + " converted box " + std::to_string(i); },
                values[at + static_cast<std::size_t>(5 * i + k)], static_cast<double>(a(i, k)), 0,
                1e-4);
      });
}

/// NMS keeps the boxes that the loop over the matrix keeps.
template <class T>
void suppressed(fuzz::input& in) {
  const index_t count = in.integer(0, 90);
  const auto kind = in.one_of({box_kind::any, box_kind::moderate, box_kind::aligned});
  const auto angles = static_cast<angle_convention>(in.byte() % 6);
  nms_params params(in.one_of({0.0, 0.125, 0.25, 0.5, 0.75, 1.0}));
  params.suppress_equal = in.flag();
  const auto boxes = some_rotated<T>(in, count, kind);
  const matrix_view<const T> view(boxes.data(), count, 5);
  const fuzz::tensor<T> scores(count), overlaps(count * count);
  for (T& score : scores) score = static_cast<T>(in.byte());
  const vector_view<const T> by(scores.data(), count);
  const matrix_view<T> matrix(overlaps.data(), count, count);
  fuzz::on_every_isa(std::string("rotated NMS ") + dtype_name<T>(), [&](fuzz::results& results) {
    const auto check = [&](const std::vector<index_t>& found, bool by_prob) {
      for (const index_t i : found) results.add(static_cast<double>(i));
      // By ProbIoU, any box of a higher score suppresses.
      if (kind != box_kind::any &&
          found != test::matrix_nms<T>(matrix, by, {}, params.iou_threshold, params.suppress_equal,
                                       by_prob))
        fuzz::fail(by_prob ? "NMS by ProbIoU differs from the loop" : "NMS differs from the loop");
    };
    pairwise_rotated_iou(view, view, angles, matrix);
    check(rotated_nms(view, by, {}, angles, params, threading::sequential), false);
    pairwise_prob_iou(view, view, angles, matrix);
    check(prob_iou_nms(view, by, {}, angles, params, threading::sequential), true);
  });
}

}  // namespace

void fuzz::target(input& in) {
  switch (in.byte() % 6) {
    case 0:
      return overlaps<float>(in, false);
    case 1:
      return overlaps<double>(in, false);
    case 2:
      return suppressed<float>(in);
    case 3:
      return overlaps<float>(in, true);
    case 4:
      return overlaps<double>(in, true);
    default:
      return suppressed<double>(in);
  }
}

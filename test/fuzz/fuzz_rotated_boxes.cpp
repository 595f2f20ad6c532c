// SPDX-License-Identifier: Apache-2.0
// IoU of any rotated boxes, of all pairs and of corresponding boxes: equal to the reference for
// moderate boxes, in [0, 1] or NaN for all, the same on AVX2 and AVX-512. The same for ProbIoU.
// Conversions there and back. NMS by either overlap keeps what the loop over the matrix keeps.
#include "fuzz_input.hpp"
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

template <class T>
void rotated(fuzz::input& in) {
  const index_t rows = in.integer(0, 20);
  const index_t cols = in.byte() < 16 ? in.integer(250, 270) : in.integer(0, 40);
  const auto angles = static_cast<angle_convention>(in.byte() % 6);
  const empty_iou empty = in.flag() ? empty_iou::nan : empty_iou::zero;
  const auto kind = in.one_of({box_kind::any, box_kind::moderate, box_kind::aligned});
  const auto first = some_rotated<T>(in, rows, kind), second = some_rotated<T>(in, cols, kind);
  const matrix_view<const T> a(first.data(), rows, 5), b(second.data(), cols, 5);
  const index_t pairs = std::min(rows, cols);
  const fuzz::tensor<T> out(rows * cols), each(pairs), corners(8 * rows), back(5 * rows);
  fuzz::on_every_isa(
      std::string("rotated IoU ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        pairwise_rotated_iou(a, b, angles, matrix_view<T>(out.data(), rows, cols), empty);
        elementwise_rotated_iou(matrix_view<const T>(a.data(), pairs, 5),
                                matrix_view<const T>(b.data(), pairs, 5), angles,
                                vector_view<T>(each.data(), pairs), empty, threading::sequential);
        for (index_t i = 0; i < pairs; ++i)
          if (!fuzz::same_number(static_cast<double>(each.data()[i]),
                                 static_cast<double>(out.data()[i * cols + i])))
            fuzz::fail("the IoU of a pair differs from the matrix");
        convert_rotated_boxes(a, rotated_format::cxcywhr, rotated_format::xyxyxyxy, angles,
                              matrix_view<T>(corners.data(), rows, 8));
        convert_rotated_boxes(matrix_view<const T>(corners.data(), rows, 8),
                              rotated_format::xyxyxyxy, rotated_format::cxcywhr, angles,
                              matrix_view<T>(back.data(), rows, 5));
        results.add(out);
        results.add(corners);
        results.add(back);
      },
      [&](const char* set, const std::vector<double>& values) {
        const double within = std::is_same<T, float>::value ? 1e-5 : 1e-12;
        std::size_t at = 0;
        for (index_t i = 0; i < rows; ++i) {
          for (index_t j = 0; j < cols; ++j, ++at) {
            const double iou = values[at];
            const auto what = [&] {
              return std::string(set) + " pair " + std::to_string(i) + ", " + std::to_string(j);
            };
            if (!std::isnan(iou) && !(iou >= 0 && iou <= 1))
              fuzz::fail(what() + " is not in [0, 1]");
            if (empty == empty_iou::zero && std::isnan(iou)) fuzz::fail(what() + " is NaN");
            if (kind == box_kind::any) continue;
            fuzz::expect_near(what, iou,
                              reference::rotated_iou(reference::load_rotated_box(a, i, angles),
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

template <class T>
void prob(fuzz::input& in) {
  const index_t rows = in.integer(0, 20);
  const index_t cols = in.byte() < 16 ? in.integer(250, 270) : in.integer(0, 40);
  const auto angles = static_cast<angle_convention>(in.byte() % 6);
  const auto kind = in.one_of({box_kind::any, box_kind::moderate, box_kind::aligned});
  const auto first = some_rotated<T>(in, rows, kind), second = some_rotated<T>(in, cols, kind);
  const matrix_view<const T> a(first.data(), rows, 5), b(second.data(), cols, 5);
  const index_t pairs = std::min(rows, cols);
  const fuzz::tensor<T> out(rows * cols), each(pairs);
  fuzz::on_every_isa(
      std::string("ProbIoU ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        pairwise_prob_iou(a, b, angles, matrix_view<T>(out.data(), rows, cols));
        elementwise_prob_iou(matrix_view<const T>(a.data(), pairs, 5),
                             matrix_view<const T>(b.data(), pairs, 5), angles,
                             vector_view<T>(each.data(), pairs), threading::sequential);
        for (index_t i = 0; i < pairs; ++i)
          if (!fuzz::same_number(static_cast<double>(each.data()[i]),
                                 static_cast<double>(out.data()[i * cols + i])))
            fuzz::fail("the ProbIoU of a pair differs from the matrix");
        results.add(out);
      },
      [&](const char* set, const std::vector<double>& values) {
        const double within = std::is_same<T, float>::value ? 1e-5 : 1e-12;
        std::size_t at = 0;
        for (index_t i = 0; i < rows; ++i) {
          for (index_t j = 0; j < cols; ++j, ++at) {
            const auto what = [&] {
              return std::string(set) + " pair " + std::to_string(i) + ", " + std::to_string(j);
            };
            if (kind == box_kind::any) {
              // Doubles may overflow.
              if (std::is_same<T, float>::value && !std::isnan(values[at]) &&
                  !(values[at] >= -2e-7 && values[at] < 1))
                fuzz::fail(what() + " is out of range");
              continue;
            }
            fuzz::expect_near(what, values[at],
                              reference::prob_iou(reference::load_rotated_box(a, i, angles),
                                                  reference::load_rotated_box(b, j, angles)),
                              0, within);
          }
        }
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
  const fuzz::tensor<T> scores(count), ious(count * count);
  for (T& score : scores) score = static_cast<T>(in.byte());
  fuzz::on_every_isa(std::string("rotated NMS ") + dtype_name<T>(), [&](fuzz::results& results) {
    pairwise_rotated_iou(view, view, angles, matrix_view<T>(ious.data(), count, count));
    std::vector<index_t> order, kept;
    for (index_t i = 0; i < count; ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](index_t a, index_t b) { return scores.data()[a] > scores.data()[b]; });
    std::vector<char> is_gone(static_cast<std::size_t>(count));
    for (const index_t i : order) {
      if (is_gone[static_cast<std::size_t>(i)] != 0) continue;
      kept.push_back(i);
      for (index_t j = 0; j < count; ++j) {
        const auto iou = static_cast<double>(ious.data()[i * count + j]);
        if (params.suppress_equal ? iou >= params.iou_threshold : iou > params.iou_threshold)
          is_gone[static_cast<std::size_t>(j)] = 1;
      }
    }
    const auto found = rotated_nms(view, vector_view<const T>(scores.data(), count), {}, angles,
                                   params, threading::sequential);
    for (const index_t i : found) results.add(static_cast<double>(i));
    if (kind != box_kind::any && found != kept) fuzz::fail("NMS differs from the loop");
    // By ProbIoU, any box of a higher score suppresses.
    pairwise_prob_iou(view, view, angles, matrix_view<T>(ious.data(), count, count));
    kept.clear();
    for (auto i = order.begin(); i != order.end(); ++i)
      if (std::none_of(order.begin(), i, [&](index_t k) {
            const auto iou = static_cast<double>(ious.data()[k * count + *i]);
            return params.suppress_equal ? iou >= params.iou_threshold : iou > params.iou_threshold;
          }))
        kept.push_back(*i);
    const auto left = prob_iou_nms(view, vector_view<const T>(scores.data(), count), {}, angles,
                                   params, threading::sequential);
    for (const index_t i : left) results.add(static_cast<double>(i));
    if (kind != box_kind::any && left != kept) fuzz::fail("NMS by ProbIoU differs from the loop");
  });
}

}  // namespace

void fuzz::target(input& in) {
  switch (in.byte() % 6) {
    case 0:
      return rotated<float>(in);
    case 1:
      return rotated<double>(in);
    case 2:
      return suppressed<float>(in);
    case 3:
      return prob<float>(in);
    case 4:
      return prob<double>(in);
    default:
      return suppressed<double>(in);
  }
}

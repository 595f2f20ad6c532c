// SPDX-License-Identifier: Apache-2.0
// Other box functions against the reference: conversions, clipping, areas, boxes that are large
// enough, and detections split into columns.
#include "support/box_tensor.hpp"
#include "support/check_boxes.hpp"
#include "support/exact_boxes.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/box_ops.hpp>
#include <vecdet/reference/box_coding.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;
using reference::box;

namespace {

/// Laid out like cv::Rect2f.
struct test_rect {
  float x, y, width, height;
};

}  // namespace

template <>
struct vecdet::box_layout<test_rect> : vecdet::box_numbers<float, vecdet::box_format::xywh> {};

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("box ops: conversions, clip, areas") {
  using reference::cxcywh_from_xyxy;
  using reference::xywh_from_xyxy;
  const auto to_corners = [](box_format f, const box& b) {
    return f == box_format::xyxy   ? b
           : f == box_format::xywh ? reference::xyxy_from_xywh(b)
                                   : reference::xyxy_from_cxcywh(b);
  };
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    for (const index_t count : {0, 1, 16, 17, 333}) {
      auto boxes = random_boxes<T>(count, 8);
      for (std::size_t i = 0; i < boxes.size(); i += 13) boxes[i] = test::to<T>(quiet_nan);
      const marked<T> b(boxes, 1);
      for (const auto from : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
        for (const auto to : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
          marked<T> out(4 * count, 3);
          convert_boxes(b.boxes(), from, to, out.boxes());
          check_boxes<T>(out, b.boxes(), b.boxes(), 2, "coordinate",
                         [&](const box& in, const box&) {
                           const box corners = to_corners(from, in);
                           const double s = 2 * largest_of(in);
                           box converted = to == from               ? in
                                           : to == box_format::xyxy ? corners
                                           : to == box_format::xywh ? xywh_from_xyxy(corners)
                                                                    : cxcywh_from_xyxy(corners);
                           if (from != box_format::xyxy && to != box_format::xyxy) {
                             converted.x2 = in.x2;  // sizes stay, even if the position is NaN
                             converted.y2 = in.y2;
                           }
                           return expected_box{converted, {s, s, s, s}};
                         });
          CHECK(out.marks_untouched());
        }
      }
      marked<T> out(4 * count, 0), areas(count, 2);
      clip_boxes(b.boxes(), image_size::height_width(300.5, 500), out.boxes());
      box_areas(b.boxes(), areas.each());
      for (index_t i = 0; i < count; ++i) {
        const box in = reference::load_box(b.boxes(), i);
        const box clipped =
            reference::clip_box(in, 500, static_cast<double>(to<compute_type<T>>(300.5)));
        for (int k = 0; k < 4; ++k)
          CHECK(ulp_distance(out[4 * i + k], static_cast<double>(to<T>(numbers(
                                                 clipped)[static_cast<std::size_t>(k)]))) == 0);
        CHECK(is_close(areas[i], reference::box_area(in), 2));
      }
      CHECK(areas.marks_untouched());
    }
  };
  for_each_isa([&](isa) {
    check(0.0f);
    check(bfloat16(0.0f));
    check(0.0);
    const std::vector<float> special{-5, NAN, 900, INFINITY};
    std::vector<float> out(4);
    clip_boxes(boxes_view<const float>(special), image_size::height_width(600, 800), out);
    CHECK(out[0] == 0);
    CHECK(std::isnan(out[1]));
    CHECK(out[2] == 800);
    CHECK(out[3] == 600);
  });
}

TEST_CASE("box ops: boxes that are large enough") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    std::vector<T> boxes = random_boxes<T>(20000, 9, 40, 0.5);  // some chunks
    const std::vector<T> special = special_boxes_as<T>();
    boxes.insert(boxes.end(), special.begin(), special.end());
    const boxes_view<const T> view(boxes);
    std::vector<std::uint8_t> mask(boxes.size() / 4), expected_mask(mask.size());
    std::vector<index_t> indices(mask.size());
    for (const double min_size : {0.0, 0.1, 7.5, 15.0, 1e9}) {
      std::vector<index_t> expected;
      for (index_t i = 0; i < view.size(); ++i) {
        const bool large = reference::is_large_enough(view, i, min_size);
        expected_mask[static_cast<std::size_t>(i)] = large;
        if (large) expected.push_back(i);
      }
      large_box_mask(view, min_size, mask);
      CHECK(mask == expected_mask);
      const index_t count = large_boxes(view, min_size, indices);
      CHECK(std::vector<index_t>(indices.begin(), indices.begin() + count) == expected);
    }
  };
  for_each_isa([&](isa) {
    check(0.0f);
    check(bfloat16(0.0f));
    check(0.0);
  });
}

TEST_CASE_TEMPLATE("split_detections: columns of any stride", T, float, bfloat16, double) {
  for (const index_t rows : {0, 1, 5, 10000}) {
    for (const index_t cols : {5, 6, 9}) {
      for (const index_t stride : {cols, cols + 3}) {
        std::vector<T> memory(static_cast<std::size_t>(rows * stride + 1), to<T>(-1));
        const matrix_view<T> detections(memory.data(), rows, cols, stride);
        for (index_t i = 0; i < rows; ++i)
          for (index_t k = 0; k < cols; ++k)
            detections(i, k) = to<T>(static_cast<double>((7 * i + k * k) % 251 - 20));
        marked<T> boxes(4 * rows), scores(rows);
        const auto is_split = [&] {
          for (index_t i = 0; i < rows; ++i) {
            for (index_t k = 0; k < 4; ++k)
              if (boxes[4 * i + k] != detections(i, k)) return false;
            if (scores[i] != detections(i, 4)) return false;
          }
          return boxes.marks_untouched() && scores.marks_untouched();
        };
        split_detections(detections, boxes.boxes(), scores.each());
        CHECK(is_split());
        if (cols < 6) continue;
        std::vector<index_t> classes(static_cast<std::size_t>(rows), -7);
        boxes = marked<T>(4 * rows);
        scores = marked<T>(rows);
        split_detections(detections, boxes.boxes(), scores.each(), classes);
        CHECK(is_split());
        for (index_t i = 0; i < rows; ++i)
          CHECK(classes[static_cast<std::size_t>(i)] == (7 * i + 25) % 251 - 20);
      }
    }
  }
}

TEST_CASE_TEMPLATE("join_detections: the inverse of split_detections", T, float, bfloat16, double) {
  for (const index_t rows : {0, 1, 5, 10000}) {
    const auto boxes = random_boxes<T>(rows, 3);
    std::vector<T> scores;
    std::vector<int> classes;
    for (index_t i = 0; i < rows; ++i) {
      scores.push_back(to<T>(static_cast<double>(i % 7) / 8));
      classes.push_back(static_cast<int>(i % 256));
    }
    for (const index_t stride : {6, 9}) {
      std::vector<T> memory(static_cast<std::size_t>(rows * stride + 1), to<T>(-1));
      const matrix_view<T> joined(memory.data(), rows, 6, stride);
      join_detections(boxes, scores, classes, joined);
      std::vector<T> boxes_again(boxes.size()), scores_again(scores.size());
      std::vector<index_t> classes_again(classes.size());
      split_detections(joined, boxes_again, scores_again, classes_again);
      CHECK(boxes_again == boxes);
      CHECK(scores_again == scores);
      CHECK(std::equal(classes.begin(), classes.end(), classes_again.begin()));
      CHECK(memory.back() == to<T>(-1));
      std::fill(memory.begin(), memory.end(), to<T>(-1));
      join_detections(boxes, scores, joined);
      for (index_t i = 0; i < rows; ++i) REQUIRE(joined(i, 5) == to<T>(-1));
      split_detections(joined, boxes_again, scores_again);
      CHECK(boxes_again == boxes);
    }
    std::vector<T> arrays(boxes.size()), back(boxes.size());
    const boxes_soa_view<T> soa(arrays.data(), arrays.data() + rows, arrays.data() + 2 * rows,
                                arrays.data() + 3 * rows, rows);
    split_boxes(boxes, soa);
    for (index_t i = 0; i < rows; ++i)
      for (index_t k = 0; k < 4; ++k)
        REQUIRE(soa(i, k) == boxes[static_cast<std::size_t>(4 * i + k)]);
    join_boxes(soa, back);
    CHECK(back == boxes);
  }
}

TEST_CASE(
    "join_detections, split_boxes: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> boxes(12, 1), scores(3, 1);
  std::vector<float> out(18, -3);
  std::vector<index_t> classes{1, 2, 3};
  const auto fails = refusals(out);
  const matrix_view<float> rows(out.data(), 3, 6), four(out.data(), 3, 4), five(out.data(), 3, 5);
  fails("join_detections: detections.cols() is 4, expected 5 or more",
        [&] { join_detections(boxes, scores, four); });
  fails("detections.cols() is 5, expected 6 or more",
        [&] { join_detections(boxes, scores, classes, five); });
  fails("scores.size() is 12, expected 3, the rows of detections",
        [&] { join_detections(boxes, boxes, rows); });
  classes[2] = (1 << 24) + 1;
  fails("classes[2] is 16777217, expected an integer from -16777216 to 16777216",
        [&] { join_detections(boxes, scores, classes, rows); });
  float* const x = out.data();
  fails("split_boxes: out.size() is 2, expected 3, the number of boxes", [&] {
    split_boxes(boxes, {x, x + 2, x + 4, x + 6, 2});
  });
  fails("split_boxes: coordinate 3 of out is in the memory of coordinate 1, expected separate",
        [&] {
          split_boxes(boxes, {x, x + 3, x + 9, x + 5, 3});
        });
}

TEST_CASE("box ops: structs with x, y, width and height become corners") {
  const std::vector<test_rect> rects{{1, 2, 3, 4}, {10, 20, 30, 40}};
  std::vector<float> corners(8);
  convert_boxes(rects, box_format::xyxy, corners);
  CHECK(corners == std::vector<float>{1, 2, 4, 6, 10, 20, 40, 60});
  convert_boxes(rects, box_format::xywh, box_format::xyxy, corners);
  CHECK(corners == std::vector<float>{1, 2, 4, 6, 10, 20, 40, 60});
}

TEST_CASE("split_detections: bad arguments throw errors that name them") {
  std::vector<float> memory(18, 1), boxes(12, -3), scores(3, -3);
  std::vector<index_t> classes(3, -3);
  const auto fails = refusals(boxes, scores, classes);
  const matrix_view<const float> rows(memory.data(), 3, 6);
  const matrix_view<const float> four(memory.data(), 3, 4), five(memory.data(), 3, 5, 6);
  const vector_view<float> two(scores.data(), 2);
  fails("vecdet::split_detections: detections.cols() is 4, expected 5 or more",
        [&] { split_detections(four, boxes, scores); });
  fails("detections.cols() is 5, expected 6 or more",
        [&] { split_detections(five, boxes, scores, classes); });
  fails("scores.size() is 2", [&] { split_detections(rows, boxes, two); });
  fails("boxes.size() is 2",
        [&] { split_detections(rows, boxes_view<float>(boxes.data(), 2), scores); });
  fails("classes.size() is 2",
        [&] { split_detections(rows, boxes, scores, vector_view<index_t>(classes.data(), 2)); });
  for (const double id : {1.5, infinity, quiet_nan, 1e30}) {
    memory[17] = static_cast<float>(id);
    fails("split_detections: classes[2] is ",
          [&] { split_detections(rows, boxes, scores, classes); });
  }
}

TEST_CASE("box ops: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> four(16, 1), three(12, 1);
  marked<float> out(16, 0);
  std::vector<std::uint8_t> mask(4, 7);
  const boxes_view<const float> b(four);
  const auto fails = refusals(out, mask);
  fails("clip_boxes: image.width is inf",
        [&] { clip_boxes(b, image_size::height_width(5, infinity), out.boxes()); });
  fails("clip_boxes: image.height is 1.5e+39, expected a finite float, 0 or more",
        [&] { clip_boxes(b, image_size::height_width(1.5e39, 5), out.boxes()); });
  fails("convert_boxes: out.size() is 4", [&] {
    convert_boxes(boxes_view<const float>(three), box_format::xyxy, box_format::xywh, out.boxes());
  });
  fails("box_areas: areas.size() is 16", [&] { box_areas(b, out.each()); });
  fails("large_box_mask: min_size is -1", [&] { large_box_mask(b, -1, mask); });
  fails("large_box_mask: mask.size() is 4",
        [&] { large_box_mask(boxes_view<const float>(three), 1, mask); });
}

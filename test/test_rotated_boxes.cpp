// SPDX-License-Identifier: Apache-2.0
// Rotated boxes: exact IoU against golden vectors and the reference, on every instruction set, with
// equal, touching, thin, far and degenerate boxes; conversions and areas.
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/rotated_rows.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/box_ops.hpp>
#include <vecdet/iou.hpp>
#include <vecdet/reference/rotated_boxes.hpp>
#include <vecdet/rotated_boxes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto torchvision = angle_convention::torchvision;
constexpr auto ultralytics = angle_convention::ultralytics;
constexpr double pi = 3.14159265358979323846;
constexpr angle_convention all_conventions[] = {
    angle_convention::torchvision, angle_convention::detectron2,
    angle_convention::opencv,      angle_convention::ultralytics,
    angle_convention::mmcv,        angle_convention::mmcv_counter_clockwise};

/// The IoU of all pairs; elementwise_rotated_iou() must give the same bits for each pair.
template <class T>
std::vector<T> all_pairs(const std::vector<T>& a, const std::vector<T>& b, angle_convention angles,
                         empty_iou empty = empty_iou::nan) {
  const auto first = rows_of(a), second = rows_of(b);
  std::vector<T> out(static_cast<std::size_t>(first.rows() * second.rows())), each(out.size());
  pairwise_rotated_iou(first, second, angles,
                       matrix_view<T>(out.data(), first.rows(), second.rows()), empty);
  const paired_boxes<T> pairs(a, b);
  elementwise_rotated_iou(rows_of(pairs.first), rows_of(pairs.second), angles, vector_view<T>(each),
                          empty);
  CHECK(same_bits(out, each));
  return out;
}

/// The one IoU of two boxes.
template <class T>
T iou_of(const std::vector<T>& a, const std::vector<T>& b, angle_convention angles,
         empty_iou empty = empty_iou::nan) {
  return all_pairs(a, b, angles, empty)[0];
}

template <class T>
std::vector<double> exact_pairs(const std::vector<T>& a, const std::vector<T>& b,
                                angle_convention angles) {
  return exact_overlaps(a, b, angles, reference::rotated_iou);
}

}  // namespace

TEST_CASE_TEMPLATE("rotated boxes: golden vectors", T, float, double) {
  if (!has_data("golden_rotated/rotated_far_iou.npy", "golden vectors of rotated boxes")) return;
  for_each_isa([](isa) {
    for (const std::string set : {"random", "thin", "far", "touching"}) {
      CAPTURE(set);
      const auto name = "rotated_" + set;
      const auto a = golden_rotated<T, float>(name + "_a");
      const auto b = golden_rotated<T, float>(name + "_b");
      const auto exact = golden_rotated<double>(name + "_iou");
      check_near(all_pairs(a, b, torchvision), exact, rotated_bound<T>);
      check_near(all_pairs(a, b, angle_convention::detectron2), exact, rotated_bound<T>);
      // The angles in radians are rounded to float, which moves corners by 1e-5.
      const auto c = golden_rotated<T, float>(name + "_radians_a");
      const auto d = golden_rotated<T, float>(name + "_radians_b");
      check_near(all_pairs(c, d, ultralytics), exact, 1e-5);
      const index_t count = rows_of(a).rows();
      std::vector<T> corners(static_cast<std::size_t>(8 * count));
      convert_rotated_boxes(rows_of(a), rotated_format::cxcywhr, rotated_format::xyxyxyxy,
                            torchvision, matrix_view<T>(corners.data(), count, 8));
      const double within = std::is_same<T, double>::value ? 1e-11 : set == "far" ? 6e-4 : 2e-5;
      check_near(corners, golden_rotated<double>(name + "_corners"), within);
    }
  });
}

TEST_CASE_TEMPLATE("rotated boxes: IoU of random boxes", T, float, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const angle_convention angles : all_conventions) {
      const double turn = static_cast<int>(angles) < 3 ? 400 : 7;
      for (const index_t count : {0, 1, 7, 15, 16, 17, 33, 300}) {
        ++seed;
        const index_t others = count == 300 ? 5 : count;
        const auto a = some_boxes<T>(others, seed, 60, 3, 60, 5, turn);
        const auto b = some_boxes<T>(count, seed + 100, 60, 3, 60, 5, turn);
        check_near(all_pairs(a, b, angles), exact_pairs(a, b, angles), rotated_bound<T>);
        check_near(all_pairs(b, a, angles), exact_pairs(b, a, angles), rotated_bound<T>);
      }
    }
  });
}

TEST_CASE_TEMPLATE("rotated boxes: IoU of nearly equal, thin and far boxes keeps its bound", T,
                   float, double) {
  for_each_isa([](isa) {
    random_generator generator(5);
    for (const angle_convention angles : {torchvision, ultralytics}) {
      const double turn = angles == torchvision ? 180 : pi;
      for (int round = 0; round < 40; ++round) {
        CAPTURE(round);
        auto a = some_boxes<T>(16, static_cast<std::uint64_t>(round) + 1, 30, 40, 400, 40, turn);
        auto b = a;
        // Others are shifted, turned or scaled a little, by a quarter or half a turn, or moved
        // along or across their sides; all lie far away in some rounds.
        const double offset = round % 4 == 3 ? 10000 : 0;
        for (std::size_t i = 0; i < a.size(); i += 5) {
          const double tiny = std::pow(10, generator.uniform(-9, 0));
          const double angle =
              (angles == torchvision ? pi / 180 : 1) * static_cast<double>(b[i + 4]);
          const double c = std::cos(angle), s = std::sin(angle) * (angles == torchvision ? -1 : 1);
          const double w = static_cast<double>(b[i + 2]), h = static_cast<double>(b[i + 3]);
          switch (static_cast<int>(i / 5 + static_cast<std::size_t>(round)) % 8) {
            case 0:
              b[i] += static_cast<T>(tiny);
              break;
            case 1:
              b[i + 4] += static_cast<T>(tiny * turn / 180);
              break;
            case 2:
              std::swap(b[i + 2], b[i + 3]);
              b[i + 4] += static_cast<T>(turn / 2 + (round % 2) * tiny);
              break;
            case 3:
              b[i + 4] += static_cast<T>(turn);
              break;
            case 4:
              b[i + 2] *= static_cast<T>(1 + tiny);
              break;
            case 5:  // shares an edge
              b[i] += static_cast<T>(w * c), b[i + 1] += static_cast<T>(w * s);
              break;
            case 6:  // shares a corner
              b[i] += static_cast<T>(w * c - h * s), b[i + 1] += static_cast<T>(w * s + h * c);
              break;
            default:  // crosses
              b[i + 4] += static_cast<T>(turn / 2);
              break;
          }
        }
        for (std::size_t i = 0; i < a.size(); i += 5)
          for (std::size_t k = 0; k < 2; ++k)
            a[i + k] += static_cast<T>(offset), b[i + k] += static_cast<T>(offset);
        check_near(all_pairs(a, b, angles), exact_pairs(a, b, angles), rotated_bound<T>);
      }
    }
  });
}

TEST_CASE_TEMPLATE("rotated boxes: values that other libraries got wrong", T, float, double) {
  for_each_isa([](isa) {
    const auto near = [](const std::vector<T>& a, const std::vector<T>& b, double exact) {
      CHECK(std::abs(static_cast<double>(iou_of(a, b, torchvision)) - exact) <= rotated_bound<T>);
    };
    // Equal boxes have exactly 1, also by a half and a full turn.
    for (const angle_convention angles : all_conventions) {
      for (index_t i = 0; i < 50; ++i) {
        auto box = some_boxes<T>(1, static_cast<std::uint64_t>(i), 1e4, 1, 100, 40, 3);
        CHECK(iou_of(box, box, angles) == 1);
      }
    }
    near({60, 60, 40, 20, 37}, {60, 60, 40, 20, 217}, 1);
    near({60, 60, 40, 20, 37}, {60, 60, 20, 40, 127}, 1);
    near({60, 60, 40, 20, 37}, {60, 60, 40, 20, 397}, 1);
    // Parallel thin boxes that do not touch, by a tenth of a pixel.
    near({0, 0, 400, 10, 30},
         {static_cast<T>(10.1 * 0.5), static_cast<T>(10.1 * 0.8660254037844386), 400, 10, 30}, 0);
    near({0, 0, 2, 2, 0}, {2, 0, 2, 2, 0}, 0);
    near({0, 0, 2, 2, 0}, {0, 0, 2, 2, 45}, 1 / std::sqrt(2.0));
    near({0, 0, 2, 2, 0}, {0, 0, 0, 5, 45}, 0);
    // The unit and the turn matter.
    const std::vector<T> a{0, 0, 40, 4, 30}, b{10, 5, 40, 4, 30};
    CHECK(iou_of(a, b, angle_convention::opencv) > 0.4);
    CHECK(iou_of(a, b, torchvision) == 0);
  });
}

TEST_CASE_TEMPLATE("rotated boxes: multiples of 90 degrees give pairwise_iou's bits", T, float,
                   double) {
  for_each_isa([](isa) {
    for (const double offset : {0.0, 9000.0}) {
      random_generator generator(3);
      std::vector<T> boxes, upright;
      for (int i = 0; i < 70; ++i) {
        const auto x = static_cast<T>(offset + generator.uniform(0, 50));
        const auto y = static_cast<T>(offset + generator.uniform(0, 50));
        const auto w = static_cast<T>(generator.uniform(1, 40));
        const auto h = static_cast<T>(i % 9 == 0 ? 0 : generator.uniform(1, 40));
        const bool turned = generator.chance(0.5);
        const double turn = 180 * (static_cast<int>(generator.uniform(0, 9)) - 4) + 90 * turned;
        boxes.insert(boxes.end(), {x, y, w, h, static_cast<T>(turn)});
        upright.insert(upright.end(), {x, y, turned ? h : w, turned ? w : h});
      }
      convert_boxes(boxes_view<const T>(upright), box_format::cxcywh, box_format::xyxy, upright);
      for (const empty_iou rule : {empty_iou::nan, empty_iou::zero}) {
        std::vector<T> expected(70 * 70);
        pairwise_iou(boxes_view<const T>(upright), upright, matrix_view<T>(expected.data(), 70, 70),
                     {iou_kind::iou, rule});
        CHECK(same_bits(all_pairs(boxes, boxes, torchvision, rule), expected));
        CHECK(same_bits(all_pairs(boxes, boxes, angle_convention::opencv, rule), expected));
      }
    }
  });
}

TEST_CASE_TEMPLATE("rotated boxes: no area, huge, tiny, NaN", T, float, double) {
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinite = std::numeric_limits<T>::infinity();
  for_each_isa([&](isa) {
    const std::vector<T> plain{0, 0, 10, 10, 30}, line{0, 0, 10, 0, 30}, point{3, 3, 0, 0, 10};
    const std::vector<T> far{1000, 0, 0, 5, 12};
    CHECK(iou_of(plain, line, torchvision) == 0);
    CHECK(iou_of(point, plain, torchvision) == 0);
    for (const auto& flat : {line, point, far}) {
      CHECK(std::isnan(iou_of(line, flat, torchvision)));
      CHECK(iou_of(line, flat, torchvision, empty_iou::zero) == 0);
    }
    for (std::size_t k = 0; k < 5; ++k) {
      for (const T value : {nan, infinite, -infinite, T(-1), T(2e6)}) {
        if ((value == T(-1) && k != 2 && k != 3) || (value == T(2e6) && k != 4)) continue;
        for (const auto& other : {plain, line, far}) {
          std::vector<T> bad = plain;
          bad[k] = value;
          CHECK(std::isnan(iou_of(bad, other, torchvision)));
          CHECK(std::isnan(iou_of(other, bad, torchvision)));
          CHECK(iou_of(other, bad, torchvision, empty_iou::zero) == 0);
        }
      }
    }
    const double exact =
        static_cast<double>(iou_of<double>({0, 0, 10, 4, 30}, {1, 1, 8, 5, 80}, torchvision));
    for (const double scale : {1e-30, 1e-15, 1e15, 1e20, 3e37}) {
      CAPTURE(scale);
      std::vector<T> a{0, 0, 10, 4, 30}, b{1, 1, 8, 5, 80};
      for (std::size_t k = 0; k < 4; ++k)
        a[k] = static_cast<T>(static_cast<double>(a[k]) * scale / 10),
        b[k] = static_cast<T>(static_cast<double>(b[k]) * scale / 10);
      CHECK(std::abs(static_cast<double>(iou_of(a, b, torchvision)) - exact) <= 1e-5);
    }
  });
}

TEST_CASE_TEMPLATE("rotated boxes: strides and gaps", T, float, double) {
  for_each_isa([](isa) {
    check_gaps<T>([](auto a, auto b, auto out) { pairwise_rotated_iou(a, b, torchvision, out); },
                  [](auto a, auto b) { return all_pairs(a, b, torchvision); });
  });
}

TEST_CASE_TEMPLATE("rotated boxes: conversions", T, float, double) {
  constexpr auto centre = rotated_format::cxcywhr, corner = rotated_format::xywhr;
  constexpr auto corners = rotated_format::xyxyxyxy, upright = rotated_format::xyxy;
  const double within = std::is_same<T, float>::value ? 3e-5 : 1e-12;
  const auto convert = [](const std::vector<T>& from, rotated_format format, rotated_format to,
                          angle_convention angles) {
    const auto numbers = [](rotated_format f) { return f == corners ? 8 : f == upright ? 4 : 5; };
    const auto in = rows_of(from, numbers(format));
    std::vector<T> out(static_cast<std::size_t>(in.rows() * numbers(to)));
    convert_rotated_boxes(in, format, to, angles,
                          matrix_view<T>(out.data(), in.rows(), numbers(to)));
    return out;
  };
  for_each_isa([&](isa) {
    // torchvision's formulas, with the angle counter-clockwise.
    const std::vector<T> box{50, 40, 20, 10, 30};
    const double c = std::cos(pi / 6), s = 0.5;
    const std::vector<double> first{50 - 10 * c - 5 * s, 40 - 5 * c + 10 * s};
    const auto as_corner = convert(box, centre, corner, torchvision);
    check_near(as_corner, {first[0], first[1], 20, 10, 30}, within);
    check_near(convert(as_corner, corner, centre, torchvision), {50, 40, 20, 10, 30}, within);
    check_near(
        convert(as_corner, corner, corners, torchvision),
        {first[0], first[1], first[0] + 20 * c, first[1] - 20 * s, first[0] + 20 * c + 10 * s,
         first[1] - 20 * s + 10 * c, first[0] + 10 * s, first[1] + 10 * c},
        within);
    check_near(convert(box, centre, upright, torchvision),
               {50 - 10 * c - 5 * s, 40 - 10 * s - 5 * c, 50 + 10 * c + 5 * s, 40 + 10 * s + 5 * c},
               within);
    check_near(convert({1, 2, 11, 32}, upright, centre, torchvision), {6, 17, 10, 30, 0}, 0);
    check_near(convert({1, 2, 11, 32}, upright, corners, ultralytics), {1, 2, 11, 2, 11, 32, 1, 32},
               0);
    CHECK(convert(box, corner, centre, ultralytics) == box);  // one and the same there
    for (index_t count : {1, 15, 17, 40}) {
      for (const angle_convention angles : all_conventions) {
        const bool degrees = static_cast<int>(angles) < 3;
        const auto boxes = some_boxes<T>(count, 9, 100, 1, 50, 20, degrees ? 179 : 3.1);
        auto back = convert(convert(boxes, centre, corners, angles), corners, centre, angles);
        // The error of an angle grows with the ratio of position and width.
        double worst = 0;
        for (std::size_t i = 0; i < boxes.size(); ++i) {
          const double scale = i % 5 == 4 ? (degrees ? 180 / pi : 1) : 1;
          worst = std::max(worst, std::abs(static_cast<double>(back[i] - boxes[i])) / scale);
        }
        CHECK(worst <= (std::is_same<T, float>::value ? 2e-4 : 1e-12));
        std::vector<double> exact;
        for (index_t i = 0; i < count; ++i)
          for (const auto& p :
               reference::corners_of(reference::load_rotated_box(rows_of(boxes), i, angles)))
            exact.push_back(p.x), exact.push_back(p.y);
        check_near(convert(boxes, centre, corners, angles), exact, within);
      }
    }
    // All directions of the corners' first side.
    for (int turn = -175; turn <= 180; turn += 5) {
      const std::vector<T> turned{0, 0, 8, 2, static_cast<T>(turn)};
      const auto back =
          convert(convert(turned, centre, corners, torchvision), corners, centre, torchvision);
      CHECK(std::abs(static_cast<double>(back[4]) - turn) <= 1e-4);
    }
  });
}

TEST_CASE("rotated boxes: areas") {
  const std::vector<float> boxes{0, 0, 3, 4, 30, 0, 0, 0.1f, 0.7f, 1};
  std::vector<float> areas(2);
  rotated_box_areas(rows_of(boxes), vector_view<float>(areas));
  CHECK(areas == std::vector<float>{12, 0.1f * 0.7f});
}

TEST_CASE("rotated boxes: bad arguments throw errors that name them and write nothing") {
  std::vector<float> out(12, 5);
  const auto fails = refusals(out);
  const std::vector<float> boxes(20, 1);
  const auto view = rows_of(boxes), narrow = rows_of(boxes, 4);
  const auto result = [&](index_t rows, index_t cols) {
    return matrix_view<float>(out.data(), rows, cols);
  };
  fails("pairwise_rotated_iou: a.cols() is 4, expected 5, the numbers of a rotated box",
        [&] { pairwise_rotated_iou(narrow, view, torchvision, result(5, 4)); });
  fails("pairwise_rotated_iou: b.cols() is 4",
        [&] { pairwise_rotated_iou(view, narrow, torchvision, result(4, 5)); });
  fails("pairwise_rotated_iou: out.rows() is 3, expected 4, the number of boxes a",
        [&] { pairwise_rotated_iou(view, view, torchvision, result(3, 4)); });
  fails("pairwise_rotated_iou: out.cols() is 3",
        [&] { pairwise_rotated_iou(view, view, torchvision, result(4, 3)); });
  fails("pairwise_rotated_iou: angles is 6",
        [&] { pairwise_rotated_iou(view, view, static_cast<angle_convention>(6), result(4, 4)); });
  fails("elementwise_rotated_iou: b.rows() is 3", [&] {
    elementwise_rotated_iou(view, matrix_view<const float>(boxes.data(), 3, 5), torchvision,
                            vector_view<float>(out.data(), 4));
  });
  fails("elementwise_rotated_iou: out.size() is 12",
        [&] { elementwise_rotated_iou(view, view, torchvision, vector_view<float>(out)); });
  constexpr auto centre = rotated_format::cxcywhr, corners = rotated_format::xyxyxyxy;
  fails("convert_rotated_boxes: boxes.cols() is 4, expected 5",
        [&] { convert_rotated_boxes(narrow, centre, corners, torchvision, result(5, 8)); });
  fails("convert_rotated_boxes: out.cols() is 5, expected 8",
        [&] { convert_rotated_boxes(rows_of(boxes), centre, corners, torchvision, result(4, 5)); });
  for (const auto angles : {angle_convention::opencv, angle_convention::mmcv})
    fails(
        "convert_rotated_boxes: from is xywhr, expected cxcywhr, xyxyxyxy or xyxy: xywhr begins",
        [&] { convert_rotated_boxes(view, rotated_format::xywhr, centre, angles, result(4, 5)); });
  fails("rotated_box_areas: areas.size() is 12, expected 4",
        [&] { rotated_box_areas(view, vector_view<float>(out)); });
  CHECK_THROWS_WITH_AS(rotated_box_areas(matrix_view<const float>(out.data(), 1, 5),
                                         vector_view<float>(out.data(), 1)),
                       doctest::Contains("areas is in the memory of boxes"), std::invalid_argument);
}

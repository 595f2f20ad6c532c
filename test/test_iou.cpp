// SPDX-License-Identifier: Apache-2.0
// The IoU kernels against the reference, bit by bit against torchvision, and the 0/0 rules: every
// instruction set, element type and kind, at lengths around a group and a tile of boxes.
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/placed_memory.hpp"
#include "support/refusals.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/iou.hpp>
#include <vecdet/reference/iou.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

const iou_kind all_kinds[] = {iou_kind::iou, iou_kind::giou, iou_kind::diou, iou_kind::ciou};

reference::iou_kind as_reference(iou_kind kind) {
  return static_cast<reference::iou_kind>(static_cast<int>(kind));
}
reference::empty_union as_reference(empty_iou rule) {
  return rule == empty_iou::nan ? reference::empty_union::nan : reference::empty_union::zero;
}

bool same_or_nan(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

/// Within 1e-6; bit-identical for IoU in float.
template <class T>
bool is_right(T actual, const reference::box_of<double>& a, const reference::box_of<double>& b,
              const iou_params& p) {
  if constexpr (!std::is_same<T, double>::value) {
    if (p.kind == iou_kind::iou) {
      const auto narrow = [](const reference::box_of<double>& x) -> reference::box_of<float> {
        return {static_cast<float>(x.x1), static_cast<float>(x.y1), static_cast<float>(x.x2),
                static_cast<float>(x.y2)};
      };
      const float exact = reference::iou(narrow(a), narrow(b), as_reference(p.empty));
      return same_or_nan(static_cast<float>(actual), static_cast<float>(to<T>(exact)));
    }
  }
  const double exact = reference::iou_of_kind(as_reference(p.kind), a, b, as_reference(p.empty));
  const double value = static_cast<double>(actual);
  const double within = std::is_same<T, bfloat16>::value ? 1e-2
                        : std::is_same<T, float>::value  ? 1e-6
                                                         : 1e-12;
  return (std::isnan(exact) && std::isnan(value)) || std::abs(value - exact) <= within;
}

/// Boxes of `a_boxes` with those of the same index.
template <class T>
void check_each(const std::vector<T>& a_boxes, const std::vector<T>& b_boxes, const iou_params& p) {
  const marked<T> a(a_boxes, 1), b(b_boxes, 2);
  const index_t rows = a.size() / 4;
  marked<T> each(rows, 1);
  elementwise_iou(a.boxes(), b.boxes(), each.each(), p);
  for (index_t i = 0; i < rows; ++i) {
    if (!is_right(each[i], reference::load_box(a.boxes(), i), reference::load_box(b.boxes(), i), p))
      FAIL_CHECK("box " << i << " is " << static_cast<double>(each[i]));
  }
  CHECK(each.marks_untouched());
  marked<T> a_planes(as_planes(a_boxes), 1), b_planes(as_planes(b_boxes), 2), again(rows, 1);
  elementwise_iou(a_planes.planes(), b_planes.planes(), again.each(), p);
  CHECK(same_bits(each.data(), again.data(), static_cast<std::size_t>(rows)));
  CHECK(again.marks_untouched());
}

template <class T>
void check_iou(const std::vector<T>& a_boxes, const std::vector<T>& b_boxes, const iou_params& p) {
  const marked<T> a(a_boxes, 1), b(b_boxes, 2);
  const index_t rows = a.size() / 4, cols = b.size() / 4;
  INFO("boxes ", rows, " x ", cols, " kind ", static_cast<int>(p.kind), " ",
       std::string(dtype_name<T>()));
  marked<T> out(rows * (cols + 3), 1);
  pairwise_iou(a.boxes(), b.boxes(), matrix_view<T>(out.data(), rows, cols, cols + 3), p);
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < cols + 3; ++j) {
      if (j >= cols) {
        CHECK(static_cast<float>(out[i * (cols + 3) + j]) == static_cast<float>(to<T>(-12345)));
      } else if (!is_right(out[i * (cols + 3) + j], reference::load_box(a.boxes(), i),
                           reference::load_box(b.boxes(), j), p)) {
        FAIL_CHECK("pair " << i << ", " << j << " is "
                           << static_cast<double>(out[i * (cols + 3) + j]));
        return;
      }
    }
  }
  CHECK(out.marks_untouched());
  if (rows == cols) check_each(a_boxes, b_boxes, p);
}

}  // namespace

TEST_CASE_TEMPLATE("IoU", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const iou_kind kind : all_kinds) {
      for (const empty_iou rule : {empty_iou::nan, empty_iou::zero}) {
        const iou_params p{kind, rule};
        for (const index_t count : {0, 1, 7, 8, 15, 16, 17, 31, 33, 50}) {
          ++seed;
          check_iou(random_boxes<T>(count, seed, 100), random_boxes<T>(count, seed + 99, 100), p);
        }
        check_iou(random_boxes<T>(3, seed, 100), random_boxes<T>(1100, seed + 99, 100), p);
        check_iou(random_boxes<T>(1100, seed, 100, 4), random_boxes<T>(5, seed + 99, 100, 4), p);
      }
    }
  });
}

TEST_CASE("IoU: golden vectors") {
  // test_reference_iou compares the reference with torchvision's floats.
  if (!has_data("golden/iou.npy", "IoU of golden vectors")) return;
  const auto a = golden<float>("iou_a").values, b = golden<float>("iou_b").values;
  // The same pairs also one by one.
  std::vector<float> first, second;
  for (std::size_t i = 0; i < a.size(); i += 4) {
    for (std::size_t j = 0; j < b.size(); j += 4) {
      first.insert(first.end(), &a[i], &a[i] + 4);
      second.insert(second.end(), &b[j], &b[j] + 4);
    }
  }
  for_each_isa([&](isa) {
    check_iou(a, b, {});
    check_each(first, second, {});
  });
}

TEST_CASE("IoU: special boxes") {
  for_each_isa([](isa) {
    const auto boxes = special_boxes_as<float>();
    std::vector<float> out(boxes.size() / 4 * boxes.size() / 4);
    const boxes_view<const float> view(boxes);
    const index_t count = view.size();
    for (const empty_iou rule : {empty_iou::nan, empty_iou::zero}) {
      pairwise_iou(view, boxes, matrix_view<float>(out.data(), count, count),
                   {iou_kind::iou, rule});
      for (index_t i = 0; i < count; ++i) {
        for (index_t j = 0; j < count; ++j) {
          CAPTURE(i);
          CAPTURE(j);
          const float exact =
              reference::iou(reference::load_box<float>(view, i),
                             reference::load_box<float>(view, j), as_reference(rule));
          const float mine = out[static_cast<std::size_t>(i * count + j)];
          // 0 divided by a negative union may be 0 of either sign. With this rule, infinite areas
          // give 0.
          if (rule == empty_iou::zero && std::isnan(exact)) {
            CHECK(mine == 0);
            continue;
          }
          CHECK((same_or_nan(mine, exact) || (mine == 0 && exact == 0)));
        }
      }
    }
    // No kind crashes on any box, and NaN coordinates give NaN.
    for (const iou_kind kind : all_kinds) {
      pairwise_iou(view, boxes, matrix_view<float>(out.data(), count, count),
                   {kind, empty_iou::nan});
      CHECK(std::isnan(out[static_cast<std::size_t>(count - 1)]));
    }
  });
}

TEST_CASE_TEMPLATE("IoU: a NaN at any of the eight places is NaN", T, float, bfloat16, double) {
  const index_t count = 90;  // one of nine pairs has no NaN
  auto a = random_boxes<T>(count, 1, 100), b = random_boxes<T>(count, 2, 100);
  for (index_t i = 0; i < count; ++i)
    if (i % 9 < 8) (i % 9 < 4 ? a : b)[static_cast<std::size_t>(4 * i + i % 9 % 4)] = to<T>(NAN);
  const auto in_a = [](index_t i) { return i % 9 < 4; };
  const auto in_b = [](index_t i) { return i % 9 >= 4 && i % 9 < 8; };
  marked<T> x(as_planes(a), 0), y(as_planes(b), 0);
  std::vector<T> all(static_cast<std::size_t>(count * count)),
      each(static_cast<std::size_t>(count));
  for_each_isa([&](isa) {
    for (const iou_kind kind : all_kinds) {
      CAPTURE(static_cast<int>(kind));
      pairwise_iou(boxes_view<const T>(a), b, matrix_view<T>(all.data(), count, count), {kind});
      for (index_t i = 0; i < count; ++i)
        for (index_t j = 0; j < count; ++j)
          CHECK(std::isnan(static_cast<double>(all[static_cast<std::size_t>(i * count + j)])) ==
                (in_a(i) || in_b(j)));
      for (const bool planes : {false, true}) {
        if (planes) {
          elementwise_iou(x.planes(), y.planes(), each, {kind});
        } else {
          elementwise_iou(boxes_view<const T>(a), b, each, {kind});
        }
        for (index_t i = 0; i < count; ++i)
          CHECK(std::isnan(static_cast<double>(each[static_cast<std::size_t>(i)])) ==
                (in_a(i) || in_b(i)));
      }
    }
    elementwise_iou(boxes_view<const T>(a), b, each, {iou_kind::iou, empty_iou::zero});
    for (index_t i = 0; i < count; ++i)
      if (in_a(i) || in_b(i)) CHECK(static_cast<double>(each[static_cast<std::size_t>(i)]) == 0);
  });
}

TEST_CASE_TEMPLATE("IoU: moving all boxes changes no bit", T, float, double) {
  // Coordinates are whole numbers before and after, so every difference stays the same.
  const auto a = random_boxes<T>(64, 1, 300, 1), b = random_boxes<T>(501, 2, 300, 1);
  const auto moved = [](std::vector<T> boxes) {
    for (std::size_t i = 0; i < boxes.size(); ++i) boxes[i] += i % 2 == 0 ? 70000 : -4099;
    return boxes;
  };
  const auto all = [](const std::vector<T>& x, const std::vector<T>& y, iou_kind kind) {
    std::vector<T> out(64 * 501);
    pairwise_iou(boxes_view<const T>(x), y, matrix_view<T>(out.data(), 64, 501), {kind});
    return out;
  };
  for_each_isa([&](isa) {
    for (const iou_kind kind : all_kinds) {
      CAPTURE(static_cast<int>(kind));
      CHECK(same_bits(all(a, b, kind), all(moved(a), moved(b), kind)));
    }
  });
}

TEST_CASE_TEMPLATE("IoU: a matrix larger than the cache equals its rows", T, float, bfloat16,
                   double) {
  // With odd strides, rows begin at every element of a cache line. Borders between tiles of 512
  // columns are inside chunks and between them. The last tile may be shorter than a cache line, or
  // the only one.
  for (const index_t cols : {512 * 250 + 5, 2 * 512 + 5, 512 + 1, 71, 7}) {
    const index_t stride = cols + 2, size = sizeof(T);
    const index_t rows = (index_t{8} << 20) / (stride * size) + 1;
    const index_t part = std::max<index_t>(1, 500000 / stride), extent = (rows - 1) * stride + cols;
    CAPTURE(cols);
    placed_memory memory;
    memory.place = {placement::ends_at_guard};
    const boxes_view<const T> a(memory.copy(random_boxes<T>(rows, 1)), rows);
    const boxes_view<const T> b(memory.copy(random_boxes<T>(cols, 2)), cols);
    const std::vector<T> marks(static_cast<std::size_t>(extent), to<T>(-12345));
    T* const whole = memory.copy(marks);
    for_each_isa([&](isa) {
      std::vector<T> parts = marks;
      for (index_t i = 0; i < rows; i += part) {
        const index_t count = std::min(part, rows - i);
        pairwise_iou(boxes_view<const T>(a[i], count), b,
                     matrix_view<T>(parts.data() + i * stride, count, cols, stride));
      }
      for (const int threads : {1, 4}) {
        std::copy(marks.begin(), marks.end(), whole);
        tbb::task_arena(threads).execute(
            [&] { pairwise_iou(a, b, matrix_view<T>(whole, rows, cols, stride)); });
        CHECK(same_bits(parts.data(), whole, parts.size()));  // the gaps keep their marks
      }
    });
  }
}

TEST_CASE("IoU: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> four(16, 1), three(12, 1);
  marked<float> out(12, 0);
  const auto fails = refusals(out);
  const boxes_view<const float> a(four);
  fails("pairwise_iou: out.rows() is 3, expected 4, the number of boxes a",
        [&] { pairwise_iou(a, three, matrix_view<float>(out.data(), 3, 4)); });
  fails("pairwise_iou: out.cols() is 2",
        [&] { pairwise_iou(a, three, matrix_view<float>(out.data(), 4, 2)); });
  fails("elementwise_iou: b.size() is 3", [&] { elementwise_iou(a, three, out.each()); });
  fails("elementwise_iou: out.size() is 12", [&] { elementwise_iou(a, four, out.each()); });
}

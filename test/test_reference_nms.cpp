// SPDX-License-Identifier: Apache-2.0
// The reference NMS against golden vectors, against a literal transcription of the greedy
// definition, and case by case for every option and preset; soft-NMS by worked examples.
#include "support/data.hpp"
#include "support/values.hpp"
#include <vecdet/reference/nms.hpp>
#include <vecdet/reference/soft_nms.hpp>
#include <vecdet/soft_nms.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using reference::nms_params;

namespace {

using floats = std::vector<float>;
using indices = std::vector<index_t>;

indices nms(const floats& boxes, const floats& scores, const nms_params& params,
            const indices& classes = {}, const indices& images = {}) {
  return reference::nms(boxes_view<const float>(boxes), vector_view<const float>(scores), params,
                        {classes, images});
}

nms_params threshold(double iou) { return reference::nms_params::torchvision(iou); }

/// 10 x 10 at the origin, and boxes inside it with an IoU of 0.5, 0.3 and 0.1.
const floats nested = {0, 0, 10, 10, 0, 0, 10, 5, 0, 0, 10, 3, 0, 0, 10, 1};
const floats descending = {0.9f, 0.8f, 0.7f, 0.6f};

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("reference NMS: golden vectors") {
  if (!test::has_data("golden/nms_boxes_0.npy", "reference NMS: golden vectors")) return;
  for (int set = 0; set < 10; ++set) {
    const std::string name = std::to_string(set);
    const auto boxes = test::golden<float>("nms_boxes_" + name).values;
    const auto scores = test::golden<float>("nms_scores_" + name).values;
    const auto classes = test::golden<std::int64_t>("nms_classes_" + name).values;
    for (const int tenths : {1, 3, 5, 6, 7}) {
      CAPTURE(set);
      CAPTURE(tenths);
      const std::string suffix = name + "_" + std::to_string(tenths);
      const nms_params params = threshold(tenths / 10.0);
      CHECK(nms(boxes, scores, params) == test::golden<std::int64_t>("nms_keep_" + suffix).values);

      // torchvision does not guarantee an order of ties between classes.
      indices mine = nms(boxes, scores, params, classes);
      indices expected = test::golden<std::int64_t>("nms_batched_" + suffix).values;
      const auto lower_score_first = [&](index_t a, index_t b) {
        return scores[static_cast<std::size_t>(a)] < scores[static_cast<std::size_t>(b)];
      };
      CHECK(std::is_sorted(mine.rbegin(), mine.rend(), lower_score_first));
      std::sort(mine.begin(), mine.end());
      std::sort(expected.begin(), expected.end());
      CHECK(mine == expected);
    }
  }
}

TEST_CASE("reference NMS: the greedy definition, suppressing forwards") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    test::random_generator generator(seed);
    const index_t count = generator.below(40);
    const double grid = seed % 2 == 0 ? 4 : 0;
    const floats boxes = test::random_boxes<float>(count, seed, 40, grid);
    floats scores;
    for (index_t i = 0; i < count; ++i)
      scores.push_back(static_cast<float>(generator.below(8)) / 8);
    const double iou_threshold = static_cast<double>(generator.below(11)) / 10;

    indices order(static_cast<std::size_t>(count));
    for (index_t i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
    std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    std::vector<bool> suppressed(static_cast<std::size_t>(count));
    indices expected;
    for (std::size_t m = 0; m < order.size(); ++m) {
      if (suppressed[m]) continue;
      expected.push_back(order[m]);
      for (std::size_t n = m + 1; n < order.size(); ++n) {
        const boxes_view<const float> view(boxes);
        const float iou = reference::iou(reference::load_box<float>(view, order[m]),
                                         reference::load_box<float>(view, order[n]));
        if (static_cast<double>(iou) > iou_threshold) suppressed[n] = true;
      }
    }
    CHECK(nms(boxes, scores, threshold(iou_threshold)) == expected);
  }
}

TEST_CASE("reference NMS: at the threshold") {
  // The overlaps with the first box are 0.5, 0.3 and 0.1; those among the others are at most 0.6.
  CHECK(nms(nested, descending, threshold(0.5)) == indices{0, 1, 3});
  nms_params params = threshold(0.5);
  params.suppress_equal = true;
  CHECK(nms(nested, descending, params) == indices{0, 2, 3});

  // 3/10 in float is above 0.3 in double.
  const floats pair = {0, 0, 10, 10, 0, 0, 10, 3};
  CHECK(nms(pair, {1, 1}, threshold(0.3)) == indices{0});
  CHECK(nms(pair, {1, 1}, reference::nms_params::mmcv(0.3)) == indices{0, 1});
  CHECK(nms(pair, {1, 1}, reference::nms_params::onnx(0.3, 10)) == indices{0, 1});
  CHECK(nms(pair, {1, 1}, reference::nms_params::ipex(0.3)) == indices{0});
  CHECK(nms(nested, descending, threshold(1)) == indices{0, 1, 2, 3});
  CHECK(nms(nested, descending, threshold(0)) == indices{0});
}

TEST_CASE("reference NMS: equal and NaN scores, score threshold") {
  const floats apart = {0, 0, 1, 1, 5, 5, 6, 6, 9, 9, 10, 10};
  CHECK(nms(apart, {0.5f, 0.5f, 0.5f}, threshold(0.5)) == indices{0, 1, 2});
  CHECK(nms(apart, {0.1f, quiet_nan, 0.5f}, threshold(0.5)) == indices{1, 2, 0});
  nms_params params = threshold(0.5);
  params.drop_nan_scores = true;
  CHECK(nms(apart, {0.1f, quiet_nan, 0.5f}, params) == indices{2, 0});
  params.score_threshold = 0.5;
  CHECK(nms(apart, {0.6f, 0.5f, 0.4f}, params) == indices{0});
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(nms(apart, {-infinity, 0, infinity}, threshold(0.5)) == indices{2, 1, 0});
  CHECK(nms({}, {}, threshold(0.5)).empty());
}

TEST_CASE("reference NMS: classes, images and limits") {
  const floats same = {0, 0, 4, 4, 0, 0, 4, 4, 0, 0, 4, 4, 0, 0, 4, 4, 9, 9, 11, 11};
  const floats scores = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
  const indices classes = {-7, 1LL << 60, -7, 1LL << 60, -7};
  const indices images = {0, 0, 1, 1, 1};
  nms_params params = threshold(0.5);
  CHECK(nms(same, scores, params) == indices{4, 3});
  CHECK(nms(same, scores, params, classes) == indices{4, 3, 2});
  CHECK(nms(same, scores, params, {}, images) == indices{4, 3, 1});
  CHECK(nms(same, scores, params, classes, images) == indices{4, 3, 2, 1, 0});
  params.order = reference::nms_order::index;
  CHECK(nms(same, scores, params, classes, images) == indices{0, 1, 2, 3, 4});
  params.order = reference::nms_order::image_score;
  CHECK(nms(same, scores, params, classes, images) == indices{1, 0, 4, 3, 2});
  params.order = reference::nms_order::image_class_score;
  CHECK(nms(same, scores, params, classes, images) == indices{0, 1, 4, 2, 3});

  params.order = reference::nms_order::score;
  params.max_per_class = 1;
  CHECK(nms(same, scores, params, classes, images) == indices{4, 3, 1, 0});
  params.max_per_image = 1;
  CHECK(nms(same, scores, params, classes, images) == indices{4, 1});
  params.max_total = 1;
  CHECK(nms(same, scores, params, classes, images) == indices{4});
  params.max_per_class = 0;
  CHECK(nms(same, scores, params, classes, images).empty());
}

TEST_CASE("reference NMS: degenerate and NaN boxes") {
  const floats boxes = {4, 4, 4, 4, 4, 4, 4, 4, 0, 0, quiet_nan, 9, 0, 0, 9, 9, 9, 9, 0, 0};
  const floats scores = {0.9f, 0.8f, 0.7f, 0.6f, 0.5f};
  nms_params params = threshold(0.5);
  CHECK(nms(boxes, scores, params) == indices{0, 1, 2, 3, 4});
  params.drop_degenerate = true;
  CHECK(nms(boxes, scores, params) == indices{3});
  // With pixels counted, a point is a box of one pixel.
  params.plus_one = true;
  CHECK(nms(boxes, scores, params) == indices{0, 3});
}

TEST_CASE("reference NMS: widths and heights + 1") {
  // Nine of ten columns shared: 10*9/110 = 0.82 with + 1, 9*8/90 without.
  const floats boxes = {0, 0, 9, 9, 1, 0, 10, 9};
  CHECK(nms(boxes, {1, 1}, reference::nms_params::mmcv(0.81, true)) == indices{0});
  CHECK(nms(boxes, {1, 1}, reference::nms_params::mmcv(0.81, false)) == indices{0, 1});
}

TEST_CASE("reference NMS: ONNX") {
  // The same box three times: corners in two orders, and separately as centre and size.
  const floats corners = {0, 0, 10, 10, 10, 10, 0, 0, 10, 0, 0, 10};
  CHECK(nms(corners, {0.1f, 0.9f, 0.5f}, reference::nms_params::onnx(0.5, 9)) == indices{1});
  const floats centres = {5, 5, 10, 10, 5, 5, 10, 9, 15, 5, 10, 10};
  CHECK(nms(centres, {0.1f, 0.9f, 0.5f}, reference::nms_params::onnx(0.5, 9, true)) ==
        indices{1, 2});
  CHECK(nms(centres, {0.1f, 0.9f, 0.5f}, reference::nms_params::onnx(0.5, 0, true)).empty());
  CHECK(nms(centres, {0.1f, quiet_nan, 0.5f}, reference::nms_params::onnx(0.5, 9, true)) ==
        indices{2, 0});
  // Without area, nothing overlaps at any threshold.
  CHECK(nms({4, 4, 4, 9, 4, 4, 4, 9}, {1, 1}, reference::nms_params::onnx(0, 9)) == indices{0, 1});
}

TEST_CASE("reference NMS: OpenCV") {
  // Two boxes without area count as equal.
  CHECK(nms({4, 4, 4, 4, 8, 8, 8, 8}, {1, 1}, reference::nms_params::opencv(0.5, 0)) == indices{0});
  CHECK(nms({4, 4, 4, 4, 8, 8, 9, 9}, {1, 1}, reference::nms_params::opencv(0.5, 0)) ==
        indices{0, 1});
  CHECK(nms(nested, descending, reference::nms_params::opencv(0.5, 0.65)) == indices{0, 1});
  // 1 - float(1 - 3/10) is 0.3000000119, like 0.3f; 1 - float(1 - 1/10) is 0.100000024, not 0.1f.
  CHECK(nms({0, 0, 10, 10, 0, 0, 10, 3}, {1, 1}, reference::nms_params::opencv(0.3, 0)) ==
        indices{0, 1});
  CHECK(nms({0, 0, 10, 10, 0, 0, 10, 1}, {1, 1}, reference::nms_params::opencv(0.1, 0)) ==
        indices{0});
}

TEST_CASE("reference soft-NMS: worked examples") {
  const floats boxes = {0, 0, 10, 10, 0, 0, 10, 5, 20, 20, 30, 30};
  const floats scores = {0.9f, 0.8f, 0.5f};
  const auto run = [&](const soft_nms_params& params, const indices& classes = {}) {
    return reference::soft_nms(boxes_view<const float>(boxes), vector_view<const float>(scores),
                               params, {classes, {}});
  };
  soft_nms_params params;
  auto picked = run(params);
  REQUIRE(picked.size() == 3);
  CHECK(picked[0].index == 0);
  CHECK(picked[1].index == 2);
  CHECK(picked[2].index == 1);
  CHECK(picked[2].score == 0.4f);

  params.iou_threshold = 0.6;
  picked = run(params);
  CHECK(picked[1].index == 1);
  CHECK(picked[1].score == 0.8f);

  params.method = reference::soft_nms_method::gaussian;
  picked = run(params);
  REQUIRE(picked.size() == 3);
  CHECK(picked[2].index == 1);
  CHECK(picked[2].score == doctest::Approx(0.8 * std::exp(-0.5)).epsilon(1e-6));

  params.score_floor = 0.49;
  CHECK(run(params).size() == 2);
  CHECK(run(params, {0, 1, 0}).size() == 3);

  params.method = reference::soft_nms_method::hard;
  params.iou_threshold = 0.5;
  CHECK(run(params).size() == 2);
}

TEST_CASE("reference soft-NMS: the hard method is NMS with >=") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const floats boxes = test::random_boxes<float>(40, seed, 40, 2);
    test::random_generator generator(seed);
    floats scores;
    for (int i = 0; i < 40; ++i) scores.push_back(static_cast<float>(1 + generator.below(9)) / 10);
    soft_nms_params soft;
    soft.method = reference::soft_nms_method::hard;
    nms_params hard = reference::nms_params::mmcv(soft.iou_threshold);
    hard.suppress_equal = true;
    indices picked;
    for (const auto& pick : reference::soft_nms(boxes_view<const float>(boxes),
                                                vector_view<const float>(scores), soft))
      picked.push_back(pick.index);
    CHECK(picked == nms(boxes, scores, hard));
  }
}

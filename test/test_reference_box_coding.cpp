// SPDX-License-Identifier: Apache-2.0
// The reference box coders against golden vectors, against each other, and by round trips.
#include "support/data.hpp"
#include "support/values.hpp"
#include <vecdet/reference/box_coding.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using reference::box;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

/// The largest difference of coordinates.
double distance(const box& a, const box& b) {
  return std::fmax(std::fmax(std::abs(a.x1 - b.x1), std::abs(a.y1 - b.y1)),
                   std::fmax(std::abs(a.x2 - b.x2), std::abs(a.y2 - b.y2)));
}

box random_box(test::random_generator& generator) {
  const double x = generator.uniform(-50, 500);
  const double y = generator.uniform(-50, 500);
  return {x, y, x + generator.uniform(1, 300), y + generator.uniform(1, 300)};
}

}  // namespace

TEST_CASE("reference box coding: golden vectors") {
  if (!test::has_data("golden/coder_anchors.npy", "reference box coding: golden vectors")) return;
  const auto anchors = test::golden<float>("coder_anchors").values;
  const auto boxes = test::golden<float>("coder_boxes").values;
  const auto deltas = test::golden<float>("coder_deltas").values;
  const boxes_view<const float> anchor_view(anchors);
  const boxes_view<const float> box_view(boxes);
  const boxes_view<const float> delta_view(deltas);
  const reference::coder_weights weights[] = {{1, 1, 1, 1}, {10, 10, 5, 5}};
  for (int k = 0; k < 2; ++k) {
    const auto encoded = test::golden<double>("coder_encoded_" + std::to_string(k)).values;
    const auto decoded = test::golden<double>("coder_decoded_" + std::to_string(k)).values;
    const boxes_view<const double> encoded_view(encoded);
    const boxes_view<const double> decoded_view(decoded);
    for (index_t i = 0; i < anchor_view.size(); ++i) {
      const box anchor = reference::load_box(anchor_view, i);
      CHECK(distance(reference::encode_box(reference::load_box(box_view, i), anchor, weights[k]),
                     reference::load_box(encoded_view, i)) < 1e-12);
      // Some boxes are thousands of pixels wide.
      CHECK(distance(reference::decode_box(reference::load_box(delta_view, i), anchor, weights[k]),
                     reference::load_box(decoded_view, i)) < 1e-10);
    }
  }
  const auto decoded = test::golden<double>("coder_decoded_0").values;
  const auto clipped = test::golden<double>("coder_clipped_0").values;
  std::vector<double> mine(clipped.size());
  reference::for_each_box(mine, [&](index_t i) {
    return reference::clip_box(reference::load_box(boxes_view<const double>(decoded), i), 800, 600);
  });
  CHECK(mine == clipped);
}

TEST_CASE("reference box coding: round trips") {
  test::random_generator generator(21);
  const reference::coder_weights weights = {10, 10, 5, 5};
  for (int i = 0; i < 500; ++i) {
    const box anchor = random_box(generator);
    const box target = random_box(generator);
    const auto close = [&](const box& b) { return distance(b, target) < 1e-10; };
    CHECK(close(reference::decode_box(reference::encode_box(target, anchor, weights), anchor,
                                      weights, reference::size_clamp::none)));
    CHECK(close(reference::decode_distances(reference::encode_distances(target, anchor), anchor)));
    CHECK(close(reference::decode_distances(reference::encode_distances(target, anchor, false),
                                            anchor, false)));
    const box prior = reference::cxcywh_from_xyxy(anchor);
    CHECK(close(reference::decode_ssd(reference::encode_ssd(target, prior), prior)));
    CHECK(close(reference::xyxy_from_xywh(reference::xywh_from_xyxy(target))));
    CHECK(close(reference::xyxy_from_cxcywh(reference::cxcywh_from_xyxy(target))));
    // SSD's variances are the weights 10, 10, 5, 5 in another form.
    CHECK(distance(reference::encode_ssd(target, prior),
                   reference::encode_box(target, anchor, weights)) < 1e-11);
  }
}

TEST_CASE("reference box coding: worked examples") {
  const box anchor = {0, 0, 10, 20};
  CHECK(distance(reference::encode_box({5, 5, 15, 25}, anchor, {2, 4, 1, 1}), {1, 1, 0, 0}) == 0);
  CHECK(distance(reference::encode_distances({0, 0, 10, 20}, anchor), {0.5, 0.5, 0.5, 0.5}) == 0);
  CHECK(distance(reference::encode_distances({-1, 0, 10, 20}, anchor, false), {6, 10, 5, 10}) == 0);
  CHECK(reference::box_area({1, 2, 4, 6}) == 12);
  CHECK(reference::box_area({4, 2, 1, 6}) == -12);
}

TEST_CASE("reference box coding: clamp modes") {
  const box anchor = {0, 0, 16, 16};
  const auto width = [&](double dw, reference::size_clamp clamp) {
    return reference::decode_box({0, 0, dw, 0}, anchor, {}, clamp).width();
  };
  using reference::size_clamp;
  CHECK(reference::default_size_limit() == doctest::Approx(4.135166556742356).epsilon(1e-16));
  CHECK(width(100, size_clamp::above) == doctest::Approx(1000).epsilon(1e-14));
  CHECK(width(100, size_clamp::both) == doctest::Approx(1000).epsilon(1e-14));
  CHECK(width(-100, size_clamp::above) == doctest::Approx(16 * std::exp(-100.0)));
  CHECK(width(-100, size_clamp::both) == doctest::Approx(0.256).epsilon(1e-14));
  CHECK(width(800, size_clamp::none) == infinity);
  CHECK(std::isnan(width(quiet_nan, size_clamp::both)));
}

TEST_CASE("reference box coding: clip and small boxes") {
  const box clipped = reference::clip_box({-5, quiet_nan, 900, infinity}, 800, 600);
  CHECK(clipped.x1 == 0);
  CHECK(std::isnan(clipped.y1));
  CHECK(clipped.x2 == 800);
  CHECK(clipped.y2 == 600);

  // 100.1f - 100.0f is below 0.1f, even though 0.1f itself is above 0.1.
  const std::vector<float> boxes = {0, 0, 0.1f, 1, 100, 0, 100.1f, 1, 0, 0, 1, NAN, 3, 3, 3, 3};
  const boxes_view<const float> view(boxes);
  CHECK(reference::is_large_enough(view, 0, 0.1));
  CHECK(!reference::is_large_enough(view, 1, 0.1));
  CHECK(!reference::is_large_enough(view, 2, 0.1));
  CHECK(reference::is_large_enough(view, 3, 0));
}

// SPDX-License-Identifier: Apache-2.0
// The reference matcher against golden vectors and worked cases.
#include "support/data.hpp"
#include "support/values.hpp"
#include <vecdet/reference/matching.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using reference::matcher_params;

namespace {

std::vector<index_t> match(const std::vector<float>& anchors, const std::vector<float>& truth,
                           const matcher_params& params) {
  std::vector<index_t> matches(anchors.size() / 4, 99);
  reference::match_anchors(boxes_view<const float>(anchors), boxes_view<const float>(truth),
                           vector_view<index_t>(matches), params);
  return matches;
}

using indices = std::vector<index_t>;

}  // namespace

TEST_CASE("reference matching: golden vectors") {
  if (!test::has_data("golden/match_0.npy", "reference matching: golden vectors")) return;
  const auto anchors = test::golden<float>("match_anchors").values;
  const auto truth = test::golden<float>("match_gt").values;
  matcher_params params[3];
  params[1].allow_low_quality = false;
  params[2].high_threshold = 0.7;
  params[2].low_threshold = 0.3;
  for (int k = 0; k < 3; ++k)
    CHECK(match(anchors, truth, params[k]) ==
          test::golden<std::int64_t>("match_" + std::to_string(k)).values);
}

TEST_CASE("reference matching: thresholds and ties") {
  // IoUs with the one ground-truth box: 1, 0.5, 0.4, 0.3, 0.
  const std::vector<float> truth = {0, 0, 10, 10};
  const std::vector<float> anchors = {0,  0, 10, 10, 0,  0, 10, 5,  0,  0,
                                      10, 4, 0,  0,  10, 3, 20, 20, 30, 30};
  CHECK(match(anchors, truth, {}) == indices{0, 0, -2, -1, -1});
  // The first of two equal ground-truth boxes.
  const std::vector<float> twice = {0, 0, 10, 10, 0, 0, 10, 10};
  CHECK(match(anchors, twice, {}) == indices{0, 0, -2, -1, -1});
  CHECK(match(anchors, {}, {}) == indices(5, -1));
  CHECK(match({}, truth, {}).empty());
  // 0.7 in float is below 0.7: an IoU of 7/10 reaches it.
  matcher_params params;
  params.allow_low_quality = false;
  params.high_threshold = 0.7;
  CHECK(match({0, 0, 10, 7}, truth, params) == indices{0});
}

TEST_CASE("reference matching: low-quality matches") {
  // Both anchors are the best of the second box, tied at 1/9. The first box has a different best
  // anchor.
  const std::vector<float> anchors = {0, 0, 10, 10, 20, 0, 30, 10};
  const std::vector<float> truth = {0, 0, 10, 9, 7.5f, 0, 22.5f, 10};
  matcher_params params;
  CHECK(match(anchors, truth, params) == indices{0, 1});
  params.allow_low_quality = false;
  CHECK(match(anchors, truth, params) == indices{0, -1});
}

TEST_CASE("reference matching: a ground-truth box that touches no anchor") {
  const std::vector<float> anchors = {0, 0, 10, 10, 50, 50, 60, 60, 70, 70, 80, 80};
  const std::vector<float> truth = {0, 0, 10, 10, 500, 500, 510, 510};
  matcher_params params;
  CHECK(match(anchors, truth, params) == indices{0, 0, 0});
  params.skip_untouched = true;
  CHECK(match(anchors, truth, params) == indices{0, -1, -1});
}

TEST_CASE("reference matching: every ground-truth box forces its best anchor") {
  const std::vector<float> anchors = {0, 0, 10, 10, 0, 0, 20, 20};
  const std::vector<float> truth = {0, 0, 10, 10, 0, 0, 9, 9, 0, 0, 30, 30};
  matcher_params params;
  params.high_threshold = params.low_threshold = 0.5;
  params.allow_low_quality = false;
  CHECK(match(anchors, truth, params) == indices{0, -1});
  params.force_best = true;
  CHECK(match(anchors, truth, params) == indices{1, 2});
}

TEST_CASE("reference matching: NaN matches first, as in torch") {
  CHECK(match({0, 0, 10, 10}, {0, 0, 10, 10, NAN, 0, 10, 10}, {}) == indices{1});
}

TEST_CASE("reference matching: best IoUs, doubles and bfloat16") {
  const std::vector<double> anchors = {0, 0, 10, 10, 0, 0, 10, 3};
  const std::vector<bfloat16> stored = {bfloat16(0.f), bfloat16(0.f), bfloat16(10.f),
                                        bfloat16(10.f)};
  indices matches(2);
  std::vector<double> best(2);
  reference::match_anchors(boxes_view<const double>(anchors), boxes_view<const bfloat16>(stored),
                           vector_view<index_t>(matches), {}, vector_view<double>(best));
  CHECK(best == std::vector<double>{1, 0.3});
  CHECK(matches == indices{0, -1});
}

TEST_CASE("reference matching: ignore regions") {
  // The region covers all of the first anchor, 6/10 of the second and 5/10 of the third; the first
  // is matched.
  const std::vector<float> anchors = {0, 0, 10, 10, 14, 0, 24, 10, 15, 0, 25, 10};
  const std::vector<float> truth = {0, 0, 10, 10}, region = {-5, -5, 20, 20};
  indices matches(3);
  std::vector<double> ious(3);
  matcher_params params;
  const auto run = [&] {
    reference::match_anchors(boxes_view<const float>(anchors), boxes_view<const float>(truth),
                             vector_view<index_t>(matches), params, ious,
                             boxes_view<const float>(region));
    return matches;
  };
  CHECK(run() == indices{0, -2, -1});
  params.region_threshold = 0.4;
  CHECK(run() == indices{0, -2, -2});
  params.ignore_matched = true;
  params.skip_untouched = true;
  CHECK(run() == indices{-2, -2, -2});
  CHECK(ious[0] == 0);
}

TEST_CASE("reference matching: a NaN IoU is 0 on request") {
  matcher_params params;
  params.empty = reference::empty_union::zero;
  params.skip_untouched = true;
  CHECK(match({0, 0, 10, 10, 5, 5, 5, 5}, {0, 0, 10, 10, NAN, 0, 10, 10, 5, 5, 5, 5}, params) ==
        indices{0, -1});
}

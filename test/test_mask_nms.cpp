// SPDX-License-Identifier: Apache-2.0
// NMS of masks against a loop over the reference's overlaps: random masks, scores with ties and
// NaN, classes and images, thresholds that are overlaps, some of the options of NMS, and errors.
#include "support/isa.hpp"
#include "support/random_masks.hpp"
#include "support/refusals.hpp"
#include <vecdet/mask_nms.hpp>
#include <vecdet/reference/mask_bits.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// Going down the scores, NaN first, a mask is kept unless a kept one of its group overlaps it.
template <class T>
std::vector<index_t> expected_of(const masks_view& masks, const std::vector<T>& scores,
                                 const std::vector<index_t>& classes, const nms_params& params) {
  std::vector<index_t> order;
  const auto score = [&](index_t i) {
    const auto own = static_cast<double>(scores[static_cast<std::size_t>(i)]);
    return std::isnan(own) ? std::numeric_limits<double>::infinity() : own;
  };
  for (index_t i = 0; i < masks.size(); ++i) {
    const bool is_nan = std::isnan(static_cast<double>(scores[static_cast<std::size_t>(i)]));
    if (is_nan ? params.drop_nan_scores : !(score(i) > params.score_threshold)) continue;
    if (params.drop_degenerate && reference::mask_area(masks, i) == 0) continue;
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return score(a) > score(b); });
  std::vector<index_t> kept;
  const auto by =
      params.overlap == nms_overlap::smaller_area ? mask_overlap::smaller_area : mask_overlap::iou;
  for (const index_t i : order) {
    const auto suppresses = [&](index_t k) {
      if (!classes.empty() &&
          classes[static_cast<std::size_t>(i)] != classes[static_cast<std::size_t>(k)])
        return false;
      const double overlap = reference::mask_overlap_of(masks, k, masks, i, by, false);
      return params.suppress_equal ? overlap >= params.iou_threshold
                                   : overlap > params.iou_threshold;
    };
    if (!std::any_of(kept.begin(), kept.end(), suppresses)) kept.push_back(i);
  }
  if (static_cast<index_t>(kept.size()) > params.max_total)
    kept.resize(static_cast<std::size_t>(params.max_total));
  return kept;
}

template <class T>
void check_kept(const masks_view& masks, const std::vector<T>& scores,
                const std::vector<index_t>& classes, const nms_params& params) {
  const std::vector<index_t> expected = expected_of(masks, scores, classes, params);
  nms_groups groups;
  if (!classes.empty()) groups.classes = classes;
  mask_nms_workspace workspace;
  const auto run = [&](threading policy) {
    const auto kept =
        mask_nms(masks, vector_view<const T>(scores), groups, params, workspace, policy);
    return std::vector<index_t>(kept.begin(), kept.end());
  };
  for_each_isa([&](isa) {
    CHECK((run(threading::sequential) == expected));
    tbb::task_arena arena(3);
    arena.execute([&] { CHECK((run(threading::parallel) == expected)); });
  });
}

template <class T>
void check_type(std::uint64_t seed) {
  random_generator random(seed);
  for (int round = 0; round < 60; ++round) {
    const index_t count = random.below(25);
    const grid_size size{1 + random.below(30), 1 + random.below(100)};
    const owned_masks masks = random_masks(
        count, size, round % 2 == 0 ? mask_pixels::bits : mask_pixels::bytes, random.split(1));
    std::vector<T> scores;
    std::vector<index_t> classes;
    for (index_t i = 0; i < count; ++i) {
      const double score = static_cast<double>(random.below(16)) / 16;  // with ties
      scores.push_back(static_cast<T>(random.chance(0.05) ? std::numeric_limits<float>::quiet_NaN()
                                                          : static_cast<float>(score)));
      classes.push_back(random.below(3) - 1);
    }
    nms_params params(static_cast<double>(random.below(9)) / 10);
    if (round % 3 == 1) params.overlap = nms_overlap::smaller_area;
    if (round % 3 == 2) params.overlap = nms_overlap::positive_area;
    if (round % 5 == 1 && params.iou_threshold > 0) params.suppress_equal = true;
    params.drop_nan_scores = random.chance(0.3);
    params.drop_degenerate = random.chance(0.3);
    if (random.chance(0.2)) params.score_threshold = 0.25;
    if (random.chance(0.2)) params.max_total = random.below(6);
    check_kept(masks.view(), scores, random.chance(0.5) ? classes : std::vector<index_t>(), params);
  }
}

}  // namespace

TEST_CASE("mask nms: float") { check_type<float>(1); }
TEST_CASE("mask nms: double") { check_type<double>(2); }
TEST_CASE("mask nms: bfloat16") { check_type<bfloat16>(3); }

TEST_CASE("mask nms: an overlap that is the threshold") {
  // 1 of 3 pixels is common: 1/3 in double, which no float is.
  const std::vector<index_t> boxes{0, 0, 2, 1, 1, 0, 3, 1};
  const owned_masks masks =
      make_masks(boxes, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });
  const std::vector<float> scores{0.5f, 0.75f};
  mask_nms_workspace workspace;
  for (const bool equal : {false, true})
    for (const int step : {-1, 0, 1}) {
      nms_params params(step == 0 ? 1.0 / 3 : std::nextafter(1.0 / 3, step));
      params.suppress_equal = equal;
      const auto kept =
          mask_nms(masks.view(), vector_view<const float>(scores), {}, params, workspace);
      CHECK(kept.size() == (step < 0 || (step == 0 && equal) ? 1 : 2));
    }
}

TEST_CASE("mask nms: more masks than are compared at once, and images") {
  std::vector<index_t> boxes, offsets{0, 20, 20, 60};
  std::vector<double> scores;
  for (index_t i = 0; i < 60; ++i) {
    const index_t x = i % 20 * 5;
    boxes.insert(boxes.end(), {x, 0, x + 8, 3});
    scores.push_back(static_cast<double>(i * 7 % 60));
  }
  const owned_masks masks =
      make_masks(boxes, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });
  nms_groups groups;
  groups.image_offsets = offsets;
  std::vector<index_t> images;
  for (index_t i = 0; i < 60; ++i) images.push_back(i < 20 ? 0 : 2);
  for (const double threshold : {0.1, 0.3}) {
    mask_nms_workspace workspace;
    const auto kept = mask_nms(masks.view(), vector_view<const double>(scores), groups,
                               nms_params(threshold), workspace);
    CHECK((std::vector<index_t>(kept.begin(), kept.end()) ==
           expected_of(masks.view(), scores, images, nms_params(threshold))));
  }
}

TEST_CASE("mask nms: errors") {
  const owned_masks masks = make_masks({1, 2, 12, 4, 0, 0, 3, 3}, mask_pixels::bits,
                                       [](index_t, index_t, index_t) { return true; });
  const std::vector<float> scores{1, 2};
  mask_nms_workspace workspace;
  const auto fails = refusals();
  const auto run = [&](const nms_params& params, index_t count = 2) {
    mask_nms(masks.view(), vector_view<const float>(scores.data(), count), {}, params, workspace);
  };
  nms_params params;
  params.format = nms_format::centre;
  fails("mask_nms: params.format is 2, expected the default", [&] { run(params); });
  params = {};
  params.overlap = nms_overlap::jaccard;
  fails("mask_nms: params.overlap is jaccard, expected plain, positive_area or smaller_area",
        [&] { run(params); });
  params.overlap = static_cast<nms_overlap>(99);
  fails("mask_nms: params.overlap is 99, expected an nms_overlap", [&] { run(params); });
  params = {};
  params.plus_one = true;
  fails("mask_nms: params.plus_one is true, expected false", [&] { run(params); });
  fails("mask_nms: params.iou_threshold is 1.5", [&] { run(nms_params(1.5)); });
  fails("mask_nms: scores.size() is 1, expected 2, the number of masks", [&] { run({}, 1); });
  fails("mask_nms: masks.boxes[0] is -1 2 12 4", [&] {
    owned_masks wrong = masks;
    wrong.boxes[0] = -1;
    mask_nms(wrong.view(), vector_view<const float>(scores), {}, {}, workspace);
  });
  const std::vector<index_t> classes(3);
  nms_groups groups;
  groups.classes = classes;
  fails("mask_nms: groups.classes.size() is 3",
        [&] { mask_nms(masks.view(), vector_view<const float>(scores), groups, {}, workspace); });
}

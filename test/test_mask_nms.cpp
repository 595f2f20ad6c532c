// SPDX-License-Identifier: Apache-2.0
// NMS of masks against a loop over the reference's overlaps: random masks, scores with ties and
// NaN, classes and images, thresholds that are overlaps, and errors. Masks that fill their
// rectangles against NMS of the rectangles, with all options of both.
#include "support/isa.hpp"
#include "support/random_masks.hpp"
#include "support/refusals.hpp"
#include <vecdet/mask_nms.hpp>
#include <vecdet/nms.hpp>
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

TEST_CASE("mask nms: with all options as NMS of boxes, if masks fill their rectangles") {
  random_generator random(4);
  index_t kept_count = 0, dropped = 0;
  for (int round = 0; round < 400; ++round) {
    const index_t count = random.below(40), class_count = 1 + random.below(4);
    std::vector<index_t> rectangles;
    std::vector<double> boxes;
    std::vector<float> scores;
    std::vector<index_t> classes, images, image_offsets{0, count / 3, count / 3, count};
    for (index_t i = 0; i < count; ++i) {
      const index_t x = random.below(12), y = random.below(12);
      rectangles.insert(rectangles.end(), {x, y, x + random.below(12), y + random.below(12)});
      scores.push_back(random.chance(0.05) ? std::numeric_limits<float>::quiet_NaN()
                                           : 0.1f * static_cast<float>(random.below(10)));
      classes.push_back(random.below(class_count));
      images.push_back(7 - random.below(3));
    }
    for (const index_t side : rectangles) boxes.push_back(static_cast<double>(side));
    const owned_masks masks =
        make_masks(rectangles, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });

    nms_groups groups;
    if (random.chance(0.8)) groups.classes = classes;
    if (random.chance(0.4))
      groups.images = images;
    else if (random.chance(0.5))
      groups.image_offsets = image_offsets;
    nms_params params(static_cast<double>(random.below(10)) / 10);
    const nms_overlap overlaps[] = {nms_overlap::plain, nms_overlap::positive_area,
                                    nms_overlap::smaller_area};
    params.overlap = overlaps[random.below(3)];
    params.suppress_equal = params.iou_threshold > 0 && random.chance(0.3);
    params.float_threshold = random.chance(0.3);
    params.drop_nan_scores = random.chance(0.3);
    params.drop_degenerate = random.chance(0.3);
    // A score of 0.1f is above 0.1, but not above it in float.
    if (random.chance(0.5)) params.score_threshold = 0.1 * static_cast<double>(random.below(6));
    const nms_order orders[] = {nms_order::score, nms_order::index, nms_order::image_score,
                                nms_order::image_class_score};
    params.order = orders[random.below(4)];
    if (random.chance(0.3)) params.max_per_class = random.below(4);
    if (random.chance(0.3)) params.max_per_image = random.below(6);
    if (random.chance(0.3)) params.max_total = random.below(12);
    std::vector<index_t> wanted, class_groups;
    std::vector<double> class_thresholds;
    for (index_t k = 0; k < class_count; ++k) {
      if (k == 0 || random.chance(0.5)) wanted.push_back(k);
      class_groups.push_back(random.below(2) - 5);
      class_thresholds.push_back(0.1 * static_cast<double>(random.below(6)));
    }
    if (groups.classes.size() > 0) {
      if (random.chance(0.3)) params.classes = wanted;
      if (random.chance(0.3)) params.class_groups = class_groups;
      if (random.chance(0.3)) params.class_thresholds = class_thresholds;
    }

    CAPTURE(round);
    nms_workspace of_boxes;
    const auto expected = batched_nms(boxes, scores, groups, params, of_boxes);
    for_each_isa([&](isa) {
      mask_nms_workspace workspace;
      const auto kept =
          mask_nms(masks.view(), vector_view<const float>(scores), groups, params, workspace);
      CHECK(std::equal(kept.begin(), kept.end(), expected.begin(), expected.end()));
    });
    kept_count += expected.size();
    dropped += count - expected.size();
  }
  CHECK(kept_count > 1000);
  CHECK(dropped > 1000);
}

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

TEST_CASE("mask nms: masks that are compared on several threads, in one group and in several") {
  random_generator random(6);
  for (const index_t class_count : {1, 2, 6}) {
    std::vector<index_t> boxes, classes;
    std::vector<float> scores;
    for (index_t i = 0; i < 48; ++i) {
      const index_t x = random.below(60), y = random.below(40);
      boxes.insert(boxes.end(), {x, y, x + 150 + random.below(60), y + 150 + random.below(60)});
      classes.push_back(random.below(class_count));
      scores.push_back(static_cast<float>(random.uniform(0, 1)));
    }
    const owned_masks masks =
        make_masks(boxes, mask_pixels::bits, [&](index_t i, index_t x, index_t y) {
          return ((x - boxes[static_cast<std::size_t>(4 * i)]) / 20 + y / 20 + i) % 4 > 0;
        });
    for (const double threshold : {0.3, 0.45, 0.6}) {
      check_kept(masks.view(), scores, classes, nms_params(threshold));
      check_kept(masks.view(), scores, {}, nms_params(threshold));
    }
    nms_params few(0.6);
    few.max_total = 5;
    check_kept(masks.view(), scores, {}, few);
  }
}

TEST_CASE("mask nms: fewer masks than are left may be kept") {
  random_generator random(7);
  for (const index_t count : {99, 200, 700}) {
    std::vector<index_t> boxes;
    std::vector<float> scores;
    for (index_t i = 0; i < count; ++i) {
      const index_t x = random.below(90), y = random.below(90);
      boxes.insert(boxes.end(), {x, y, x + 1 + random.below(20), y + 1 + random.below(20)});
      scores.push_back(static_cast<float>(random.below(50)));
    }
    const owned_masks masks =
        make_masks(boxes, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });
    for (const index_t limit : {0, 1, 2, 5, 24, 25, 60, 100, 174, 175})
      for (const double threshold : {0.0, 0.05, 0.5}) {
        nms_params params(threshold);
        params.max_total = limit;
        check_kept(masks.view(), scores, {}, params);
      }
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
  params = nms_params(0);
  params.suppress_equal = true;
  params.overlap = nms_overlap::smaller_area;
  fails("mask_nms: params.iou_threshold is 0, expected above 0 if suppress_equal is set",
        [&] { run(params); });
  params = {};
  params.score_threshold = std::numeric_limits<double>::quiet_NaN();
  fails("mask_nms: params.score_threshold is nan, expected a number", [&] { run(params); });
  params = {};
  params.max_per_class = -1;
  fails("mask_nms: params.max_per_class is -1, expected 0 or more", [&] { run(params); });
  params = {};
  params.max_per_image = -1;
  fails("mask_nms: params.max_per_image is -1, expected 0 or more", [&] { run(params); });
  params = {};
  params.max_total = -1;
  fails("mask_nms: params.max_total is -1, expected 0 or more", [&] { run(params); });
  const std::vector<index_t> wanted{0};
  params = {};
  params.classes = wanted;
  fails("mask_nms: groups.classes.size() is 0, expected one class per mask", [&] { run(params); });
  fails("mask_nms: scores.size() is 1, expected 2, the number of masks", [&] { run({}, 1); });
  fails("mask_nms: masks.boxes[0] is -1 2 12 4", [&] {
    owned_masks wrong = masks;
    wrong.boxes[0] = -1;
    mask_nms(wrong.view(), vector_view<const float>(scores), {}, {}, workspace);
  });
  const std::vector<index_t> three(3);
  const auto run_groups = [&](const nms_groups& groups) {
    mask_nms(masks.view(), vector_view<const float>(scores), groups, {}, workspace);
  };
  nms_groups groups;
  groups.classes = three;
  fails("mask_nms: groups.classes.size() is 3, expected 0 or 2, the number of masks",
        [&] { run_groups(groups); });
  groups = {};
  groups.images = three;
  fails("mask_nms: groups.images.size() is 3, expected 0 or 2, the number of masks",
        [&] { run_groups(groups); });
  groups = {};
  groups.image_offsets = three;
  fails("mask_nms: groups.image_offsets[2] is 0, expected 2, the number of masks",
        [&] { run_groups(groups); });
}

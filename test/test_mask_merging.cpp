// SPDX-License-Identifier: Apache-2.0
// Groups of masks against supervision's rule in plain sets of pixels: random masks, scores with
// ties and NaN, classes, both overlaps, thresholds from 0 to 1; and every documented error.
#include "support/isa.hpp"
#include "support/random_masks.hpp"
#include "support/refusals.hpp"
#include <vecdet/mask_merging.hpp>
#include <vecdet/reference/mask_bits.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

using lists = std::vector<std::vector<index_t>>;
using pixel_set = std::set<std::pair<index_t, index_t>>;

double ratio_of(const pixel_set& a, const pixel_set& b, mask_overlap overlap) {
  std::size_t common = 0;
  for (const auto& pixel : a) common += b.count(pixel);
  if (common == 0) return 0;
  const std::size_t divisor =
      overlap == mask_overlap::iou ? a.size() + b.size() - common : std::min(a.size(), b.size());
  return static_cast<double>(common) / static_cast<double>(divisor);
}

template <class T>
lists expected_of(const masks_view& masks, const std::vector<T>& scores,
                  const std::vector<index_t>& classes, mask_overlap overlap, double threshold) {
  const auto score = [&](index_t i) {
    return static_cast<double>(scores[static_cast<std::size_t>(i)]);
  };
  std::vector<index_t> order;
  std::vector<pixel_set> pixels(static_cast<std::size_t>(masks.size()));
  for (index_t i = 0; i < masks.size(); ++i) {
    if (!std::isnan(score(i))) order.push_back(i);
    reference::for_each_pixel(masks, i, [&](index_t x, index_t y) {
      pixels[static_cast<std::size_t>(i)].insert({x, y});
    });
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return score(a) > score(b); });
  lists groups;
  while (!order.empty()) {
    std::vector<index_t> group{order[0]};
    order.erase(order.begin());
    pixel_set whole = pixels[static_cast<std::size_t>(group[0])];
    for (bool grows = true; grows;) {
      std::vector<index_t> left, taken;
      for (const index_t i : order) {
        const auto own = static_cast<std::size_t>(i);
        const bool is_own =
            classes.empty() || classes[own] == classes[static_cast<std::size_t>(group[0])];
        const bool matches = is_own && ratio_of(pixels[own], whole, overlap) >= threshold;
        (matches ? taken : left).push_back(i);
      }
      grows = !taken.empty();
      for (const index_t i : taken)
        whole.insert(pixels[static_cast<std::size_t>(i)].begin(),
                     pixels[static_cast<std::size_t>(i)].end());
      group.insert(group.end(), taken.begin(), taken.end());
      order = left;
    }
    groups.push_back(group);
  }
  return groups;
}

template <class T>
void check_type(std::uint64_t seed) {
  random_generator random(seed);
  for (int round = 0; round < 60; ++round) {
    const index_t count = random.below(16);
    const grid_size size{1 + random.below(20), 1 + random.below(150)};
    const owned_masks masks = random_masks(
        count, size, round % 2 == 0 ? mask_pixels::bits : mask_pixels::bytes, random.split(1));
    std::vector<T> scores;
    std::vector<index_t> classes;
    for (index_t i = 0; i < count; ++i) {
      const auto score = static_cast<float>(random.below(16)) / 16;  // with ties
      scores.push_back(
          static_cast<T>(random.chance(0.05) ? std::numeric_limits<float>::quiet_NaN() : score));
      classes.push_back(random.below(2));
    }
    nms_groups groups;
    if (round % 3 == 0)
      groups.classes = classes;
    else
      classes.clear();
    const mask_overlap overlap = round % 5 < 3 ? mask_overlap::iou : mask_overlap::smaller_area;
    const double thresholds[] = {0, 0.1, 0.3, 0.5, 1};
    const double threshold = thresholds[random.below(5)];
    const lists expected = expected_of(masks.view(), scores, classes, overlap, threshold);
    mask_merging_workspace workspace;
    const auto run = [&](threading policy) {
      const mask_groups found = group_masks(masks.view(), vector_view<const T>(scores), groups,
                                            overlap, threshold, workspace, policy);
      lists all;
      for (index_t g = 0; g + 1 < found.offsets.size(); ++g)
        all.emplace_back(found.members.begin() + found.offsets[g],
                         found.members.begin() + found.offsets[g + 1]);
      return all;
    };
    for_each_isa([&](isa) {
      CHECK((run(threading::sequential) == expected));
      tbb::task_arena arena(3);
      arena.execute([&] { CHECK((run(threading::parallel) == expected)); });
    });
  }
}

}  // namespace

TEST_CASE("mask merging: float") { check_type<float>(1); }
TEST_CASE("mask merging: double") { check_type<double>(2); }
TEST_CASE("mask merging: bfloat16") { check_type<bfloat16>(3); }

TEST_CASE("mask merging: a union takes what no member would take") {
  // Two halves of a bar of 8 pixels, and the bar.
  const std::vector<index_t> boxes{0, 0, 5, 1, 3, 0, 8, 1, 0, 0, 8, 1};
  const owned_masks masks =
      make_masks(boxes, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });
  const std::vector<float> scores{0.9f, 0.8f, 0.7f};
  mask_merging_workspace workspace;
  const mask_groups found = group_masks(masks.view(), vector_view<const float>(scores), {},
                                        mask_overlap::iou, 0.6, workspace);
  // 5 of 8 with the bar, then 5 of 8 of the union with the second half.
  CHECK((std::vector<index_t>(found.members.begin(), found.members.end()) ==
         std::vector<index_t>{0, 2, 1}));
  CHECK(found.offsets.size() == 2);
}

TEST_CASE("mask merging: masks far apart and far from the origin") {
  // Two touching masks of 2 pixels, far out, and one near the origin. The rectangle around all has
  // almost 2^40 pixels; a union takes memory for its members only.
  constexpr index_t far = (index_t{1} << 20) - 8;
  const std::vector<index_t> boxes{far, far, far + 2, far + 1, 0,       0,
                                   1,   1,   far,     far,     far + 3, far + 1};
  const owned_masks masks =
      make_masks(boxes, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });
  const std::vector<float> scores{0.9f, 0.8f, 0.7f};
  mask_merging_workspace workspace;
  const mask_groups found = group_masks(masks.view(), vector_view<const float>(scores), {},
                                        mask_overlap::iou, 0.5, workspace);
  CHECK((std::vector<index_t>(found.members.begin(), found.members.end()) ==
         std::vector<index_t>{0, 2, 1}));
  CHECK(found.offsets.size() == 3);
  constexpr index_t end = (index_t{1} << 31) - 1;  // a small rectangle at the greatest coordinates
  const std::vector<index_t> last{end - 3, end - 1, end - 1, end, end - 3, end - 1, end, end};
  const owned_masks two =
      make_masks(last, mask_pixels::bits, [](index_t, index_t, index_t) { return true; });
  CHECK(group_masks(two.view(), vector_view<const float>(scores.data(), 2), {}, mask_overlap::iou,
                    0.5, workspace)
            .offsets.size() == 2);
}

TEST_CASE("mask merging: errors") {
  const owned_masks masks = make_masks({1, 2, 12, 4, 0, 0, 3, 3}, mask_pixels::bits,
                                       [](index_t, index_t, index_t) { return true; });
  const std::vector<float> scores{1, 2};
  mask_merging_workspace workspace;
  const auto fails = refusals();
  const auto run = [&](const masks_view& given, mask_overlap overlap, double threshold,
                       index_t count = 2) {
    group_masks(given, vector_view<const float>(scores.data(), count), {}, overlap, threshold,
                workspace);
  };
  const masks_view m = masks.view();
  fails("group_masks: match_threshold is 1.5, expected a number in [0, 1]",
        [&] { run(m, mask_overlap::iou, 1.5); });
  fails("group_masks: match_threshold is nan",
        [&] { run(m, mask_overlap::iou, std::numeric_limits<double>::quiet_NaN()); });
  fails("group_masks: overlap is 2, expected a mask_overlap",
        [&] { run(m, static_cast<mask_overlap>(2), 0.5); });
  fails("group_masks: scores.size() is 1, expected 2, the number of masks",
        [&] { run(m, mask_overlap::iou, 0.5, 1); });
  owned_masks wrong = masks;
  wrong.boxes[0] = -1;
  fails("group_masks: masks.boxes[0] is -1 2 12 4",
        [&] { run(wrong.view(), mask_overlap::iou, 0.5); });
  constexpr index_t far = index_t{1} << 30;
  wrong.boxes = {far, far, far + 11, far + 2, 0, 0, 3, 3};
  fails("group_masks: the number of pixels in the rectangle around masks.boxes is",
        [&] { run(wrong.view(), mask_overlap::iou, 0.5); });
  const std::vector<index_t> classes(3);
  nms_groups groups;
  groups.classes = classes;
  fails("group_masks: groups.classes.size() is 3, expected 0 or 2, the number of masks", [&] {
    group_masks(m, vector_view<const float>(scores), groups, mask_overlap::iou, 0.5, workspace);
  });
}

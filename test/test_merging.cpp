// SPDX-License-Identifier: Apache-2.0
// Non-maximum merging against the reference, which examines every pair: both overlaps, greedy and
// transitive, element types, crowds, ties, classes and images; NMS by intersection over the smaller
// area; merged boxes; and every documented error.
#include "support/isa.hpp"
#include "support/loops.hpp"
#include "support/values.hpp"
#include <vecdet/merging.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/reference/merging.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

template <class T>
struct crowd {
  std::vector<T> boxes, scores;

  /// Boxes of very different sizes around some positions; `tied` scores are sixteenths.
  crowd(index_t count, double side, bool tied, std::uint64_t seed) {
    random_generator generator(seed);
    for (index_t i = 0; i < count; ++i) {
      const double x = std::floor(generator.uniform(0, side)),
                   y = std::floor(generator.uniform(0, side));
      const double w = std::floor(std::exp(generator.uniform(1, 4.5)));
      const double h = std::floor(std::exp(generator.uniform(1, 4.5)));
      const bool is_copy = i > 0 && generator.chance(0.05);
      for (int k = 0; k < 4; ++k) {
        const double numbers[] = {x, y, x + w, y + h};
        boxes.push_back(is_copy ? boxes[boxes.size() - 4] : to<T>(numbers[k]));
      }
      const double score = generator.uniform();
      scores.push_back(to<T>(tied ? std::floor(16 * score) / 16 : score));
    }
  }
  boxes_view<const T> b() const { return boxes; }
  vector_view<const T> s() const { return scores; }
};

std::vector<merge_params> all_merges() {
  std::vector<merge_params> all;
  for (const auto overlap : {nms_overlap::smaller_area, nms_overlap::positive_area}) {
    for (const bool transitive : {false, true}) {
      for (const double threshold : {0.1, 0.5, 0.9, 1.0}) {
        merge_params params = merge_params::sahi_greedy_nmm(threshold);
        params.overlap = overlap;
        params.transitive = transitive;
        all.push_back(params);
      }
    }
  }
  return all;
}

template <class Real>
std::vector<std::vector<index_t>> groups_of(const merged_boxes<Real>& merged) {
  std::vector<std::vector<index_t>> groups;
  for (index_t g = 0; g + 1 < merged.offsets.size(); ++g)
    groups.emplace_back(merged.members.begin() + merged.offsets[g],
                        merged.members.begin() + merged.offsets[g + 1]);
  return groups;
}

template <class T>
void check_merges(const crowd<T>& c) {
  using real = compute_type<T>;
  std::vector<real> boxes, scores;
  for (const T x : c.boxes) boxes.push_back(static_cast<real>(x));
  for (const T x : c.scores) scores.push_back(static_cast<real>(x));
  merge_workspace workspace;
  for (const merge_params& params : all_merges()) {
    CAPTURE(params.transitive);
    CAPTURE(params.match_threshold);
    CAPTURE(c.scores.size());
    const auto expected = reference::merge_boxes<real>(boxes, scores, params);
    for_each_isa([&](isa) {
      CHECK(groups_of(merge_boxes(c.b(), c.s(), {}, params, workspace)) == expected);
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE("merge_boxes: groups equal the reference's", T, float, bfloat16, double) {
  std::uint64_t seed = 0;
  for (const index_t count : {0, 1, 2, 15, 16, 17, 33, 100, 700}) {
    for (const double side : {60.0, 400.0}) {
      check_merges(crowd<T>(count, side, false, ++seed));
      check_merges(crowd<T>(count, side, true, ++seed));
    }
  }
}

TEST_CASE("merge_boxes: a large crowd, and one box inside all others") {
  crowd<float> c(1500, 900, true, 50);
  check_merges(c);
  c.boxes[0] = c.boxes[1] = -10;
  c.boxes[2] = c.boxes[3] = 2000;
  c.scores[0] = 2;
  check_merges(c);
  c.scores[0] = -1;
  check_merges(c);
}

TEST_CASE("merge_boxes: threads divide the members of few, large groups") {
  const crowd<float> c(20000, 30, true, 9);
  for (const merge_params& params : {merge_params::sahi_greedy_nmm(), merge_params::sahi_nmm()}) {
    merge_workspace one, several;
    const auto expected =
        merge_boxes(c.b(), c.s(), nms_groups{}, params, one, threading::sequential);
    CHECK(10 * expected.boxes.size() < c.b().size());
    index_t pieces = 0;
    const auto counted = [&](index_t count, const task& work) {
      pieces = std::max(pieces, count);
      backwards(count, work);
    };
    const auto merged =
        merge_boxes(c.b(), c.s(), nms_groups{}, params, several, threading::on(counted, 3));
    CHECK(pieces >= 4);
    CHECK(groups_of(merged) == groups_of(expected));
    for (index_t g = 0; g < expected.boxes.size(); ++g) {
      CHECK(std::equal(merged.boxes[g], merged.boxes[g] + 4, expected.boxes[g]));
      CHECK(merged.scores[g] == expected.scores[g]);
    }
  }
}

TEST_CASE("merge_boxes: special boxes and scores") {
  crowd<float> c(0, 1, false, 1);
  random_generator generator(51);
  for (int round = 0; round < 3; ++round) {
    for (const auto& box : special_boxes()) {
      for (const double x : box) c.boxes.push_back(static_cast<float>(x));
      c.scores.push_back(static_cast<float>(generator.uniform()));
    }
  }
  c.scores[5] = std::numeric_limits<float>::quiet_NaN();
  c.scores[6] = std::numeric_limits<float>::infinity();
  c.scores[7] = -std::numeric_limits<float>::infinity();
  check_merges(c);
}

TEST_CASE("merge_boxes: per class and image, and in descending score over all") {
  const crowd<float> c(900, 200, true, 52);
  random_generator generator(53);
  std::vector<index_t> classes, images;
  for (int i = 0; i < 900; ++i) {
    classes.push_back(generator.below(3) * 1000 - 5);
    images.push_back(i / 300);
  }
  const nms_groups groups{vector_view<const index_t>(classes), vector_view<const index_t>(images)};
  merge_workspace workspace;
  for (const merge_params& params : all_merges()) {
    const auto found = merge_boxes(c.b(), c.s(), groups, params, workspace);
    std::map<index_t, std::vector<index_t>> by_owner;
    for (index_t image = 0; image < 3; ++image) {
      for (const index_t class_id : {-5, 995, 1995}) {
        std::vector<index_t> indices;
        std::vector<float> boxes, scores;
        for (index_t i = 300 * image; i < 300 * image + 300; ++i) {
          if (classes[static_cast<std::size_t>(i)] != class_id) continue;
          indices.push_back(i);
          boxes.insert(boxes.end(), c.b()[i], c.b()[i] + 4);
          scores.push_back(c.scores[static_cast<std::size_t>(i)]);
        }
        for (auto group : reference::merge_boxes<float>(boxes, scores, params)) {
          for (index_t& member : group) member = indices[static_cast<std::size_t>(member)];
          by_owner[group[0]] = group;
        }
      }
    }
    const auto groups_found = groups_of(found);
    CHECK(groups_found.size() == by_owner.size());
    bool same = true;
    for (const auto& group : groups_found) same = same && by_owner[group[0]] == group;
    CHECK(same);
    CHECK(std::is_sorted(found.scores.begin(), found.scores.end(),
                         [](float a, float b) { return a > b; }));
  }
}

TEST_CASE("merge_boxes: the merged box, with and without the second comparison") {
  // The second box matches the first (IoU 0.6). So does the third, but it does not match the
  // rectangle around the first two (IoU 0.43).
  const std::vector<float> boxes{0, 0, 10, 10, 2.5, 0, 12.5, 10, 0, 0, 5.4f, 10};
  const std::vector<float> scores{0.9f, 0.8f, 0.7f};
  merge_params params = merge_params::supervision(0.5);
  merge_workspace workspace;
  const auto all = merge_boxes(boxes_view<const float>(boxes), vector_view<const float>(scores), {},
                               params, workspace);
  CHECK(groups_of(all) == std::vector<std::vector<index_t>>{{0, 1, 2}});
  CHECK(all.boxes(0, 2) == 12.5f);
  CHECK(all.scores[0] == 0.9f);
  params.recheck = true;
  const std::vector<float> left{0, 0, 10, 10, 2.5, 0, 12.5, 10, -3, 0, 7, 10};
  const auto some = merge_boxes(boxes_view<const float>(left), vector_view<const float>(scores), {},
                                params, workspace);
  CHECK(groups_of(some) == std::vector<std::vector<index_t>>{{0, 1, 2}});
  CHECK(some.boxes(0, 0) == 0);  // 7 / 15.5 is not above a half
  CHECK(some.boxes(0, 2) == 12.5f);
}

TEST_CASE("NMS: by intersection over the smaller area") {
  std::uint64_t seed = 60;
  for (const index_t count : {0, 1, 40, 3000}) {
    const crowd<float> c(count, 500, false, ++seed);
    random_generator generator(++seed);
    std::vector<index_t> classes;
    for (index_t i = 0; i < count; ++i) classes.push_back(generator.below(4));
    for (const double threshold : {0.0, 0.3, 0.5, 1.0}) {
      for (const bool suppress_equal : {false, true}) {
        if (suppress_equal && threshold == 0) continue;
        nms_params params = nms_params::sahi(threshold);
        params.suppress_equal = suppress_equal;
        params.max_per_class = threshold == 0.3 ? 20 : no_limit;
        const nms_groups groups{vector_view<const index_t>(classes)};
        const auto expected = reference::nms(c.b(), c.s(), params);
        const auto by_class =
            reference::nms(c.b(), c.s(), params, {vector_view<const index_t>(classes), {}});
        for_each_isa([&](isa) {
          CHECK(nms(c.b(), c.s(), params) == expected);
          CHECK(batched_nms(c.b(), c.s(), groups, params) == by_class);
        });
      }
    }
  }
}

TEST_CASE("merge_boxes: bad arguments throw errors that name them") {
  const crowd<float> c(10, 100, false, 80);
  merge_params params;
  merge_workspace workspace;
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(merge_boxes(c.b(), c.s(), {}, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
    params = {};
  };
  for (const double bad : {0.0, -0.5, 1.01, std::nan("")}) {
    params.match_threshold = bad;
    fails("vecdet::merge_boxes: params.match_threshold is ");
  }
  params.overlap = nms_overlap::jaccard;
  fails("params.overlap is plain or jaccard, expected smaller_area or positive_area");
  CHECK_THROWS_WITH_AS(
      merge_boxes(c.b(), vector_view<const float>(c.scores.data(), 9), {}, params, workspace),
      doctest::Contains("scores.size() is 9"), std::invalid_argument);
  nms_groups groups{vector_view<const index_t>()};
  std::vector<index_t> classes(9);
  groups.classes = vector_view<const index_t>(classes);
  CHECK_THROWS_WITH_AS(merge_boxes(c.b(), c.s(), groups, params, workspace),
                       doctest::Contains("groups.classes.size() is 9"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(merge_boxes(c.b(), c.s(), classes, params, workspace),
                       doctest::Contains("groups.size() is 9"), std::invalid_argument);

  nms_params by_area = nms_params::sahi(0);
  CHECK_THROWS_WITH_AS(nms(c.b(), c.s(), by_area), doctest::Contains("params.iou_threshold is 0"),
                       std::invalid_argument);
  by_area = nms_params::sahi(0.5);
  by_area.plus_one = true;
  CHECK_THROWS_WITH_AS(nms(c.b(), c.s(), by_area), doctest::Contains("params.plus_one is true"),
                       std::invalid_argument);
}

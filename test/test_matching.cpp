// SPDX-License-Identifier: Apache-2.0
// Matching against torchvision's golden vectors and, on every instruction set, against the
// reference: random boxes full of ties and special ones, batches, regions, options; ties
// on any number of threads; every documented error.
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/matcher.hpp"
#include "support/refusals.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/reference/matching.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

using indices = std::vector<index_t>;

/// The results of a call for `images` images.
struct outcome {
  indices matches, labels, foreground;
  std::vector<float> ious, deltas;

  outcome(index_t anchors, index_t images)
      : matches(static_cast<std::size_t>(anchors * images), 99),
        labels(matches),
        foreground(static_cast<std::size_t>(images), 99),
        ious(matches.size(), 99),
        deltas(4 * matches.size(), 99) {}

  match_results results() { return {matches, labels, ious, deltas, foreground}; }
  bool operator==(const outcome& other) const {
    return matches == other.matches && labels == other.labels && foreground == other.foreground &&
           same_bits(ious, other.ious) && same_bits(deltas, other.deltas);
  }
};

/// The ground truth of a batch, and the anchors or boxes to match it with.
struct batch_problem {
  std::vector<float> anchors, boxes, regions;
  indices classes, offsets{0}, region_offsets{0};

  index_t images() const { return static_cast<index_t>(offsets.size()) - 1; }
  index_t size() const { return static_cast<index_t>(anchors.size() / 4); }
  void add_image(const std::vector<float>& truth, const std::vector<float>& ignored = {}) {
    boxes.insert(boxes.end(), truth.begin(), truth.end());
    regions.insert(regions.end(), ignored.begin(), ignored.end());
    offsets.push_back(static_cast<index_t>(boxes.size() / 4));
    region_offsets.push_back(static_cast<index_t>(regions.size() / 4));
    while (classes.size() < boxes.size() / 4)
      classes.push_back(static_cast<index_t>(7 * classes.size() % 80));
  }
  ground_truth truth() const { return {boxes, classes, offsets, regions, region_offsets}; }
  static boxes_view<const float> part(const std::vector<float>& of, const indices& at, index_t k) {
    const auto image = static_cast<std::size_t>(k);
    return {of.data() + 4 * at[image], at[image + 1] - at[image]};
  }
};

outcome expected(const batch_problem& problem, const matcher_params& params) {
  const index_t anchors = problem.size();
  outcome out(anchors, problem.images());
  std::vector<double> ious(static_cast<std::size_t>(anchors));
  for (index_t k = 0; k < problem.images(); ++k) {
    index_t* const matches = out.matches.data() + k * anchors;
    reference::match_anchors(boxes_view<const float>(problem.anchors),
                             batch_problem::part(problem.boxes, problem.offsets, k),
                             vector_view<index_t>(matches, anchors), as_reference(params), ious,
                             batch_problem::part(problem.regions, problem.region_offsets, k));
    index_t& foreground = out.foreground[static_cast<std::size_t>(k)] = 0;
    for (index_t i = 0; i < anchors; ++i) {
      const auto at = static_cast<std::size_t>(k * anchors + i);
      const double iou = ious[static_cast<std::size_t>(i)];
      // All NaNs become the same NaN, and both zeros the same 0.
      out.ious[at] = std::isnan(iou) ? std::numeric_limits<float>::quiet_NaN()
                                     : static_cast<float>(iou) + 0.0f;
      if (matches[i] < 0) {
        out.labels[at] = matches[i] == -1 ? params.background : params.ignore;
        continue;
      }
      ++foreground;
      matches[i] += problem.offsets[static_cast<std::size_t>(k)];
      out.labels[at] = problem.classes[static_cast<std::size_t>(matches[i])];
      encode_boxes(boxes_view<const float>(problem.boxes.data() + 4 * matches[i], 1),
                   boxes_view<const float>(problem.anchors.data() + 4 * i, 1),
                   boxes_view<float>(out.deltas.data() + 4 * at, 1), params.coder);
    }
  }
  return out;
}

/// Against the reference, with an index and without.
void check_problem(const batch_problem& problem, const matcher_params& params,
                   match_workspace& workspace) {
  outcome right = expected(problem, params);
  outcome indexed(problem.size(), problem.images()), direct = indexed;
  const anchor_index index(problem.anchors);
  const index_t count = match_anchors(index, problem.truth(), indexed.results(), params, workspace);
  match_anchors(boxes_view<const float>(problem.anchors), problem.truth(), direct.results(), params,
                workspace, threading::sequential);
  index_t sum = 0;
  for (const index_t foreground : right.foreground) sum += foreground;
  CHECK(count == sum);
  CHECK(indexed.matches == right.matches);
  CHECK(indexed == right);
  CHECK(direct == indexed);
}

std::vector<float> any_boxes(random_generator& generator, index_t count) {
  const double extent = generator.chance(0.3) ? 20 : generator.chance(0.5) ? 100 : 800;
  const double grid = generator.chance(0.4) ? 0 : generator.chance(0.5) ? 1 : 4;
  auto boxes = random_boxes<float>(count, generator.bits(), extent, grid);
  const auto special = special_boxes_as<float>();
  const bool has_special = generator.chance(0.3), has_equal = generator.chance(0.3);
  for (index_t i = 0; i < count; ++i) {
    const float* from = nullptr;
    if (has_equal && i > 0 && generator.chance(0.3)) {
      from = boxes.data() + 4 * generator.below(i);
    } else if (has_special && generator.chance(0.1)) {
      from = special.data() + 4 * generator.below(static_cast<index_t>(special.size() / 4));
    }
    if (from != nullptr) std::copy(from, from + 4, boxes.data() + 4 * i);
  }
  return boxes;
}

matcher_params any_params(random_generator& generator) {
  const double thresholds[] = {0, 0.25, 0.3, 0.4, 0.5, 0.7, 1, -1};
  matcher_params params;
  params.low_threshold = thresholds[generator.below(8)];
  params.high_threshold = thresholds[generator.below(8)];
  if (params.low_threshold > params.high_threshold)
    std::swap(params.low_threshold, params.high_threshold);
  params.allow_low_quality = generator.chance(0.6);
  params.skip_untouched = generator.chance(0.5);
  params.force_best = generator.chance(0.4);
  params.empty = generator.chance(0.3) ? empty_iou::zero : empty_iou::nan;
  params.region_threshold = generator.chance(0.3) ? 0 : generator.uniform();
  params.ignore_matched = generator.chance(0.5);
  params.background = generator.chance(0.5) ? -1 : 80;
  params.coder.weight_x = generator.chance(0.5) ? 1 : 10;
  return params;
}

void check_random(index_t rounds, index_t most_anchors, std::uint64_t seed) {
  match_workspace workspace;
  for (index_t round = 0; round < rounds; ++round) {
    CAPTURE(round);
    random_generator generator = random_generator(seed).split(static_cast<std::uint64_t>(round));
    batch_problem problem;
    problem.anchors =
        any_boxes(generator, generator.chance(0.05) ? 0 : generator.below(most_anchors));
    for (index_t images = 1 + generator.below(3); images > 0; --images) {
      const auto truth = any_boxes(generator, generator.chance(0.15) ? 0 : generator.below(40));
      problem.add_image(truth,
                        any_boxes(generator, generator.chance(0.5) ? 0 : generator.below(4)));
    }
    check_problem(problem, any_params(generator), workspace);
  }
}

/// For one image.
indices matched(const std::vector<float>& anchors, const std::vector<float>& boxes,
                const matcher_params& params) {
  match_workspace workspace;
  indices matches(anchors.size() / 4, 99);
  const ground_truth truth{boxes};
  const match_results results{matches};
  match_anchors(boxes_view<const float>(anchors), truth, results, params, workspace);
  return matches;
}

std::vector<float> retinanet(grid_size image) {
  std::vector<grid_size> features;
  for (index_t stride = 8; stride <= 128; stride *= 2)
    features.push_back({(image.height + stride - 1) / stride, (image.width + stride - 1) / stride});
  std::vector<float> anchors(
      static_cast<std::size_t>(4 * count_anchors(anchor_shapes::retinanet(), features)));
  make_anchors(anchor_shapes::retinanet(), image, features, anchors);
  return anchors;
}

}  // namespace

TEST_CASE("matching: indices equal torchvision's") {
  if (!has_data("golden_step/match_rpn_1.npy", "matching against torchvision")) return;
  const auto anchors = golden_step<float>("retinanet_anchors").values;
  const std::pair<const char*, matcher_params> matchers[] = {
      {"retinanet", matcher_params::retinanet()},
      {"rpn", matcher_params::rpn()},
      {"roi", matcher_params::roi()},
      {"ssd", matcher_params::ssd()}};
  for_each_isa([&](isa) {
    for (const auto& matcher : matchers) {
      const std::string name = matcher.first;
      const matcher_params& params = matcher.second;
      CAPTURE(name);
      CHECK(matched(anchors, golden_step<float>("gt_0").values, params) ==
            indices(anchors.size() / 4, -1));
      for (const char* k : {"1", "2", "3"}) {
        batch_problem problem;
        problem.anchors = anchors;
        problem.add_image(golden_step<float>(std::string("gt_") + k).values);
        const auto right = golden_step<std::int64_t>("match_" + name + "_" + k).values;
        CHECK(matched(anchors, problem.boxes, params) == right);
        CHECK(expected(problem, params).matches == right);
      }
    }
  });
}

TEST_CASE("matching: random boxes, few anchors") {
  for_each_isa([](isa) { check_random(under_sanitizer ? 40 : 300, 70, 1); });
}
TEST_CASE("matching: random boxes, some blocks of anchors") {
  for_each_isa([](isa) { check_random(under_sanitizer ? 10 : 60, 700, 2); });
}
TEST_CASE("matching: random boxes, several tiles of anchors") {
  for_each_isa([](isa) { check_random(under_sanitizer ? 2 : 8, 13000, 3); });
}

TEST_CASE("matching: anchor counts around the size of a block, a group and a tile") {
  match_workspace workspace;
  for_each_isa([&](isa) {
    for (const index_t count : {1, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097}) {
      CAPTURE(count);
      batch_problem problem;
      problem.anchors = random_boxes<float>(count, 3, 200, 4);
      problem.add_image(random_boxes<float>(9, 4, 200, 4));
      check_problem(problem, {}, workspace);
    }
  });
}

TEST_CASE("matching: anchors in any order have the same matches") {
  const auto anchors = retinanet({200, 160});
  const auto truth = random_boxes<float>(20, 5, 160);
  const auto in_order = matched(anchors, truth, {});
  const auto count = static_cast<index_t>(anchors.size() / 4);
  std::vector<float> shuffled(anchors.size());
  const index_t step = 4001;  // shares no factor with their number
  for (index_t i = 0; i < count; ++i)
    std::copy_n(anchors.data() + 4 * (i * step % count), 4, shuffled.data() + 4 * i);
  const auto any_order = matched(shuffled, truth, {});
  index_t different = 0;
  for (index_t i = 0; i < count; ++i)
    different += any_order[static_cast<std::size_t>(i)] !=
                 in_order[static_cast<std::size_t>(i * step % count)];
  CHECK(different == 0);
}

TEST_CASE("matching: deltas use the weights of the detector's coder") {
  batch_problem problem;
  problem.anchors = random_boxes<float>(200, 1, 100, 2);
  problem.add_image(random_boxes<float>(6, 2, 100, 2));
  match_workspace workspace;
  for (const matcher_params& params :
       {matcher_params::rpn(), matcher_params::roi(), matcher_params::ssd()})
    check_problem(problem, params, workspace);
  CHECK(matcher_params::ssd().coder.weight_h == 5);
}

TEST_CASE("matching: equal IoUs in the chunks of several threads") {
  // Four equal tiles, each with one anchor in each of 64 blocks: more than a summary holds.
  const std::vector<float> few = random_boxes<float>(64, 3, 100, 2);
  batch_problem problem;
  for (int copy = 0; copy < 4 * 64; ++copy)
    problem.anchors.insert(problem.anchors.end(), few.begin(), few.end());
  problem.add_image(random_boxes<float>(9, 4, 100, 2));
  matcher_params params;
  for (const bool force_best : {false, true}) {
    params.force_best = force_best;
    const outcome right = expected(problem, params);
    for_each_isa([&](isa) {
      for (const int threads : {1, 2, 3, 16}) {
        tbb::task_arena arena(threads);
        arena.execute([&] {
          for (int round = 0; round < 5; ++round) {
            match_workspace workspace;
            outcome out(problem.size(), problem.images());
            match_anchors(boxes_view<const float>(problem.anchors), problem.truth(), out.results(),
                          params, workspace);
            CHECK(out == right);
          }
        });
      }
    });
  }
}

TEST_CASE("matching: threads share large images or take an image each") {
  batch_problem problem;
  problem.anchors = random_boxes<float>(65536, 5, 400, 40);
  match_workspace workspace;
  for (std::uint64_t seed = 6; seed < 11; ++seed) {
    problem.add_image(random_boxes<float>(2 + problem.images(), seed, 400, 90));
    const outcome right = expected(problem, {});
    for (const int threads : {1, 2, 4, 6}) {
      tbb::task_arena arena(threads);
      arena.execute([&] {
        outcome out(problem.size(), problem.images());
        match_anchors(boxes_view<const float>(problem.anchors), problem.truth(), out.results(), {},
                      workspace);
        CHECK(out == right);
      });
    }
  }
}

TEST_CASE("matching: outputs that are not requested are not needed") {
  const auto anchors = random_boxes<float>(300, 1, 100, 2);
  const auto truth_boxes = random_boxes<float>(12, 2, 100, 2);
  batch_problem problem;
  problem.anchors = anchors;
  problem.add_image(truth_boxes);
  const outcome right = expected(problem, {});
  match_workspace workspace;
  ground_truth truth{truth_boxes};
  outcome out(300, 1);
  match_results results;
  const boxes_view<const float> view(anchors);
  CHECK(match_anchors(view, truth, results, {}, workspace) == right.foreground[0]);
  results.deltas = out.deltas;
  match_anchors(view, truth, results, {}, workspace);
  CHECK(same_bits(out.deltas, right.deltas));
  results = {};
  results.best_ious = out.ious;
  match_anchors(view, truth, results, {}, workspace);
  CHECK(same_bits(out.ious, right.ious));
  // Labels without classes are 0.
  results = {};
  results.labels = out.labels;
  match_anchors(view, truth, results, {}, workspace);
  for (std::size_t i = 0; i < out.labels.size(); ++i)
    CHECK(out.labels[i] == std::min<index_t>(right.matches[i], 0));
  // 32-bit classes.
  const std::vector<std::int32_t> classes(12, 3);
  truth.classes = classes;
  match_anchors(view, truth, results, {}, workspace);
  CHECK(std::count(out.labels.begin(), out.labels.end(), 3) == right.foreground[0]);
}

TEST_CASE("matching: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> anchors(4 * 5, 1), boxes(4 * 3, 1);
  outcome out(5, 1);
  match_workspace workspace;
  struct call {
    ground_truth truth;
    match_results results;
    matcher_params params;
  };
  const auto refused = refusals(out);
  const auto fails = [&](const char* message, const auto& change) {
    call c{{}, out.results(), {}};
    c.truth.boxes = boxes;
    change(c);
    refused(message, [&] {
      match_anchors(boxes_view<const float>(anchors), c.truth, c.results, c.params, workspace);
    });
    refused(message,
            [&] { match_anchors(anchor_index(anchors), c.truth, c.results, c.params, workspace); });
  };
  const indices two(2, 0), four(4, 0), wrong = {0, 2, 1, 3}, short_of = {0, 2}, late = {1, 3};
  const indices one_image = {0, 3};
  indices few(4, 0);
  std::vector<float> few_floats(4, 0);
  fails("match_anchors: params.high_threshold is nan",
        [](call& c) { c.params.high_threshold = NAN; });
  fails("params.low_threshold is nan", [](call& c) { c.params.low_threshold = NAN; });
  fails("params.low_threshold is 0.59999999999999998, expected at most 0.5, the high threshold",
        [](call& c) { c.params.low_threshold = 0.6; });
  fails("params.region_threshold is 1.5", [](call& c) { c.params.region_threshold = 1.5; });
  fails("params.coder.weight_w is 0", [](call& c) { c.params.coder.weight_w = 0; });
  fails("params.coder.anchors is cxcywh, expected xyxy",
        [](call& c) { c.params.coder = coder_params::ssd(); });
  fails("truth.classes.size() is 2", [&](call& c) { c.truth.classes = two; });
  fails("truth.image_offsets[0] is 1", [&](call& c) { c.truth.image_offsets = late; });
  fails("truth.image_offsets[2] is 1, expected at least 2, the element before it",
        [&](call& c) { c.truth.image_offsets = wrong; });
  fails("truth.image_offsets[1] is 2, expected 3, the number of boxes",
        [&](call& c) { c.truth.image_offsets = short_of; });
  fails("truth.region_offsets.size() is 0, expected 2, the size of image_offsets", [&](call& c) {
    c.truth.image_offsets = one_image;
    c.truth.regions = boxes;
  });
  fails("results.matches.size() is 4, expected 0 or 5, images x anchors",
        [&](call& c) { c.results.matches = few; });
  fails("results.labels.size() is 4", [&](call& c) { c.results.labels = few; });
  fails("results.best_ious.size() is 4", [&](call& c) { c.results.best_ious = few_floats; });
  fails("results.deltas.size() is 1", [&](call& c) { c.results.deltas = few_floats; });
  fails("results.foreground.size() is 4", [&](call& c) { c.results.foreground = few; });
}

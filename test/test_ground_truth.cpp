// SPDX-License-Identifier: Apache-2.0
// ground_truth_batch: the same as arrays and offsets written by hand, reuse of memory, and every
// documented error.
#include <vecdet/ground_truth.hpp>
#include <vecdet/matching.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

template <class View>
auto elements(const View& view) {
  return std::vector<index_t>(view.begin(), view.end());
}
std::vector<float> numbers(const boxes_view<const float>& boxes) {
  return {boxes.data(), boxes.data() + 4 * boxes.size()};
}

}  // namespace

TEST_CASE("ground truth: images one by one are the arrays of a batch") {
  ground_truth_batch batch;
  CHECK(batch.images() == 0);
  CHECK(elements(ground_truth(batch).image_offsets) == std::vector<index_t>{0});
  batch.add_image(std::vector<float>{0, 0, 16, 16, 8, 0, 24, 16}, std::vector<std::uint32_t>{3, 1});
  batch.add_image({});
  batch.add_image(std::vector<std::array<float, 4>>{{40, 40, 60, 62}}, std::vector<int>{2},
                  std::vector<float>{0, 0, 9, 9});
  CHECK(batch.images() == 3);
  const ground_truth truth = batch;
  CHECK(numbers(truth.boxes) == std::vector<float>{0, 0, 16, 16, 8, 0, 24, 16, 40, 40, 60, 62});
  REQUIRE(truth.classes.size() == 3);
  CHECK(truth.classes[0] == 3);
  CHECK(truth.classes[1] == 1);
  CHECK(truth.classes[2] == 2);
  CHECK(elements(truth.image_offsets) == std::vector<index_t>{0, 2, 2, 3});
  CHECK(numbers(truth.regions) == std::vector<float>{0, 0, 9, 9});
  CHECK(elements(truth.region_offsets) == std::vector<index_t>{0, 0, 0, 1});
}

TEST_CASE("ground truth: a batch is matched like arrays") {
  const std::vector<float> anchors{0, 0, 16, 16, 8, 0, 24, 16, 40, 40, 60, 60};
  ground_truth_batch batch;
  match_workspace workspace;
  std::vector<index_t> labels(6);
  const match_results results{{}, labels};
  for (int step = 0; step < 2; ++step) {
    batch.clear();
    batch.add_image(std::vector<float>{1, 0, 17, 16}, std::vector<int>{2});
    batch.add_image(std::vector<float>{42, 40, 60, 62}, std::vector<int>{0});
    CHECK(match_anchors(anchors, batch, results, matcher_params::retinanet(), workspace) == 2);
    CHECK(labels == std::vector<index_t>{2, -1, -1, -1, -1, 0});
  }
}

TEST_CASE("ground truth: without classes, and a batch's memory is reused") {
  ground_truth_batch batch;
  const std::vector<float> boxes(40, 1);
  for (int i = 0; i < 3; ++i) batch.add_image(boxes);
  const ground_truth first = batch;
  CHECK(first.classes.size() == 0);
  CHECK(first.regions.empty());
  CHECK(first.region_offsets.empty());  // so that assigners accept the batch
  batch.clear();
  CHECK(batch.images() == 0);
  for (int i = 0; i < 3; ++i) batch.add_image(boxes);
  const ground_truth second = batch;
  CHECK(second.boxes.data() == first.boxes.data());
  CHECK(second.image_offsets.data() == first.image_offsets.data());
  ground_truth_batch other = std::move(batch);
  CHECK(other.images() == 3);
  batch.clear();
  batch.add_image(boxes, std::vector<int>(10, 7));
  CHECK(ground_truth(batch).classes[9] == 7);
}

TEST_CASE("ground truth: errors name the argument, and add nothing") {
  ground_truth_batch batch;
  const std::vector<float> boxes(8, 1);
  const auto fails = [&](const char* message, const labels_view& classes) {
    const index_t images = batch.images();
    CHECK_THROWS_WITH_AS(batch.add_image(boxes, classes), message, std::invalid_argument);
    CHECK(batch.images() == images);
    CHECK(ground_truth(batch).boxes.size() == 2 * images);
  };
  const std::vector<int> one{1}, two{1, 2};
  const std::vector<std::uint64_t> large{0, std::numeric_limits<std::uint64_t>::max()};
  fails(
      "vecdet::ground_truth_batch::add_image: classes.size() is 1, expected 2, the number of "
      "boxes",
      one);
  fails(
      "vecdet::ground_truth_batch::add_image: classes[1] is 18446744073709551615, expected at "
      "most 2^63 - 1",
      large);
  batch.add_image(boxes);
  fails(
      "vecdet::ground_truth_batch::add_image: classes.size() is 2, expected 0, because the "
      "boxes before have none",
      two);
  batch.clear();
  batch.add_image(boxes, two);
  fails(
      "vecdet::ground_truth_batch::add_image: classes.size() is 0, expected 2, the number of "
      "boxes",
      {});
}

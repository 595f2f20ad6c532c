// SPDX-License-Identifier: Apache-2.0
// Raw outputs of DETRs against the published rules, step by step: softmax and sigmoid, batches,
// ties, special logits, and every documented error.
#include "support/class_lists.hpp"
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/postprocess_detr.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

struct detr_problem {
  index_t images, queries, classes;
  std::vector<float> logits, boxes;
  std::vector<image_size> sizes;

  detr_problem(index_t image_count, index_t query_count, index_t class_count, std::uint64_t seed)
      : images(image_count), queries(query_count), classes(class_count) {
    random_generator generator(seed);
    for (index_t i = 0; i < images * queries * classes; ++i)
      logits.push_back(static_cast<float>(std::floor(8 * (2 * generator.normal() - 1)) / 8));
    for (index_t i = 0; i < 4 * images * queries; ++i)
      boxes.push_back(static_cast<float>(generator.uniform(0, i % 4 < 2 ? 1 : 0.4)));
    for (index_t i = 0; i < images; ++i)
      sizes.push_back(image_size::height_width(480, std::floor(generator.uniform(100, 2000))));
  }
  detr_outputs<float> outputs() const {
    return {{logits.data(), images * queries, classes}, boxes};
  }
};

struct expected_detection {
  double score;
  float logit;
  index_t query, label;
};

std::vector<expected_detection> expected_of(const detr_problem& p, index_t image,
                                            const postprocess_detr_params& params) {
  std::vector<expected_detection> all;
  for (index_t q = 0; q < p.queries; ++q) {
    const float* const row = p.logits.data() + (image * p.queries + q) * p.classes;
    if (!params.softmax) {
      for (index_t c = 0; c < p.classes; ++c)
        all.push_back({1 / (1 + std::exp(-static_cast<double>(row[c]))), row[c], q, c});
      continue;
    }
    double sum = 0;
    for (index_t c = 0; c < p.classes; ++c) sum += std::exp(static_cast<double>(row[c]));
    const index_t best = std::max_element(row, row + p.classes - 1) - row;
    const double score = std::exp(static_cast<double>(row[best])) / sum;
    all.push_back({score, static_cast<float>(score), q, best});
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const auto& d) {
                             return !is_wanted(params, d.label) ||
                                    !(d.score > threshold_of(params, d.label));
                           }),
            all.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.logit > b.logit; });
  if (static_cast<index_t>(all.size()) > params.max_detections)
    all.resize(static_cast<std::size_t>(params.max_detections));
  return all;
}

void check_equal(const detr_problem& p, const detections_view& found,
                 const postprocess_detr_params& params) {
  REQUIRE(found.offsets.size() == p.images + 1);
  for (index_t image = 0; image < p.images; ++image) {
    const auto expected = expected_of(p, image, params);
    REQUIRE(found.offsets[image + 1] - found.offsets[image] ==
            static_cast<index_t>(expected.size()));
    bool same = true;
    for (std::size_t d = 0; d < expected.size(); ++d) {
      const index_t at = found.offsets[image] + static_cast<index_t>(d);
      same = same && found.sources[at] == expected[d].query &&
             found.labels[at] == expected[d].label &&
             std::abs(static_cast<double>(found.scores[at]) - expected[d].score) < 1e-6;
      const float* const box = p.boxes.data() + 4 * (image * p.queries + expected[d].query);
      const auto& size = p.sizes[static_cast<std::size_t>(image)];
      for (int k = 0; k < 4; ++k) {
        const float side = static_cast<float>(k % 2 == 0 ? size.width : size.height);
        const float half = box[k % 2 + 2] / 2;
        const float x = (k < 2 ? box[k % 2] - half : box[k % 2] + half) * side;
        same = same && found.boxes(at, k) == std::min(std::max(x, 0.0f), side);
      }
    }
    CHECK(same);
  }
}

void check_problem(const detr_problem& p, const postprocess_detr_params& params) {
  postprocess_workspace workspace;
  for_each_isa([&](isa) {
    for (const threading policy : {threading::sequential, threading::parallel})
      check_equal(p,
                  postprocess_detr(p.outputs(), vector_view<const image_size>(p.sizes), params,
                                   workspace, policy),
                  params);
  });
}

}  // namespace

TEST_CASE("postprocess_detr: softmax and sigmoid, any shape") {
  std::uint64_t seed = 0;
  for (auto params : {postprocess_detr_params::detr(), postprocess_detr_params::rt_detr()}) {
    for (const index_t queries : {0, 1, 7, 100, 300}) {
      for (const index_t classes : {2, 17, 92}) {
        for (const double threshold : {0.0, 0.3, 0.9}) {
          params.score_threshold = threshold;
          check_problem(detr_problem(3, queries, classes, ++seed), params);
        }
      }
    }
  }
}

TEST_CASE("postprocess_detr: wanted classes and thresholds per class") {
  random_generator generator(77);
  for (auto params : {postprocess_detr_params::detr(), postprocess_detr_params::rt_detr()}) {
    for (int k = 0; k < 20; ++k) {
      for (const index_t classes : {2, 17, 92}) {
        const class_lists lists(0, classes - index_t{params.softmax}, generator);
        lists.give_limits(params);
        params.max_detections = generator.chance(0.3) ? 20 : 300;
        check_problem(detr_problem(2, 120, classes, 900 + static_cast<std::uint64_t>(k)), params);
      }
    }
  }
}

TEST_CASE("postprocess_detr: NaN and infinite logits") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits{nan, 5, 0, 5, infinity, 0, 5, -infinity, 0}, boxes(12, 0.5f);
  const std::vector<image_size> sizes{image_size::height_width(10, 10)};
  const detr_outputs<float> outputs{{logits.data(), 3, 3}, boxes};
  postprocess_workspace workspace;
  // -infinity is a probability of 0 and does not affect others.
  const auto softmax = postprocess_detr(outputs, vector_view<const image_size>(sizes),
                                        postprocess_detr_params::detr(), workspace);
  REQUIRE(softmax.sources.size() == 1);
  CHECK(softmax.sources[0] == 2);
  // Masked classes have probability 0, unless all are masked.
  auto any_score = postprocess_detr_params::detr();
  any_score.score_threshold = 0;
  const std::vector<float> masked{-infinity, -infinity, -infinity, -infinity, 5,
                                  -infinity, -infinity, -infinity, 5};
  const auto found = postprocess_detr(detr_outputs<float>{{masked.data(), 3, 3}, boxes},
                                      vector_view<const image_size>(sizes), any_score, workspace);
  REQUIRE(found.sources.size() == 1);
  CHECK(found.sources[0] == 1);
  CHECK(found.labels[0] == 1);
  CHECK(found.scores[0] == 1);
  const auto sigmoid = postprocess_detr(outputs, vector_view<const image_size>(sizes),
                                        postprocess_detr_params::rt_detr(), workspace);
  REQUIRE(sigmoid.sources.size() == 4);
  CHECK(sigmoid.sources[0] == 1);
  CHECK(sigmoid.labels[0] == 1);
  CHECK(sigmoid.scores[0] == 1);
}

TEST_CASE("postprocess_detr: bad arguments throw errors that name them") {
  const detr_problem p(2, 10, 5, 1);
  detr_outputs<float> outputs = p.outputs();
  std::vector<image_size> sizes = p.sizes;
  postprocess_detr_params params;
  postprocess_workspace workspace;
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(
        postprocess_detr(outputs, vector_view<const image_size>(sizes), params, workspace),
        doctest::Contains(message), std::invalid_argument);
    outputs = p.outputs();
    sizes = p.sizes;
    params = {};
  };
  params.score_threshold = 1.5;
  fails("vecdet::postprocess_detr: params.score_threshold is 1.5, expected a number in [0, 1]");
  params.max_detections = -1;
  fails("params.max_detections is -1");
  sizes.push_back(image_size::height_width(5, 5));
  fails("outputs.logits.rows() is 20, expected a multiple of the number of images");
  sizes.clear();
  fails("outputs.logits.rows() is 20");
  sizes[1].width = 0;
  fails("image_sizes[1] is 0");
  sizes[1].height = 1e-46;  // 0 in float
  fails("image_sizes[1] is 1e-46");
  outputs.boxes = {p.boxes.data(), 19};
  fails("outputs.boxes.size() is 19");
  const std::vector<index_t> last{4}, none_such{5};
  const std::vector<double> thresholds(5, 0.5), outside(5, 2.0);
  params.classes = none_such;
  fails("params.classes[0] is 5, expected a class from 0 to 4");
  params = postprocess_detr_params::detr();
  params.classes = last;
  fails("params.classes[0] is 4, expected a class from 0 to 3");
  params = postprocess_detr_params::detr();
  params.class_thresholds = thresholds;
  fails("params.class_thresholds.size() is 5, expected 0 or 4, the number of classes");
  params.class_thresholds = outside;
  fails("params.class_thresholds[0] is 2, expected a number in [0, 1]");
}

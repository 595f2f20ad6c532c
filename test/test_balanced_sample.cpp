// SPDX-License-Identifier: Apache-2.0
// Balanced samples: the number of each kind, every subset equally likely, dependence only on the
// seed and the image; and every documented error.
#include "support/loops.hpp"
#include "support/values.hpp"
#include <vecdet/balanced_sample.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

std::vector<index_t> sampled(const std::vector<index_t>& labels,
                             const std::vector<index_t>& offsets,
                             const balanced_sample_params& params,
                             threading policy = threading::parallel) {
  balanced_sample_workspace workspace;
  const auto sample = sample_balanced(labels, offsets, params, workspace, policy);
  return {sample.indices.begin(), sample.indices.end()};
}

}  // namespace

TEST_CASE("balanced sample: the requested sizes") {
  const index_t rows = 3000;
  const auto labels = random_labels(3 * rows, 20, 4, 0.2);
  const std::vector<int> narrow(labels.begin(), labels.end());
  const std::vector<index_t> offsets{0, rows, rows, rows + 40, 3 * rows};
  for (const index_t size : {index_t{0}, index_t{1}, index_t{7}, index_t{256}, index_t{512},
                             index_t{5000}, std::numeric_limits<index_t>::max()})
    for (const double share : {0.0, 0.25, 0.5, 0.999, 1.0}) {
      balanced_sample_params params;
      params.size = size;
      params.positive_share = share;
      balanced_sample_workspace workspace;
      const auto sample = sample_balanced(labels, offsets, params, workspace);
      REQUIRE(sample.offsets.size() == 5);
      for (index_t k = 0; k < 4; ++k) {
        index_t positives = 0, negatives = 0;
        for (index_t i = offsets[static_cast<std::size_t>(k)];
             i < offsets[static_cast<std::size_t>(k + 1)]; ++i) {
          positives += labels[static_cast<std::size_t>(i)] >= 0;
          negatives += labels[static_cast<std::size_t>(i)] == -1;
        }
        const double most = std::floor(static_cast<double>(size) * share);
        const auto expected = static_cast<index_t>(std::min(static_cast<double>(positives), most));
        const index_t first = sample.offsets[k], middle = first + sample.positives[k];
        const index_t last = sample.offsets[k + 1];
        CHECK(sample.positives[k] == expected);
        CHECK(last - middle == std::min(negatives, size - expected));
        for (index_t i = first; i < last; ++i) {
          const index_t at = sample.indices[i];
          CHECK(at >= offsets[static_cast<std::size_t>(k)]);
          CHECK(at < offsets[static_cast<std::size_t>(k + 1)]);
          const index_t label = labels[static_cast<std::size_t>(at)];
          CHECK((i < middle ? label >= 0 : label == -1));
          if (i > first && i != middle) CHECK(sample.indices[i - 1] < at);
        }
      }
      balanced_sample_workspace other;
      const auto narrow_sample = sample_balanced(narrow, offsets, params, other);
      CHECK(std::equal(sample.indices.begin(), sample.indices.end(), narrow_sample.indices.begin(),
                       narrow_sample.indices.end()));
    }
}

TEST_CASE("balanced sample: all labels if more are requested, for any number") {
  const std::vector<index_t> labels{-1, 3, -1, -2, 0, 7}, offsets{0, 3, 6};
  for (const index_t size : {index_t{6}, index_t{1} << 53, std::numeric_limits<index_t>::max()}) {
    INFO("size ", size);
    balanced_sample_params params;
    params.size = size;
    params.positive_share = 1;
    CHECK(sampled(labels, offsets, params) == std::vector<index_t>{1, 0, 2, 4, 5});
    params.positive_share = 0;
    CHECK(sampled(labels, offsets, params) == std::vector<index_t>{0, 2});
  }
}

TEST_CASE("balanced sample: every subset is equally likely") {
  // Two of five negatives: ten subsets, each 4000 times on average, with a deviation of 60.
  const std::vector<index_t> labels{-1, 0, -1, -1, -2, -1, -1}, offsets{0, 7};
  balanced_sample_params params;
  params.size = 2;
  params.positive_share = 0;
  std::map<std::vector<index_t>, int> counts;
  for (params.seed = 0; params.seed < 40000; ++params.seed)
    ++counts[sampled(labels, offsets, params)];
  CHECK(counts.size() == 10);
  for (const auto& subset : counts) CHECK(std::abs(subset.second - 4000) < 300);
}

TEST_CASE("balanced sample: the seed and the image decide, not the threads") {
  const auto labels = random_labels(20000, 5, 9, 0.1);
  const std::vector<index_t> offsets{0, 5000, 10000, 15000, 20000};
  balanced_sample_params params;
  params.seed = 42;
  const auto sample = sampled(labels, offsets, params, threading::sequential);
  CHECK(sampled(labels, offsets, params) == sample);
  CHECK(sampled(labels, offsets, params, threading::on(backwards, 3)) == sample);
  params.seed = 43;
  CHECK(sampled(labels, offsets, params) != sample);
  // Images with the same labels have different samples.
  params.seed = 42;
  const std::vector<index_t> same(2000, -1), two{0, 1000, 2000};
  auto both = sampled(same, two, params);
  REQUIRE(both.size() == 512);
  for (std::size_t i = 256; i < 512; ++i) both[i] -= 1000;
  CHECK(!std::equal(both.begin(), both.begin() + 256, both.begin() + 256));
  // The same numbers on every machine.
  const std::vector<index_t> few(10, -1), one{0, 10};
  params.size = 4;
  params.seed = 1;
  CHECK(sampled(few, one, params) == std::vector<index_t>{3, 5, 8, 9});
}

TEST_CASE("balanced sample: labels of other conventions, and errors") {
  const std::vector<std::uint32_t> labels{0, 0, 3, 80, 80, 80, 2};
  balanced_sample_params params;
  params.background = 80;
  params.ignore = 0;
  balanced_sample_workspace workspace;
  const std::vector<index_t> offsets{0, 7};
  const auto sample = sample_balanced(labels, offsets, params, workspace);
  CHECK(std::vector<index_t>(sample.indices.begin(), sample.indices.end()) ==
        std::vector<index_t>{2, 6, 3, 4, 5});
  const auto fails = [&](const std::vector<index_t>& at, const char* message) {
    CHECK_THROWS_WITH_AS(sample_balanced(labels, at, params, workspace), doctest::Contains(message),
                         std::invalid_argument);
  };
  fails({}, "image_offsets.size() is 0, expected 1 or more");
  fails({0, 6}, "image_offsets[1] is 6");
  fails({1, 7}, "image_offsets[0] is 1");
  fails({0, 8, 7}, "image_offsets[2] is 7");
  fails({0, 5, 4, 7}, "image_offsets[2] is 4");
  params.size = -1;
  fails(offsets, "params.size is -1, expected 0 or more");
  params.size = 1;
  params.positive_share = 1.5;
  fails(offsets, "params.positive_share is 1.5, expected a number in [0, 1]");
}

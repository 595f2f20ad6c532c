// SPDX-License-Identifier: Apache-2.0
// Threshold and top-k against a stable sort: element types, instruction sets, strides, sizes around
// the block and the memory for candidates, ties, special logits, threads, and every documented
// error.
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/filter_topk.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

template <class T>
void check_topk(matrix_view<const T> logits, double threshold, index_t k) {
  std::vector<index_t> expected;
  const auto at = [&](index_t i) {
    return static_cast<double>(
        static_cast<compute_type<T>>(logits(i / logits.cols(), i % logits.cols())));
  };
  for (index_t i = 0; i < logits.size(); ++i)
    if (at(i) > std::log(threshold / (1 - threshold))) expected.push_back(i);
  std::stable_sort(expected.begin(), expected.end(),
                   [&](index_t a, index_t b) { return at(a) > at(b); });
  if (static_cast<index_t>(expected.size()) > k) expected.resize(static_cast<std::size_t>(k));

  for_each_isa([&](isa) {
    filter_topk_workspace workspace;
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const filter_topk_result result = filter_topk(logits, threshold, k, workspace, policy);
      CHECK(std::vector<index_t>(result.elements.begin(), result.elements.end()) == expected);
      bool values = true;
      for (index_t i = 0; i < result.elements.size(); ++i)
        values = values && static_cast<double>(result.logits[i]) == at(result.elements[i]);
      CHECK(values);
    }
  });
}

template <class T>
std::vector<T> head(index_t size, std::uint64_t seed, bool tied) {
  random_generator generator(seed);
  std::vector<T> logits;
  for (index_t i = 0; i < size; ++i) {
    const double x = -4.6 + 0.75 * generator.normal();
    logits.push_back(to<T>(tied ? std::floor(4 * x) / 4 : x));
  }
  return logits;
}

}  // namespace

TEST_CASE_TEMPLATE("filter_topk: sizes, limits and thresholds", T, float, bfloat16) {
  for (const index_t size : {0, 1, 15, 16, 17, 127, 128, 129, 1000, 5000, 20000}) {
    for (const bool tied : {false, true}) {
      const auto logits = head<T>(size, static_cast<std::uint64_t>(size), tied);
      for (const index_t k : {0, 1, 10, 1000, 100000}) {
        for (const double threshold : {0.0, 0.01, 0.05, 0.9, 1.0}) {
          CAPTURE(size);
          CAPTURE(tied);
          CAPTURE(k);
          CAPTURE(threshold);
          check_topk<T>({logits.data(), 1, size}, threshold, k);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("filter_topk: probabilities are compared with the exact threshold", T, float,
                   bfloat16) {
  random_generator generator(5);
  std::vector<T> scores;
  for (int i = 0; i < 3000; ++i) scores.push_back(to<T>(std::floor(64 * generator.uniform()) / 64));
  for (const double threshold : {0.0, 0.25, 0.2500001, 0.9, 1.0}) {
    std::vector<index_t> expected;
    const auto at = [&](index_t i) {
      return static_cast<double>(static_cast<compute_type<T>>(scores[static_cast<std::size_t>(i)]));
    };
    for (index_t i = 0; i < 3000; ++i)
      if (at(i) > threshold) expected.push_back(i);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](index_t a, index_t b) { return at(a) > at(b); });
    if (expected.size() > 500) expected.resize(500);
    for_each_isa([&](isa) {
      filter_topk_workspace workspace;
      const auto found = filter_topk(matrix_view<const T>(scores.data(), 100, 30), threshold, 500,
                                     workspace, threading::sequential, score_kind::probabilities);
      CHECK(std::vector<index_t>(found.elements.begin(), found.elements.end()) == expected);
      const std::vector<head_level<const T>> levels{{scores.data(), 10, 10}};
      const auto found_in_levels =
          filter_topk(head_view<const T>(levels, 1, 1, 30, head_layout::nhwc), threshold, 500,
                      workspace, threading::sequential, score_kind::probabilities);
      CHECK(std::vector<index_t>(found_in_levels.elements.begin(),
                                 found_in_levels.elements.end()) == expected);
    });
  }
}

TEST_CASE("filter_topk: row stride and misaligned start") {
  for (const index_t cols : {1, 7, 91, 200}) {
    const auto logits = head<float>(50 * 203 + 1, 3, true);
    check_topk<float>({logits.data() + 1, 50, cols, 203}, 0.01, 30);
  }
}

TEST_CASE_TEMPLATE("filter_topk: strided rows of every length", T, float, bfloat16) {
  const index_t rows = 9, widest = 280;
  auto logits = head<T>(rows * (widest + 3), 4, true);
  for (std::size_t i = 0; i < logits.size(); i += 37) logits[i] = to<T>(std::nan(""));
  for (index_t cols = 1; cols <= widest; cols += cols < 150 ? 1 : 13) {
    CAPTURE(cols);
    for (const index_t k : {5, 2000}) check_topk<T>({logits.data(), rows, cols, cols + 3}, 0.01, k);
  }
}

TEST_CASE("filter_topk: more candidates than the memory holds, ascending, equal, many threads") {
  std::vector<float> ascending, equal;
  for (int i = 0; i < 300000; ++i) {
    ascending.push_back(static_cast<float>(i / 3));
    equal.push_back(1.5f);
  }
  check_topk<float>({ascending.data(), 300, 1000}, 0.5, 1000);
  check_topk<float>({equal.data(), 300, 1000}, 0.5, 1000);
  const auto logits = head<float>(1000000, 9, true);
  for (const int threads : {1, 2, 4}) {
    tbb::task_arena arena(threads);
    arena.execute([&] {
      check_topk<float>({logits.data(), 10000, 100}, 0.05, 1000);
      // Threads merge what the chunks have found if it is more than some thousands.
      for (const index_t k : {4096, 30000, 1000000})
        check_topk<float>({logits.data(), 10000, 100}, 0.01, k);
      check_topk<float>({equal.data(), 300, 1000}, 0.5, 200000);
      check_topk<float>({ascending.data(), 300, 1000}, 0.5, 200000);
    });
  }
}

TEST_CASE_TEMPLATE("filter_topk: large matrices, whose threshold comes from a sample", T, float,
                   bfloat16) {
  const index_t rows = 1100, cols = 1000, most = rows * cols / 256;  // the greatest k with a sample
  constexpr std::size_t stretch = 512, every = 64;
  const auto check = [&](const std::vector<T>& logits) {
    for (const int threads : {1, 3}) {
      tbb::task_arena(threads).execute([&] {
        for (const index_t k : {index_t{1}, index_t{1000}, most, most + 1})
          check_topk<T>({logits.data(), rows, cols}, 0.05, k);
      });
    }
  };
  for (const bool tied : {false, true}) check(head<T>(rows * cols, 11, tied));
  check(std::vector<T>(static_cast<std::size_t>(rows * cols), to<T>(1.5)));
  check(std::vector<T>(static_cast<std::size_t>(rows * cols), to<T>(-5)));
  // The sample promises more than there are: all of the 330 best are in it.
  auto misleading = head<T>(rows * cols, 12, false);
  for (std::size_t i = 0; i < misleading.size(); i += stretch * every)
    for (std::size_t j = 0; j < 10; ++j) misleading[i + 50 * j] = to<T>(9 + 0.125 * double(j));
  check(misleading);
}

TEST_CASE("filter_topk: special logits") {
  std::vector<float> logits;
  for (int i = 0; i < 20; ++i)
    for (const float x : special_logits<float>()) logits.push_back(x);
  for (const double threshold : {0.0, 0.5, 0.99, 1.0})
    check_topk<float>({logits.data(), 20, static_cast<index_t>(logits.size()) / 20}, threshold,
                      300);
}

TEST_CASE("filter_topk: bad arguments throw errors that name them") {
  const std::vector<float> logits(6);
  const matrix_view<const float> x(logits.data(), 2, 3);
  filter_topk_workspace workspace;
  for (const double threshold : {-0.1, 1.1, std::nan("")})
    CHECK_THROWS_WITH_AS(filter_topk(x, threshold, 1, workspace),
                         doctest::Contains("vecdet::filter_topk: score_threshold is"),
                         std::invalid_argument);
  const index_t most = std::numeric_limits<index_t>::max();
  CHECK_THROWS_WITH_AS(matrix_view<const float>(logits.data(), most / 4, 5),
                       doctest::Contains("vecdet::matrix_view: rows is"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(matrix_view<const float>(logits.data(), 2, 3, most / 2),
                       doctest::Contains("vecdet::matrix_view: rows is 2"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(boxes_view<const float>(logits.data(), most / 8),
                       doctest::Contains("vecdet::boxes_view: size is"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(vector_view<const float>(logits.data(), most / 2),
                       doctest::Contains("vecdet::vector_view: size is"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(filter_topk(x, 0.1, -1, workspace),
                       doctest::Contains("k is -1, expected 0 or more"), std::invalid_argument);
}

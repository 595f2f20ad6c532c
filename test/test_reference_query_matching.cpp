// SPDX-License-Identifier: Apache-2.0
// The reference of the matching of queries: SciPy's assignments, published costs, all permutations
// of small matrices, and examples computed by hand.
#include "support/data.hpp"
#include "support/values.hpp"
#include <vecdet/reference/query_matching.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// The least total of all complete assignments of rows to columns; rows <= cols.
double least_of_all(matrix_view<const double> costs) {
  std::vector<index_t> order(static_cast<std::size_t>(costs.cols()));
  std::iota(order.begin(), order.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  do {
    double total = 0;
    for (index_t i = 0; i < costs.rows(); ++i)
      total += costs(i, order[static_cast<std::size_t>(i)]);
    least = std::min(least, total);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

std::vector<index_t> assigned(matrix_view<const double> costs, double* total = nullptr) {
  std::vector<index_t> columns(static_cast<std::size_t>(costs.rows()), -7);
  const double sum = reference::assign_least_cost(costs, columns);
  if (total != nullptr) *total = sum;
  return columns;
}

}  // namespace

TEST_CASE("reference of assign_least_cost: SciPy's assignments") {
  if (!has_data("golden_network/lsa_cost_0.npy", "assign_least_cost: SciPy's assignments")) return;
  for (int k = 0; k < 9; ++k) {
    INFO("matrix ", k);
    const auto number = std::to_string(k);
    const auto costs = golden_network<double>("lsa_cost_" + number);
    const auto rows = golden_network<index_t>("lsa_rows_" + number);
    const auto cols = golden_network<index_t>("lsa_cols_" + number);
    std::vector<index_t> expected(static_cast<std::size_t>(costs.shape[0]), -1);
    for (std::size_t i = 0; i < rows.values.size(); ++i)
      expected[static_cast<std::size_t>(rows.values[i])] = cols.values[i];
    double total = 0;
    CHECK(assigned(costs.matrix(), &total) == expected);
    CHECK(std::abs(total - golden_network<double>("lsa_total_" + number).values[0]) <=
          1e-12 * std::max(1.0, std::abs(total)));
  }
}

TEST_CASE("reference of assign_least_cost: no permutation costs less") {
  random_generator generator(3);
  for (int trial = 0; trial < 300; ++trial) {
    const index_t cols = 1 + trial % 6, rows = 1 + trial / 6 % cols;
    std::vector<double> costs(static_cast<std::size_t>(rows * cols));
    // Every third matrix has many ties, every fifth forbidden pairs.
    for (double& cost : costs) {
      cost = generator.uniform(-3, 3);
      if (trial % 3 == 0) cost = std::round(cost);
      if (trial % 5 == 0 && generator.uniform() < 0.3)
        cost = std::numeric_limits<double>::infinity();
    }
    const matrix_view<const double> matrix(costs.data(), rows, cols);
    double total = 0;
    const auto columns = assigned(matrix, &total);
    const double least = least_of_all(matrix);
    if (std::isinf(least)) {
      CHECK(std::isinf(total));
      CHECK(std::count(columns.begin(), columns.end(), -7) == rows);
    } else {
      CHECK(std::abs(total - least) < 1e-12);
      if (rows == cols) continue;  // if transposed, ties may be broken differently
      std::vector<double> turned;
      for (index_t j = 0; j < cols; ++j)
        for (index_t i = 0; i < rows; ++i) turned.push_back(matrix(i, j));
      const auto rows_of = assigned({turned.data(), cols, rows});
      for (index_t i = 0; i < rows; ++i)
        CHECK(rows_of[static_cast<std::size_t>(columns[static_cast<std::size_t>(i)])] == i);
    }
  }
}

TEST_CASE("reference of assign_least_cost: ties go to the lower index") {
  const std::vector<double> same(12, 2.5);
  CHECK(assigned({same.data(), 3, 4}) == std::vector<index_t>{0, 1, 2});
  CHECK(assigned({same.data(), 4, 3}) == std::vector<index_t>{0, 1, 2, -1});
  // The second row could also take column 0 and send the first one to column 1.
  const std::vector<double> pair{1, 1, 1, 1, 1, 1};
  CHECK(assigned({pair.data(), 2, 3}) == std::vector<index_t>{0, 1});
}

TEST_CASE("reference of match_queries: published costs") {
  if (!has_data("golden_network/detr_cost_0_0.npy", "match_queries: published costs")) return;
  for (int k = 0; k < 2; ++k) {
    const auto number = std::to_string(k);
    const auto logits = golden_network<float>("detr_logits_" + number);
    const auto boxes = golden_network<float>("detr_boxes_" + number);
    const auto labels = golden_network<index_t>("detr_labels_" + number);
    const auto truth = golden_network<float>("detr_targets_" + number);
    const auto offsets = golden_network<index_t>("detr_offsets_" + number);
    const index_t queries = logits.shape[1], classes = logits.shape[2];
    double worst = 0;
    for (index_t image = 0; image < logits.shape[0]; ++image) {
      const auto costs =
          golden_network<double>("detr_cost_" + number + "_" + std::to_string(image));
      const index_t first = offsets.values[static_cast<std::size_t>(image)];
      for (index_t q = 0; q < queries; ++q)
        for (index_t b = 0; b < costs.shape[1]; ++b) {
          const index_t row = image * queries + q, box = first + b;
          const auto four = [](const npy_array<float>& from, index_t i) {
            const float* const at = from.values.data() + 4 * i;
            return std::vector<double>(at, at + 4);
          };
          const auto p = four(boxes, row), t = four(truth, box);
          const auto x = static_cast<double>(logits.values[static_cast<std::size_t>(
              row * classes + labels.values[static_cast<std::size_t>(box)])]);
          const double cost = 2 * reference::focal_class_cost(x, 0.25, 2, 1e-8) +
                              5 * reference::l1_distance(p.data(), t.data()) -
                              2 * reference::overlap_of_centres(p.data(), t.data()).giou;
          worst = std::max(worst, std::abs(cost - costs.matrix()(q, b)));
        }
    }
    CHECK(worst < 1e-12);
  }
}

TEST_CASE("reference of match_queries: costs by hand") {
  // At logit 0, p = 1/2: 1/4 (1/4 - 3/4) log(2).
  CHECK(std::abs(reference::focal_class_cost(0, 0.25, 2, 1e-8) + 0.125 * std::log(2)) < 1e-7);
  const double logits[] = {0, std::log(3.0), 0};
  CHECK(std::abs(reference::softmax_class_cost(logits, 3, 1) + 0.6) < 1e-15);
  // Two unit squares at a distance of 1: they touch and fill their hull.
  const double a[] = {0.5, 0.5, 1, 1}, b[] = {1.5, 0.5, 1, 1}, c[] = {2.5, 0.5, 1, 1};
  CHECK(reference::l1_distance(a, b) == 1);
  CHECK(reference::overlap_of_centres(a, a).giou == 1);
  CHECK(reference::overlap_of_centres(a, b).giou == 0);
  CHECK(std::abs(reference::overlap_of_centres(a, c).giou + 1.0 / 3) < 1e-15);
  const double point[] = {0.5, 0.5, 0, 0};
  CHECK(reference::overlap_of_centres(point, point).giou == 0);
}

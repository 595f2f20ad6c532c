// SPDX-License-Identifier: Apache-2.0
// Bipartite matching of queries with ground-truth boxes, in double: the costs, and the exact
// assignment by shortest augmenting paths. See query_matching.hpp for the formulas.
//
// Crouse: "On implementing 2D rectangular assignment algorithms", IEEE Transactions on Aerospace
// and Electronic Systems 52(4), 2016.
#pragma once

#include <vecdet/reference/box.hpp>
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The focal class cost of a logit x.
inline double focal_class_cost(double x, double alpha, double gamma, double epsilon) {
  const double p = 1 / (1 + std::exp(-x)), q = 1 / (1 + std::exp(x));
  const double positive = alpha * std::pow(q, gamma) * -std::log(p + epsilon);
  const double negative = (1 - alpha) * std::pow(p, gamma) * -std::log(q + epsilon);
  return positive - negative;
}

/// The softmax class cost: minus the probability of the label.
inline double softmax_class_cost(const double* logits, index_t classes, index_t label) {
  const double greatest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (index_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - greatest);
  return -std::exp(logits[label] - greatest) / sum;
}

/// The corners of a box given as centre and size.
inline box corners_of_centre(const double* four) {
  return {four[0] - 0.5 * four[2], four[1] - 0.5 * four[3], four[0] + 0.5 * four[2],
          four[1] + 0.5 * four[3]};
}

/// The sum of the absolute differences of the four numbers of two boxes.
inline double l1_distance(const double* a, const double* b) {
  double sum = 0;
  for (int k = 0; k < 4; ++k) sum += std::abs(a[k] - b[k]);
  return sum;
}

/// IoU and GIoU of boxes given as centre and size, whose divisors are increased by epsilon.
struct centre_overlap {
  double iou, giou;
};
inline centre_overlap overlap_of_centres(const double* a, const double* b, double epsilon = 1e-16) {
  const box p = corners_of_centre(a), t = corners_of_centre(b);
  const double w = std::min(p.x2, t.x2) - std::max(p.x1, t.x1);
  const double h = std::min(p.y2, t.y2) - std::max(p.y1, t.y1);
  const double intersection = std::max(0.0, w) * std::max(0.0, h);
  const double joined = box_area(p) + box_area(t) - intersection;
  const double hull =
      (std::max(p.x2, t.x2) - std::min(p.x1, t.x1)) * (std::max(p.y2, t.y2) - std::min(p.y1, t.y1));
  const double iou = intersection / (joined + epsilon);
  return {iou, iou - (hull - joined) / (hull + epsilon)};
}

/// Finds the complete assignment of the smaller side of `costs` with the least total and returns
/// the total. columns[i] is the column of row i, or -1. If every complete assignment has an
/// infinite cost, the result is infinite and `columns` is unchanged.
///
/// The search for row i's column visits columns by their distance. Among columns at the same
/// distance, it takes the first unassigned one, or the first one if all are assigned.
inline double assign_least_cost(matrix_view<const double> costs, vector_view<index_t> columns) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const bool transposed = costs.rows() > costs.cols();
  const index_t rows = std::min(costs.rows(), costs.cols());
  const index_t cols = std::max(costs.rows(), costs.cols());
  const auto cost = [&](index_t i, index_t j) { return transposed ? costs(j, i) : costs(i, j); };
  const auto size = [](index_t n) { return static_cast<std::size_t>(n); };
  std::vector<double> u(size(rows)), v(size(cols)), distance(size(cols));
  std::vector<index_t> column_of(size(rows), -1), row_of(size(cols), -1), before(size(cols));
  std::vector<bool> reached(size(cols));
  for (index_t row = 0; row < rows; ++row) {
    std::fill(distance.begin(), distance.end(), infinite);
    std::fill(reached.begin(), reached.end(), false);
    double lowest = 0;
    index_t end = -1;
    for (index_t i = row; end < 0;) {
      const double base = lowest - u[size(i)];
      lowest = infinite;
      index_t next = -1;
      for (index_t j = 0; j < cols; ++j) {
        const std::size_t at = size(j);
        if (reached[at]) continue;
        const double through = (base + cost(i, j)) - v[at];
        if (through < distance[at]) {
          distance[at] = through;
          before[at] = i;
        }
        if (distance[at] < lowest ||
            (next >= 0 && distance[at] == lowest && row_of[at] < 0 && row_of[size(next)] >= 0)) {
          lowest = distance[at];
          next = j;
        }
      }
      if (next < 0) return infinite;
      if (row_of[size(next)] < 0) {
        end = next;
      } else {
        reached[size(next)] = true;
        i = row_of[size(next)];
      }
    }
    u[size(row)] += lowest;
    for (index_t j = 0; j < cols; ++j) {
      if (!reached[size(j)]) continue;
      u[size(row_of[size(j)])] += lowest - distance[size(j)];
      v[size(j)] -= lowest - distance[size(j)];
    }
    for (index_t j = end, i = -1; i != row;) {
      i = before[size(j)];
      row_of[size(j)] = i;
      std::swap(column_of[size(i)], j);
    }
  }
  double total = 0;
  for (index_t i = 0; i < costs.rows(); ++i) {
    columns[i] = transposed ? row_of[size(i)] : column_of[size(i)];
    if (columns[i] >= 0) total += costs(i, columns[i]);
  }
  return total;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

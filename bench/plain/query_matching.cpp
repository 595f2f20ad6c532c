// SPDX-License-Identifier: Apache-2.0
#include "query_matching.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

struct corners {
  float x1, y1, x2, y2;
};
inline corners corners_of(const float* b) {
  return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
}

inline float giou_of(const corners& a, const corners& b) {
  const float w = std::max(0.0f, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const float h = std::max(0.0f, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const float joined = (a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - w * h;
  const float hull =
      (std::max(a.x2, b.x2) - std::min(a.x1, b.x1)) * (std::max(a.y2, b.y2) - std::min(a.y1, b.y1));
  return w * h / joined - (hull - joined) / hull;
}

inline float class_cost_of(float x) {
  const float p = 1 / (1 + std::exp(-x)), q = 1 - p;
  return 0.25f * q * q * -std::log(p + 1e-8f) - 0.75f * p * p * -std::log(q + 1e-8f);
}

/// Rows and columns count from 1; a path begins at row 0 and column 0.
template <class T>
void hungarian(const T* costs, std::int64_t rows, std::int64_t cols, std::int64_t* columns) {
  const auto size = static_cast<std::size_t>(cols + 1);
  std::vector<double> u(static_cast<std::size_t>(rows + 1)), v(size), least(size);
  std::vector<std::int64_t> row_of(size), before(size);
  std::vector<char> used(size);
  for (std::int64_t i = 1; i <= rows; ++i) {
    row_of[0] = i;
    std::int64_t j0 = 0;
    std::fill(least.begin(), least.end(), 1e30);
    std::fill(used.begin(), used.end(), char(0));
    do {
      used[static_cast<std::size_t>(j0)] = 1;
      const std::int64_t i0 = row_of[static_cast<std::size_t>(j0)];
      double delta = 1e30;
      std::int64_t j1 = 0;
      for (std::int64_t j = 1; j <= cols; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (used[at]) continue;
        const double cost = static_cast<double>(costs[(i0 - 1) * cols + j - 1]) -
                            u[static_cast<std::size_t>(i0)] - v[at];
        if (cost < least[at]) {
          least[at] = cost;
          before[at] = j0;
        }
        if (least[at] < delta) {
          delta = least[at];
          j1 = j;
        }
      }
      for (std::int64_t j = 0; j <= cols; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (used[at]) {
          u[static_cast<std::size_t>(row_of[at])] += delta;
          v[at] -= delta;
        } else {
          least[at] -= delta;
        }
      }
      j0 = j1;
    } while (row_of[static_cast<std::size_t>(j0)] != 0);
    do {
      const std::int64_t j1 = before[static_cast<std::size_t>(j0)];
      row_of[static_cast<std::size_t>(j0)] = row_of[static_cast<std::size_t>(j1)];
      j0 = j1;
    } while (j0 != 0);
  }
  for (std::int64_t j = 1; j <= cols; ++j) {
    const std::int64_t i = row_of[static_cast<std::size_t>(j)];
    if (i != 0) columns[i - 1] = j - 1;
  }
}

}  // namespace

void plain_match_queries(const float* logits, const float* predicted, std::int64_t images,
                         std::int64_t queries, std::int64_t classes, const float* truth,
                         const std::int64_t* labels, std::int64_t boxes, std::int64_t* matches) {
  std::vector<float> costs(static_cast<std::size_t>(boxes * queries));
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t b = 0; b < boxes; ++b) {
      const float* const t = truth + 4 * (n * boxes + b);
      const corners aim = corners_of(t);
      const std::int64_t label = labels[n * boxes + b];
      for (std::int64_t q = 0; q < queries; ++q) {
        const std::int64_t row = n * queries + q;
        const float* const p = predicted + 4 * row;
        const float l1 = std::abs(p[0] - t[0]) + std::abs(p[1] - t[1]) + std::abs(p[2] - t[2]) +
                         std::abs(p[3] - t[3]);
        costs[static_cast<std::size_t>(b * queries + q)] =
            5 * l1 + 2 * class_cost_of(logits[row * classes + label]) -
            2 * giou_of(corners_of(p), aim);
      }
    }
    hungarian(costs.data(), boxes, queries, matches + n * boxes);
  }
}

double plain_assign_least_cost(const double* costs, std::int64_t rows, std::int64_t cols,
                               std::int64_t* columns) {
  hungarian(costs, rows, cols, columns);
  double total = 0;
  for (std::int64_t i = 0; i < rows; ++i) total += costs[i * cols + columns[i]];
  return total;
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET

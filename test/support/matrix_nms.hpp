// SPDX-License-Identifier: Apache-2.0
// NMS as the loop over the matrix of overlaps.
#pragma once

#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace vecdet::test {

/// The boxes that are kept, by descending score.
/// @param overlaps of all pairs; row i has those that box i suppresses by
/// @param classes if not empty, only boxes of the same class suppress each other
/// @param by_suppressed whether a suppressed box suppresses others, as in NMS by ProbIoU
template <class T>
std::vector<index_t> matrix_nms(const matrix_view<const T>& overlaps,
                                const vector_view<const T>& scores,
                                const std::vector<index_t>& classes, double threshold,
                                bool suppress_equal, bool by_suppressed) {
  const index_t count = scores.size();
  const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
  std::vector<index_t> order(at(count)), kept;
  std::iota(order.begin(), order.end(), index_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return scores[a] > scores[b]; });
  std::vector<char> is_gone(at(count));
  for (const index_t i : order) {
    if (is_gone[at(i)] == 0)
      kept.push_back(i);
    else if (!by_suppressed)
      continue;
    for (index_t j = 0; j < count; ++j) {
      if (!classes.empty() && classes[at(j)] != classes[at(i)]) continue;
      const auto overlap = static_cast<double>(overlaps(i, j));
      if (suppress_equal ? overlap >= threshold : overlap > threshold) is_gone[at(j)] = 1;
    }
  }
  return kept;
}

}  // namespace vecdet::test

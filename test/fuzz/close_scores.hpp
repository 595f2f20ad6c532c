// SPDX-License-Identifier: Apache-2.0
// Where softmax in float may order candidates otherwise than in double.
#pragma once

#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vecdet {
namespace fuzz {

/// A softmax in float is that near to the exact one, relative to it.
constexpr double softmax_within = 2e-6;

/// Softmax of rows that are not equal: equal scores may differ in their last bits, and close ones
/// be equal or change places. Whether any two of `found` are so; each has a score and a label, and
/// row_of() gives its logits.
template <class Candidate, class RowOf>
bool any_close_scores(std::vector<Candidate> found, index_t classes, const RowOf& row_of) {
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  const auto same_logits = [&](const Candidate& a, const Candidate& b) {
    const auto *const x = row_of(a), *const y = row_of(b);
    if (static_cast<double>(x[a.label]) != static_cast<double>(y[b.label])) return false;
    return std::equal(x, x + classes, y, [](const auto& p, const auto& q) {
      return static_cast<double>(p) == static_cast<double>(q);
    });
  };
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t k = i + 1; k < found.size(); ++k) {
      if (static_cast<double>(found[k].score) <
          static_cast<double>(found[i].score) * (1 - 2 * softmax_within))
        break;
      if (!same_logits(found[i], found[k])) return true;
    }
  }
  return false;
}

}  // namespace fuzz
}  // namespace vecdet

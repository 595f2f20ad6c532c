// SPDX-License-Identifier: Apache-2.0
// Cases in which softmax in float may order candidates differently than in double.
#pragma once

#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vecdet {
namespace fuzz {

/// The relative error of a softmax in float.
constexpr double softmax_within = 2e-6;

/// Whether any two of `found` have scores that may be ordered differently. For rows that differ,
/// equal softmax scores may differ in their last bits, and close ones may be equal or swap. Each of
/// `found` has a score and a label; row_of() returns its logits.
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

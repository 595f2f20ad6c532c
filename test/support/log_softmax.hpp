// SPDX-License-Identifier: Apache-2.0
// The probabilities that CTC's references read.
#pragma once

#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::test {

/// The logarithms of a row's probabilities.
template <class T>
std::vector<double> log_softmax(const T* x, index_t classes) {
  std::vector<double> log_p(x, x + classes);
  const double greatest = *std::max_element(log_p.begin(), log_p.end());
  double sum = 0;
  for (const double logit : log_p) sum += std::exp(logit - greatest);
  for (double& logit : log_p) logit = logit - greatest - std::log(sum);
  return log_p;
}

/// The same of all steps of a sample. The rows of two steps are `stride` logits apart.
struct step_probabilities {
  std::vector<std::vector<double>> logs;

  step_probabilities() = default;
  template <class T>
  step_probabilities(const T* first, index_t steps, index_t stride, index_t classes) {
    for (index_t t = 0; t < steps; ++t) logs.push_back(log_softmax(first + t * stride, classes));
  }
  index_t steps() const { return static_cast<index_t>(logs.size()); }
  /// The logarithm of the probability of class c in step t.
  double operator()(index_t t, index_t c) const {
    return logs[static_cast<std::size_t>(t)][static_cast<std::size_t>(c)];
  }
};

}  // namespace vecdet::test

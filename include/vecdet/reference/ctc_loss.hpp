// SPDX-License-Identifier: Apache-2.0
// CTC in plain scalar double: Graves et al. 2006, "Connectionist temporal classification: labelling
// unsegmented sequence data with recurrent neural networks", equations 5 to 8 and 16. All
// probabilities are logarithms.
#pragma once

#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// log(exp(a) + exp(b)).
inline double log_add(double a, double b) {
  const double greater = std::max(a, b);
  if (std::isinf(greater)) return greater;
  return greater + std::log1p(std::exp(std::min(a, b) - greater));
}

/// The loss of one sample, of log probabilities log_p(t, c), and its gradient with respect to the
/// logits, steps x classes, unless `grad` is null.
template <class LogProbability>
double ctc_loss(const LogProbability& log_p, index_t steps, index_t classes,
                const std::vector<index_t>& target, index_t blank, double* grad = nullptr) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  // The target with blanks around each label.
  std::vector<index_t> l;
  for (const index_t label : target) l.push_back(blank), l.push_back(label);
  l.push_back(blank);
  const std::size_t states = l.size(), T = static_cast<std::size_t>(steps);
  const auto may_skip = [&](std::size_t s) {  // from state s - 2 to s
    return s >= 2 && l[s] != blank && l[s] != l[s - 2];
  };
  const auto p = [&](std::size_t t, std::size_t s) { return log_p(static_cast<index_t>(t), l[s]); };
  // Both variables with the steps in the first index; alpha includes its own step, beta does not.
  std::vector<std::vector<double>> alpha(T, std::vector<double>(states, none)), beta = alpha;
  for (std::size_t t = 0; t < T; ++t)
    for (std::size_t s = 0; s < states; ++s) {
      double sum = t == 0 ? (s <= 1 ? 0 : none) : alpha[t - 1][s];
      if (t > 0 && s >= 1) sum = log_add(sum, alpha[t - 1][s - 1]);
      if (t > 0 && may_skip(s)) sum = log_add(sum, alpha[t - 1][s - 2]);
      alpha[t][s] = sum == none ? none : sum + p(t, s);
    }
  for (std::size_t t = T; t-- > 0;)
    for (std::size_t s = 0; s < states; ++s) {
      if (t + 1 == T) {
        beta[t][s] = s + 2 >= states ? 0 : none;
        continue;
      }
      const auto from = [&](std::size_t next) {
        return beta[t + 1][next] == none ? none : beta[t + 1][next] + p(t + 1, next);
      };
      double sum = from(s);
      if (s + 1 < states) sum = log_add(sum, from(s + 1));
      if (s + 2 < states && may_skip(s + 2)) sum = log_add(sum, from(s + 2));
      beta[t][s] = sum;
    }
  double total = T == 0 ? (target.empty() ? 0 : none) : alpha[T - 1][states - 1];
  if (T > 0 && states > 1) total = log_add(total, alpha[T - 1][states - 2]);
  for (std::size_t t = 0; grad != nullptr && t < T; ++t) {
    double* const row = grad + static_cast<index_t>(t) * classes;
    for (index_t c = 0; c < classes; ++c)
      row[c] = total == none ? 0 : std::exp(log_p(static_cast<index_t>(t), c));
    for (std::size_t s = 0; s < states && total != none; ++s)
      row[l[s]] -= std::exp(alpha[t][s] + beta[t][s] - total);
  }
  return -total;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

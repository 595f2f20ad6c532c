// SPDX-License-Identifier: Apache-2.0
// Decoding of CTC in plain scalar double.
#pragma once

#include <vecdet/views.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

struct ctc_text {
  std::vector<index_t> classes, steps;
  std::vector<double> probabilities;
  double log_probability = 0;
};

/// The best path of one sample, of log probabilities log_p(t, c). Of equal ones, the lower class
/// wins.
template <class LogProbability>
ctc_text ctc_greedy(const LogProbability& log_p, index_t steps, index_t classes, index_t blank) {
  ctc_text text;
  index_t before = blank;
  for (index_t t = 0; t < steps; ++t) {
    index_t best = 0;
    for (index_t c = 1; c < classes; ++c)
      if (log_p(t, c) > log_p(t, best)) best = c;
    text.log_probability += log_p(t, best);
    if (best != blank && best != before) {
      text.classes.push_back(best);
      text.steps.push_back(t);
      text.probabilities.push_back(std::exp(log_p(t, best)));
    }
    before = best;
  }
  return text;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

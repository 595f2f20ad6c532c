// SPDX-License-Identifier: Apache-2.0
#include "ctc_loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// The logarithm of probability 0. No infinity, for -ffast-math.
constexpr double none = -1e30;

/// log(exp(a) + exp(b) + exp(c)).
inline double log_add(double a, double b, double c) {
  const double greatest = std::max(a, std::max(b, c));
  if (greatest <= none) return none;
  return greatest +
         std::log(std::exp(a - greatest) + std::exp(b - greatest) + std::exp(c - greatest));
}

}  // namespace

double plain_ctc_loss(const float* logits, const std::int64_t* targets, std::int64_t steps,
                      std::int64_t samples, std::int64_t classes, std::int64_t labels,
                      float* grad) {
  const std::int64_t states = 2 * labels + 1;
  static std::vector<double> alpha, log_sums, beta, next;
  alpha.resize(static_cast<std::size_t>(steps * states));
  log_sums.resize(static_cast<std::size_t>(steps));
  beta.resize(static_cast<std::size_t>(states));
  next.resize(static_cast<std::size_t>(states));
  double total = 0;
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t* const target = targets + n * labels;
    const auto row = [&](std::int64_t t) { return logits + (t * samples + n) * classes; };
    const auto label = [&](std::int64_t s) { return s % 2 == 0 ? 0 : target[s / 2]; };
    const auto may_skip = [&](std::int64_t s) {  // from state s - 2 to s
      return s % 2 == 1 && s >= 3 && target[s / 2] != target[s / 2 - 1];
    };
    const auto log_p = [&](std::int64_t t, std::int64_t s) {
      return static_cast<double>(row(t)[label(s)]) - log_sums[static_cast<std::size_t>(t)];
    };
    for (std::int64_t t = 0; t < steps; ++t) {
      const float* const x = row(t);
      float* const g = grad + (t * samples + n) * classes;
      float greatest = x[0];
      for (std::int64_t c = 1; c < classes; ++c) greatest = std::max(greatest, x[c]);
      float sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        g[c] = std::exp(x[c] - greatest);
        sum += g[c];
      }
      const float factor = 1 / sum;
      for (std::int64_t c = 0; c < classes; ++c) g[c] *= factor;
      log_sums[static_cast<std::size_t>(t)] =
          static_cast<double>(greatest) + std::log(static_cast<double>(sum));
    }
    for (std::int64_t t = 0; t < steps; ++t) {
      double* const now = alpha.data() + t * states;
      const double* const before = now - states;
      for (std::int64_t s = 0; s < states; ++s) {
        const double sum = t == 0 ? (s <= 1 ? 0 : none)
                                  : log_add(before[s], s >= 1 ? before[s - 1] : none,
                                            may_skip(s) ? before[s - 2] : none);
        now[s] = sum <= none ? none : sum + log_p(t, s);
      }
    }
    const double* const last = alpha.data() + (steps - 1) * states;
    const double log_all = log_add(last[states - 1], last[states - 2], none);
    total -= log_all;
    for (std::int64_t t = steps - 1; t >= 0; --t) {
      float* const g = grad + (t * samples + n) * classes;
      for (std::int64_t s = 0; s < states; ++s) {
        beta[static_cast<std::size_t>(s)] =
            t == steps - 1
                ? (s >= states - 2 ? 0 : none)
                : log_add(next[static_cast<std::size_t>(s)],
                          s + 1 < states ? next[static_cast<std::size_t>(s + 1)] : none,
                          s + 2 < states && may_skip(s + 2) ? next[static_cast<std::size_t>(s + 2)]
                                                            : none);
        const double log_occupancy =
            alpha[static_cast<std::size_t>(t * states + s)] + beta[static_cast<std::size_t>(s)];
        if (log_occupancy > none)
          g[label(s)] -= static_cast<float>(std::exp(log_occupancy - log_all));
      }
      for (std::int64_t s = 0; s < states; ++s) {
        const double b = beta[static_cast<std::size_t>(s)];
        next[static_cast<std::size_t>(s)] = b <= none ? none : b + log_p(t, s);
      }
    }
  }
  return total;
}

void plain_ctc_greedy(const float* logits, std::int64_t steps, std::int64_t samples,
                      std::int64_t classes, std::int64_t* found, std::int64_t* found_steps,
                      float* probabilities, std::int64_t* counts) {
  for (std::int64_t n = 0; n < samples; ++n) {
    std::int64_t before = 0, count = steps * n;
    for (std::int64_t t = 0; t < steps; ++t) {
      const float* const x = logits + (t * samples + n) * classes;
      float greatest = x[0];
      for (std::int64_t c = 1; c < classes; ++c) greatest = std::max(greatest, x[c]);
      float sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(x[c] - greatest);
      const std::int64_t best = std::find(x, x + classes, greatest) - x;
      if (best != 0 && best != before) {
        found[count] = best;
        found_steps[count] = t;
        probabilities[count] = 1 / sum;
        ++count;
      }
      before = best;
    }
    counts[n] = count - steps * n;
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET

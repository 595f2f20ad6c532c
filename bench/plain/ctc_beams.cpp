// SPDX-License-Identifier: Apache-2.0
#include "ctc_beams.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// The logarithm of probability 0. No infinity, for -ffast-math.
constexpr double none = -1e30;

inline double log_add(double a, double b) {
  const double greatest = std::max(a, b), least = std::min(a, b);
  return least <= none ? greatest : greatest + std::log1p(std::exp(least - greatest));
}

using prefix = std::vector<std::int64_t>;

struct beam {
  prefix classes;
  double by_blank, by_class, all;
};

}  // namespace

double plain_ctc_beams(const float* logits, std::int64_t steps, std::int64_t samples,
                       std::int64_t classes, std::int64_t width, double* log_probabilities) {
  std::vector<double> log_p(static_cast<std::size_t>(classes));
  std::vector<std::int64_t> order(static_cast<std::size_t>(classes - 1));
  std::size_t total = 0;
  for (std::int64_t n = 0; n < samples; ++n) {
    std::vector<beam> beams{{{}, 0, none, 0}};
    for (std::int64_t t = 0; t < steps; ++t) {
      const float* const x = logits + (t * samples + n) * classes;
      float greatest = x[0];
      for (std::int64_t c = 1; c < classes; ++c) greatest = std::max(greatest, x[c]);
      float sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(x[c] - greatest);
      const double log_sum = static_cast<double>(greatest) + std::log(static_cast<double>(sum));
      for (std::int64_t c = 0; c < classes; ++c)
        log_p[static_cast<std::size_t>(c)] = static_cast<double>(x[c]) - log_sum;
      // The most probable classes; others cannot bring a prefix into the beam.
      std::iota(order.begin(), order.end(), 1);
      const auto tried = std::min(2 * width, classes - 1);
      std::partial_sort(
          order.begin(), order.begin() + tried, order.end(),
          [&](std::int64_t a, std::int64_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; });
      std::map<prefix, std::pair<double, double>> next;
      const auto add = [&](const prefix& to, double by_blank, double by_class) {
        const auto at = next.emplace(to, std::make_pair(none, none)).first;
        at->second.first = log_add(at->second.first, by_blank);
        at->second.second = log_add(at->second.second, by_class);
      };
      for (const beam& from : beams) {
        const std::int64_t last = from.classes.empty() ? 0 : from.classes.back();
        add(from.classes, log_p[0] + from.all,
            last == 0 || from.by_class <= none
                ? none
                : log_p[static_cast<std::size_t>(last)] + from.by_class);
        prefix longer = from.classes;
        longer.push_back(0);
        const auto extend = [&](std::int64_t c) {
          const double before = c == last ? from.by_blank : from.all;
          if (before <= none) return;
          longer.back() = c;
          add(longer, none, log_p[static_cast<std::size_t>(c)] + before);
        };
        for (std::int64_t i = 0; i < tried; ++i) extend(order[static_cast<std::size_t>(i)]);
        // The classes of longer prefixes in the beam.
        for (const beam& other : beams) {
          if (other.classes.size() != longer.size() ||
              !std::equal(from.classes.begin(), from.classes.end(), other.classes.begin()))
            continue;
          const std::int64_t c = other.classes.back();
          if (std::find(order.begin(), order.begin() + tried, c) == order.begin() + tried)
            extend(c);
        }
      }
      std::vector<beam> kept;
      for (const auto& [classes_of, both] : next)
        kept.push_back({classes_of, both.first, both.second, log_add(both.first, both.second)});
      const auto end = std::min(static_cast<std::size_t>(width), kept.size());
      std::partial_sort(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(end), kept.end(),
                        [](const beam& a, const beam& b) { return a.all > b.all; });
      kept.resize(end);
      beams = std::move(kept);
    }
    log_probabilities[n] = beams[0].all;
    total += beams[0].classes.size();
  }
  return static_cast<double>(total);
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET

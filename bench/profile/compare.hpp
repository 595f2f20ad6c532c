// SPDX-License-Identifier: Apache-2.0
// The difference of two reports, by problem, with confidence. A rank test tells whether the calls
// take different times at all; a bootstrap tells how much the mean moved. Both use the stored
// samples.
#pragma once

#include <vecdet/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// Two-sided p-value of the Mann-Whitney rank test (normal approximation with correction for ties
/// and continuity): the probability of such samples if both come from one distribution. With fewer
/// than four samples on a side, the test cannot decide and returns 1.
inline double rank_test(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() < 4 || b.size() < 4) return 1;
  std::vector<std::pair<float, int>> all;
  for (const float x : a) all.emplace_back(x, 0);
  for (const float x : b) all.emplace_back(x, 1);
  std::sort(all.begin(), all.end());
  const auto n = static_cast<double>(all.size());
  const auto na = static_cast<double>(a.size()), nb = static_cast<double>(b.size());
  double rank_sum = 0, ties = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t j = i;
    while (j < all.size() && all[j].first == all[i].first) ++j;
    const auto same = static_cast<double>(j - i);
    const double rank = static_cast<double>(i) + (same + 1) / 2;
    for (std::size_t k = i; k < j; ++k) rank_sum += all[k].second == 0 ? rank : 0;
    ties += same * same * same - same;
    i = j;
  }
  const double u = rank_sum - na * (na + 1) / 2;
  const double variance = na * nb / 12 * ((n + 1) - ties / (n * (n - 1)));
  if (variance <= 0) return 1;
  const double z = std::max(0.0, std::fabs(u - na * nb / 2) - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0));
}

struct interval {
  double low = 0, high = 0;
};

/// 95% bootstrap interval of mean(b) / mean(a). The same samples give the same interval.
inline interval bootstrap_ratio(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr std::size_t rounds = 1000;
  if (a.empty() || b.empty()) return {};
  std::mt19937_64 random(20221001);
  const auto resampled_mean = [&](const std::vector<float>& from) {
    double sum = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      sum += static_cast<double>(from[static_cast<std::size_t>(random() % from.size())]);
    }
    return sum / static_cast<double>(from.size());
  };
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rounds; ++i) {
    const double base = resampled_mean(a);
    if (base > 0) ratios.push_back(resampled_mean(b) / base);
  }
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  return {ratios[ratios.size() / 40], ratios[ratios.size() - 1 - ratios.size() / 40]};
}

enum class verdict { same, faster, slower, unclear, appeared, vanished };

inline const char* verdict_text(verdict v) {
  switch (v) {
    case verdict::same:
      return "no difference shown";
    case verdict::faster:
      return "faster";
    case verdict::slower:
      return "slower";
    case verdict::unclear:
      return "too few samples";
    case verdict::appeared:
      return "new";
    default:
      return "gone";
  }
}

/// One problem in two reports. Times are per step; see compare_reports().
struct difference {
  std::string name;
  double before_ns = 0, after_ns = 0;  ///< self time
  double calls_before = 0, calls_after = 0;
  double ratio = 0;  ///< of the mean per call, after / before; 0 if one is missing
  interval ratio_95;
  double p = 1;  ///< of the rank test
  verdict result = verdict::unclear;
  double cost_ns() const { return after_ns - before_ns; }
};

struct comparison {
  std::vector<difference> problems;  ///< by the cost of the change, largest first
  double before_ns = 0, after_ns = 0;
  double steps_before = 1, steps_after = 1;
};

/// How often the scope `step` ran; 1 for an empty name. Throws std::invalid_argument if the report
/// has no such scope.
inline double steps_in(const report& r, const std::string& step) {
  if (step.empty()) return 1;
  for (const entry& e : r.entries) {
    if (e.name == step && e.count > 0) return static_cast<double>(e.count);
  }
  throw std::invalid_argument("there is no scope \"" + step + "\" to count steps by");
}

/// Removes implementation and threads from the names and joins entries with equal names, to compare
/// instruction sets, thread counts or libraries.
inline report without_implementation(const report& r) {
  detail::report_builder builder;
  std::vector<std::size_t> entry_of;
  for (entry e : r.entries) {
    if (!e.implementation.empty()) {
      const std::string end =
          '/' + e.implementation +
          (e.threads > 0 ? "/threads:" + std::to_string(e.threads) : std::string());
      if (e.name.size() > end.size() &&
          e.name.compare(e.name.size() - end.size(), end.size(), end) == 0) {
        e.name.resize(e.name.size() - end.size());
      }
    }
    entry_of.push_back(builder.add(e));
  }
  for (path p : r.paths) {
    for (std::size_t& i : p.entries) i = entry_of[i];
    builder.add(p);
  }
  builder.result.processes = r.processes;
  builder.result.machine = r.machine;
  builder.result.warnings = r.warnings;
  return std::move(builder.result);
}

/// Divides times and calls by the number of steps, that is, calls of the scope named `step`. Among
/// the problems called faster or slower, at most 1% are expected to be so by chance (Benjamini and
/// Hochberg 1995).
inline comparison compare_reports(const report& before, const report& after,
                                  const std::string& step) {
  constexpr double false_discoveries = 0.01;
  comparison result;
  result.steps_before = steps_in(before, step);
  result.steps_after = steps_in(after, step);
  result.before_ns = before.whole_ns() / result.steps_before;
  result.after_ns = after.whole_ns() / result.steps_after;
  std::map<std::string, std::pair<const entry*, const entry*>> by_name;
  for (const entry& e : before.entries) by_name[e.name].first = &e;
  for (const entry& e : after.entries) by_name[e.name].second = &e;
  std::vector<double> p_values;
  for (const auto& pair : by_name) {
    const entry* a = pair.second.first;
    const entry* b = pair.second.second;
    difference d;
    d.name = pair.first;
    if (a != nullptr) {
      d.before_ns = a->self_ns / result.steps_before;
      d.calls_before = static_cast<double>(a->count) / result.steps_before;
    }
    if (b != nullptr) {
      d.after_ns = b->self_ns / result.steps_after;
      d.calls_after = static_cast<double>(b->count) / result.steps_after;
    }
    if (a == nullptr || b == nullptr) {
      d.result = a == nullptr ? verdict::appeared : verdict::vanished;
    } else {
      if (a->mean_ns() > 0) d.ratio = b->mean_ns() / a->mean_ns();
      d.ratio_95 = bootstrap_ratio(a->samples, b->samples);
      if (a->samples.size() >= 4 && b->samples.size() >= 4) {
        d.result = verdict::same;
        d.p = rank_test(a->samples, b->samples);
        p_values.push_back(d.p);
      }
    }
    result.problems.push_back(d);
  }
  std::sort(p_values.begin(), p_values.end());
  double threshold = 0;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    const double allowed =
        false_discoveries * static_cast<double>(i + 1) / static_cast<double>(p_values.size());
    if (p_values[i] <= allowed) threshold = p_values[i];
  }
  for (difference& d : result.problems) {
    if (d.result != verdict::same || d.p > threshold) continue;
    if (d.ratio_95.low > 1) d.result = verdict::slower;
    if (d.ratio_95.high < 1) d.result = verdict::faster;
  }
  std::stable_sort(result.problems.begin(), result.problems.end(),
                   [](const difference& x, const difference& y) {
                     return std::fabs(x.cost_ns()) > std::fabs(y.cost_ns());
                   });
  return result;
}

/// The `rows` most costly changes, one per line.
inline void write_comparison(std::ostream& out, const comparison& c, std::size_t rows) {
  using detail::duration_text;
  using detail::fixed;
  const auto change = [](double ns) {
    return ns == 0 ? std::string("0") : (ns > 0 ? "+" : "") + duration_text(ns);
  };
  out << (c.steps_before != 1 || c.steps_after != 1 ? "a step: " : "") << duration_text(c.before_ns)
      << " before, " << duration_text(c.after_ns) << " after (" << change(c.after_ns - c.before_ns);
  if (c.before_ns > 0) out << ", x" << fixed(c.after_ns / c.before_ns, 3);
  out << ")\n";
  std::vector<std::vector<std::string>> table{
      {"cost", "before", "after", "a call", "95 % interval", "p", "verdict", "problem"}};
  for (std::size_t i = 0; i < std::min(rows, c.problems.size()); ++i) {
    const difference& d = c.problems[i];
    const bool both = d.ratio > 0;
    const bool tested = both && d.result != verdict::unclear;
    table.push_back({change(d.cost_ns()), duration_text(d.before_ns), duration_text(d.after_ns),
                     both ? "x" + fixed(d.ratio, 3) : "-",
                     tested ? fixed(d.ratio_95.low, 3) + " to " + fixed(d.ratio_95.high, 3) : "-",
                     tested ? d.p < 0.0001 ? "<0.0001" : fixed(d.p, 4) : "-",
                     verdict_text(d.result), detail::one_line(d.name)});
  }
  detail::write_aligned(out, table);
  if (c.problems.size() > rows) {
    out << "and " << c.problems.size() - rows << " more with smaller changes\n";
  }
}

}  // namespace vecdet::profile

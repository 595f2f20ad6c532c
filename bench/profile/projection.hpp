// SPDX-License-Identifier: Apache-2.0
// The predicted cost of a step from its kernels alone, compared with the observed time.
#pragma once

#include "compare.hpp"
#include "replayer.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// A recorded problem and its replay; times per step in nanoseconds.
struct projected_problem {
  std::string name;
  double calls = 0;
  double observed_ns = 0, warm_ns = 0, cold_ns = 0;
  double fresh_ns = 0;               ///< with cold caches and new output pages; 0 if not measured
  double slow_calls_ns = 0;          ///< part of observed: time of calls beyond twice the median
  std::vector<double> elsewhere_ns;  ///< with the alternatives; NaN if one could not be run
  /// With other layouts, cold caches and new pages; 0 for other alternatives.
  std::vector<double> elsewhere_fresh_ns;
  bool is_primitive = false, is_convolution = false;  ///< from oneDNN
  bool is_of_aten = false;   ///< a convolution that ATen computed without oneDNN
  bool is_inside = false;    ///< only within other replayed problems, whose times include it
  bool is_unsteady = false;  ///< whether repetitions with warm caches differ by more than a third
  double gap_ns() const { return observed_ns - warm_ns; }
};

struct projection {
  double steps = 1;
  double observed_step_ns = 0;  ///< self time of everything recorded
  /// By the gap, largest first; then those within others, likewise.
  std::vector<projected_problem> problems;
  std::vector<alternative> alternatives;
  /// Why an alternative could not be run, from the first such problem; empty if all could.
  std::vector<std::string> not_elsewhere;
  bool has_primitives = false;
  struct skipped {
    std::string name, reason;
    double observed_ns;
  };
  std::vector<skipped> not_replayed;  ///< by time, largest first
  report projected;                   ///< the replayed problems as a profile of the same run
};

/// Calls and time of each entry outside replayed problems. A problem within a replayed one, such as
/// filter_topk in postprocess, is part of that one's replay.
struct standing_alone {
  std::vector<std::uint64_t> calls;
  std::vector<double> observed_ns;

  standing_alone(const report& recorded, const replayer& with) {
    for (const entry& e : recorded.entries) {
      calls.push_back(e.count);
      observed_ns.push_back(e.self_ns);
    }
    for (const path& p : recorded.paths) {
      const auto outer = std::find_if(p.entries.begin(), p.entries.end(), [&](std::size_t i) {
        return with.why_not(recorded.entries[i]).empty();
      });
      if (outer == p.entries.end() || outer + 1 == p.entries.end()) continue;
      const std::size_t inner = p.entries.back();
      calls[inner] -= std::min(p.count, calls[inner]);
      observed_ns[inner] = calls[inner] == 0 ? 0 : std::max(0.0, observed_ns[inner] - p.self_ns);
      observed_ns[*outer] += p.self_ns;
    }
  }
};

/// The entries with ATen's own convolution inside, which it prefers for few elements.
inline std::set<std::size_t> entries_of_aten(const report& recorded) {
  std::set<std::size_t> found;
  for (const path& p : recorded.paths) {
    if (p.entries.empty() ||
        !starts_with(recorded.entries[p.entries.back()].function, "aten::_slow_conv"))
      continue;
    found.insert(p.entries.begin(), p.entries.end());
  }
  return found;
}

/// The time of calls beyond twice their median, as a share of all time, estimated from the stored
/// samples.
inline double slow_calls_of(const entry& e) {
  std::vector<float> sorted = e.samples;
  if (sorted.empty()) return 0;
  const double twice = 2 * sample_quantile(sorted, 0.5);
  double beyond = 0;
  for (const float sample : e.samples) beyond += std::max(0.0, double{sample} - twice);
  return beyond * static_cast<double>(e.count) / static_cast<double>(e.samples.size());
}

/// Replays all supported problems of the report, and reports progress on `progress`.
inline projection project(const report& recorded, const std::string& step,
                          const std::vector<alternative>& alternatives,
                          const replay_options& options, std::ostream& progress,
                          const replayer& with = replayer()) {
  projection result;
  result.steps = steps_in(recorded, step);
  result.observed_step_ns = recorded.whole_ns() / result.steps;
  result.alternatives = alternatives;
  result.not_elsewhere.resize(alternatives.size());
  result.projected.processes = recorded.processes;
  result.projected.machine = recorded.machine;

  const standing_alone alone(recorded, with);
  const std::set<std::size_t> of_aten = entries_of_aten(recorded);
  std::vector<std::size_t> to_run;
  const auto skip = [&](std::size_t i, const std::string& reason) {
    result.not_replayed.push_back(
        {recorded.entries[i].name, reason, alone.observed_ns[i] / result.steps});
  };
  for (const std::size_t i : recorded.by_self_time()) {
    const entry& e = recorded.entries[i];
    const std::string reason = with.why_not(e);
    if (reason.empty()) {
      to_run.push_back(i);
    } else {
      // Weighted by calls: a step may be too short to have a time.
      skip(i, e.count > 0 && alone.calls[i] == 0
                  ? "part of replayed problems, and replayed with them"
                  : reason);
    }
  }
  replay_options warm_alone = options;
  warm_alone.cold_calls = 0;
  for (std::size_t n = 0; n < to_run.size(); ++n) {
    const std::size_t i = to_run[n];
    const entry& e = recorded.entries[i];
    progress << "replaying " << n + 1 << " of " << to_run.size() << ": " << detail::one_line(e.name)
             << std::endl;
    try {
      const replayed measured = with.run(e, {}, options);
      projected_problem p;
      p.name = e.name;
      p.is_inside = alone.calls[i] == 0;
      p.calls = static_cast<double>(p.is_inside ? e.count : alone.calls[i]) / result.steps;
      p.observed_ns = (p.is_inside ? e.inclusive_ns : alone.observed_ns[i]) / result.steps;
      p.slow_calls_ns = std::min(p.observed_ns, slow_calls_of(e) / result.steps);
      p.warm_ns = measured.warm_call() * p.calls;
      p.cold_ns = measured.cold * p.calls;
      p.fresh_ns = measured.fresh * p.calls;
      p.is_unsteady = measured.is_unsteady();
      p.is_primitive = with.is_primitive(e);
      p.is_convolution = with.is_convolution(e);
      p.is_of_aten = of_aten.count(i) != 0;
      result.has_primitives = result.has_primitives || p.is_primitive;
      for (std::size_t a = 0; a < alternatives.size(); ++a) {
        p.elsewhere_ns.push_back(std::nan(""));
        p.elsewhere_fresh_ns.push_back(0);
        if (!with.applies(e, alternatives[a])) continue;
        try {
          const replayed there =
              with.run(e, alternatives[a], alternatives[a].within() ? options : warm_alone);
          p.elsewhere_ns.back() = there.warm_call() * p.calls;
          p.elsewhere_fresh_ns.back() = there.fresh * p.calls;
        } catch (const std::exception& error) {
          if (result.not_elsewhere[a].empty())
            result.not_elsewhere[a] = detail::one_line(e.name) + ": " + error.what();
        }
      }
      result.problems.push_back(std::move(p));
      if (result.problems.back().is_inside) continue;
      result.projected.entries.push_back(projected_entry(e, alone.calls[i], measured));
      path root;
      root.entries = {result.projected.entries.size() - 1};
      root.count = alone.calls[i];
      root.total_ns = root.self_ns = result.projected.entries.back().self_ns;
      result.projected.paths.push_back(root);
    } catch (const std::exception& error) {
      skip(i, error.what());
    }
  }
  std::stable_sort(result.problems.begin(), result.problems.end(),
                   [](const projected_problem& a, const projected_problem& b) {
                     if (a.is_inside != b.is_inside) return b.is_inside;
                     return std::fabs(a.gap_ns()) > std::fabs(b.gap_ns());
                   });
  std::stable_sort(result.not_replayed.begin(), result.not_replayed.end(),
                   [](const auto& a, const auto& b) { return a.observed_ns > b.observed_ns; });
  if (!step.empty()) {  // so that the projected profile can be counted by steps too
    entry steps;
    steps.name = steps.function = step;
    steps.count = static_cast<std::uint64_t>(result.steps);
    result.projected.entries.push_back(steps);
  }
  result.projected.warnings.push_back("projected: each problem run alone, with warm caches");
  return result;
}

}  // namespace vecdet::profile

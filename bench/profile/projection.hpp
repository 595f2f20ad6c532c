// SPDX-License-Identifier: Apache-2.0
// What a step should cost by its kernels alone, against what it took.
#pragma once

#include "compare.hpp"
#include "replay.hpp"
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

namespace vecdet {
namespace profile {

/// A recorded problem and its replay; times of a step in nanoseconds.
struct projected_problem {
  std::string name;
  double calls = 0;
  double observed_ns = 0, warm_ns = 0, cold_ns = 0;
  std::vector<double> elsewhere_ns;  ///< on the alternatives; NaN where it could not be run
  bool is_inside = false;            ///< of other replayed problems alone: a part of their times
  double gap_ns() const { return observed_ns - warm_ns; }
};

struct projection {
  double steps = 1;
  double observed_step_ns = 0;  ///< self time of everything recorded
  /// By the gap, largest first; then those inside of others, likewise.
  std::vector<projected_problem> problems;
  std::vector<std::string> alternatives;
  struct skipped {
    std::string name, reason;
    double observed_ns;
  };
  std::vector<skipped> not_replayed;  ///< by their time, largest first
  report projected;                   ///< the replayed problems as a profile of the same run
};

/// Calls and time of each entry for which it stands itself: a problem that runs inside of a
/// replayed one, such as filter_topk inside of postprocess, is a part of that one's replay.
struct standing_alone {
  std::vector<std::uint64_t> calls;
  std::vector<double> observed_ns;

  explicit standing_alone(const report& recorded) {
    for (const entry& e : recorded.entries) {
      calls.push_back(e.count);
      observed_ns.push_back(e.self_ns);
    }
    for (const path& p : recorded.paths) {
      const auto outer = std::find_if(p.entries.begin(), p.entries.end(), [&](std::size_t i) {
        return why_not_replayed(recorded.entries[i]).empty();
      });
      if (outer == p.entries.end() || outer + 1 == p.entries.end()) continue;
      const std::size_t inner = p.entries.back();
      calls[inner] -= std::min(p.count, calls[inner]);
      observed_ns[inner] = calls[inner] == 0 ? 0 : std::max(0.0, observed_ns[inner] - p.self_ns);
      observed_ns[*outer] += p.self_ns;
    }
  }
};

/// Replays all problems of the report that can be, and says on `progress` which it is at. `isas`
/// and `threads` add alternatives to the recorded instruction set and threads.
inline projection project(const report& recorded, const std::string& step,
                          const std::vector<std::string>& isas, const std::vector<int>& threads,
                          const replay_options& options, std::ostream& progress) {
  projection result;
  result.steps = steps_in(recorded, step);
  result.observed_step_ns = recorded.whole_ns() / result.steps;
  std::vector<std::pair<std::string, int>> moves;
  for (const std::string& isa : isas) moves.emplace_back(isa, 0);
  for (const int n : threads) moves.emplace_back("", n);
  for (const auto& move : moves) {
    result.alternatives.push_back(move.first.empty() ? "threads:" + std::to_string(move.second)
                                                     : move.first);
  }
  result.projected.processes = recorded.processes;
  result.projected.machine = recorded.machine;

  const standing_alone alone(recorded);
  std::vector<std::size_t> to_run;
  const auto skip = [&](std::size_t i, const std::string& reason) {
    result.not_replayed.push_back(
        {recorded.entries[i].name, reason, alone.observed_ns[i] / result.steps});
  };
  for (const std::size_t i : recorded.by_self_time()) {
    const entry& e = recorded.entries[i];
    const std::string reason = why_not_replayed(e);
    if (reason.empty()) {
      to_run.push_back(i);
    } else {
      // Counted by its calls: a step may be too short to have a time.
      skip(i, e.count > 0 && alone.calls[i] == 0
                  ? "inside of replayed problems, and replayed with them"
                  : reason);
    }
  }
  for (std::size_t n = 0; n < to_run.size(); ++n) {
    const std::size_t i = to_run[n];
    const entry& e = recorded.entries[i];
    progress << "replaying " << n + 1 << " of " << to_run.size() << ": " << detail::one_line(e.name)
             << std::endl;
    try {
      const replayed measured = replay(e, options);
      projected_problem p;
      p.name = e.name;
      p.is_inside = alone.calls[i] == 0;
      p.calls = static_cast<double>(p.is_inside ? e.count : alone.calls[i]) / result.steps;
      p.observed_ns = (p.is_inside ? e.inclusive_ns : alone.observed_ns[i]) / result.steps;
      p.warm_ns = measured.warm_call() * p.calls;
      p.cold_ns = measured.cold * p.calls;
      for (const auto& move : moves) {
        const entry moved = moved_to(e, move.first, move.second);
        const bool can = why_not_replayed(moved).empty();
        p.elsewhere_ns.push_back(can ? replay(moved, options).warm_call() * p.calls : std::nan(""));
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

inline void write_projection(std::ostream& out, const projection& p, std::size_t rows) {
  using detail::duration_text;
  using detail::fixed;
  projected_problem all;
  all.elsewhere_ns.assign(p.alternatives.size(), 0);
  for (const projected_problem& problem : p.problems) {
    if (problem.is_inside) continue;
    all.observed_ns += problem.observed_ns;
    all.warm_ns += problem.warm_ns;
    all.cold_ns += problem.cold_ns;
    for (std::size_t i = 0; i < all.elsewhere_ns.size(); ++i) {
      // What cannot run there stays as recorded.
      const double there = problem.elsewhere_ns[i];
      all.elsewhere_ns[i] += std::isnan(there) ? problem.warm_ns : there;
    }
  }
  all.name = "all replayed problems";
  out << "a step took " << duration_text(p.observed_step_ns) << " in all scopes, "
      << duration_text(all.observed_ns) << " of it in the problems replayed\n";
  std::vector<std::vector<std::string>> table{
      {"observed", "warm alone", "cold alone", "gap", "observed/warm"}};
  for (const std::string& name : p.alternatives) table[0].push_back(name);
  table[0].insert(table[0].end(), {"calls", "problem"});
  const auto add = [&](const projected_problem& problem, const std::string& calls) {
    const double gap = problem.gap_ns();
    std::vector<std::string> row{
        duration_text(problem.observed_ns), duration_text(problem.warm_ns),
        duration_text(problem.cold_ns), (gap > 0 ? "+" : "") + duration_text(gap),
        problem.warm_ns > 0 ? "x" + fixed(problem.observed_ns / problem.warm_ns, 2) : "-"};
    for (const double there : problem.elsewhere_ns) {
      row.push_back(std::isnan(there) ? "-" : duration_text(there));
    }
    row.insert(row.end(),
               {calls, (problem.is_inside ? "inside: " : "") + detail::one_line(problem.name)});
    table.push_back(std::move(row));
  };
  bool has_sum = false;
  const auto add_sum = [&] {
    if (!has_sum) add(all, "");
    has_sum = true;
  };
  for (std::size_t i = 0; i < std::min(rows, p.problems.size()); ++i) {
    if (p.problems[i].is_inside) add_sum();
    add(p.problems[i], fixed(p.problems[i].calls, p.problems[i].calls < 10 ? 1 : 0));
  }
  add_sum();
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const auto& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : table) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      out << std::string(widths[i] - row[i].size(), ' ') << row[i] << "  ";
    }
    out << row.back() << '\n';
  }
  if (!p.not_replayed.empty()) out << "not replayed, and their time a step:\n";
  for (std::size_t i = 0; i < std::min(rows, p.not_replayed.size()); ++i) {
    const auto& skipped = p.not_replayed[i];
    out << "  " << duration_text(skipped.observed_ns) << "  " << detail::one_line(skipped.name)
        << ": " << detail::one_line(skipped.reason) << '\n';
  }
  if (p.not_replayed.size() > rows) {
    out << "  and " << p.not_replayed.size() - rows << " more\n";
  }
}

}  // namespace profile
}  // namespace vecdet

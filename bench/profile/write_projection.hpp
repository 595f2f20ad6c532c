// SPDX-License-Identifier: Apache-2.0
// A projection as text: the table of problems, and where the time of oneDNN's primitives went.
#pragma once

#include "projection.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {
namespace detail {

inline std::string ratio_text(double part, double of) {
  return of > 0 ? "x" + fixed(part / of, 2) : "-";
}

/// Where the observed time of primitives went, beyond the time that they take alone.
inline void write_rest(std::ostream& out, const projection& p) {
  double observed = 0, warm = 0, cold = 0, fresh = 0, slow = 0, rest = 0, ahead = 0, aten = 0;
  std::map<std::string, std::pair<double, double>> kinds;
  for (const projected_problem& problem : p.problems) {
    if (!problem.is_primitive || problem.is_inside) continue;
    observed += problem.observed_ns;
    warm += problem.warm_ns;
    auto& kind = kinds[problem.name.substr(0, problem.name.find('/')) +
                       (problem.is_of_aten ? ", by ATen without oneDNN" : "")];
    kind.first += problem.observed_ns;
    kind.second += problem.warm_ns;
    // Each cause explains at most the remaining gap.
    double gap = problem.gap_ns();
    if (gap < 0) {
      ahead -= gap;
      continue;
    }
    const auto take = [&](double& sum, double cost) {
      const double taken = std::min(gap, std::max(0.0, cost));
      sum += taken;
      gap -= taken;
    };
    if (problem.is_of_aten) take(aten, gap);
    take(cold, problem.cold_ns - problem.warm_ns);
    take(fresh, problem.fresh_ns - problem.cold_ns);
    take(slow, problem.slow_calls_ns);
    rest += gap;
  }
  out << "oneDNN's primitives: " << duration_text(observed) << " observed, " << duration_text(warm)
      << " projected with warm caches, " << ratio_text(observed, warm) << "; by kind:\n";
  std::vector<std::vector<std::string>> table{{"observed", "projected", "ratio", "kind"}};
  for (const auto& kind : kinds) {
    table.push_back({duration_text(kind.second.first), duration_text(kind.second.second),
                     ratio_text(kind.second.first, kind.second.second), one_line(kind.first)});
  }
  write_aligned(out, table);
  out << "where the other " << duration_text(observed - warm) << " went:\n";
  std::vector<std::vector<std::string>> causes{{"", "time", "cause"}};
  const auto add = [&](double ns, const char* cause) {
    causes.push_back({"", duration_text(ns), cause});
  };
  if (aten > 0) add(aten, "convolutions that ATen computed without oneDNN");
  add(cold, "operands that were not in cache: cold alone beyond warm alone");
  add(fresh, "fresh pages of outputs: beyond cold alone");
  add(slow, "calls of more than twice their median: first ones, and threads that waited");
  add(rest, "the rest: threads that waited, other programs, chance");
  add(-ahead, "problems that were faster than alone");
  write_aligned(out, causes);
}

/// The effect of other layouts and types on all convolutions.
inline void write_layouts(std::ostream& out, const projection& p) {
  std::vector<std::vector<std::string>> table{
      {"warm", "cold and fresh", "to the first", "convolutions, with the reorders that they need"}};
  double first = 0;
  for (std::size_t a = 0; a < p.alternatives.size(); ++a) {
    if (!p.alternatives[a].within()) continue;
    double warm = 0, fresh = 0;
    bool is_whole = true;
    for (const projected_problem& problem : p.problems) {
      if (!problem.is_convolution || problem.is_inside) continue;
      is_whole = is_whole && !std::isnan(problem.elsewhere_ns[a]);
      warm += problem.elsewhere_ns[a];
      fresh += problem.elsewhere_fresh_ns[a];
    }
    const std::string name = p.alternatives[a].name();
    if (!is_whole) {
      table.push_back({"-", "-", "-", name + ": not all can be run, " + p.not_elsewhere[a]});
      continue;
    }
    if (first <= 0) first = fresh;
    table.push_back({duration_text(warm), duration_text(fresh), ratio_text(fresh, first), name});
  }
  if (table.size() > 1) write_aligned(out, table);
}

/// If the log has time stamps: the time spent outside primitives.
inline void write_outside(std::ostream& out, const projection& p) {
  for (const process_info& process : p.projected.processes) {
    const double outside = process.wall_ns / p.steps - p.observed_step_ns;
    if (process.command != "oneDNN" || p.projected.processes.size() != 1 ||
        outside <= 1e-3 * p.observed_step_ns)
      continue;
    out << "between the log's first and last primitive passed " << duration_text(process.wall_ns)
        << ", " << duration_text(outside) << " of it outside of oneDNN\n";
  }
}

}  // namespace detail

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
    all.fresh_ns += problem.fresh_ns;
    for (std::size_t i = 0; i < all.elsewhere_ns.size(); ++i) {
      // Problems that cannot run there keep their recorded time; layouts affect only convolutions.
      const double there = problem.elsewhere_ns[i];
      const double otherwise = p.alternatives[i].within() ? 0 : problem.warm_ns;
      all.elsewhere_ns[i] += std::isnan(there) ? otherwise : there;
    }
  }
  all.name = "all replayed problems";
  out << "a step took " << duration_text(p.observed_step_ns) << " in all scopes, "
      << duration_text(all.observed_ns) << " of it in the problems replayed; with these as alone, "
      << duration_text(p.observed_step_ns - all.observed_ns + all.warm_ns) << "\n";
  std::vector<std::vector<std::string>> table{{"observed", "warm alone", "cold alone"}};
  if (p.has_primitives) table[0].push_back("and fresh");
  table[0].insert(table[0].end(), {"gap", "observed/warm"});
  for (const alternative& other : p.alternatives) table[0].push_back(other.name());
  table[0].insert(table[0].end(), {"calls", "problem"});
  bool has_unsteady = false;
  const auto add = [&](const projected_problem& problem, const std::string& calls) {
    const double gap = problem.gap_ns();
    const std::string mark = problem.is_unsteady ? " ~" : "";
    has_unsteady = has_unsteady || problem.is_unsteady;
    std::vector<std::string> row{duration_text(problem.observed_ns),
                                 duration_text(problem.warm_ns) + mark,
                                 duration_text(problem.cold_ns)};
    if (p.has_primitives)
      row.push_back(problem.fresh_ns > 0 ? duration_text(problem.fresh_ns) : "-");
    row.push_back((gap > 0 ? "+" : "") + duration_text(gap));
    row.push_back(detail::ratio_text(problem.observed_ns, problem.warm_ns));
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
  detail::write_aligned(out, table);
  if (has_unsteady) out << unsteady_legend;
  if (p.has_primitives) {
    detail::write_outside(out, p);
    detail::write_rest(out, p);
    detail::write_layouts(out, p);
  }
  if (!p.not_replayed.empty()) out << "not replayed, with their time per step:\n";
  for (std::size_t i = 0; i < std::min(rows, p.not_replayed.size()); ++i) {
    const auto& skipped = p.not_replayed[i];
    out << "  " << duration_text(skipped.observed_ns) << "  " << detail::one_line(skipped.name)
        << ": " << detail::one_line(skipped.reason) << '\n';
  }
  if (p.not_replayed.size() > rows) {
    out << "  and " << p.not_replayed.size() - rows << " more\n";
  }
}

}  // namespace vecdet::profile

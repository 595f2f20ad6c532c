// SPDX-License-Identifier: Apache-2.0
// What replacing parts of a trace by vecdet would save: vecdet's kernels run alone on the recorded
// shapes, on this machine.
#pragma once

#include "compare.hpp"
#include "replaceable.hpp"
#include "replay.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// A part of the trace and the cost of its replacement; times per step in nanoseconds.
struct saving {
  replaceable part;
  double calls = 0, observed_ns = 0;
  double warm_ns = 0, cold_ns = 0;  ///< of vecdet's calls, run alone with warm and cold caches
  bool is_unsteady = false;  ///< whether repetitions with warm caches differ by more than a third
  std::string why_not;       ///< why they were not measured; empty if they were
  /// In a step, some operands are in the cache. The estimate assumes none.
  double saved_ns() const { return observed_ns - cold_ns; }
};

struct savings {
  double steps = 1, step_ns = 0;
  int threads = 1;
  std::vector<saving> parts;  ///< by what they save, largest first; those not measured last
};

/// Measures the parts with the most time. Reports progress on `progress`.
inline savings measure_savings(const report& recorded, const std::string& step,
                               std::vector<replaceable> parts, int threads,
                               std::ostream& progress) {
  constexpr std::size_t most_measured = 60;
  replay_options quick;
  quick.seconds = 0.005;
  quick.repetitions = 3;
  quick.cold_calls = 5;
  savings result;
  result.steps = steps_in(recorded, step);
  result.step_ns = recorded.whole_ns() / result.steps;
  result.threads = threads;
  std::stable_sort(parts.begin(), parts.end(), [](const replaceable& a, const replaceable& b) {
    return a.observed_ns > b.observed_ns;
  });
  for (std::size_t n = 0; n < parts.size(); ++n) {
    saving s;
    s.calls = static_cast<double>(parts[n].calls) / result.steps;
    s.observed_ns = parts[n].observed_ns / result.steps;
    s.why_not = parts[n].why_unknown;
    if (s.why_not.empty() && n >= most_measured)
      s.why_not = "the " + std::to_string(most_measured) + " parts with the most time are measured";
    if (s.why_not.empty()) {
      progress << "measuring vecdet " << n + 1 << " of " << std::min(parts.size(), most_measured)
               << ": " << detail::one_line(parts[n].what) << std::endl;
      try {
        for (const entry& problem : parts[n].problems) {
          const replayed measured =
              replay(moved_to(problem, isa_name(active_isa()), threads), quick);
          s.warm_ns += measured.warm_call() * s.calls;
          s.cold_ns += measured.cold * s.calls;
          s.is_unsteady = s.is_unsteady || measured.is_unsteady();
        }
      } catch (const std::exception& error) {
        s.why_not = error.what();
      }
    }
    s.part = std::move(parts[n]);
    result.parts.push_back(std::move(s));
  }
  std::stable_sort(result.parts.begin(), result.parts.end(), [](const saving& a, const saving& b) {
    if (a.why_not.empty() != b.why_not.empty()) return a.why_not.empty();
    return a.why_not.empty() ? a.saved_ns() > b.saved_ns() : a.observed_ns > b.observed_ns;
  });
  return result;
}

inline void write_savings(std::ostream& out, const savings& all, std::size_t rows) {
  using detail::duration_text;
  using detail::fixed;
  const auto share = [&](double ns) {
    return all.step_ns > 0 ? fixed(100 * ns / all.step_ns, 1) + " %" : std::string("-");
  };
  double saved = 0;
  for (const saving& s : all.parts) {
    if (!s.why_not.empty() || s.saved_ns() <= 0) continue;
    saved += s.saved_ns();
  }
  out << "\nvecdet can replace parts of this trace. Its time was measured on this machine, alone, "
         "on "
      << all.threads << (all.threads == 1 ? " thread" : " threads")
      << ", on data like a detector's.\n";
  if (saved > 0) {
    out << "Replacing those with a saving takes " << duration_text(saved) << " off a step of "
        << duration_text(all.step_ns) << ": " << share(saved) << ", so it takes "
        << duration_text(all.step_ns - saved) << ".\n";
  }
  std::vector<std::vector<std::string>> table{
      {"saves", "of step", "observed", "vecdet, cold", "warm", "calls", "replace"}};
  bool has_unsteady = false;
  for (std::size_t i = 0; i < std::min(rows, all.parts.size()); ++i) {
    const saving& s = all.parts[i];
    const bool known = s.why_not.empty();
    has_unsteady = has_unsteady || s.is_unsteady;
    const bool saves = known && s.saved_ns() > 0;
    table.push_back({saves ? duration_text(s.saved_ns()) : "-", saves ? share(s.saved_ns()) : "-",
                     duration_text(s.observed_ns), known ? duration_text(s.cold_ns) : "-",
                     known ? duration_text(s.warm_ns) + (s.is_unsteady ? " ~" : "") : "-",
                     fixed(s.calls, s.calls < 10 ? 1 : 0),
                     detail::one_line(s.part.what) +
                         (saves   ? " by " + s.part.by
                          : known ? ": keep it, " + s.part.by + " is not faster"
                                  : ": saving not known, " + detail::one_line(s.why_not))});
  }
  detail::write_aligned(out, table);
  if (has_unsteady) out << unsteady_legend;
  if (all.parts.size() > rows) out << "and " << all.parts.size() - rows << " more parts\n";
}

}  // namespace vecdet::profile

// SPDX-License-Identifier: Apache-2.0
// The plots of a run. Benchmarks time their loops for them, and the report prints their exponents.
// If the environment variable VECDET_BENCH_PLOTS names a folder, the run writes them there.
#pragma once

#include "line_plot.hpp"
#include "time_calls.hpp"
#include <vecdet/detail/environment_variable.hpp>

#include <map>
#include <string>

#include <benchmark/benchmark.h>

namespace vecdet::bench {

/// The plots of this run by file name.
inline std::map<std::string, line_plot>& plots() {
  static std::map<std::string, line_plot> all;
  return all;
}

inline void write_plots() {
  const char* folder = vecdet::detail::environment_variable("VECDET_BENCH_PLOTS");
  if (folder == nullptr || *folder == '\0') return;
  for (const auto& plot : plots()) plot.second.write(std::string(folder) + "/" + plot.first);
}

/// Also times the iterations of a benchmark for a line of a plot, in milliseconds at `size`.
template <class Call>
void plotted_loop(benchmark::State& state, line_plot& plot, const std::string& line, double size,
                  const Call& call) {
  plot.add(line, size, 1e3 * time_calls(state, call));
}

}  // namespace vecdet::bench

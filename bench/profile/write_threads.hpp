// SPDX-License-Identifier: Apache-2.0
// The table, plot and files of a simulation of threads.
#pragma once

#include "thread_simulation.hpp"
#include <vecdet/profile.hpp>

#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <bench/support/line_plot.hpp>
#include <nlohmann/json.hpp>

namespace vecdet::profile {

/// A row of headings, then a row per problem. A number of threads has a column of measured
/// speed-ups if it was measured.
inline std::vector<std::vector<std::string>> threads_table(
    const std::vector<thread_scaling>& problems, const std::vector<int>& threads) {
  using detail::duration_text;
  using detail::fixed;
  std::vector<std::vector<std::string>> table{{"one thread"}};
  std::vector<bool> is_measured(threads.size());
  for (std::size_t n = 0; n < threads.size(); ++n) {
    for (const thread_scaling& p : problems) is_measured[n] = is_measured[n] || p.measured[n] > 0;
    const std::string number = std::to_string(threads[n]);
    if (is_measured[n]) table[0].push_back(number + " here");
    table[0].push_back(number + " simulated");
  }
  table[0].insert(table[0].end(), {"outside", "loops", "pieces", "problem"});
  double one_thread = 0;  // of all recorded calls
  std::vector<double> simulated(threads.size());
  for (const thread_scaling& p : problems) {
    std::vector<std::string> row{duration_text(p.one_thread)};
    one_thread += p.calls * scheduled(p.divided_for_one, 1);
    for (std::size_t n = 0; n < threads.size(); ++n) {
      if (is_measured[n]) row.push_back(fixed(p.measured_speedup(n), 2));
      row.push_back(fixed(p.simulated_speedup(n), threads[n] < 10 ? 2 : 1));
      simulated[n] += p.calls * p.simulated[n];
    }
    row.insert(row.end(), {duration_text(p.last.outside), std::to_string(p.last.loops.size()),
                           std::to_string(p.last.pieces()), detail::one_line(p.name)});
    table.push_back(std::move(row));
  }
  if (one_thread > 0) {
    std::vector<std::string> row{duration_text(one_thread)};
    for (std::size_t n = 0; n < threads.size(); ++n) {
      if (is_measured[n]) row.push_back("");
      row.push_back(fixed(one_thread / simulated[n], threads[n] < 10 ? 2 : 1));
    }
    row.insert(row.end(), {"", "", "", "all recorded calls"});
    table.push_back(std::move(row));
  }
  return table;
}

inline void write_threads(std::ostream& out, const std::vector<thread_scaling>& problems,
                          const std::vector<int>& threads) {
  detail::write_aligned(out, threads_table(problems, threads));
  out << "Speed-ups over one thread. Simulated ones are upper bounds: each piece runs alone.\n"
         "The time outside of loops, the loops and their pieces are those on the last number of "
         "threads.\n";
}

enum class simulation_format { svg, json, markdown, unknown };

inline simulation_format format_of_simulation(const std::string& file) {
  const auto ends_with = [&](const std::string& end) {
    return file.size() > end.size() && file.compare(file.size() - end.size(), end.size(), end) == 0;
  };
  if (ends_with(".svg")) return simulation_format::svg;
  if (ends_with(".md")) return simulation_format::markdown;
  return ends_with(".json") ? simulation_format::json : simulation_format::unknown;
}

/// Speed-up against threads, a line per problem.
inline void write_threads_plot(const std::string& file, const std::vector<thread_scaling>& problems,
                               const std::vector<int>& threads) {
  bench::line_plot plot("Simulated speed-up over one thread", "threads", "speed-up");
  for (const thread_scaling& p : problems) {
    plot.add(p.name, 1, 1);
    for (std::size_t n = 0; n < threads.size(); ++n)
      plot.add(p.name, threads[n], p.simulated_speedup(n));
  }
  plot.write(file);
}

inline nlohmann::json threads_json(const std::vector<thread_scaling>& problems,
                                   const std::vector<int>& threads) {
  nlohmann::json all{{"schema", "vecdet-threads/1"},
                     {"processor", detail::processor_name()},
                     {"problems", nlohmann::json::array()}};
  for (const thread_scaling& p : problems) {
    nlohmann::json one{{"name", p.name},
                       {"one_thread_ns", p.one_thread},
                       {"one_thread_in_pieces_ns", scheduled(p.divided_for_one, 1)}};
    for (std::size_t n = 0; n < threads.size(); ++n) {
      const std::string number = std::to_string(threads[n]);
      one["simulated_ns"][number] = p.simulated[n];
      if (p.measured[n] > 0) one["measured_ns"][number] = p.measured[n];
    }
    all["problems"].push_back(std::move(one));
  }
  return all;
}

/// The same table in Markdown; docs/whole_socket.md has some of its columns.
inline void write_threads_markdown(std::ostream& out, const std::vector<thread_scaling>& problems,
                                   const std::vector<int>& threads) {
  const std::vector<std::vector<std::string>> table = threads_table(problems, threads);
  for (std::size_t r = 0; r < table.size(); ++r) {
    const std::size_t last = table[r].size() - 1;
    for (std::size_t c = 0; c < last; ++c) out << "| " << table[r][c] << ' ';
    out << (r == 0 ? "| " + table[r][last] : "| `" + table[r][last] + '`') << " |\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < last; ++c) out << "|--:";
    out << "|---|\n";
  }
}

/// Writes the plot, the table or the JSON file, by the name.
inline void write_simulation(const std::string& file, const std::vector<thread_scaling>& problems,
                             const std::vector<int>& threads) {
  const simulation_format format = format_of_simulation(file);
  if (format == simulation_format::svg) return write_threads_plot(file, problems, threads);
  write_file(file, [&](std::ostream& out) {
    if (format == simulation_format::markdown)
      write_threads_markdown(out, problems, threads);
    else
      out << threads_json(problems, threads).dump(1) << '\n';
  });
}

}  // namespace vecdet::profile

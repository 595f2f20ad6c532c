// SPDX-License-Identifier: Apache-2.0
// A profile as a table to read, as CSV, and as folded stacks for flame graphs.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/report.hpp>
#include <vecdet/profile/snapshot.hpp>
#include <vecdet/profile/text.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    out += c;
    if (c == '"') out += '"';
  }
  return out + '"';
}

inline void write_process_line(std::ostream& out, const process_info& p, const report& r) {
  out << "  ";
  if (p.rank >= 0) out << "rank " << std::to_string(p.rank) << ", ";
  out << one_line(p.command) << ", process " << std::to_string(p.pid) << ", "
      << std::to_string(p.threads) << (p.threads == 1 ? " caller, " : " callers, ")
      << duration_text(p.wall_ns);
  if (p.overhead_per_scope_ns > 0) {
    out << "; profiler " << duration_text(p.overhead_per_scope_ns)
        << " per scope, subtracted from the times below";
    const double cost = p.overhead_per_scope_ns * static_cast<double>(r.scopes());
    if (r.processes.size() == 1) out << " (" << duration_text(cost) << " in all)";
  }
  out << '\n';
  if (p.dropped_scopes != 0) {
    out << "  " << std::to_string(p.dropped_scopes)
        << " scopes not counted: out of memory, or not left in order on their own thread\n";
  }
  if (p.clock_went_back != 0) {
    out << "  " << std::to_string(p.clock_went_back)
        << " scopes counted as 0 ns: the clock went back\n";
  }
}

/// Writes how long each process computed and how long it waited for the others. Writes nothing if
/// no process waited.
inline void write_waiting(std::ostream& out, const report& r) {
  double least = 0, most = 0, waiting = 0, recorded = 0;
  std::vector<std::vector<std::string>> table{{"", "computing", "waiting", "of all", "process"}};
  for (const process_info& p : r.processes) {
    if (p.recorded_ns <= 0) continue;
    const double computing = p.recorded_ns - p.waiting_ns;
    least = recorded > 0 ? std::min(least, computing) : computing;
    most = std::max(most, computing);
    waiting += p.waiting_ns;
    recorded += p.recorded_ns;
    table.push_back(
        {"", duration_text(computing), duration_text(p.waiting_ns),
         fixed(100 * p.waiting_ns / p.recorded_ns, 1) + " %",
         p.rank >= 0 ? "rank " + std::to_string(p.rank) : "process " + std::to_string(p.pid)});
  }
  if (waiting <= 0) return;
  write_aligned(out, table);
  out << "  waiting for other processes: " << fixed(100 * waiting / recorded, 1)
      << " % of all; the process that computes most takes x"
      << (least > 0 ? fixed(most / least, 2) : "-") << " of the one that computes least\n";
}

}  // namespace detail

/// The meaning of a row of the table.
enum class rows_of { problems, functions };

namespace detail {

/// Merges the problems of each function into one entry, which is named after their number. Such
/// entries have no bound, because problems in cache and in memory have different bounds.
inline report by_function(const report& r) {
  report grouped;
  std::map<std::string, std::size_t> places;
  std::vector<std::size_t> problems;
  for (const entry& e : r.entries) {
    const auto inserted = places.insert({e.function, grouped.entries.size()});
    if (inserted.second) {
      grouped.entries.push_back(e);
      problems.push_back(1);
      continue;
    }
    merge_entry(grouped.entries[inserted.first->second], e);
    ++problems[inserted.first->second];
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (problems[i] == 1) continue;
    entry& e = grouped.entries[i];
    e.name = e.function + ", " + std::to_string(problems[i]) + " problems";
  }
  return grouped;
}

}  // namespace detail

/// Writes the `rows` problems (or functions) with the most self time, one per line. The column
/// "callers" is the average number of threads inside such calls, while at least one is. threads:<n>
/// in a name is the number of threads that a call may use.
inline void write_table(std::ostream& out, const report& r, std::size_t rows = 50,
                        rows_of kind = rows_of::problems) {
  using detail::duration_text;
  using detail::fixed;
  const double whole = r.whole_ns();
  out << "vecdet profile: " << duration_text(whole) << " in " << std::to_string(r.scopes())
      << " scopes of " << std::to_string(r.entries.size()) << " problems\n";
  for (const process_info& p : r.processes) detail::write_process_line(out, p, r);
  const machine_info& m = r.machine;
  if (m.memory_gbs > 0) {
    out << "  machine, one thread and all " << std::to_string(m.threads) << ": "
        << fixed(m.memory_gbs, 0) << " and " << fixed(m.memory_gbs_all_threads, 0)
        << " GB/s in memory, " << fixed(m.cache_gbs, 0) << " and "
        << fixed(m.cache_gbs_all_threads, 0) << " in cache; " << fixed(m.gflops_f32, 0) << " and "
        << fixed(m.gflops_f32_all_threads, 0) << " GFLOP/s\n";
  }
  detail::write_waiting(out, r);
  for (const std::string& warning : r.warnings)
    out << "  note: " << detail::one_line(warning) << '\n';

  using row = std::vector<std::string>;
  std::vector<row> table{{"share", "self", "total", "calls", "mean", "p50", "p99", "max", "GB/s",
                          "GFLOP/s", "of bound", "callers",
                          kind == rows_of::functions ? "function" : "problem"}};
  report grouped;
  if (kind == rows_of::functions) grouped = detail::by_function(r);
  const report& shown = kind == rows_of::functions ? grouped : r;
  const std::vector<std::size_t> order = shown.by_self_time();
  for (std::size_t i = 0; i < std::min(rows, order.size()); ++i) {
    const entry& e = shown.entries[order[i]];
    const roofline_position roof = position(e, shown.machine);
    const auto or_dash = [](double value) { return value > 0 ? fixed(value, 1) : "-"; };
    table.push_back({whole > 0 ? fixed(100 * e.self_ns / whole, 1) + " %" : "-",
                     duration_text(e.self_ns), duration_text(e.total_ns), std::to_string(e.count),
                     duration_text(e.mean_ns()), duration_text(e.quantile_ns(0.5)),
                     duration_text(e.quantile_ns(0.99)), duration_text(e.max_ns),
                     or_dash(e.gigabytes_per_second()), or_dash(e.gigaflops_per_second()),
                     roof.percent > 0 ? fixed(roof.percent, 0) + " % " + roof.bound : "-",
                     fixed(e.concurrency, 1), detail::one_line(e.name)});
  }
  detail::write_aligned(out, table);
  if (order.size() > rows) {
    double rest = 0;
    for (std::size_t i = rows; i < order.size(); ++i) rest += shown.entries[order[i]].self_ns;
    out << "and " << std::to_string(order.size() - rows)
        << (kind == rows_of::functions ? " more functions, " : " more problems, ")
        << fixed(whole > 0 ? 100 * rest / whole : 0, 1) << " % together\n";
  }
  if (order.empty()) out << "(no scope has ended)\n";
}

/// Writes all problems as CSV (RFC 4180), one per line, with a header.
inline void write_csv(std::ostream& out, const report& r) {
  using detail::number;
  out << "name,function,variant,type,shape,implementation,threads,source,count,total_ns,"
         "inclusive_ns,self_ns,share,min_ns,mean_ns,p50_ns,p90_ns,p99_ns,max_ns,stddev_ns,bytes,"
         "flops,gigabytes_per_second,gigaflops_per_second,intensity,roofline_percent,"
         "roofline_bound,seen_on_threads,concurrency\r\n";
  const double whole = r.whole_ns();
  for (const std::size_t i : r.by_self_time()) {
    const entry& e = r.entries[i];
    const roofline_position roof = position(e, r.machine);
    for (const std::string& text :
         {e.name, e.function, e.variant, e.type, shape_text(e.shape), e.implementation}) {
      out << detail::csv_field(text) << ',';
    }
    out << std::to_string(e.threads) << ',' << detail::csv_field(e.source) << ','
        << std::to_string(e.count) << ',';
    for (const double value :
         {e.total_ns, e.inclusive_ns, e.self_ns, whole > 0 ? e.self_ns / whole : 0, e.min_ns,
          e.mean_ns(), e.quantile_ns(0.5), e.quantile_ns(0.9), e.quantile_ns(0.99), e.max_ns,
          e.stddev_ns(), e.bytes, e.flops, e.gigabytes_per_second(), e.gigaflops_per_second(),
          e.intensity(), roof.percent}) {
      out << number(value) << ',';
    }
    out << roof.bound << ',' << std::to_string(e.seen_on_threads) << ',' << number(e.concurrency)
        << "\r\n";
  }
}

/// Writes self time in nanoseconds by path, one "outer;inner 1234" per line, the input format of
/// flame graph programs.
inline void write_folded(std::ostream& out, const report& r) {
  for (const path& p : r.paths) {
    const char* separator = "";
    for (const std::size_t i : p.entries) {
      std::string name = detail::one_line(r.entries[i].name);
      std::replace(name.begin(), name.end(), ';', ',');
      out << separator << name;
      separator = ";";
    }
    out << ' ' << detail::fixed(p.self_ns, 0) << '\n';
  }
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

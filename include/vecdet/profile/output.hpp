// SPDX-License-Identifier: Apache-2.0
// Reports to streams and files, and those that VECDET_PROFILE asks for when the program ends.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/control.hpp>
#include <vecdet/profile/file.hpp>
#include <vecdet/profile/machine.hpp>
#include <vecdet/profile/report.hpp>
#include <vecdet/profile/snapshot.hpp>
#include <vecdet/profile/write_html.hpp>
#include <vecdet/profile/write_json.hpp>
#include <vecdet/profile/write_text.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <mutex>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

enum class format { table, json, csv, html, trace, folded };

/// The format that a file's name stands for: .html, .csv, .folded, .txt for the table, .json for
/// the profile; a .json whose name contains "trace" is a trace. Throws std::invalid_argument for
/// other names.
inline format format_of(const std::string& path) {
  const std::string file = path.substr(path.find_last_of('/') + 1);
  const auto ends = [&](const char* suffix) {
    const std::size_t n = std::strlen(suffix);
    return file.size() > n && file.compare(file.size() - n, n, suffix) == 0;
  };
  if (ends(".json")) return file.find("trace") != std::string::npos ? format::trace : format::json;
  if (ends(".html")) return format::html;
  if (ends(".csv")) return format::csv;
  if (ends(".folded")) return format::folded;
  if (ends(".txt")) return format::table;
  throw std::invalid_argument("vecdet::profile: cannot tell the format of \"" + path +
                              "\", expected a name in .json, .html, .csv, .folded or .txt");
}

inline void write(std::ostream& out, const report& r, format as,
                  rows_of table_rows = rows_of::problems) {
  switch (as) {
    case format::table:
      return write_table(out, r, 50, table_rows);
    case format::json:
      return write_json(out, r);
    case format::csv:
      return write_csv(out, r);
    case format::html:
      return write_html(out, r);
    case format::trace:
      return write_trace(out, r);
    case format::folded:
      return write_folded(out, r);
  }
}

/// Writes the report in the format that the name stands for. Throws std::invalid_argument for a
/// name that stands for none, std::runtime_error when the file cannot be written.
inline void write_file(const std::string& path, const report& r,
                       rows_of table_rows = rows_of::problems) {
  const format as = format_of(path);
  write_file(path, [&](std::ostream& out) { write(out, r, as, table_rows); });
}

/// A snapshot with the machine's bounds in it, where some problem tells its bytes or operations.
/// They are measured the first time: about a second in which the machine should do nothing else.
inline report full_snapshot() {
  report r = snapshot();
  const bool has_work = std::any_of(r.entries.begin(), r.entries.end(),
                                    [](const entry& e) { return e.bytes > 0 || e.flops > 0; });
  if (has_work) r.machine = measure_machine();
  return r;
}

/// Prints the table of a full_snapshot().
inline void print(std::ostream& out) { write_table(out, full_snapshot()); }

namespace detail {

/// What the rows of the tables stand for that print_every() prints.
VECDET_PROFILE_SHARED inline std::atomic<rows_of> printed_rows{rows_of::problems};

inline void print_periodically(std::int64_t now) noexcept {
  registry& r = registry::get();
  std::int64_t due = next_print.load(std::memory_order_relaxed);
  // One thread of those that notice prints.
  if (now < due || !next_print.compare_exchange_strong(due, INT64_MAX)) return;
  std::int64_t period = 0;
  try {
    report so_far = snapshot();
    so_far.machine = known_machine();
    std::ostringstream text;
    write_table(text, so_far, 20, printed_rows);
    std::cerr << text.str() << std::flush;
    const std::lock_guard<std::mutex> lock(r.mutex);
    period = r.print_period_ticks;
  } catch (const std::exception&) {
    return;  // no memory for a table: no further ones
  }
  if (period > 0) next_print = ticks() + period;
}

}  // namespace detail

/// Prints a table of what was recorded so far to standard error every so many seconds, at the end
/// of the next scope on any thread. 0 stops it: a library that has called this does so before it is
/// unloaded.
inline void print_every(double seconds, rows_of table_rows = rows_of::problems) {
  detail::calibrate_once();
  detail::printed_rows = table_rows;
  detail::registry& r = detail::registry::get();
  const double scale = detail::rate.nanoseconds_per_tick.load();
  std::int64_t period = 0;
  {
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (seconds > 0) period = static_cast<std::int64_t>(std::min(seconds, 1e8) * 1e9 / scale) + 1;
    r.print_period_ticks = period;
  }
  detail::print_if_due = detail::print_periodically;
  detail::next_print = period > 0 ? detail::ticks() + period : INT64_MAX;
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// VECDET_PROFILE turns the profiler on from outside, and says what to write when the program ends.
// It holds, separated by commas:
//   1, on, table     the table, to standard error
//   every:10         the table every 10 seconds too
//   by:function      the table, with a row per function instead of one per problem
//   <file>           a report in the format that its name stands for, see format_of():
//                    report.json, report.html, report.csv, trace.json, stacks.folded, table.txt
// 0, off or nothing leave it off. In a file's name %p stands for the process and %r for the rank.
// Where a launcher has set a rank, or the process is a fork, names without them get
// ".rank<r>" or ".pid<p>" before their ending.
//
// A program whose files are compiled for different instruction sets has a profile for each of them
// (VECDET_ABI); the files of all but the first get the instruction set before their ending.
//
// It is read before main(), by environment.cpp, which vecdet::dispatch compiles once for the whole
// program; with the headers alone, by a program of which a file includes <vecdet/profile.hpp>. A
// set-user-ID program does not heed it.
#pragma once

#include <vecdet/detail/environment_variable.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/profile/control.hpp>
#include <vecdet/profile/missing_writers.hpp>
#include <vecdet/profile/output.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace vecdet {

/// The profiles of this program that have been asked for reports, a bit each. Data without code,
/// the only thing that they share.
VECDET_PROFILE_SHARED inline std::atomic<unsigned> reporting_profiles{0};

inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// This profile among those of a program, the dispatching one first.
#if defined(VECDET_DISPATCH) || defined(VECDET_ENVIRONMENT_UNIT)
constexpr unsigned profile_bit = 1;
constexpr const char* profile_name = "dispatched";
#elif defined(VECDET_TARGET_AVX512)
constexpr unsigned profile_bit = 8;
constexpr const char* profile_name = "avx512";
#elif defined(VECDET_TARGET_AVX2)
constexpr unsigned profile_bit = 4;
constexpr const char* profile_name = "avx2";
#else
constexpr unsigned profile_bit = 2;
constexpr const char* profile_name = "baseline";
#endif

struct exit_reports {
  bool table = false;
  rows_of table_rows = rows_of::problems;
  double every = 0;
  std::vector<std::string> files;
  std::vector<std::string> mistakes;
};

/// What the value of VECDET_PROFILE asks for.
inline exit_reports parse_environment(const std::string& value) {
  exit_reports wanted;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::string item = value.substr(begin, end - begin);
    begin = end + 1;
    if (item.empty() || item == "0" || item == "off") continue;
    if (item == "1" || item == "on" || item == "table") {
      wanted.table = true;
    } else if (item.compare(0, 6, "every:") == 0) {
      char* rest = nullptr;
      const double seconds = std::strtod(item.c_str() + 6, &rest);
      if (*rest == '\0' && seconds > 0) {
        wanted.every = seconds;
        wanted.table = true;
      } else {
        wanted.mistakes.push_back("\"" + item + "\" should be every:<seconds>");
      }
    } else if (item.compare(0, 3, "by:") == 0) {
      if (item == "by:function") {
        wanted.table_rows = rows_of::functions;
        wanted.table = true;
      } else {
        wanted.mistakes.push_back("\"" + item + "\" should be by:function");
      }
    } else {
      try {
        static_cast<void>(format_of(item));
        wanted.files.push_back(item);
      } catch (const std::invalid_argument&) {
        wanted.mistakes.push_back("\"" + item +
                                  "\" is neither 1, on, table, every:<seconds>, by:function, 0 or "
                                  "off nor a file in .json, .html, "
                                  ".csv, .folded or .txt");
      }
    }
  }
  return wanted;
}

/// The name with process and rank filled in.
inline std::string file_for_process(const std::string& pattern, std::int64_t pid, int rank,
                                    bool forked) {
  std::string name;
  bool has_pid = false, has_rank = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'p' && next != 'r')) {
      name += pattern[i];
      continue;
    }
    ++i;
    (next == 'p' ? has_pid : has_rank) = true;
    name += std::to_string(next == 'p' ? pid : rank >= 0 ? rank : 0);
  }
  std::string addition;
  if (rank >= 0 && !has_rank && !has_pid) addition += ".rank" + std::to_string(rank);
  if (forked && !has_pid) addition += ".pid" + std::to_string(pid);
  const std::size_t dot = name.rfind('.');
  return name.insert(dot, addition);
}

VECDET_PROFILE_SHARED inline exit_reports& wanted_reports() {
  static exit_reports* const only = new exit_reports;
  return *only;
}

/// Never lets the program's end fail: what cannot be written is said on standard error.
inline void write_exit_reports() noexcept {
  try {
    disable();
    next_print = INT64_MAX;
    const exit_reports& wanted = wanted_reports();
    const report r = full_snapshot();
    if (wanted.table) {
      std::ostringstream text;
      write_table(text, r, 50, wanted.table_rows);
      std::cerr << text.str() << std::flush;
    }
    const process_info& p = r.processes[0];
    const bool is_first = (reporting_profiles.load() & (profile_bit - 1)) == 0;
    for (const std::string& pattern : wanted.files) {
      std::string path = file_for_process(pattern, p.pid, p.rank, registry::get().forked);
      if (!is_first) path.insert(path.rfind('.'), std::string(".") + profile_name);
      try {
        write_file(path, r, wanted.table_rows);
        std::cerr << "vecdet::profile: wrote " << path << std::endl;
      } catch (const std::exception& error) {
        std::cerr << error.what() << std::endl;
      }
    }
  } catch (const std::exception& error) {
    std::cerr << "vecdet::profile: no report: " << error.what() << std::endl;
  } catch (...) {
  }
}

/// Called once, before main().
inline bool read_environment() noexcept {
  has_writers = true;
  try {
    const char* value = vecdet::detail::environment_variable("VECDET_PROFILE");
    if (value == nullptr) return false;
    static std::ios_base::Init streams;
    exit_reports wanted = parse_environment(value);
    for (const std::string& mistake : wanted.mistakes) {
      std::cerr << "vecdet::profile: VECDET_PROFILE: " << mistake << std::endl;
    }
    if (!wanted.table && wanted.files.empty()) return false;
    wanted_reports() = wanted;
    reporting_profiles.fetch_or(profile_bit);
    for (const std::string& file : wanted.files) {
      if (format_of(file) == format::trace) keep_events(std::size_t{1} << 16);
    }
    enable();
    if (wanted.every > 0) print_every(wanted.every, wanted.table_rows);
    std::atexit(write_exit_reports);
    return true;
  } catch (...) {
    return false;
  }
}

#if !defined(VECDET_PROFILE_DISABLE) && \
    (!defined(VECDET_DISPATCH) || defined(VECDET_ENVIRONMENT_UNIT))
VECDET_PROFILE_SHARED inline const bool on_from_environment = read_environment();
#endif

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The gate's history: a file with one line of JSON per run.
#pragma once

#include "change_points.hpp"
#include "report.hpp"
#include "report_files.hpp"

#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vecdet::gate {

/// "2026-11-25T03:04:05Z"
inline std::string utc_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

inline nlohmann::ordered_json history_line(const gate_result& result, const std::string& label,
                                           std::time_t time) {
  nlohmann::ordered_json benchmarks = nlohmann::ordered_json::object();
  for (const judged_problem& problem : result.problems) {
    if (problem.measurements.empty() || !problem.trouble.empty()) continue;  // it has no time
    nlohmann::ordered_json entry{
        {"head_ns", problem.over_processes(&measurement::head_ns)},
        {"verdict", verdict_of(problem)},
    };
    if (problem.in_base) {
      entry["base_ns"] = problem.over_processes(&measurement::base_ns);
      entry["head_to_base"] = change_of(problem);
    }
    if (problem.head_counts.allocations) entry["allocations"] = *problem.head_counts.allocations;
    if (problem.head_counts.page_faults) entry["page_faults"] = *problem.head_counts.page_faults;
    benchmarks[problem.full_name()] = entry;
  }
  return {{"time", utc_text(time)},
          {"revision", label},
          {"machine", machine_text(result.machine)},
          {"verdict", outcome_name(result.answer())},
          {"benchmarks", benchmarks}};
}

/// An open file, or -1.
class open_file {
 public:
  open_file(const std::string& path, int flags)
      : number_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

/// A benchmark's times on one machine.
struct benchmark_history {
  std::string name, machine;
  std::vector<std::string> times, revisions;
  std::vector<double> ns;
  std::vector<std::size_t> changes;  ///< where a new level begins
};

/// Median of the segment that begins at changes[i-1], or at 0 for i = 0.
inline double level(const benchmark_history& series, std::size_t i) {
  const std::size_t begin = i == 0 ? 0 : series.changes[i - 1];
  const std::size_t end = i < series.changes.size() ? series.changes[i] : series.ns.size();
  return median({series.ns.begin() + static_cast<std::ptrdiff_t>(begin),
                 series.ns.begin() + static_cast<std::ptrdiff_t>(end)});
}

/// Throws if the file cannot be written, before time is spent on its content. A file that does not
/// exist does not exist afterwards, either.
inline void require_writable(const std::string& path) {
  if (path.empty()) return;
  struct stat found {};
  const bool exists = stat(path.c_str(), &found) == 0;
  if (exists && S_ISFIFO(found.st_mode)) return;  // without a reader, it cannot be opened
  const open_file file(path, exists ? O_WRONLY | O_NOCTTY : O_WRONLY | O_CREAT);
  if (file.number() < 0)
    throw std::runtime_error("\"" + path + "\" cannot be written: " + std::strerror(errno));
  std::error_code ignored;  // then it stays, and is empty
  if (!exists) std::filesystem::remove(std::filesystem::canonical(path, ignored), ignored);
}

/// Adds a line to a file as a whole: if it cannot be written, such as on a full disk, the file is
/// as before. If an earlier run was cut off within its line, this one still begins a line of its
/// own. A lock keeps other runs out meanwhile. Some network file systems have no locks; there, the
/// line is still a single write at the end of the file, but an incomplete one stays, because
/// another run's line may follow. `lock` is flock(), or a test's.
inline void append_line(const std::string& path, std::string line,
                        int (*lock)(int file, int operation) = flock) {
  const auto fail = [&] {
    throw std::runtime_error("\"" + path + "\" cannot be written: " + std::strerror(errno));
  };
  const open_file file(path, O_RDWR | O_APPEND | O_CREAT);
  if (file.number() < 0) fail();
  const bool is_locked = lock(file.number(), LOCK_EX) == 0;
  if (!is_locked && errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS) fail();
  line += '\n';
  struct stat before {};
  if (fstat(file.number(), &before) != 0) fail();
  char last = '\n';
  if (S_ISREG(before.st_mode) && before.st_size > 0 &&
      pread(file.number(), &last, 1, before.st_size - 1) != 1)
    fail();
  if (last != '\n') line.insert(line.begin(), '\n');
  const ssize_t written = write(file.number(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  if (written >= 0) errno = ENOSPC;
  const int reason = errno;
  if (S_ISREG(before.st_mode) && written > 0 &&
      (!is_locked || ftruncate(file.number(), before.st_size) != 0))
    throw std::runtime_error("\"" + path +
                             "\" has an incomplete last line: " + std::strerror(reason));
  errno = reason;
  fail();
}

/// Reads a history, in the order of its lines. A line that is not JSON was cut off when a run was
/// killed or the disk was full: it is skipped, with a message to `warnings`, as is a time of null.
/// Throws on JSON that is no line of a history. Both name the line's number.
inline std::vector<benchmark_history> read_history(std::istream& in, const std::string& path,
                                                   std::ostream& warnings) {
  std::map<std::pair<std::string, std::string>, benchmark_history> found;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = "\"" + path + "\", line " + std::to_string(number);
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (line.is_discarded()) {
      warnings << "vecdet-gate: " << place << " is not complete JSON: skipped\n";
      continue;
    }
    try {
      const std::string machine = line.at("machine"), time = line.at("time"),
                        revision = line.at("revision");
      if (time.size() != 20 || time.find_first_not_of("0123456789-T:Z") != std::string::npos)
        throw std::runtime_error("time \"" + time + "\", expected as 2026-11-25T03:04:05Z");
      for (const auto& entry : line.at("benchmarks").items()) {
        // What JSON's writer makes of a number that is not finite.
        if (entry.value().at("head_ns").is_null()) {
          warnings << "vecdet-gate: " << place << ": head_ns of \"" << entry.key()
                   << "\" is null: skipped\n";
          continue;
        }
        const double ns = entry.value().at("head_ns");
        if (!(ns > 0) || !std::isfinite(ns))
          throw std::runtime_error("head_ns of \"" + entry.key() + "\" is not above 0");
        benchmark_history& series = found[{entry.key(), machine}];
        series.name = entry.key();
        series.machine = machine;
        series.times.push_back(time);
        series.revisions.push_back(revision);
        series.ns.push_back(ns);
      }
    } catch (const std::exception& error) {
      throw std::runtime_error(place + ": " + error.what());
    }
  }
  std::vector<benchmark_history> all;
  for (auto& series : found) {
    // Changes of times are ratios, so the logarithms are compared.
    std::vector<double> logarithms;
    for (const double ns : series.second.ns) logarithms.push_back(std::log(ns));
    series.second.changes = change_points(logarithms);
    all.push_back(std::move(series.second));
  }
  return all;
}

/// Text for a CSV cell.
inline std::string csv_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// Writes Otava's input: a CSV file per benchmark and machine, and otava.yaml, which lists them as
/// tests. One file for all would have empty cells, which Otava rejects. The paths in otava.yaml
/// begin with `folder`.
inline void write_otava(const std::string& folder, const std::vector<benchmark_history>& all) {
  std::filesystem::create_directories(folder);
  std::ostringstream tests;
  tests << "tests:\n";
  std::map<std::string, int> uses;
  int number = 0;
  for (const benchmark_history& series : all) {
    const std::string path = folder + "/" + std::to_string(++number) + ".csv";
    write_file(path, [&](std::ostream& out) {
      out << "time,commit,ns\n";
      out.precision(17);
      for (std::size_t i = 0; i < series.ns.size(); ++i)
        out << series.times[i] << ',' << csv_text(series.revisions[i]) << ',' << series.ns[i]
            << '\n';
    });
    // A JSON string is also a YAML string. From a benchmark's second machine on, the name gets a
    // number.
    const int use = ++uses[series.name];
    const std::string name = series.name + (use == 1 ? "" : " #" + std::to_string(use));
    tests << "  " << nlohmann::json(name).dump() << ":  # on "
          << nlohmann::json(series.machine).dump()
          << "\n    type: csv\n    file: " << nlohmann::json(path).dump()
          << "\n    time_column: time\n    attributes: [commit]\n"
             "    metrics:\n      ns: {direction: -1, scale: 1}\n"
             "    csv_options: {delimiter: \",\", quote_char: '\"'}\n";
  }
  write_file(folder + "/otava.yaml", [&](std::ostream& out) { out << tests.str(); });
}

}  // namespace vecdet::gate

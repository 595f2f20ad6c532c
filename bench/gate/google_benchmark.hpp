// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of programs built with Google Benchmark, whatever its version.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::gate {

/// One benchmark in one run of a program.
struct benchmark_run {
  std::string name;
  std::vector<double> ns;   ///< per iteration, one for each repetition
  double iterations = 0;    ///< of all repetitions
  bool parallel = false;    ///< it runs on several threads
  bool wall_clock = false;  ///< it measures real or its own time, as its name says
  std::string skipped;      ///< why it was not run
};

/// Whether Google Benchmark's name has this part, such as "real_time" in "sum/1024/real_time".
inline bool name_has(const std::string& name, const std::string& part) {
  return ("/" + name + "/").find("/" + part + "/") != std::string::npos;
}

namespace detail {

inline double benchmark_number(const nlohmann::json& entry, const char* key,
                               const std::string& name) {
  const auto at = entry.find(key);
  if (at == entry.end() || !at->is_number() || !std::isfinite(at->get<double>()) ||
      at->get<double>() < 0)
    throw std::runtime_error("benchmark \"" + name + "\": \"" + key + "\" is " +
                             (at == entry.end() ? std::string("missing") : at->dump()) +
                             ", expected a number of at least 0");
  return at->get<double>();
}

inline std::string benchmark_text(const nlohmann::json& entry, const char* key,
                                  const char* otherwise) {
  const auto at = entry.find(key);
  if (at == entry.end()) return otherwise;
  if (!at->is_string())
    throw std::runtime_error(std::string("\"") + key + "\" is " + at->dump() +
                             ", expected a string");
  return at->get<std::string>();
}

inline double nanoseconds_of(const std::string& unit) {
  if (unit == "ns") return 1;
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  if (unit == "s") return 1e9;
  throw std::runtime_error("the time unit is \"" + unit + "\", expected ns, us, ms or s");
}

inline bool flag(const nlohmann::json& entry, const char* key) {
  const auto at = entry.find(key);
  return at != entry.end() && at->is_boolean() && at->get<bool>();
}

}  // namespace detail

/// The benchmarks in the order of the file, each with its repetitions; aggregates are left out. The
/// time is the one by which Google Benchmark chooses the number of iterations: CPU time, unless the
/// name says real or manual time. Throws if the text is not such JSON or a benchmark reports an
/// error.
inline std::vector<benchmark_run> read_google_benchmark(const std::string& text) {
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded() || !document.is_object() || !document.contains("benchmarks") ||
      !document["benchmarks"].is_array())
    throw std::runtime_error(
        "not the JSON of Google Benchmark: expected an object with an array \"benchmarks\"");
  std::vector<benchmark_run> runs;
  for (const nlohmann::json& entry : document["benchmarks"]) {
    if (!entry.is_object()) throw std::runtime_error("an entry of \"benchmarks\" is no object");
    if (detail::benchmark_text(entry, "run_type", "iteration") != "iteration") continue;
    std::string name = detail::benchmark_text(entry, "run_name", "");
    if (name.empty()) name = detail::benchmark_text(entry, "name", "");
    if (name.empty()) throw std::runtime_error("a benchmark has no name");
    std::size_t place = 0;
    while (place < runs.size() && runs[place].name != name) ++place;
    if (place == runs.size()) runs.push_back({name, {}, 0, false, false, {}});
    benchmark_run& run = runs[place];
    if (detail::flag(entry, "error_occurred"))
      throw std::runtime_error("benchmark \"" + name + "\" reports an error: " +
                               detail::benchmark_text(entry, "error_message", ""));
    if (detail::flag(entry, "skipped")) {
      run.skipped = "skipped: " + detail::benchmark_text(entry, "skip_message", "");
      continue;
    }
    run.wall_clock = name_has(name, "real_time") || name_has(name, "manual_time");
    run.parallel =
        entry.contains("threads") && detail::benchmark_number(entry, "threads", name) > 1;
    run.iterations += detail::benchmark_number(entry, "iterations", name);
    run.ns.push_back(
        detail::benchmark_number(entry, run.wall_clock ? "real_time" : "cpu_time", name) *
        detail::nanoseconds_of(detail::benchmark_text(entry, "time_unit", "ns")));
  }
  return runs;
}

/// A pattern for --benchmark_filter that matches exactly these names.
inline std::string filter_for(const std::vector<std::string>& names) {
  std::string pattern = "^(";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) pattern += '|';
    for (const char c : names[i]) {
      if (std::string("\\^$.|?*+()[{").find(c) != std::string::npos) pattern += '\\';
      pattern += c;
    }
  }
  return pattern + ")$";
}

}  // namespace vecdet::gate

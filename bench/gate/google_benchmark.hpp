// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of programs built with Google Benchmark, whatever its version.
#pragma once

#include "utf8.hpp"

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::gate {

/// What came of a benchmark in one run of a program.
enum class run_state {
  timed,     ///< every repetition has a time
  skipped,   ///< by the program, on purpose
  failed,    ///< it reports an error
  unusable,  ///< its entries have no time that can be compared
};

/// How a benchmark's run ended.
struct run_end {
  run_state state = run_state::timed;
  std::string reason;  ///< for its state, unless it is timed
};

/// One benchmark in one run of a program. `run_name` and `place` identify it: `name` is for people,
/// and depends on the run's other benchmarks.
struct benchmark_run : run_end {
  std::string name;         ///< from the second benchmark of a name on, with a number, as "sum #2"
  std::string run_name;     ///< as the program calls it
  int place = 1;            ///< among the run's benchmarks of this run_name
  std::vector<double> ns;   ///< per iteration, one for each repetition, or their median
  double iterations = 0;    ///< of all repetitions; 0: unknown
  bool parallel = false;    ///< it runs on several threads
  bool wall_clock = false;  ///< it measures real or its own time, as its name says

  bool is(const benchmark_run& other) const {
    return run_name == other.run_name && place == other.place;
  }
};

/// Whether Google Benchmark's name has this part, such as "real_time" in "sum/1024/real_time".
inline bool name_has(const std::string& name, const std::string& part) {
  return ("/" + name + "/").find("/" + part + "/") != std::string::npos;
}

namespace detail {

inline std::optional<double> benchmark_number(const nlohmann::json& entry, const char* key) {
  const auto at = entry.find(key);
  if (at == entry.end() || !at->is_number()) return std::nullopt;
  const double number = at->get<double>();
  return std::isfinite(number) && number >= 0 ? std::optional<double>(number) : std::nullopt;
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

/// Google Benchmark writes numbers that are not finite as NaN and Infinity, which are not JSON,
/// such as a rate in a time of 0. Outside strings, they become null, as do numbers beyond double's
/// range.
inline std::string without_nonfinite(const std::string& text) {
  std::string clean;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') clean += text[i++];
    if (i == text.size()) break;
    std::size_t length = 0;
    if (!in_string) {
      for (const std::string word : {"NaN", "-NaN", "Infinity", "-Infinity"}) {
        if (text.compare(i, word.size(), word) == 0) length = word.size();
      }
      const std::size_t end = text.find_first_not_of("+-.0123456789eE", i);
      const std::string number = text.substr(i, end == text.npos ? end : end - i);
      if (!number.empty() && std::isinf(std::strtod(number.c_str(), nullptr)))
        length = number.size();
      if (!number.empty() && length == 0) {
        clean += number;
        i += number.size() - 1;
        continue;
      }
    }
    clean += length > 0 ? "null" : std::string(1, text[i]);
    i += length > 0 ? length - 1 : 0;
  }
  return clean;
}

/// Parses JSON; of equal keys of an object, the first counts. A user's counter may have the name of
/// one of Google Benchmark's own keys, such as "cpu_time", and comes after it.
inline nlohmann::json parse_first_keys(const std::string& text) {
  using event = nlohmann::json::parse_event_t;
  std::map<int, std::set<std::string>> keys;  // of the object that is open at each depth
  const auto keep = [&](int depth, event what, nlohmann::json& parsed) {
    if (what == event::object_start) keys[depth + 1].clear();
    return what != event::key || keys[depth].insert(parsed.get<std::string>()).second;
  };
  return nlohmann::json::parse(text, keep, false);
}

/// What identifies an entry of a benchmark, as far as the program's version writes it. Repetitions
/// of a benchmark share family and instance. Two benchmarks of one name do not, or else their
/// numbers of repetitions begin again.
struct entry_place {
  std::string run_name;
  double family, instance;

  bool operator==(const entry_place& other) const {
    return run_name == other.run_name && family == other.family && instance == other.instance;
  }
};

/// The entries of one benchmark.
struct benchmark_entries {
  entry_place place;
  std::vector<const nlohmann::json*> repetitions, aggregates;

  /// Whether the entry can be another of this benchmark.
  bool takes(const nlohmann::json& entry, bool aggregate) const {
    const char* const key = aggregate ? "aggregate_name" : "repetition_index";
    const auto at = entry.find(key);
    for (const nlohmann::json* const mine : aggregate ? aggregates : repetitions) {
      if (at != entry.end() && mine->value(key, nlohmann::json()) == *at) return false;
    }
    if (aggregate || place.family >= 0) return true;
    const double most = benchmark_number(entry, "repetitions").value_or(1);
    return static_cast<double>(repetitions.size()) < most;
  }
};

/// Sets the state and the times from the entries.
inline void read_entries(const benchmark_entries& found, benchmark_run& run) {
  const bool only_aggregates = found.repetitions.empty();
  const auto& entries = only_aggregates ? found.aggregates : found.repetitions;
  const auto give_up = [&](run_state state, const std::string& reason) {
    run.state = state;
    run.reason = reason;
    run.ns.clear();
  };
  run.wall_clock = name_has(run.run_name, "real_time") || name_has(run.run_name, "manual_time");
  for (const nlohmann::json* const entry : entries) {
    if (flag(*entry, "error_occurred"))
      return give_up(run_state::failed,
                     "reports an error: " + benchmark_text(*entry, "error_message", ""));
    if (flag(*entry, "skipped"))
      return give_up(run_state::skipped, "skipped: " + benchmark_text(*entry, "skip_message", ""));
    run.parallel = run.parallel || benchmark_number(*entry, "threads").value_or(1) > 1;
    // The median is what the gate takes of repetitions, too.
    if (only_aggregates && benchmark_text(*entry, "aggregate_name", "") != "median") continue;
    const char* const key = run.wall_clock ? "real_time" : "cpu_time";
    const std::optional<double> time = benchmark_number(*entry, key);
    if (!time) {
      const auto at = entry->find(key);
      return give_up(run_state::unusable, std::string("\"") + key + "\" is " +
                                              (at == entry->end() ? "missing" : at->dump()) +
                                              ", expected a number of at least 0");
    }
    run.ns.push_back(*time * nanoseconds_of(benchmark_text(*entry, "time_unit", "ns")));
    if (!only_aggregates) run.iterations += benchmark_number(*entry, "iterations").value_or(0);
  }
  if (run.ns.empty()) give_up(run_state::unusable, "reports only aggregates, without a median");
}

}  // namespace detail

/// The benchmarks in the order of the file. A benchmark that reports only aggregates has their
/// median. The time is the one by which Google Benchmark chooses the number of iterations: CPU
/// time, unless the name says real or manual time. Bytes that are not UTF-8 are replaced. Throws if
/// the text is not such JSON.
inline std::vector<benchmark_run> read_google_benchmark(const std::string& text) {
  const nlohmann::json document =
      detail::parse_first_keys(detail::without_nonfinite(valid_utf8(text)));
  if (document.is_discarded() || !document.is_object() || !document.contains("benchmarks") ||
      !document["benchmarks"].is_array())
    throw std::runtime_error(
        "not the JSON of Google Benchmark: expected an object with an array \"benchmarks\"");
  std::vector<detail::benchmark_entries> all;
  for (const nlohmann::json& entry : document["benchmarks"]) {
    if (!entry.is_object()) throw std::runtime_error("an entry of \"benchmarks\" is no object");
    const bool aggregate = detail::benchmark_text(entry, "run_type", "iteration") != "iteration";
    // The fit of a family's complexity is no time.
    if (!entry.contains("cpu_time") && (entry.contains("big_o") || entry.contains("rms"))) continue;
    std::string name = detail::benchmark_text(entry, "run_name", "");
    if (name.empty()) name = detail::benchmark_text(entry, "name", "");
    if (name.empty()) throw std::runtime_error("a benchmark has no name");
    const detail::entry_place place{
        name, detail::benchmark_number(entry, "family_index").value_or(-1),
        detail::benchmark_number(entry, "per_family_instance_index").value_or(-1)};
    auto at = all.end();
    for (auto each = all.begin(); each != all.end(); ++each) {
      if (each->place == place && each->takes(entry, aggregate)) at = each;
    }
    if (at == all.end()) at = all.insert(at, {place, {}, {}});
    (aggregate ? at->aggregates : at->repetitions).push_back(&entry);
  }
  std::vector<benchmark_run> runs;
  std::set<std::string> names;  // a benchmark's own name is not made up for another
  for (const detail::benchmark_entries& found : all) names.insert(found.place.run_name);
  std::map<std::string, int> uses;
  for (const detail::benchmark_entries& found : all) {
    benchmark_run run;
    run.run_name = run.name = found.place.run_name;
    run.place = ++uses[run.run_name];
    for (int number = run.place; number > 1 && !names.insert(run.name).second; ++number)
      run.name = run.run_name + " #" + std::to_string(number);
    detail::read_entries(found, run);
    runs.push_back(std::move(run));
  }
  return runs;
}

/// A pattern for --benchmark_filter that matches the names of these benchmarks, and no other unless
/// they contain replaced bytes.
inline std::string filter_for(const std::vector<benchmark_run>& benchmarks) {
  std::string pattern = "^(";
  for (const benchmark_run& benchmark : benchmarks) {
    if (pattern.size() > 2) pattern += '|';
    const std::string& name = benchmark.run_name;
    for (std::size_t i = 0; i < name.size(); ++i) {
      if (name.compare(i, 3, replaced_byte) == 0) {
        pattern += std::string("(") + replaced_byte + "|.)";
        i += 2;
        continue;
      }
      if (std::string("\\^$.|?*+()[{").find(name[i]) != std::string::npos) pattern += '\\';
      pattern += name[i];
    }
  }
  return pattern + ")$";
}

}  // namespace vecdet::gate

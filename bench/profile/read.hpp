// SPDX-License-Identifier: Apache-2.0
// Reads a file into a report: the profiler's profiles, google-benchmark's JSON, or oneDNN's verbose
// logs. The kind is recognised by the content.
#pragma once

#include "import_google_benchmark.hpp"
#include "import_onednn.hpp"
#include "numbers.hpp"
#include <vecdet/profile.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::profile {

inline entry read_entry(const nlohmann::json& j) {
  entry e;
  e.name = j.at("name").get<std::string>();
  e.function = j.at("function").get<std::string>();
  e.variant = j.at("variant").get<std::string>();
  e.type = j.at("type").get<std::string>();
  for (const nlohmann::json& dimension : j.at("shape"))
    e.shape.push_back(
        checked_integer<std::int64_t>(dimension, "a dimension of \"" + e.name + "\"", 1));
  e.implementation = j.at("implementation").get<std::string>();
  e.threads = checked_integer<int>(j.at("threads"), "\"threads\" of \"" + e.name + "\"", 0);
  e.source = j.at("source").get<std::string>();
  e.count = count(j, "count");
  e.total_ns = amount(j, "total_ns");
  e.inclusive_ns = amount(j, "inclusive_ns");
  e.self_ns = amount(j, "self_ns");
  e.min_ns = amount(j, "min_ns");
  e.max_ns = amount(j, "max_ns");
  const double stddev = amount(j, "stddev_ns");
  e.variance_ns2 = stddev * stddev;
  e.bytes = amount(j, "bytes");
  e.flops = amount(j, "flops");
  e.seen_on_threads = count(j, "seen_on_threads");
  e.concurrency = amount(j, "concurrency");
  for (const nlohmann::json& bucket : j.at("histogram")) {
    const auto lower =
        checked_integer<std::int64_t>(bucket.at(0), "the start of a histogram's bucket", 0);
    e.histogram[histogram_bucket(lower)] += checked_integer<std::uint64_t>(
        bucket.at(1), "the number of calls in a histogram's bucket", 0);
  }
  for (const nlohmann::json& sample : j.at("samples_ns"))
    e.samples.push_back(static_cast<float>(checked_amount(sample, "a sample")));
  return e;
}

inline process_info read_process(const nlohmann::json& j) {
  process_info p;
  p.pid = integer<std::int64_t>(j, "pid", std::numeric_limits<std::int64_t>::min());
  p.rank = integer<int>(j, "rank", -1);
  p.host = j.at("host").get<std::string>();
  p.command = j.at("command").get<std::string>();
  p.started_unix_ns = amount(j, "started_unix_ns");
  p.wall_ns = amount(j, "wall_ns");
  // Missing in older profiles.
  if (j.contains("recorded_ns")) p.recorded_ns = amount(j, "recorded_ns");
  if (j.contains("waiting_ns")) p.waiting_ns = amount(j, "waiting_ns");
  p.threads = integer<int>(j, "threads", 0);
  p.dropped_scopes = count(j, "dropped_scopes");
  p.clock_went_back = count(j, "clock_went_back");
  p.events_lost = count(j, "events_lost");
  p.overhead_per_scope_ns = amount(j, "overhead_per_scope_ns");
  p.overhead_inside_scope_ns = amount(j, "overhead_inside_scope_ns");
  return p;
}

inline machine_info read_machine(const nlohmann::json& j) {
  machine_info m;
  m.processor = j.at("processor").get<std::string>();
  m.threads = integer<int>(j, "threads", 0);
  m.cache_gbs = amount(j, "cache_gbs");
  m.memory_gbs = amount(j, "memory_gbs");
  m.cache_gbs_all_threads = amount(j, "cache_gbs_all_threads");
  m.memory_gbs_all_threads = amount(j, "memory_gbs_all_threads");
  m.gflops_f32 = amount(j, "gflops_f32");
  m.gflops_f32_all_threads = amount(j, "gflops_f32_all_threads");
  m.cache_bytes = amount(j, "cache_bytes");
  return m;
}

inline report read_profile(const nlohmann::json& j) {
  const auto schema = j.at("schema").get<std::string>();
  if (schema != "vecdet-profile/1") {
    throw std::runtime_error("its schema is \"" + schema + "\", expected \"vecdet-profile/1\"");
  }
  report r;
  for (const nlohmann::json& p : j.at("processes")) r.processes.push_back(read_process(p));
  r.machine = read_machine(j.at("machine"));
  for (const nlohmann::json& e : j.at("entries")) r.entries.push_back(read_entry(e));
  for (const nlohmann::json& from : j.at("paths")) {
    path p;
    for (const nlohmann::json& number : from.at("entries")) {
      const auto i = checked_integer<std::uint64_t>(number, "an entry of a path", 0);
      if (i >= r.entries.size()) {
        throw std::runtime_error("a path names entry " + std::to_string(i) + " of " +
                                 std::to_string(r.entries.size()));
      }
      p.entries.push_back(static_cast<std::size_t>(i));
    }
    p.count = count(from, "count");
    p.total_ns = amount(from, "total_ns");
    p.self_ns = amount(from, "self_ns");
    r.paths.push_back(std::move(p));
  }
  r.warnings = j.at("warnings").get<std::vector<std::string>>();
  return r;
}

/// The bytes of a file. Throws std::runtime_error that names the file and the problem.
inline std::string file_text(const std::string& file) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error("cannot read \"" + file + "\": " + what);
  };
  std::string text;
  try {
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    if (!in) fail(std::strerror(errno));
    text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure&) {  // a directory can be opened but not read
    fail(std::strerror(errno != 0 ? errno : EIO));
  }
  return text;
}

/// Reads a file of any of the three kinds. Throws std::runtime_error that names the file and the
/// problem; malformed lines of a log become a warning in the report instead. Adds the problems
/// behind a log's entries to `problems`.
inline report read_report(const std::string& file, onednn_problems* problems = nullptr) {
  const std::string text = file_text(file);
  try {
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start == std::string::npos) throw std::runtime_error("it is empty");
    if (text[start] != '{') {
      onednn_import imported = import_onednn(text);
      if (imported.recorded.entries.empty()) {
        throw std::runtime_error(
            "it is neither a profile, nor google-benchmark's JSON, nor a oneDNN verbose log with "
            "executed primitives");
      }
      if (problems != nullptr) problems->merge(imported.problems);
      return std::move(imported.recorded);
    }
    const nlohmann::json j = nlohmann::json::parse(text);
    return j.contains("benchmarks") ? import_google_benchmark(j) : read_profile(j);
  } catch (const std::exception& error) {
    throw std::runtime_error("cannot read \"" + file + "\": " + error.what());
  }
}

/// Merges several reports: ranks of a job, or a profile and imported logs. Entries with the same
/// name become one.
inline report merge_reports(const std::vector<report>& reports) {
  detail::report_builder builder;
  for (const report& r : reports) {
    std::vector<std::size_t> entry_of;
    for (const entry& e : r.entries) entry_of.push_back(builder.add(e));
    for (path p : r.paths) {
      for (std::size_t& i : p.entries) i = entry_of[i];
      builder.add(p);
    }
    report& into = builder.result;
    into.processes.insert(into.processes.end(), r.processes.begin(), r.processes.end());
    into.warnings.insert(into.warnings.end(), r.warnings.begin(), r.warnings.end());
    if (into.machine.memory_gbs <= 0) into.machine = r.machine;
  }
  return std::move(builder.result);
}

}  // namespace vecdet::profile

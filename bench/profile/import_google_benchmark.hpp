// SPDX-License-Identifier: Apache-2.0
// Converts google-benchmark's JSON to a report: one entry per benchmark. A repetition is one sample
// of a call's mean duration, and the histogram counts its iterations at that mean.
#pragma once

#include "numbers.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::profile {

/// Parses `<function>/<variant>/<type>/<shape>/<implementation>/threads:<n>`; google-benchmark may
/// have added parts such as "/real_time". If the name has another form, returns false and sets only
/// the function.
inline bool parse_problem_text(const std::string& name, entry& e) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  e.function = name;
  if (parts.size() < 6 || parts[5].compare(0, 8, "threads:") != 0) return false;
  std::vector<std::int64_t> shape;
  const std::string& dimensions = parts[3];
  for (std::size_t i = 0; i < dimensions.size();) {
    std::size_t digits = 0;
    while (i + digits < dimensions.size() && dimensions[i + digits] >= '0' &&
           dimensions[i + digits] <= '9') {
      ++digits;
    }
    const std::size_t next = i + digits;
    if (digits == 0 || digits > 18 || (next < dimensions.size() && dimensions[next] != 'x')) {
      return false;
    }
    shape.push_back(std::stoll(dimensions.substr(i, digits)));
    i = next + 1;
  }
  const std::string threads = parts[5].substr(8);
  if (shape.empty() || threads.empty() || threads.size() > 6 ||
      threads.find_first_not_of("0123456789") != std::string::npos) {
    return false;
  }
  e.function = parts[0];
  e.variant = parts[1];
  e.type = parts[2];
  e.shape = std::move(shape);
  e.implementation = parts[4];
  e.threads = std::stoi(threads);
  return true;
}

inline report import_google_benchmark(const nlohmann::json& j) {
  report r;
  process_info process;
  if (j.contains("context")) {
    const nlohmann::json& context = j.at("context");
    process.host = context.value("host_name", "");
    process.command = context.value("executable", "");
    process.command = process.command.substr(process.command.find_last_of('/') + 1);
    if (context.contains("num_cpus")) r.machine.threads = integer<int>(context, "num_cpus", 0);
  }
  std::map<std::string, entry> by_name;
  std::vector<std::string> order;
  std::size_t failed = 0, malformed = 0;
  for (const nlohmann::json& b : j.at("benchmarks")) {
    try {
      if (b.value("run_type", "iteration") != "iteration") continue;
      if (b.value("error_occurred", false)) {
        ++failed;
        continue;
      }
      const std::string unit = b.value("time_unit", "ns");
      const double scale = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 1e9;
      entry e;
      e.name = b.value("run_name", b.at("name").get<std::string>());
      e.source = "google-benchmark";
      if (parse_problem_text(e.name, e)) {
        e.name = problem_text(e.function, e.variant, e.type, shape_text(e.shape), e.implementation,
                              e.threads);
      }
      const double time =
          checked_amount(nlohmann::json(b.at("real_time").get<double>() * scale), "real_time");
      e.count = integer<std::uint64_t>(b, "iterations", 1);
      e.total_ns = e.inclusive_ns = e.self_ns = time * static_cast<double>(e.count);
      e.min_ns = e.max_ns = time;
      if (b.contains("bytes_per_second"))
        e.bytes = amount(b, "bytes_per_second") * e.total_ns * 1e-9;
      if (b.contains("flops")) e.flops = amount(b, "flops") * e.total_ns * 1e-9;
      e.seen_on_threads = static_cast<std::uint64_t>(std::max(1, e.threads));
      e.histogram[histogram_bucket(static_cast<std::int64_t>(std::min(time, 9e15)))] = e.count;
      e.samples.push_back(static_cast<float>(time));
      const auto known = by_name.find(e.name);
      if (known == by_name.end()) {
        order.push_back(e.name);
        by_name.emplace(e.name, e);
      } else {
        const std::uint64_t threads = known->second.seen_on_threads;
        detail::merge_entry(known->second, e);
        known->second.seen_on_threads = threads;
      }
    } catch (const std::exception&) {
      ++malformed;
    }
  }
  for (const std::string& name : order) {
    r.entries.push_back(by_name[name]);
    path p;
    p.entries = {r.entries.size() - 1};
    p.count = r.entries.back().count;
    p.total_ns = p.self_ns = r.entries.back().total_ns;
    r.paths.push_back(p);
    process.wall_ns += p.total_ns;
  }
  process.threads = 1;
  r.processes.push_back(process);
  if (failed != 0) {
    r.warnings.push_back(std::to_string(failed) + " benchmarks ended in an error, left out");
  }
  if (malformed != 0) {
    r.warnings.push_back(std::to_string(malformed) + " benchmarks could not be read, left out");
  }
  return r;
}

}  // namespace vecdet::profile

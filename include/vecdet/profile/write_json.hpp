// SPDX-License-Identifier: Apache-2.0
// A profile as JSON, schema "vecdet-profile/1" (bench/profile/profile.schema.json describes it),
// and as a trace in the Trace Event Format that Perfetto and chrome://tracing open.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/report.hpp>
#include <vecdet/profile/text.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// Writes one JSON object, field by field.
class json_object {
 public:
  explicit json_object(std::ostream& out) : out_(out) { out_ << '{'; }
  json_object(const json_object&) = delete;
  json_object& operator=(const json_object&) = delete;
  ~json_object() { out_ << '}'; }

  json_object& raw(const char* key, const std::string& value) {
    out_ << (first_ ? "" : ",") << '"' << key << "\":" << value;
    first_ = false;
    return *this;
  }
  json_object& field(const char* key, const std::string& value) {
    return raw(key, json_string(value));
  }
  json_object& field(const char* key, double value) { return raw(key, number(value)); }
  template <class Integer, class = std::enable_if_t<std::is_integral<Integer>::value>>
  json_object& field(const char* key, Integer value) {
    return raw(key, std::to_string(value));
  }
  template <class Range, class Write>
  json_object& list(const char* key, const Range& range, const Write& write) {
    raw(key, "[");
    bool first = true;
    for (const auto& item : range) {
      if (!first) out_ << ',';
      first = false;
      write(item);
    }
    out_ << ']';
    return *this;
  }

 private:
  std::ostream& out_;
  bool first_ = true;
};

inline void write_json(std::ostream& out, const process_info& p) {
  json_object(out)
      .field("pid", p.pid)
      .field("rank", p.rank)
      .field("host", p.host)
      .field("command", p.command)
      .field("started_unix_ns", p.started_unix_ns)
      .field("wall_ns", p.wall_ns)
      .field("recorded_ns", p.recorded_ns)
      .field("waiting_ns", p.waiting_ns)
      .field("threads", p.threads)
      .field("dropped_scopes", p.dropped_scopes)
      .field("clock_went_back", p.clock_went_back)
      .field("events_lost", p.events_lost)
      .field("overhead_per_scope_ns", p.overhead_per_scope_ns)
      .field("overhead_inside_scope_ns", p.overhead_inside_scope_ns);
}

inline void write_json(std::ostream& out, const machine_info& m) {
  json_object(out)
      .field("processor", m.processor)
      .field("threads", m.threads)
      .field("cache_gbs", m.cache_gbs)
      .field("memory_gbs", m.memory_gbs)
      .field("cache_gbs_all_threads", m.cache_gbs_all_threads)
      .field("memory_gbs_all_threads", m.memory_gbs_all_threads)
      .field("gflops_f32", m.gflops_f32)
      .field("gflops_f32_all_threads", m.gflops_f32_all_threads)
      .field("cache_bytes", m.cache_bytes);
}

inline void write_json(std::ostream& out, const entry& e, const report& r, double whole) {
  const roofline_position roof = position(e, r.machine);
  json_object(out)
      .field("name", e.name)
      .field("function", e.function)
      .field("variant", e.variant)
      .field("type", e.type)
      .list("shape", e.shape, [&](std::int64_t d) { out << std::to_string(d); })
      .field("implementation", e.implementation)
      .field("threads", e.threads)
      .field("source", e.source)
      .field("count", e.count)
      .field("total_ns", e.total_ns)
      .field("inclusive_ns", e.inclusive_ns)
      .field("self_ns", e.self_ns)
      .field("share", whole > 0 ? e.self_ns / whole : 0)
      .field("min_ns", e.min_ns)
      .field("mean_ns", e.mean_ns())
      .field("p50_ns", e.quantile_ns(0.5))
      .field("p90_ns", e.quantile_ns(0.9))
      .field("p99_ns", e.quantile_ns(0.99))
      .field("max_ns", e.max_ns)
      .field("stddev_ns", e.stddev_ns())
      .field("bytes", e.bytes)
      .field("flops", e.flops)
      .field("gigabytes_per_second", e.gigabytes_per_second())
      .field("gigaflops_per_second", e.gigaflops_per_second())
      .field("intensity", e.intensity())
      .field("roofline_percent", roof.percent)
      .field("roofline_bound", std::string(roof.bound))
      .field("seen_on_threads", e.seen_on_threads)
      .field("concurrency", e.concurrency)
      .list("histogram", e.histogram,
            [&](const auto& bucket) {
              out << '[' << number(histogram_lower_bound(bucket.first)) << ','
                  << std::to_string(bucket.second) << ']';
            })
      .list("samples_ns", e.samples, [&](float s) { out << number(static_cast<double>(s)); });
}

}  // namespace detail

inline void write_json(std::ostream& out, const report& r) {
  const double whole = r.whole_ns();
  {
    detail::json_object o(out);
    o.field("schema", std::string("vecdet-profile/1"));
    o.list("processes", r.processes, [&](const process_info& p) { detail::write_json(out, p); });
    o.raw("machine", "");
    detail::write_json(out, r.machine);
    o.field("whole_ns", whole);
    o.list("entries", r.entries, [&](const entry& e) {
      out << '\n';
      detail::write_json(out, e, r, whole);
    });
    o.list("paths", r.paths, [&](const path& p) {
      out << '\n';
      detail::json_object(out)
          .list("entries", p.entries, [&](std::size_t i) { out << std::to_string(i); })
          .field("count", p.count)
          .field("total_ns", p.total_ns)
          .field("self_ns", p.self_ns);
    });
    o.list("warnings", r.warnings,
           [&](const std::string& text) { out << detail::json_string(text); });
  }
  out << '\n';
}

/// The calls kept by keep_events(), as complete ("X") events; times in microseconds, processes side
/// by side on the clock of the first. The profiler's own cost is in them.
inline void write_trace(std::ostream& out, const report& r) {
  double origin = 0;
  for (const process_info& p : r.processes) {
    if (!(origin > 0) || p.started_unix_ns < origin) origin = p.started_unix_ns;
  }
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto name_it = [&](const char* what, std::size_t process, int thread,
                           const std::string& name) {
    out << separator << "{\"ph\":\"M\",\"name\":\"" << what << "\",\"pid\":" << process
        << ",\"tid\":" << thread << ",\"args\":{\"name\":" << detail::json_string(name) << "}}";
    separator = ",\n";
  };
  for (std::size_t i = 0; i < r.processes.size(); ++i) {
    const process_info& p = r.processes[i];
    std::string name = p.command + " (" + p.host + ", process " + std::to_string(p.pid) + ")";
    if (p.rank >= 0) name = "rank " + std::to_string(p.rank) + ": " + name;
    name_it("process_name", i, 0, name);
    for (int t = 0; t < p.threads; ++t) {
      name_it("thread_name", i, t, "thread " + std::to_string(t));
    }
  }
  for (const event& e : r.events) {
    const entry& what = r.entries[e.entry];
    // Begin and end are rounded alike, so that what is nested stays so.
    const double offset = r.processes[e.process].started_unix_ns - origin;
    const double begin = std::round(e.begin_ns + offset);
    const double end = std::round(e.begin_ns + offset + e.duration_ns);
    out << separator << "{\"ph\":\"X\",\"name\":" << detail::json_string(what.name)
        << ",\"cat\":" << detail::json_string(what.implementation.empty() ? "scope" : "kernel")
        << ",\"pid\":" << e.process << ",\"tid\":" << e.thread
        << ",\"ts\":" << detail::fixed(begin / 1000, 3)
        << ",\"dur\":" << detail::fixed((end - begin) / 1000, 3) << '}';
    separator = ",\n";
  }
  out << "\n]}\n";
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

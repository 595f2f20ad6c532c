// SPDX-License-Identifier: Apache-2.0
// The calls of a trace, by thread, in 32 bytes each, and the operators that they call.
#pragma once

#include "torch_operators.hpp"
#include "trace_events.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// A call, or an execution from oneDNN's log that belongs to one.
struct trace_record {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t sequence = -1;
  std::uint32_t index = 0;  ///< of the operator, or of the log's execution
  bool is_execution = false;
};

/// Sorts a thread's calls, outer ones first. What begins and ends together keeps its order: outer
/// calls are written first.
inline void sort_records(std::vector<trace_record>& records) {
  std::stable_sort(
      records.begin(), records.end(), [](const trace_record& a, const trace_record& b) {
        return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
      });
}

/// What was left out of a trace: how often, and the names of the first few.
struct left_out {
  std::uint64_t count = 0;
  std::string names;

  void add(const std::string& name) {
    constexpr std::uint64_t most_names = 3;
    constexpr std::size_t longest = 64;
    if (++count <= most_names)
      names += (names.empty() ? "\"" : ", \"") + name.substr(0, longest) + "\"";
    if (count == most_names + 1) names += ", ...";
  }
};

/// The calls of a trace on the processor.
struct torch_trace {
  std::vector<torch_operator> operators;
  std::map<std::pair<std::string, std::string>, std::vector<trace_record>> threads;
  trace_header header;
  double device_ns = 0;           ///< events of other devices, left out
  std::uint64_t without_own = 0;  ///< calls of operators beyond those that are kept
  left_out not_ended;             ///< calls that begin ("B") and do not end
  left_out not_begun;             ///< ends ("E") of calls that do not begin
  left_out unknown;               ///< calls of unknown categories, with the names of these
  std::map<std::string, std::uint64_t> other_phases;  ///< events that are no calls, by phase
};

/// Puts a trace together from its events.
class trace_collector {
 public:
  // A hostile trace, compressed, is a thousand times shorter than its text, so its length is no
  // bound on the memory. These are. Operators beyond so many, or so many bytes, share one entry;
  // more calls or threads are an error.
  static constexpr std::size_t most_operators = std::size_t{1} << 16;
  static constexpr std::size_t most_operator_bytes = std::size_t{1} << 26;
  static constexpr std::size_t most_calls = std::size_t{1} << 25;
  static constexpr std::size_t most_threads = std::size_t{1} << 14;

  static constexpr std::size_t most_begun = std::size_t{1} << 18;

  /// Takes calls as one complete event ("X"), or as a begin ("B") and an end ("E"), which are
  /// nested within each thread. Throws std::runtime_error at the first call or thread too many.
  void add(const trace_event& event) {
    if (event.phase == "X") {
      add_call(event, event.begin_ns + event.duration_ns);
    } else if (event.phase == "B") {
      begin(event);
    } else if (event.phase == "E") {
      end(event);
    } else if (event.phase != "M") {  // names of processes and threads
      constexpr std::size_t most_phases = 32, longest = 8;
      const std::string phase = event.phase.substr(0, longest);
      const bool is_kept =
          trace_.other_phases.size() < most_phases || trace_.other_phases.count(phase) > 0;
      ++trace_.other_phases[is_kept ? phase : "others"];
    }
  }

  torch_trace take(const trace_header& header) {
    trace_.header = header;
    trace_.header.malformed += ends_before_;
    for (auto& thread : begun_)
      for (const begun_call& call : thread.second) trace_.not_ended.add(call.name);
    for (auto thread = trace_.threads.begin(); thread != trace_.threads.end();) {
      std::vector<trace_record>& records = thread->second;
      records.erase(std::remove_if(records.begin(), records.end(),
                                   [](const trace_record& r) { return r.end_ns == not_ended; }),
                    records.end());
      sort_records(records);
      thread = records.empty() ? trace_.threads.erase(thread) : std::next(thread);
    }
    return std::move(trace_);
  }

 private:
  using thread_key = std::pair<std::string, std::string>;
  enum class place { operators, annotation, python, device, profiler, unknown };
  static constexpr std::int64_t not_ended = INT64_MIN;

  /// A call that has begun and not ended.
  struct begun_call {
    std::string name;  ///< its beginning
    std::size_t name_hash;
    std::int64_t begin_ns;
    std::size_t record;  ///< its position in the thread's records
    place where;
  };

  /// Whether calls at this place are part of the report.
  static bool is_recorded(place where) {
    return where == place::operators || where == place::annotation || where == place::python;
  }

  /// Adds a call and returns its position in the thread's records.
  std::size_t add_record(const trace_event& event, place where, std::int64_t end_ns) {
    trace_record record;
    record.begin_ns = event.begin_ns;
    record.end_ns = end_ns;
    record.sequence = event.sequence;
    record.index = find(event, where == place::annotation ? scope_kind::annotation
                               : where == place::python   ? scope_kind::python
                                                          : scope_kind::operator_call);
    if (++calls_ > most_calls)
      throw std::runtime_error("it has more than 33554432 calls: record fewer steps");
    std::vector<trace_record>& records = trace_.threads[{event.process, event.thread}];
    records.push_back(record);
    check_threads(trace_.threads.size());
    return records.size() - 1;
  }

  void leave_out(place where, const std::string& category, std::int64_t duration_ns) {
    if (where == place::device) trace_.device_ns += static_cast<double>(duration_ns);
    if (where == place::unknown) trace_.unknown.add(category);
  }

  void add_call(const trace_event& event, std::int64_t end_ns) {
    const place where = place_of(event);
    if (is_recorded(where))
      add_record(event, where, end_ns);
    else
      leave_out(where, event.category, end_ns - event.begin_ns);
  }

  /// The call takes its place among the records now, so that an outer call stays before an inner
  /// one of the same times.
  void begin(const trace_event& event) {
    constexpr std::size_t longest_name = 64;
    const place where = place_of(event);
    const std::size_t record = is_recorded(where) ? add_record(event, where, not_ended) : 0;
    if (where == place::unknown) trace_.unknown.add(event.category);
    begun_[{event.process, event.thread}].push_back({event.name.substr(0, longest_name),
                                                     std::hash<std::string>()(event.name),
                                                     event.begin_ns, record, where});
    check_threads(begun_.size());
    if (++begun_calls_ > most_begun)
      throw std::runtime_error("it has more than 262144 calls that have begun and not ended");
  }

  /// An end without a name ends the innermost call, one with a name the innermost of that name.
  void end(const trace_event& event) {
    constexpr std::size_t farthest = 1024;
    std::vector<begun_call>& calls = begun_[{event.process, event.thread}];
    check_threads(begun_.size());
    const std::size_t name_hash = std::hash<std::string>()(event.name);
    std::size_t inside = 0;
    while (inside < std::min(calls.size(), farthest) && !event.name.empty() &&
           calls[calls.size() - 1 - inside].name_hash != name_hash)
      ++inside;
    if (inside >= std::min(calls.size(), farthest)) {
      trace_.not_begun.add(event.name);
      return;
    }
    for (; inside > 0; --inside) {
      trace_.not_ended.add(calls.back().name);
      calls.pop_back();
      --begun_calls_;
    }
    const begun_call call = std::move(calls.back());
    calls.pop_back();
    --begun_calls_;
    if (event.begin_ns < call.begin_ns) {
      ++ends_before_;
    } else if (is_recorded(call.where)) {
      trace_.threads[{event.process, event.thread}][call.record].end_ns = event.begin_ns;
    } else if (call.where == place::device) {
      leave_out(call.where, "", event.begin_ns - call.begin_ns);
    }
  }

  static void check_threads(std::size_t threads) {
    if (threads > most_threads) throw std::runtime_error("it has more than 16384 threads");
  }

  static place place_of(const trace_event& event) {
    std::string category = event.category;
    std::transform(category.begin(), category.end(), category.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    // Written by versions without Kineto; those before 1.12 wrote "Operator".
    if (category.empty())
      return event.process == "CUDA functions" ? place::device : kind_by_name(event.name);
    if (category == "cpu_op" || category == "operator") return kind_by_name(event.name);
    if (category == "user_annotation") return place::annotation;
    if (category == "python_function") return place::python;
    if (category == "kernel" || starts_with(category, "gpu_") || category == "memcpy" ||
        category == "memset")
      return place::device;
    if (category.find("runtime") != category.npos || category.find("driver") != category.npos)
      return place::annotation;
    return category == "trace" || category == "overhead" ? place::profiler : place::unknown;
  }

  static place kind_by_name(const std::string& name) {
    for (const char* prefix : {"ProfilerStep#", "Optimizer."})
      if (starts_with(name, prefix)) return place::annotation;
    return place::operators;
  }

  /// The operator's number. Calls with the same name and inputs are one operator.
  std::uint32_t find(const trace_event& event, scope_kind kind) {
    key_.assign(1, static_cast<char>('0' + static_cast<int>(kind)));
    const bool is_step = starts_with(event.name, "ProfilerStep#");
    key_ += is_step ? "ProfilerStep" : event.name;
    key_ += '\0';
    const auto add = [&](const std::vector<tensor_sizes>& lists) {
      for (const tensor_sizes& sizes : lists) {
        key_ += '(';
        for (const std::int64_t size : sizes) {
          key_.append(reinterpret_cast<const char*>(&size), sizeof size);
        }
      }
    };
    for (const trace_input& input : event.inputs) {
      add(input.sizes);
      key_ += ':';
      add(input.strides);
      key_ += input.type;
      key_ += '|';
      key_ += input.concrete;
      key_ += '\0';
    }
    const auto known = numbers_.find(key_);
    if (known != numbers_.end()) return known->second;
    torch_operator made;
    made.kind = kind;
    const std::size_t bytes = 2 * key_.size() + event.inputs.size() * sizeof(trace_input);
    if (trace_.operators.size() >= most_operators ||
        operator_bytes_ + bytes > most_operator_bytes) {
      ++trace_.without_own;
      if (others_ == 0) {
        made.name = "(more operators)";
        others_ = static_cast<std::uint32_t>(trace_.operators.size());
        trace_.operators.push_back(made);
      }
      return others_;
    }
    operator_bytes_ += bytes;
    made.name = is_step ? "ProfilerStep" : event.name;
    made.has_shapes = event.has_shapes;
    made.inputs = event.inputs;
    const auto number = static_cast<std::uint32_t>(trace_.operators.size());
    trace_.operators.push_back(std::move(made));
    numbers_.emplace(key_, number);
    return number;
  }

  torch_trace trace_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::string key_;
  std::map<thread_key, std::vector<begun_call>> begun_;
  std::size_t operator_bytes_ = 0, calls_ = 0, begun_calls_ = 0;
  std::uint64_t ends_before_ = 0;
  std::uint32_t others_ = 0;
};

}  // namespace vecdet::profile

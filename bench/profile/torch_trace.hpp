// SPDX-License-Identifier: Apache-2.0
// The calls of a trace, by thread, in 32 bytes each, and the operators that they call.
#pragma once

#include "torch_operators.hpp"
#include "trace_events.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

/// All complete events of a trace on the processor.
struct torch_trace {
  std::vector<torch_operator> operators;
  std::map<std::pair<std::string, std::string>, std::vector<trace_record>> threads;
  trace_header header;
  double device_ns = 0;           ///< events of other devices, left out
  std::uint64_t without_own = 0;  ///< calls of operators beyond those that are kept
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

  /// Throws std::runtime_error at the first call or thread too many.
  void add(const trace_event& event) {
    if (event.phase != "X") return;
    scope_kind kind = scope_kind::operator_call;
    switch (place_of(event)) {
      case place::device:
        trace_.device_ns += static_cast<double>(event.duration_ns);
        return;
      case place::nowhere:
        return;
      case place::annotation:
        kind = scope_kind::annotation;
        break;
      case place::python:
        kind = scope_kind::python;
        break;
      case place::operators:
        break;
    }
    trace_record record;
    record.begin_ns = event.begin_ns;
    record.end_ns = event.begin_ns + event.duration_ns;
    record.sequence = event.sequence;
    record.index = find(event, kind);
    if (++calls_ > most_calls)
      throw std::runtime_error("it has more than 33554432 calls: record fewer steps");
    trace_.threads[{event.process, event.thread}].push_back(record);
    if (trace_.threads.size() > most_threads)
      throw std::runtime_error("it has more than 16384 threads");
  }

  torch_trace take(const trace_header& header) {
    trace_.header = header;
    for (auto& thread : trace_.threads) {
      sort_records(thread.second);
    }
    return std::move(trace_);
  }

 private:
  enum class place { operators, annotation, python, device, nowhere };

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
    return place::nowhere;  // spans of the profiler itself and its overhead
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
  std::size_t operator_bytes_ = 0, calls_ = 0;
  std::uint32_t others_ = 0;
};

}  // namespace vecdet::profile

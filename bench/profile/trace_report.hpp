// SPDX-License-Identifier: Apache-2.0
// A trace as a report: nests the calls of each thread and sums them up by problem.
#pragma once

#include "replaceable.hpp"
#include "tied_convolutions.hpp"
#include "torch_trace.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// The times of one problem, before they become an entry.
class call_statistics {
 public:
  void add(std::int64_t duration, std::int64_t self) {
    const auto ns = static_cast<double>(duration);
    if (entry_.count == 0 || ns < entry_.min_ns) entry_.min_ns = ns;
    entry_.max_ns = std::max(entry_.max_ns, ns);
    entry_.total_ns += ns;
    entry_.self_ns += static_cast<double>(self);
    squares_ += ns * ns;
    ++entry_.histogram[histogram_bucket(duration)];
    // One call in `distance_` is a sample. When the samples are full, every second one is dropped
    // and the distance doubles.
    if (entry_.count++ % distance_ != 0) return;
    if (entry_.samples.size() == samples_kept) {
      for (std::size_t i = 0; i < samples_kept / 2; ++i) entry_.samples[i] = entry_.samples[2 * i];
      entry_.samples.resize(samples_kept / 2);
      distance_ *= 2;
      if ((entry_.count - 1) % distance_ != 0) return;
    }
    entry_.samples.push_back(static_cast<float>(ns));
  }
  void begin_thread() {
    is_on_thread_ = false;
    covered_ns_ = INT64_MIN;
  }
  /// A call of the thread, in the order in which they begin.
  void begin(std::int64_t begin_ns, std::int64_t end_ns) {
    if (!is_on_thread_) ++entry_.seen_on_threads;
    is_on_thread_ = true;
    const std::int64_t from = std::max(begin_ns, covered_ns_);
    if (end_ns > from) entry_.inclusive_ns += static_cast<double>(end_ns - from);
    covered_ns_ = std::max(covered_ns_, end_ns);
    ++open;
  }
  /// The entry, with the work of all calls.
  entry finish(const entry& one_call) {
    entry e = one_call;
    const auto calls = static_cast<double>(entry_.count);
    e.count = entry_.count;
    e.total_ns = entry_.total_ns;
    e.inclusive_ns = entry_.inclusive_ns;
    e.self_ns = entry_.self_ns;
    e.min_ns = entry_.min_ns;
    e.max_ns = entry_.max_ns;
    e.seen_on_threads = entry_.seen_on_threads;
    e.histogram = std::move(entry_.histogram);
    e.samples = std::move(entry_.samples);
    e.bytes *= calls;
    e.flops *= calls;
    const double mean = e.mean_ns();
    e.variance_ns2 = std::max(0.0, squares_ / std::max(calls, 1.0) - mean * mean);
    return e;
  }
  std::uint32_t open = 0;  ///< calls that run

 private:
  entry entry_;
  double squares_ = 0;
  std::uint64_t distance_ = 1;
  bool is_on_thread_ = false;
  std::int64_t covered_ns_ = INT64_MIN;  ///< until when calls of the thread have run
};

/// Nests the calls of a trace. A call is inside another one if that runs longer. At each moment,
/// the time is the own time of the call that began last, also where calls of a thread overlap
/// without one being inside the other. `executions` has an entry for each execution of oneDNN's
/// log.
class trace_nesting {
 public:
  /// Deeper calls, and more paths, are counted as part of the call around them.
  static constexpr std::size_t deepest = 256, most_paths = std::size_t{1} << 17;
  /// Of all problems' names.
  static constexpr std::size_t most_name_bytes = std::size_t{1} << 26;

  trace_nesting(const torch_trace& trace, const std::vector<entry>& executions)
      : trace_(trace),
        executions_(executions),
        ties_(trace),
        problem_(trace.operators.size(), none) {
    for (const auto& thread : trace.threads) walk(thread.second);
  }

  report take_report() {
    report r;
    for (std::size_t i = 0; i < entries_.size(); ++i)
      r.entries.push_back(statistics_[i].finish(entries_[i]));
    for (const node& n : nodes_) {
      path p;
      p.count = n.count;
      p.total_ns = n.total_ns;
      p.self_ns = n.self_ns;
      for (const node* at = &n;; at = &nodes_[at->parent]) {
        p.entries.push_back(at->problem);
        if (at->parent == none) break;
      }
      std::reverse(p.entries.begin(), p.entries.end());
      if (p.count > 0) r.paths.push_back(std::move(p));
    }
    process_info process;
    process.command = "PyTorch";
    process.rank = trace_.header.rank;
    process.threads = static_cast<int>(std::min<std::size_t>(trace_.threads.size(), 1u << 20));
    process.wall_ns =
        begin_ns_ < end_ns_ ? static_cast<double>(end_ns_) - static_cast<double>(begin_ns_) : 0;
    process.recorded_ns = r.whole_ns();
    if (!trace_.threads.empty()) {
      const long pid = std::strtol(trace_.threads.begin()->first.first.c_str(), nullptr, 10);
      process.pid = std::max(pid, 0L);
    }
    r.processes.push_back(process);
    warn(r);
    return r;
  }

  std::vector<replaceable> take_replaceable() { return finder_.take(); }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct node {
    std::uint32_t parent = none, problem = 0;
    std::uint64_t count = 0;
    double total_ns = 0, self_ns = 0;
  };
  struct frame {
    std::int64_t begin_ns, end_ns, self_ns, sequence;
    std::uint32_t node, problem;
    bool is_operator, is_in_operator;
  };

  void walk(const std::vector<trace_record>& records) {
    for (call_statistics& s : statistics_) s.begin_thread();
    finder_.begin_thread();
    running_.clear();
    for (std::size_t i = 0; i < records.size(); ++i) {
      const trace_record& record = records[i];
      advance(record.begin_ns);
      if (running_.size() >= deepest) {
        ++too_deep_;
        continue;
      }
      frame f{record.begin_ns, record.end_ns, 0, record.sequence, none, 0, false, false};
      const frame* const around = find_around(f, record);
      if (f.sequence < 0 && around != nullptr) f.sequence = around->sequence;
      f.problem = problem_of(records, i, f.sequence);
      if (f.problem != none) f.node = node_of(around == nullptr ? none : around->node, f.problem);
      if (f.node == none) {
        ++too_many_;
        continue;
      }
      f.is_in_operator = around != nullptr && (around->is_operator || around->is_in_operator);
      f.is_operator = is_operator(record);
      if (f.is_operator) {
        const torch_operator& o = trace_.operators[record.index];
        without_shapes_ += o.has_shapes ? 0 : 1;
        with_shapes_ += o.has_shapes ? 1 : 0;
        // Some operators call themselves, with another dispatch key.
        if (!is_inside_itself(f)) finder_.visit(o, entries_[f.problem], record, !f.is_in_operator);
      }
      statistics_[f.problem].begin(f.begin_ns, f.end_ns);
      begin_ns_ = std::min(begin_ns_, f.begin_ns);
      end_ns_ = std::max(end_ns_, f.end_ns);
      running_.push_back(f);
    }
    advance(INT64_MAX);
  }

  bool is_operator(const trace_record& record) const {
    return !record.is_execution && trace_.operators[record.index].kind == scope_kind::operator_call;
  }

  /// Adds the time until then to the calls that run, and removes those that have ended.
  void advance(std::int64_t to) {
    while (!running_.empty()) {
      frame& last = running_.back();
      const std::int64_t until = std::min(last.end_ns, to);
      if (until > now_ns_) last.self_ns += until - std::max(now_ns_, last.begin_ns);
      now_ns_ = std::max(now_ns_, until);
      if (last.end_ns > to) break;
      close(last);
      running_.pop_back();
    }
    if (running_.empty()) {
      now_ns_ = INT64_MIN;
      overlap_ = false;
    }
    if (!overlap_) return;
    const auto has_ended = [&](const frame& f) { return f.end_ns <= to; };
    for (const frame& f : running_)
      if (has_ended(f)) close(f);
    running_.erase(std::remove_if(running_.begin(), running_.end(), has_ended), running_.end());
  }

  void close(const frame& f) {
    const std::int64_t duration = f.end_ns - f.begin_ns;
    --statistics_[f.problem].open;
    statistics_[f.problem].add(duration, f.self_ns);
    node& n = nodes_[f.node];
    ++n.count;
    n.total_ns += static_cast<double>(duration);
    n.self_ns += static_cast<double>(f.self_ns);
  }

  /// The call that a call is inside of, or null.
  const frame* find_around(frame& f, const trace_record& record) {
    if (running_.empty()) return nullptr;
    const frame& last = running_.back();
    if (f.end_ns <= last.end_ns) return &last;
    // Rounded times may let a call end after the one around it: by less than 2 us if begin and
    // duration are whole microseconds, as in older versions; by 0.25 us, a double's resolution of
    // Unix time in microseconds, otherwise.
    const auto is_whole = [](const frame& of) {
      return of.begin_ns % 1000 == 0 && of.end_ns % 1000 == 0;
    };
    if (f.end_ns - last.end_ns <= (is_whole(f) && is_whole(last) ? 2000 : 250)) {
      f.end_ns = last.end_ns;
      return &last;
    }
    overlap_ = true;
    overlapping_.add(record.is_execution ? executions_[record.index].name
                                         : trace_.operators[record.index].name);
    const auto around = std::find_if(running_.rbegin(), running_.rend(),
                                     [&](const frame& other) { return other.end_ns >= f.end_ns; });
    return around == running_.rend() ? nullptr : &*around;
  }

  /// Whether a call around this one is of the same problem.
  bool is_inside_itself(const frame& f) const {
    if (statistics_[f.problem].open == 0) return false;
    for (std::uint32_t at = nodes_[f.node].parent; at != none; at = nodes_[at].parent)
      if (nodes_[at].problem == f.problem) return true;
    return false;
  }

  std::uint32_t problem_of(const std::vector<trace_record>& records, std::size_t at,
                           std::int64_t sequence) {
    const trace_record& record = records[at];
    if (record.is_execution) return add(executions_[record.index]);
    const torch_operator& o = trace_.operators[record.index];
    if (is_convolution(o)) {
      const tied_convolutions::found f = ties_.complete(records, at, sequence);
      if (f.is_assumed) ++assumed_;
      return add(operator_entry(f.call, f.window, f.result));
    }
    std::uint32_t& known = problem_[record.index];
    if (known == none) known = add(operator_entry(o, "", {}));
    return known;
  }

  /// The problem's number; none if it is new and there is no room for its path, so that each
  /// problem has a call.
  std::uint32_t add(const entry& e) {
    const auto known = by_name_.find(e.name);
    if (known != by_name_.end()) return known->second;
    if (nodes_.size() >= most_paths || name_bytes_ + e.name.size() > most_name_bytes) return none;
    name_bytes_ += e.name.size();
    entries_.push_back(e);
    statistics_.emplace_back();
    return by_name_[e.name] = static_cast<std::uint32_t>(entries_.size() - 1);
  }

  /// The path's number; none if there are too many.
  std::uint32_t node_of(std::uint32_t parent, std::uint32_t problem) {
    const std::uint64_t key = std::uint64_t{parent} << 32 | problem;
    const auto known = by_step_.find(key);
    if (known != by_step_.end()) return known->second;
    if (nodes_.size() >= most_paths) return none;
    node made;
    made.parent = parent;
    made.problem = problem;
    nodes_.push_back(made);
    return by_step_[key] = static_cast<std::uint32_t>(nodes_.size() - 1);
  }

  void warn(report& r) const {
    const auto say = [&](std::uint64_t count, const std::string& what) {
      if (count > 0) r.warnings.push_back(std::to_string(count) + what);
    };
    if (with_shapes_ == 0 && without_shapes_ > 0) {
      r.warnings.push_back(
          "the trace has no shapes: record with torch.profiler.profile(record_shapes=True). "
          "PyTorch "
          "without Kineto, such as Debian 12's, exports none; export_torch_trace.py does");
    }
    say(assumed_,
        " calls of convolutions without their arguments, which PyTorch records since 2.1: strides "
        "and padding are assumed from the sizes, dilation as 1");
    say(trace_.header.malformed, " malformed events, left out");
    say(trace_.not_ended.count,
        " calls that begin (\"B\") and do not end (\"E\"), left out: " + trace_.not_ended.names);
    say(trace_.not_begun.count,
        " ends (\"E\") of calls that do not begin (\"B\"), left out: " + trace_.not_begun.names);
    say(overlapping_.count,
        " calls begin inside a call of their thread and end after it: " + overlapping_.names +
            ". While both run, the time counts as the own time of the one that began last");
    say(trace_.unknown.count, " calls of categories that torch.profiler does not have, left out: " +
                                  trace_.unknown.names);
    std::uint64_t others = 0;
    std::string phases;
    for (const auto& phase : trace_.other_phases) {
      others += phase.second;
      phases += (phases.empty() ? "" : ", ") + std::to_string(phase.second) + " of phase \"" +
                detail::one_line(phase.first) + "\"";
    }
    say(others, " events that are no calls, left out: " + phases);
    say(trace_.without_own,
        " calls of operators beyond the first 65536 or 64 MB of them, summed up as one");
    say(too_deep_ + too_many_,
        " calls nested too deep or on too many paths, counted with the calls "
        "around them");
    if (trace_.device_ns > 0) {
      r.warnings.push_back(detail::duration_text(trace_.device_ns) +
                           " on other devices than the processor, left out");
    }
  }

  const torch_trace& trace_;
  const std::vector<entry>& executions_;
  tied_convolutions ties_;
  replacement_finder finder_;
  /// The calls of a thread that run, in the order in which they began.
  std::vector<frame> running_;
  std::int64_t now_ns_ = INT64_MIN;  ///< until when time was added to them
  bool overlap_ = false;             ///< whether calls may end before others that began later
  left_out overlapping_;
  std::vector<std::uint32_t> problem_;  ///< of an operator; none if not known yet
  std::vector<entry> entries_;          ///< of one call each
  std::vector<call_statistics> statistics_;
  std::vector<node> nodes_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_step_;
  std::uint64_t with_shapes_ = 0, without_shapes_ = 0, assumed_ = 0, too_deep_ = 0, too_many_ = 0;
  std::size_t name_bytes_ = 0;
  std::int64_t begin_ns_ = INT64_MAX, end_ns_ = INT64_MIN;
};

}  // namespace vecdet::profile

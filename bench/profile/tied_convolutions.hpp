// SPDX-License-Identifier: Apache-2.0
// Completes what a trace does not record with a convolution: the window and the result's size, and
// in backward also the shapes. Backward is tied to forward by the sequence number.
#pragma once

#include "torch_trace.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace vecdet::profile {

class tied_convolutions {
 public:
  explicit tied_convolutions(const torch_trace& trace) : trace_(trace) {
    for (const auto& thread : trace.threads) {
      for (const trace_record& record : thread.second) {
        if (record.sequence < 0 || record.is_execution) continue;
        const torch_operator& o = trace.operators[record.index];
        if (is_forward_convolution(o)) note(forward_, record, thread.second);
        if (o.name == "ConvolutionBackward0") note(backward_, record, thread.second);
      }
    }
  }

  /// All that the trace tells about a convolution.
  struct found {
    torch_operator call;
    std::string window;  ///< with the gradients, of a backward convolution; empty if unknown
    tensor_sizes result;
    bool is_assumed = false;  ///< the window follows from the sizes alone
  };

  /// The convolution of records[at]; `sequence` is its own, or that of the call around it.
  found complete(const std::vector<trace_record>& records, std::size_t at,
                 std::int64_t sequence) const {
    found f{trace_.operators[records[at].index], "", {}, false};
    const bool forward = is_forward_convolution(f.call);
    const torch_operator* tied = operator_of(forward ? backward_ : forward_, sequence);
    if (forward && operator_of(forward_, sequence) != &trace_.operators[records[at].index])
      tied = nullptr;  // another call has this number's gradient
    if (!forward && f.call.sizes(1).empty() && tied != nullptr) {
      // The trace has no shapes of this call: take those of the forward call.
      f.call.inputs.resize(11);
      for (std::size_t i = 0; i < 2; ++i) {
        if (i < tied->inputs.size()) f.call.inputs[i + 1] = tied->inputs[i];
      }
      f.call.inputs[0].type = f.call.inputs[1].type;
      for (std::size_t i = 3; i < 9 && i < tied->inputs.size(); ++i)
        f.call.inputs[i + 1].concrete = tied->inputs[i].concrete;
      f.call.has_shapes = tied->has_shapes;
    }
    // The gradient of the result is the input of the autograd function around this call.
    const torch_operator* const around = forward ? nullptr : operator_of(backward_, sequence);
    if (!forward && f.call.sizes(0).empty() && around != nullptr && !f.call.inputs.empty())
      f.call.inputs[0].sizes = {around->sizes(0)};
    const std::size_t first = forward ? 0 : 1;
    const tensor_sizes &source = f.call.sizes(first), &weights = f.call.sizes(first + 1);
    f.window = recorded_window(f.call);
    if (!f.window.empty()) {
      f.result = convolution_result(source, weights, f.window);
    } else {
      f.result = forward ? tied != nullptr ? tied->sizes(0) : result_seen_after(records, at)
                         : f.call.sizes(0);
      f.window = assumed_window(source, weights, f.result);
      f.is_assumed = !f.window.empty();
    }
    if (!forward && f.call.sizes(0).empty() && !f.result.empty())
      f.call.inputs[0].sizes = {f.result};
    if (!forward && !f.window.empty()) {
      const bool has_bias =
          tied != nullptr ? !tied->sizes(2).empty() : !concrete_list(f.call.concrete(3)).empty();
      f.window += "," + gradients_of(f.call, has_bias);
    }
    return f;
  }

 private:
  struct tie {
    std::uint32_t index = 0;
    const void* thread = nullptr;
    bool is_ambiguous = false;
  };
  using by_sequence = std::unordered_map<std::int64_t, tie>;

  /// A call without a gradient has the number of the next call with one, so the last call of a
  /// number counts. Each thread numbers its own calls, so a number that two threads use ties
  /// nothing.
  static void note(by_sequence& into, const trace_record& record,
                   const std::vector<trace_record>& thread) {
    tie& at = into[record.sequence];
    at.is_ambiguous = at.is_ambiguous || (at.thread != nullptr && at.thread != &thread);
    at.index = record.index;
    at.thread = &thread;
  }
  const torch_operator* operator_of(const by_sequence& from, std::int64_t sequence) const {
    const auto at = sequence < 0 ? from.end() : from.find(sequence);
    return at == from.end() || at->second.is_ambiguous ? nullptr
                                                       : &trace_.operators[at->second.index];
  }

  /// The result's size, guessed from the next operator on this thread whose first input has as many
  /// images and channels as the result.
  tensor_sizes result_seen_after(const std::vector<trace_record>& records, std::size_t at) const {
    constexpr std::size_t farthest = 100;
    const torch_operator& o = trace_.operators[records[at].index];
    const tensor_sizes &source = o.sizes(0), &weights = o.sizes(1);
    if (source.size() < 2 || weights.empty()) return {};
    for (std::size_t i = at + 1; i < records.size() && i <= at + farthest; ++i) {
      if (records[i].begin_ns < records[at].end_ns || records[i].is_execution) continue;
      const tensor_sizes& sizes = trace_.operators[records[i].index].sizes(0);
      if (sizes.size() == source.size() && sizes[0] == source[0] && sizes[1] == weights[0])
        return sizes;
    }
    return {};
  }

  const torch_trace& trace_;
  by_sequence forward_, backward_;
};

}  // namespace vecdet::profile

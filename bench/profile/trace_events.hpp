// SPDX-License-Identifier: Apache-2.0
// The events of a trace in Chrome's format, as torch.profiler's export_chrome_trace() writes it:
// {"traceEvents": [...]} with shapes in each operator's "args", or a list of events. The text is
// parsed as a stream and not kept.
#pragma once

#include <vecdet/profile/problem.hpp>  // opens the namespace, which has an inline one around it

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vecdet::profile {

/// One input of an operator. A list of tensors has several sizes and strides.
struct trace_input {
  std::vector<std::vector<std::int64_t>> sizes, strides;
  std::string type;      ///< "float", "ScalarList", ...; empty if not recorded
  std::string concrete;  ///< "[1, 1]", "False", ...; empty if not recorded
};

struct trace_event {
  std::string phase, category, name, process, thread;
  std::int64_t begin_ns = 0, duration_ns = 0;
  std::int64_t sequence = -1;  ///< ties an operator to its function in backward; -1 without one
  bool has_shapes = false;
  std::vector<trace_input> inputs;
};

/// What a trace says about itself.
struct trace_header {
  std::int64_t base_ns = 0;  ///< to add to time stamps for Unix time
  int rank = -1;
  bool has_events = false;
  std::uint64_t malformed = 0;  ///< events without name or times, left out
};

/// Copies up to so many bytes and returns their number; 0 at the end.
using trace_reader = std::function<std::size_t(char*, std::size_t)>;

/// Calls visit(event) for every event that is not malformed, in the order of the text. Keeps at
/// most 4096 numbers of an event's shapes and 4096 bytes of a text. Throws std::runtime_error for
/// what is not JSON, with the position, for a string or number of more than 1 MB, and for nesting
/// deeper than 64.
trace_header read_trace_events(const trace_reader& read,
                               const std::function<void(const trace_event&)>& visit);

}  // namespace vecdet::profile

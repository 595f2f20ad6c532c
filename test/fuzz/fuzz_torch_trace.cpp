// SPDX-License-Identifier: Apache-2.0
// Any text as a trace of torch.profiler, together with executions from a log. It is either refused
// with an exception, or the result is a report that can be written.
#include "../../bench/profile/aten_convolutions.hpp"
#include "../../bench/profile/import_torch_trace.hpp"
#include "fuzz_input.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace vecdet::fuzz {

void target(input& in) {
  std::vector<profile::logged_execution> executions(in.flag() ? 1 : 0);
  for (profile::logged_execution& each : executions) {
    each.begin_ns = 2000;
    each.duration_ns = 1000;
    each.problem.name = "convolution";
  }
  const std::string text = in.text();
  std::size_t at = 0;
  const profile::trace_reader read = [&](char* to, std::size_t most) {
    const std::size_t size = std::min<std::size_t>({most, text.size() - at, 100});
    text.copy(to, size, at);
    at += size;
    return size;
  };
  try {
    const profile::torch_import imported = profile::import_torch_trace(read, executions);
    const profile::report& r = imported.recorded;
    if (r.entries.empty() && r.warnings.empty()) std::abort();
    for (const profile::entry& e : r.entries) {
      if (!(e.self_ns >= 0 && e.self_ns <= e.total_ns) || e.count == 0) std::abort();
      if (!profile::is_aten_convolution(e)) continue;
      try {
        profile::read_aten_convolution(e);
      } catch (const std::runtime_error&) {
      }
    }
    for (const profile::replaceable& part : imported.parts) {
      if (part.problems.empty() == part.why_unknown.empty() || part.calls == 0) std::abort();
    }
    std::ostringstream out;
    write_json(out, r);
    write_html(out, r);
  } catch (const std::runtime_error&) {
  }
}

}  // namespace vecdet::fuzz

// SPDX-License-Identifier: Apache-2.0
// Reads the traces that torch.profiler exports into reports.
#pragma once

#include "replaceable.hpp"
#include "trace_events.hpp"
#include <vecdet/profile.hpp>

#include <string>
#include <vector>

namespace vecdet::profile {

/// A trace as a report, and what vecdet can replace in it.
struct torch_import {
  report recorded;
  std::vector<replaceable> parts;
};

/// One execution of oneDNN's log, with its start in Unix time.
struct logged_execution {
  double begin_ns = 0, duration_ns = 0;
  entry problem;  ///< with the work of one call
};

/// Whether the file, or what is compressed in it, begins like a trace. False if it cannot be read.
bool is_torch_trace(const std::string& file);

/// Reads a trace, compressed by gzip or not. Executions join the operator that they ran in. Shows
/// progress on standard error if that is a terminal. Throws std::runtime_error that names the file.
torch_import import_torch_trace(const std::string& file,
                                const std::vector<logged_execution>& executions = {});

/// The same from memory, for tests and the fuzzer.
torch_import import_torch_trace(const trace_reader& read,
                                const std::vector<logged_execution>& executions = {});

}  // namespace vecdet::profile

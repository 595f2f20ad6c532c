// SPDX-License-Identifier: Apache-2.0
#include "import_torch_trace.hpp"

#include "trace_report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

namespace vecdet::profile {
namespace {

/// A file that zlib reads, compressed or not.
class trace_file {
 public:
  explicit trace_file(const std::string& name) {
    errno = 0;
    file_.reset(gzopen(name.c_str(), "rb"));
    if (file_ == nullptr) throw std::runtime_error(std::strerror(errno != 0 ? errno : ENOMEM));
    gzbuffer(file_.get(), 1u << 17);
    struct stat status {};
    if (stat(name.c_str(), &status) == 0) size_ = static_cast<double>(status.st_size);
  }

  std::size_t read(char* to, std::size_t most) {
    const int bytes = gzread(file_.get(), to, static_cast<unsigned>(most));
    int code = Z_OK;
    const char* const message = gzerror(file_.get(), &code);
    if (bytes < 0 || (code != Z_OK && code != Z_STREAM_END))
      throw std::runtime_error(code == Z_ERRNO ? std::strerror(errno) : message);
    return static_cast<std::size_t>(bytes);
  }

  /// The part that was read, from 0 to 1.
  double progress() const {
    return size_ > 0 ? static_cast<double>(gzoffset(file_.get())) / size_ : 1;
  }

 private:
  struct closing {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::unique_ptr<gzFile_s, closing> file_;
  double size_ = 0;
};

/// Puts each execution of the log into the thread of its operator: of the operators that run when
/// it starts, the one that began last. Returns the number of executions without such an operator.
std::size_t join(torch_trace& trace, const std::vector<logged_execution>& executions) {
  std::size_t outside = 0;
  std::map<std::vector<trace_record>*, std::vector<trace_record>> joined;
  for (std::size_t n = 0; n < executions.size(); ++n) {
    trace_record record;
    const double begin = executions[n].begin_ns - static_cast<double>(trace.header.base_ns);
    if (!(begin > -4e18 && begin < 4e18)) {
      ++outside;
      continue;
    }
    record.begin_ns = static_cast<std::int64_t>(begin);
    record.end_ns =
        record.begin_ns + static_cast<std::int64_t>(std::min(executions[n].duration_ns, 4e18));
    record.index = static_cast<std::uint32_t>(n);
    record.is_execution = true;
    std::vector<trace_record>* inside = nullptr;
    std::int64_t latest = INT64_MIN;
    for (auto& thread : trace.threads) {
      // Backwards from the first operator that begins later, to one that is still running.
      constexpr std::ptrdiff_t farthest = 1000;
      const auto after = std::upper_bound(
          thread.second.begin(), thread.second.end(), record.begin_ns,
          [](std::int64_t time, const trace_record& r) { return time < r.begin_ns; });
      for (auto at = after; at != thread.second.begin() && after - at < farthest;) {
        --at;
        if (at->end_ns <= record.begin_ns ||
            trace.operators[at->index].kind != scope_kind::operator_call)
          continue;
        if (at->begin_ns > latest) {
          latest = at->begin_ns;
          inside = &thread.second;
        }
        break;
      }
    }
    if (inside == nullptr) {
      ++outside;
    } else {
      joined[inside].push_back(record);
    }
  }
  for (auto& each : joined) {
    each.first->insert(each.first->end(), each.second.begin(), each.second.end());
    sort_records(*each.first);
  }
  return outside;
}

torch_import import_records(trace_collector& events, const trace_header& header,
                            const std::vector<logged_execution>& executions) {
  torch_trace trace = events.take(header);
  if (!header.has_events || trace.threads.empty())
    throw std::runtime_error("it has no events of torch.profiler on the processor");
  const std::size_t outside = join(trace, executions);
  std::vector<entry> problems;
  for (const logged_execution& each : executions) problems.push_back(each.problem);
  trace_nesting nesting(trace, problems);
  torch_import imported;
  imported.recorded = nesting.take_report();
  imported.parts = nesting.take_replaceable();
  if (outside > 0) {
    imported.recorded.warnings.push_back(
        std::to_string(outside) + " of " + std::to_string(executions.size()) +
        " executions in oneDNN's log are within no operator of the trace, left out");
  }
  return imported;
}

}  // namespace

bool is_torch_trace(const std::string& file) {
  try {
    trace_file in(file);
    std::string start(std::size_t{1} << 16, ' ');
    std::size_t size = 0;
    while (size < start.size()) {
      const std::size_t more = in.read(&start[size], start.size() - size);
      if (more == 0) break;
      size += more;
    }
    start.resize(size);
    const std::size_t first = start.find_first_not_of(" \t\r\n");
    if (first == start.npos) return false;
    if (start[first] == '[') return true;
    return start[first] == '{' && (start.find("\"traceEvents\"") != start.npos ||
                                   start.find("\"deviceProperties\"") != start.npos);
  } catch (const std::runtime_error&) {
    return false;
  }
}

torch_import import_torch_trace(const trace_reader& read,
                                const std::vector<logged_execution>& executions) {
  trace_collector events;
  const trace_header header =
      read_trace_events(read, [&](const trace_event& event) { events.add(event); });
  return import_records(events, header, executions);
}

torch_import import_torch_trace(const std::string& file,
                                const std::vector<logged_execution>& executions) {
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  int shown = 0;
  try {
    trace_file in(file);
    torch_import imported = import_torch_trace(
        [&](char* to, std::size_t most) {
          const std::size_t bytes = in.read(to, most);
          const int percent = static_cast<int>(100 * in.progress());
          if (shows_progress && percent > shown) {
            shown = percent;
            std::cerr << "\rreading " << detail::one_line(file) << ": " << shown << " %"
                      << std::flush;
          }
          return bytes;
        },
        executions);
    if (shown > 0) std::cerr << '\n';
    return imported;
  } catch (const std::runtime_error& error) {
    if (shown > 0) std::cerr << '\n';
    throw std::runtime_error("cannot read \"" + file + "\": " + error.what());
  }
}

}  // namespace vecdet::profile

// SPDX-License-Identifier: Apache-2.0
// Counts allocations and page faults of calls in a program, with counter.cpp preloaded.
#pragma once

#include "measurement.hpp"
#include "process.hpp"
#include "statistics.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

// counter.cpp as a shared object, embedded by counter_image.cpp.
extern "C" const char vecdet_gate_counter_begin[], vecdet_gate_counter_end[];

namespace vecdet::gate {

constexpr int counted_calls = 20;  ///< their second half is used: the first warms up

/// The environment variables that preload the counter into a program. The shared object is a file
/// in this process's memory. If the system forbids access to it, nothing is counted.
inline std::vector<std::pair<std::string, std::string>> counting_environment() {
  static const int file = [] {
    const int number = memfd_create("vecdet-gate-counter", MFD_CLOEXEC);
    const auto size = static_cast<std::size_t>(vecdet_gate_counter_end - vecdet_gate_counter_begin);
    if (number >= 0 && write(number, vecdet_gate_counter_begin, size) != ssize_t(size)) return -1;
    return number;
  }();
  return {{"LD_PRELOAD", "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file)},
          {"VECDET_GATE_COUNTS", "4"}};
}

/// Allocations and page faults between neighbouring notes of counter.cpp, pair by pair.
struct counted_pieces {
  std::vector<double> allocations, page_faults;
  bool allocations_known = true;

  explicit counted_pieces(const std::string& notes) {
    std::istringstream lines(notes);
    for (std::int64_t a[2], f[2]; lines >> a[0] >> f[0] >> a[1] >> f[1];) {
      allocations_known = allocations_known && a[0] >= 0;
      allocations.push_back(static_cast<double>(a[1] - a[0]));
      page_faults.push_back(static_cast<double>(f[1] - f[0]));
    }
  }
};

/// Counts per call from the pieces begin .. end-1, which belong to `groups` equally long
/// repetitions of `calls` calls each. A repetition has several pieces if its clock was paused.
inline call_counts counts_per_call(const counted_pieces& pieces, std::size_t begin, std::size_t end,
                                   std::size_t groups, double calls) {
  if (groups == 0 || end > pieces.page_faults.size() || begin >= end ||
      (end - begin) % groups != 0 || calls < 1)
    return {};
  const std::size_t length = (end - begin) / groups;
  const auto typical = [&](const std::vector<double>& counts) {
    std::vector<double> sums;
    for (std::size_t group = groups / 2; group < groups; ++group) {
      double sum = 0;
      for (std::size_t i = 0; i < length; ++i) sum += counts[begin + group * length + i];
      sums.push_back(sum / calls);
    }
    return median(sums);
  };
  call_counts found;
  if (pieces.allocations_known) found.allocations = typical(pieces.allocations);
  found.page_faults = typical(pieces.page_faults);
  return found;
}

}  // namespace vecdet::gate

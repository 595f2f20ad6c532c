// SPDX-License-Identifier: Apache-2.0
// The memory available for a measurement, limited by the machine and by the control groups of the
// process.
#pragma once

#include <vecdet/detail/target.hpp>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// The number in the file, on the line that starts with `word` if that is given. Returns
/// `otherwise` if there is no number, e.g. "max".
inline double number_in_file(const std::string& path, const std::string& word, double otherwise) {
  std::ifstream file(path);
  double number = 0;
  if (word.empty()) return file >> number ? number : otherwise;
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, word.size() + 1, word + ' ') != 0) continue;
    std::istringstream rest(line.substr(word.size() + 1));
    return rest >> number ? number : otherwise;
  }
  return otherwise;
}

/// The memory that the group in the folder may still allocate. Inactive file pages count as free,
/// because they are reclaimed first.
inline double group_memory(const std::string& folder, const char* limit_file,
                           const char* usage_file, const char* old_pages) {
  const double unlimited = std::numeric_limits<double>::infinity();
  const double limit = number_in_file(folder + limit_file, "", unlimited);
  const double used = number_in_file(folder + usage_file, "", 0);
  const double spare = number_in_file(folder + "memory.stat", old_pages, 0);
  return limit - std::max(0.0, used - spare);
}

/// The bytes that the control groups of this process leave available; infinite without a limit.
/// `self` is the text of /proc/self/cgroup, `root` the folder of the groups, /sys/fs/cgroup. Both
/// versions of control groups are supported: version 1 has a separate folder for memory, and
/// version 2 may be mounted in "unified". A group inherits the limits of its parents. In a
/// container, the group's name may be the host's, while the container sees its own group as the
/// root.
inline double control_group_memory(const std::string& self, const std::string& root) {
  double available = std::numeric_limits<double>::infinity();
  std::istringstream lines(self);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool is_second = controllers == ",,";
    if (!is_second && controllers.find(",memory,") == std::string::npos) continue;
    for (std::string group = line.substr(second + 1);; group.resize(group.find_last_of('/'))) {
      if (is_second) {
        for (const char* base : {"", "/unified"}) {
          available = std::min(available, group_memory(root + base + group + '/', "memory.max",
                                                       "memory.current", "inactive_file"));
        }
      } else {
        available = std::min(available,
                             group_memory(root + "/memory" + group + '/', "memory.limit_in_bytes",
                                          "memory.usage_in_bytes", "total_inactive_file"));
      }
      if (group.find('/') == std::string::npos) break;
    }
  }
  return std::max(0.0, available);
}

/// The bytes that the profiler uses to measure the machine: 64 MiB, or a quarter of the available
/// memory if that is less.
inline std::size_t measurement_memory() {
  constexpr double most = 64 << 20;
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream self;
  self << file.rdbuf();
  const double free = 1024 * number_in_file("/proc/meminfo", "MemAvailable:", most);
  const double available = std::min(free, control_group_memory(self.str(), "/sys/fs/cgroup"));
  return static_cast<std::size_t>(std::min(most, available / 4));
}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

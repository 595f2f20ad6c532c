// SPDX-License-Identifier: Apache-2.0
// How much memory a measurement may take: what the machine, and the control groups that the process
// is in, leave.
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

/// The number in the file, which may follow a word that begins its line; `otherwise` where there is
/// none, such as "max".
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

/// What the group in the folder may still take. Pages of files that have not been used for long
/// count as free: they are given up first.
inline double group_memory(const std::string& folder, const char* limit_file,
                           const char* usage_file, const char* old_pages) {
  const double unlimited = std::numeric_limits<double>::infinity();
  const double limit = number_in_file(folder + limit_file, "", unlimited);
  const double used = number_in_file(folder + usage_file, "", 0);
  const double spare = number_in_file(folder + "memory.stat", old_pages, 0);
  return limit - std::max(0.0, used - spare);
}

/// Bytes that the control groups around this process leave it: infinite without a limit. `self` is
/// the text of /proc/self/cgroup, `root` the folder in which the groups are, /sys/fs/cgroup. Both
/// versions: in the first, memory has a folder of its own; the second may lie in "unified". A group
/// has the limits of those around it; in a container its name may be the host's, and the container
/// sees its own group as the root.
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

/// Bytes for the profiler's measurement of the machine: 64 MiB, or a quarter of what is free.
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

// SPDX-License-Identifier: Apache-2.0
// Times the modules' problems against each other, in one process on one processor: chunks of about
// a millisecond on the same buffers, in a newly drawn order for each round.
#pragma once

#include "measurement.hpp"
#include "module/interface.hpp"
#include "statistics.hpp"
#include "thread_time.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace vecdet::gate {

/// Copies of each module in a process. Depending on its address, the same kernel is up to 10%
/// slower in one copy than in another for the life of a process; rounds draw from several copies.
constexpr std::size_t placements = 8;

/// A copy of the file in separate memory, as a path. It lives as long as the process.
inline std::string copy_in_memory(const std::string& path) {
  const int file = memfd_create("vecdet-gate-module", MFD_CLOEXEC);
  std::ifstream source(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(source), {}};
  if (!source) throw std::runtime_error(path + ": cannot be read");
  if (file < 0 || write(file, content.data(), content.size()) != ssize_t(content.size())) {
    throw std::runtime_error(path + ": cannot be copied into memory");
  }
  return "/proc/self/fd/" + std::to_string(file);
}

inline const vecdet_gate_module* load(const std::string& path) {
  void* const handle = dlopen(copy_in_memory(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(path + ": " + dlerror());
  const auto open =
      reinterpret_cast<decltype(&vecdet_gate_open)>(dlsym(handle, "vecdet_gate_open"));
  if (open == nullptr) throw std::runtime_error(path + ": not a module of the gate");
  return open();
}

/// A shared object with problems, loaded several times with independent symbols.
class loaded_module {
 public:
  explicit loaded_module(const std::string& path) {
    for (std::size_t i = 0; i < placements; ++i) copies_.push_back(load(path));
  }
  const vecdet_gate_module& one() const { return *copies_.front(); }

  template <class Random>
  const vecdet_gate_module& any(Random& random) const {
    return *copies_[std::uniform_int_distribution<std::size_t>(0, placements - 1)(random)];
  }

  bool set_isa(const char* isa) const {
    return std::all_of(copies_.begin(), copies_.end(),
                       [&](const vecdet_gate_module* copy) { return copy->set_isa(isa); });
  }

  /// The number of the problem in this module, if the module has it.
  std::optional<std::int64_t> find(const char* name) const {
    for (std::int64_t i = 0; i < one().count; ++i) {
      if (std::strcmp(one().name(i), name) == 0 && one().exists(i)) return i;
    }
    return std::nullopt;
  }

 private:
  std::vector<const vecdet_gate_module*> copies_;
};

/// Pins this thread to the processor that the scheduler has just chosen, which has little else to
/// do.
inline void pin_to_this_processor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(std::max(0, sched_getcpu())), &set);
  sched_setaffinity(0, sizeof set, &set);  // if this is not allowed, only the noise grows
}

/// A function to be timed: does its work `times` times.
using work = std::function<void(std::int64_t times)>;

/// How often this thread was preempted.
inline long preemptions() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

/// Nanoseconds per call. A first, untimed call warms the caches; a disturbed measurement is
/// repeated.
inline double time_of(const work& calls, std::int64_t times) {
  constexpr int attempts = 5;
  for (int attempt = 1;; ++attempt) {
    if (times > 8) calls(1);
    const long before = preemptions();
    const double start = thread_nanoseconds();
    calls(times);
    const double time = thread_nanoseconds() - start;
    if (preemptions() == before || attempt == attempts) return time / static_cast<double>(times);
  }
}

/// How many calls take about a millisecond if undisturbed.
inline std::int64_t calls_a_chunk(const work& calls) {
  constexpr double chunk = 1e6;
  std::int64_t times = 1;
  for (;;) {
    const double time =
        std::min({time_of(calls, times), time_of(calls, times), time_of(calls, times)});
    if (time * static_cast<double>(times) >= chunk / 2) {
      return std::max<std::int64_t>(1, std::llround(chunk / time));
    }
    times *= 2;
  }
}

/// Draws the function to be timed for each chunk.
struct contender {
  std::function<work(std::mt19937& random)> draw;
  std::int64_t calls;  ///< per chunk
};

/// Nanoseconds per call, by contender and round.
inline std::vector<std::vector<double>> alternate(const std::vector<contender>& contenders,
                                                  int rounds, std::mt19937& random) {
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      times[i].push_back(time_of(contenders[i].draw(random), contenders[i].calls));
    }
  }
  return times;
}

/// The compared revisions; `control` is a second copy of base.
struct revisions {
  loaded_module base, control, head;

  bool set_isa(const char* isa) const {
    return head.set_isa(isa) && base.set_isa(isa) && control.set_isa(isa);
  }
};

/// `index` is the problem's number in head. The plain loop takes part on request. A problem that
/// base lacks is compared only with the plain loop.
inline rounds measure(const revisions& modules, std::int64_t index, bool with_plain_loop, int count,
                      std::mt19937& random) {
  const vecdet_gate_module& head = modules.head.one();
  const std::shared_ptr<void> data(head.make_data(index),
                                   [&](void* made) { head.free_data(index, made); });
  const auto run_of = [&](const vecdet_gate_module& copy, std::int64_t problem) -> work {
    return [&copy, problem, &data](std::int64_t times) { copy.run(problem, data.get(), times); };
  };
  const std::int64_t calls = calls_a_chunk(run_of(head, index));
  std::vector<contender> contenders;
  const auto add = [&](const loaded_module& module, std::int64_t problem) {
    contenders.push_back(
        {[&, problem](std::mt19937& draw) { return run_of(module.any(draw), problem); }, calls});
  };
  add(modules.head, index);
  const auto in_base = modules.base.find(head.name(index));
  if (in_base) {
    add(modules.base, *in_base);
    add(modules.control, *in_base);
  }
  if (with_plain_loop) {
    const work loop = [&](std::int64_t times) { head.run_plain_loop(index, data.get(), times); };
    contenders.push_back({[=](std::mt19937&) { return loop; }, calls_a_chunk(loop)});
  }
  const auto times = alternate(contenders, count, random);

  rounds found;
  found.head = times[0];
  if (in_base) {
    found.base = times[1];
    found.control = times[2];
  }
  if (with_plain_loop) found.plain = times.back();
  return found;
}

}  // namespace vecdet::gate

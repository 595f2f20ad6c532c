// SPDX-License-Identifier: Apache-2.0
// Measures the peak performance of this machine for the roofline: bandwidth in cache and in memory
// and multiply-adds per second, on one thread and on all. It is done once per process and takes
// less than a second and at most 64 MiB.
#pragma once

#include <vecdet/detail/cpu_features.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/profile/available_memory.hpp>
#include <vecdet/profile/clock.hpp>
#include <vecdet/profile/report.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <unistd.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

inline std::size_t cache_size(int level, std::size_t otherwise) {
#if defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
  const long size = sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
  if (size > 0) return static_cast<std::size_t>(size);
#endif
  static_cast<void>(level);
  return otherwise;
}

/// The timed work of a thread. `work()` does it once and returns the number of units done.
/// `prepare()`, if set, is called before it and is not timed.
struct worker {
  std::function<double()> work;
  std::function<void()> prepare;
};

/// Work units per nanosecond, best of a few rounds, while each of `threads` threads runs its own
/// worker. Throws std::runtime_error if there are not enough memory or threads.
inline double best_rate(int threads, int rounds, const std::function<worker()>& make_worker) {
  std::atomic<int> ready{0};
  std::vector<double> round_units(static_cast<std::size_t>(rounds), 0.0);
  std::mutex mutex;
  std::vector<std::int64_t> first(static_cast<std::size_t>(rounds), INT64_MAX);
  std::vector<std::int64_t> last(static_cast<std::size_t>(rounds), 0);
  std::atomic<bool> failed{false};
  const auto rounds_of = [&](const worker& timed) {
    timed.work();  // touches the memory
    for (int round = 0; round < rounds; ++round) {
      if (timed.prepare) timed.prepare();
      ready.fetch_add(1);
      while (ready.load() < threads * (round + 1)) {
        if (failed) return;
        std::this_thread::yield();
      }
      const std::int64_t begin = steady_nanoseconds();
      const double units = timed.work();
      const std::int64_t end = steady_nanoseconds();
      const std::lock_guard<std::mutex> lock(mutex);
      const auto i = static_cast<std::size_t>(round);
      round_units[i] += units;
      first[i] = std::min(first[i], begin);
      last[i] = std::max(last[i], end);
    }
  };
  // If memory or threads are missing, no thread waits for the missing ones.
  const auto run = [&]() noexcept {
    try {
      rounds_of(make_worker());
    } catch (...) {
      failed = true;
    }
  };
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < threads; ++i) others.emplace_back(run);
    run();
  } catch (...) {
    failed = true;
  }
  for (std::thread& t : others) t.join();
  if (failed) throw std::runtime_error("not enough memory or threads to measure the machine");
  double best = 0;
  for (std::size_t i = 0; i < round_units.size(); ++i) {
    if (last[i] > first[i]) {
      best = std::max(best, round_units[i] / static_cast<double>(last[i] - first[i]));
    }
  }
  return best;
}

/// Zeroed memory, aligned to a cache line.
inline std::shared_ptr<char> make_lines(std::size_t size) {
  constexpr std::align_val_t line{64};
  const auto release = [](char* lines) { ::operator delete[](lines, line); };
  const std::shared_ptr<char> lines(static_cast<char*>(::operator new[](size, line)), release);
  std::memset(lines.get(), 0, size);
  return lines;
}

/// Copies `size` bytes `times` times; counts bytes read and bytes written.
inline double copy_rate(int threads, std::size_t size, int times) {
  return best_rate(threads, 3, [=] {
    const std::shared_ptr<char> from = make_lines(size), to = make_lines(size);
    return worker{[=] {
                    for (int i = 0; i < times; ++i) {
                      std::memcpy(to.get(), from.get(), size);
                      asm volatile("" : : "r"(to.get()) : "memory");
                    }
                    return 2.0 * static_cast<double>(size) * times;
                  },
                  nullptr};
  });
}

#if defined(__x86_64__)
// Loops over the cache lines of `size` bytes, a multiple of 64. They are in assembly, so that the
// compiler's flags and the C library do not affect the result.
#define VECDET_PROFILE_LOAD_LINE_                                                            \
  "movups (%0), %%xmm0\n\tmovups 16(%0), %%xmm1\n\tmovups 32(%0), %%xmm2\n\tmovups 48(%0), " \
  "%%xmm3\n\t"
#define VECDET_PROFILE_NEXT_LINE_ "add $64, %0\n\tcmp %[end], %0\n\tjb 1b"

/// Reads and writes each line in place. A copy would understate the bandwidth, because it also
/// reads the lines that it overwrites, and these reads are not counted.
inline void update_in_place(char* data, std::size_t size) {
  asm volatile("1:\n\t" VECDET_PROFILE_LOAD_LINE_
               "pxor %%xmm4, %%xmm0\n\tpxor %%xmm4, %%xmm1\n\t"
               "pxor %%xmm4, %%xmm2\n\tpxor %%xmm4, %%xmm3\n\t"
               "movups %%xmm0, (%0)\n\tmovups %%xmm1, 16(%0)\n\t"
               "movups %%xmm2, 32(%0)\n\tmovups %%xmm3, 48(%0)\n\t" VECDET_PROFILE_NEXT_LINE_
               : "+r"(data)
               : [end] "r"(data + size)
               : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4");
}

inline void read_lines(const char* from, std::size_t size) {
  asm volatile("1:\n\t" VECDET_PROFILE_LOAD_LINE_ VECDET_PROFILE_NEXT_LINE_
               : "+r"(from)
               : [end] "r"(from + size)
               : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

/// Copies with streaming stores, which bypass the caches.
inline void stream_lines(const char* from, char* to, std::size_t size) {
  asm volatile("1:\n\t" VECDET_PROFILE_LOAD_LINE_
               "movntps %%xmm0, (%1)\n\tmovntps %%xmm1, 16(%1)\n\t"
               "movntps %%xmm2, 32(%1)\n\tmovntps %%xmm3, 48(%1)\n\t"
               "add $64, %1\n\t" VECDET_PROFILE_NEXT_LINE_ "\n\tsfence"
               : "+r"(from), "+r"(to)
               : [end] "r"(from + size)
               : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}
#undef VECDET_PROFILE_NEXT_LINE_
#undef VECDET_PROFILE_LOAD_LINE_

/// Flushes the lines from all caches.
inline void flush_lines(const char* data, std::size_t size) {
  for (std::size_t i = 0; i < size; i += 64) asm volatile("clflush (%0)" : : "r"(data + i));
  asm volatile("mfence" : : : "memory");
}
#endif

/// Bytes read and written per nanosecond in a working set of `size` bytes per thread, which stays
/// in the thread's cache: the better of copying and updating in place.
inline double cache_bandwidth(int threads, std::size_t size, int times) {
  const double copied = copy_rate(threads, size / 2, times);
#if defined(__x86_64__)
  const std::size_t lines = size / 64 * 64;
  const double updated = best_rate(threads, 3, [=] {
    const std::shared_ptr<char> data = make_lines(lines);
    return worker{[=] {
                    for (int i = 0; i < times; ++i) update_in_place(data.get(), lines);
                    return 2.0 * static_cast<double>(lines) * times;
                  },
                  nullptr};
  });
  return std::max(copied, updated);
#else
  return copied;
#endif
}

/// The same for memory, with `size` bytes per thread. On x86-64, the data are first flushed from
/// the caches, then only read or copied with streaming stores, because the last-level cache may be
/// larger than the measurement's memory.
inline double memory_bandwidth(int threads, std::size_t size) {
#if defined(__x86_64__)
  const std::size_t half = size / 128 * 64;
  const auto best_of = [&](bool copies) {
    return best_rate(threads, 3, [=] {
      const std::shared_ptr<char> from = make_lines(half), to = make_lines(copies ? half : 0);
      return worker{[=] {
                      if (!copies) {
                        read_lines(from.get(), half);
                        return static_cast<double>(half);
                      }
                      stream_lines(from.get(), to.get(), half);
                      return 2.0 * static_cast<double>(half);
                    },
                    [=] { flush_lines(from.get(), half); }};
    });
  };
  return std::max(best_of(false), best_of(true));
#else
  return copy_rate(threads, size / 2, 1);
#endif
}

// Twelve independent chains of multiply-adds hide the latency of all current processors. They are
// in assembly, to measure the machine and not the compiler's flags. Each function returns the
// number of operations.
constexpr std::int64_t peak_steps = 200000;

#define VECDET_PROFILE_TWELVE_(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#if defined(__x86_64__)
// All sixteen registers, because vzeroupper also clears the upper halves of the other four.
#define VECDET_PROFILE_CLOBBERS_                                                                 \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define VECDET_PROFILE_ZERO_(i) "xorps %%xmm" #i ", %%xmm" #i "\n\t"
#define VECDET_PROFILE_CHAINS_(name, lanes, step, end)                                         \
  inline double name() {                                                                       \
    std::int64_t n = peak_steps;                                                               \
    asm volatile(VECDET_PROFILE_TWELVE_(VECDET_PROFILE_ZERO_) "1:\n\t" VECDET_PROFILE_TWELVE_( \
                     step) "dec %0\n\tjnz 1b\n\t" end                                          \
                 : "+r"(n)                                                                     \
                 :                                                                             \
                 : VECDET_PROFILE_CLOBBERS_);                                                  \
    return 2.0 * lanes * 12 * static_cast<double>(peak_steps);                                 \
  }
#define VECDET_PROFILE_STEP_(i) "vfmadd231ps %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
VECDET_PROFILE_CHAINS_(multiply_add_avx512, 16, VECDET_PROFILE_STEP_, "vzeroupper")
#undef VECDET_PROFILE_STEP_
#define VECDET_PROFILE_STEP_(i) "vfmadd231ps %%ymm" #i ", %%ymm" #i ", %%ymm" #i "\n\t"
VECDET_PROFILE_CHAINS_(multiply_add_avx2, 8, VECDET_PROFILE_STEP_, "vzeroupper")
#undef VECDET_PROFILE_STEP_
#define VECDET_PROFILE_STEP_(i) \
  "mulps %%xmm" #i ", %%xmm" #i "\n\taddps %%xmm" #i ", %%xmm" #i "\n\t"
VECDET_PROFILE_CHAINS_(multiply_add_baseline, 4, VECDET_PROFILE_STEP_, "")
#undef VECDET_PROFILE_STEP_
#undef VECDET_PROFILE_CHAINS_
#undef VECDET_PROFILE_ZERO_
#undef VECDET_PROFILE_CLOBBERS_
#elif defined(__aarch64__)
#define VECDET_PROFILE_STEP_(i) "fmla v" #i ".4s, v" #i ".4s, v" #i ".4s\n\t"
inline double multiply_add_baseline() {
  std::int64_t n = peak_steps;
  asm volatile("1:\n\t" VECDET_PROFILE_TWELVE_(VECDET_PROFILE_STEP_) "subs %0, %0, #1\n\tb.ne 1b"
               : "+r"(n)
               :
               : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11");
  return 2.0 * 4 * 12 * static_cast<double>(peak_steps);
}
#undef VECDET_PROFILE_STEP_
#else
inline double multiply_add_baseline() { return 0; }  // not measured
#endif
#undef VECDET_PROFILE_TWELVE_

inline double multiply_add_rate(int threads) {
  double (*kernel)() = multiply_add_baseline;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    kernel = multiply_add_avx512;
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernel = multiply_add_avx2;
  }
#endif
  return best_rate(threads, 3, [=] { return worker{kernel, nullptr}; });
}

inline std::string processor_name() {
#if defined(_WIN32) && defined(__x86_64__)
  char name[49] = {};
  for (unsigned part = 0; part < 3; ++part) {
    const auto text = vecdet::detail::this_cpu{}.cpuid(0x80000002u + part, 0);
    std::memcpy(name + 16 * part, &text, sizeof text);
  }
  return name;
#else
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 10, "model name") != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
#endif
}

struct measured_machine {
  std::mutex mutex;
  bool done = false;
  machine_info info;
};

#if defined(__unix__) || defined(__APPLE__)
/// A fork does not wait for a running measurement, which would take long. In the child, the thread
/// that measures and would unlock does not exist, so the child must measure again.
inline void remeasure_after_forks(std::atomic<measured_machine*>& machine) {
  static std::atomic<measured_machine*>* watched = nullptr;
  watched = &machine;
  pthread_atfork(nullptr, nullptr, [] {
    std::mutex& mutex = watched->load()->mutex;
    if (mutex.try_lock()) {
      mutex.unlock();
    } else {
      *watched = new measured_machine;
    }
  });
}
#else
inline void remeasure_after_forks(std::atomic<measured_machine*>&) {}
#endif

/// Never destroyed.
VECDET_PROFILE_SHARED inline measured_machine& the_machine() {
  static std::atomic<measured_machine*> machine{new measured_machine};
  static const bool watches_forks = (remeasure_after_forks(machine), true);
  static_cast<void>(watches_forks);
  return *machine.load();
}

/// The result of measure_machine(), if it has been called.
inline machine_info known_machine() {
  measured_machine& m = the_machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  return m.info;
}

}  // namespace detail

/// The first call measures the machine in 64 MiB of memory, or a quarter of the available memory if
/// that is less. Values that cannot be measured, for lack of memory or threads, stay 0.
inline machine_info measure_machine() {
  detail::measured_machine& m = detail::the_machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  if (m.done) return m.info;
  m.done = true;
  m.info.processor = detail::processor_name();
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  m.info.threads = threads;
  const std::size_t cache = detail::cache_size(2, std::size_t{1} << 20);
  m.info.cache_bytes = static_cast<double>(cache);
  const std::size_t available = detail::measurement_memory();
  const std::size_t in_cache = std::min(cache / 2, available / static_cast<std::size_t>(threads));
  constexpr std::size_t least_memory = std::size_t{4} << 20, least_in_cache = std::size_t{4} << 10;
  try {
    m.info.gflops_f32 = detail::multiply_add_rate(1);
    m.info.gflops_f32_all_threads = detail::multiply_add_rate(threads);
    if (available >= least_memory && in_cache >= least_in_cache) {
      const int times = static_cast<int>((std::size_t{32} << 20) / in_cache) + 1;
      m.info.cache_gbs = detail::cache_bandwidth(1, in_cache, times);
      m.info.cache_gbs_all_threads = detail::cache_bandwidth(threads, in_cache, times);
      m.info.memory_gbs = detail::memory_bandwidth(1, available);
      m.info.memory_gbs_all_threads =
          detail::memory_bandwidth(threads, available / static_cast<std::size_t>(threads));
    }
  } catch (const std::exception&) {
    // Not enough memory or threads: the report is written without this value.
  }
  // If a measurement was disturbed or is missing, all threads still count at least as much as one.
  const auto at_least = [](double& all, double one) { all = std::max(all, one); };
  at_least(m.info.gflops_f32_all_threads, m.info.gflops_f32);
  at_least(m.info.cache_gbs_all_threads, m.info.cache_gbs);
  at_least(m.info.memory_gbs_all_threads, m.info.memory_gbs);
  return m.info;
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

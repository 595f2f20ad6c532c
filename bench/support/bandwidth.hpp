// SPDX-License-Identifier: Apache-2.0
// How fast this machine copies memory: the bound of every kernel with little arithmetic.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

namespace vecdet::bench {

/// Bytes per second, reads plus writes, when copying one half of `footprint` bytes to the other on
/// `threads` threads. Each thread copies its share repeatedly; the result is the best of at least 5
/// passes in 25 ms.
inline double measure_copy_bandwidth(std::size_t footprint, int threads) {
  using clock = std::chrono::steady_clock;
  using seconds = std::chrono::duration<double>;
  const std::size_t shares = static_cast<std::size_t>(threads);
  const std::size_t share = std::max<std::size_t>(footprint / 2 / shares, 1);
  const std::vector<char> source(share * shares, 1);
  std::vector<char> target(share * shares, 2);  // touched, so that all pages are mapped

  const auto copy_share = [&](std::size_t part, int repeats) {
    for (int i = 0; i < repeats; ++i) {
      std::memcpy(target.data() + part * share, source.data() + part * share, share);
      // The compiler must not notice that only the last copy is read.
      const volatile char seen = target[part * share + share / 2];
      static_cast<void>(seen);
    }
  };
  const auto time_of = [&](int repeats) {
    const auto start = clock::now();
    if (threads == 1) {
      copy_share(0, repeats);
    } else {
      oneapi::tbb::parallel_for(
          std::size_t{0}, shares, [&](std::size_t part) { copy_share(part, repeats); },
          oneapi::tbb::static_partitioner());
    }
    return seconds(clock::now() - start).count() / repeats;
  };

  double best = 0;
  oneapi::tbb::task_arena(threads).execute([&] {
    best = time_of(1);
    const int repeats = static_cast<int>(std::clamp(1e-3 / best, 1.0, 1e4));
    const auto end = clock::now() + std::chrono::milliseconds(25);
    for (int pass = 0; pass < 5 || clock::now() < end; ++pass)
      best = std::min(best, time_of(repeats));
  });
  return 2 * static_cast<double>(share * shares) / best;
}

/// The same, measured once per run for each power of two above the footprint. A kernel is thus
/// compared with a copy in the same level of the memory hierarchy.
inline double copy_bandwidth(std::size_t footprint, int threads) {
  static std::map<std::pair<std::size_t, int>, double> known;
  constexpr std::size_t largest = std::size_t{1} << 28;
  std::size_t rounded = 4096;
  while (rounded < footprint && rounded < largest) rounded *= 2;
  const auto entry = known.find({rounded, threads});
  if (entry != known.end()) return entry->second;
  return known[{rounded, threads}] = measure_copy_bandwidth(rounded, threads);
}

}  // namespace vecdet::bench

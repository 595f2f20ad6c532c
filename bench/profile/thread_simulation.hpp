// SPDX-License-Identifier: Apache-2.0
// How long a call would take on other numbers of threads. The call gets a parallel loop of ours
// (threading::on) that claims this number of threads, so that the work is divided for them. The
// loop runs the pieces one after the other and takes the processor time of each, so that the turns
// of other programs do not count. Then a schedule gives each piece, in order, to the thread that is
// free first.
//
// Nothing disturbs a piece: it has the memory's whole bandwidth and a core's caches, and starting
// a loop costs nothing. The times are therefore lower bounds, and the speed-ups upper bounds.
#pragma once

#include "replay.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include <bench/gate/thread_time.hpp>
#include <tbb/task_arena.h>

namespace vecdet::profile {

/// A call's parallel loops, with the duration of each piece, and the rest of the call. All in
/// nanoseconds of processor time, each the minimum of many calls.
struct timed_call {
  double outside = 0;  ///< of all loops
  std::vector<std::vector<double>> loops;

  std::size_t pieces() const {
    std::size_t count = 0;
    for (const std::vector<double>& loop : loops) count += loop.size();
    return count;
  }
};

/// The time until all pieces have run on so many threads, if each thread takes the next piece as
/// soon as it is free.
inline double scheduled(const std::vector<double>& pieces, int threads) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (int t = 0; t < threads; ++t) free.push(0);
  double last = 0;
  for (const double piece : pieces) {
    const double end = free.top() + piece;
    free.pop();
    free.push(end);
    last = std::max(last, end);
  }
  return last;
}

/// The duration of the call on so many threads.
inline double scheduled(const timed_call& call, int threads) {
  double sum = call.outside;
  for (const std::vector<double>& loop : call.loops) sum += scheduled(loop, threads);
  return sum;
}

namespace detail {

using steady = std::chrono::steady_clock;

inline double nanoseconds(steady::time_point from, steady::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

using gate::thread_nanoseconds;

/// What one reading of thread_nanoseconds() takes. On Linux, it is a system call of some 200 to 400
/// ns, and a piece may take 1 us. It takes nearly the same every time, so it is subtracted.
inline double thread_clock_cost() {
  static const double cost = [] {
    double least = std::numeric_limits<double>::infinity();
    double last = thread_nanoseconds();
    for (int i = 0; i < 1000; ++i) {
      const double now = thread_nanoseconds();
      least = std::min(least, now - last);
      last = now;
    }
    return least;
  }();
  return cost;
}

/// Times the pieces of one call. A loop of the caller's own, for threading::on.
class piece_timer {
 public:
  explicit piece_timer(timed_call& call) : call_(call) {}

  void operator()(index_t count, const task& work) const {
    const double cost = thread_clock_cost();
    const double begin = thread_nanoseconds();
    std::vector<double> pieces(static_cast<std::size_t>(count));
    double last = thread_nanoseconds();
    for (index_t i = 0; i < count; ++i) {
      work(i);
      const double now = thread_nanoseconds();
      pieces[static_cast<std::size_t>(i)] = std::max(0.0, now - last - cost);
      last = now;
    }
    call_.loops.push_back(std::move(pieces));
    // The loop reads the clock at its begin and at its end. The difference has one of these
    // readings; the call's time has both.
    call_.outside -= thread_nanoseconds() - begin + cost;
  }

 private:
  timed_call& call_;
};

inline timed_call time_pieces_once(const catalogue_call& call, int threads) {
  const double cost = thread_clock_cost();
  timed_call once;
  const piece_timer timer(once);
  const threading policy = threading::on(timer, threads);
  const double begin = thread_nanoseconds();
  call(policy);
  once.outside = std::max(0.0, once.outside + thread_nanoseconds() - begin - cost);
  return once;
}

/// Takes over the shorter times. Calls whose loops differ, such as the first one, which fills
/// caches of tables, count from the last change on.
inline void keep_shortest(timed_call& shortest, const timed_call& once) {
  const bool is_same =
      std::equal(shortest.loops.begin(), shortest.loops.end(), once.loops.begin(), once.loops.end(),
                 [](const auto& a, const auto& b) { return a.size() == b.size(); });
  if (!is_same) {
    shortest = once;
    return;
  }
  shortest.outside = std::min(shortest.outside, once.outside);
  for (std::size_t l = 0; l < once.loops.size(); ++l)
    for (std::size_t i = 0; i < once.loops[l].size(); ++i)
      shortest.loops[l][i] = std::min(shortest.loops[l][i], once.loops[l][i]);
}

}  // namespace detail

/// The call on `threads` threads, piece by piece.
inline timed_call time_pieces(const catalogue_call& call, int threads,
                              const replay_options& options) {
  detail::time_pieces_once(call, threads);  // makes pages
  timed_call shortest = detail::time_pieces_once(call, threads);
  const double enough = 1e9 * options.seconds * options.repetitions;
  const detail::steady::time_point begin = detail::steady::now();
  for (int calls = 1;
       calls < least_timed_calls || detail::nanoseconds(begin, detail::steady::now()) < enough;
       ++calls)
    detail::keep_shortest(shortest, detail::time_pieces_once(call, threads));
  return shortest;
}

/// A problem on several numbers of threads; times in nanoseconds.
struct thread_scaling {
  std::string name;
  double calls = 0;               ///< recorded; 0 in a list of problems
  timed_call divided_for_one;     ///< on one thread, measured piece by piece as the simulation does
  timed_call last;                ///< on the last number of threads
  std::vector<double> simulated;  ///< processor time for each number of threads
  std::vector<double> measured;   ///< wall-clock time; 0 for more threads than processors
  double one_thread = 0;          ///< wall-clock time on one thread

  double simulated_speedup(std::size_t number) const {
    return scheduled(divided_for_one, 1) / simulated[number];
  }
  double measured_speedup(std::size_t number) const {
    return measured[number] > 0 ? one_thread / measured[number] : 0;
  }
};

/// Measures the call on each number of threads, 0 for none, in turns: the machine's speed changes.
inline std::vector<double> measure_on_threads(const catalogue_call& call,
                                              const std::vector<int>& numbers,
                                              const replay_options& options) {
  std::vector<double> shortest(numbers.size(), std::numeric_limits<double>::infinity());
  std::vector<std::unique_ptr<tbb::task_arena>> arenas;
  for (const int threads : numbers)
    arenas.push_back(threads > 1 ? std::make_unique<tbb::task_arena>(threads) : nullptr);
  const auto run = [&](std::size_t number) {
    if (numbers[number] == 1)
      call(threading::sequential);
    else
      arenas[number]->execute([&] { call(threading::parallel); });
  };
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] > 0) run(n);  // makes pages and threads
  }
  // Several calls in a row: threads that were idle take a while to wake up.
  constexpr int in_a_row = 5;
  const double enough =
      1e9 * options.seconds * options.repetitions * static_cast<double>(numbers.size());
  const detail::steady::time_point begin = detail::steady::now();
  do {
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      for (int k = 0; k < in_a_row && numbers[n] > 0; ++k)
        shortest[n] = std::min(shortest[n], 1e9 * detail::seconds_of([&] { run(n); }));
    }
  } while (detail::nanoseconds(begin, detail::steady::now()) < enough);
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] == 0) shortest[n] = 0;
  }
  return shortest;
}

/// Simulates and, up to `processors` threads, measures the call on these numbers of threads.
inline thread_scaling scale_threads(const std::string& name, const catalogue_call& call,
                                    const std::vector<int>& threads, int processors,
                                    const replay_options& options) {
  thread_scaling s;
  s.name = name;
  s.divided_for_one = time_pieces(call, 1, options);
  std::vector<int> to_measure{1};
  for (const int number : threads) {
    s.last = time_pieces(call, number, options);
    s.simulated.push_back(scheduled(s.last, number));
    to_measure.push_back(number <= processors ? number : 0);
  }
  s.measured = measure_on_threads(call, to_measure, options);
  s.one_thread = s.measured.front();
  s.measured.erase(s.measured.begin());
  return s;
}

}  // namespace vecdet::profile

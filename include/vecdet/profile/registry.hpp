// SPDX-License-Identifier: Apache-2.0
// The process-wide part of the profiler: the switch, the logs of all threads, the known problems,
// and the slow paths of recording. All of it exists until the process ends, so destructors of
// static objects may record scopes. The reports of VECDET_PROFILE, which are registered before
// main(), include the destructors of objects that were constructed after that.
#pragma once

#include <vecdet/detail/language.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/profile/clock.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/statistics.hpp>
#include <vecdet/profile/thread_log.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <unistd.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// The common entry of all problems beyond problems_kept and paths_kept.
constexpr const char* other_problems = "(other problems)";

namespace detail {

/// Bit 0 is set while the profiler is on. The other bits count changes of the settings, which each
/// thread checks when it enters its next scope.
VECDET_PROFILE_SHARED inline std::atomic<std::uint32_t> state{0};

/// The number of libraries unloaded so far; see note_unload().
VECDET_PROFILE_SHARED inline std::atomic<std::uint32_t> unloads{0};

constexpr bool is_on(std::uint32_t s) noexcept { return (s & 1u) != 0; }

struct problem_hash {
  std::size_t operator()(const problem& p) const noexcept { return hash_problem(nullptr, p); }
};
struct problem_equal {
  bool operator()(const problem& a, const problem& b) const noexcept { return same_problem(a, b); }
};

/// The number of scopes that ended on another thread than they began on.
VECDET_PROFILE_SHARED inline std::atomic<std::uint64_t> dropped_elsewhere{0};

struct registry {
  std::mutex mutex;
  std::vector<thread_log*> logs;
  std::vector<interned_problem*> problems;
  std::unordered_map<problem, interned_problem*, problem_hash, problem_equal> by_key;
  std::size_t statistics_made = 0;
  std::atomic<std::size_t> paths_made{0};  // changed under the lock
  std::set<std::string> strings;

  std::once_flag calibration;
  std::uint64_t era = 0;  // counts resets
  std::size_t trace_events = 0;
  std::int64_t started_ticks = 0;
  std::int64_t started_unix_ns = 0;
  std::int64_t print_period_ticks = 0;
  bool forked = false;

  /// Never destroyed.
  VECDET_PROFILE_SHARED static registry& get() {
    static registry* const only = new registry;
    return *only;
  }

  void bump_generation() noexcept { state.fetch_add(2, std::memory_order_release); }

  void start_era() {
    ++era;
    dropped_elsewhere.store(0, std::memory_order_relaxed);
    started_ticks = ticks();
    started_unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
    bump_generation();
  }
};

#if !defined(VECDET_PROFILE_DISABLE)
/// Runs when the library that contains this file is unloaded, after all of its destructors. Scopes
/// compare names by address; after an unload, another name may have the same address, so threads
/// must forget the old addresses. This check costs scopes nothing.
[[gnu::destructor(101)]] static void note_unload() {
  unloads.fetch_add(1, std::memory_order_relaxed);
  state.fetch_add(2, std::memory_order_release);
}
#endif

struct thread_slot {
  thread_log* log;
  int ends;  // how often the thread has returned its log
};
VECDET_PROFILE_SHARED inline thread_local thread_slot this_thread{nullptr, 0};

/// Returns the log when the thread ends.
struct log_keeper {
  ~log_keeper() {
    registry& r = registry::get();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (this_thread.log != nullptr) {
      this_thread.log->drop_all();
      this_thread.log->taken = false;
    }
    this_thread = {nullptr, this_thread.ends + 1};
  }
};

/// Destructors of thread-local objects that run after the first keeper's destructor may still
/// record scopes. So may those of static objects, which run after all thread-local ones. They take
/// a log again, with another keeper.
template <int Round>
void keep_log() {
  static thread_local log_keeper keeper;
  static_cast<void>(keeper);
}
constexpr int rounds_of_keepers = 2;

#if defined(__unix__) || defined(__APPLE__)
/// In a forked child, only the forking thread exists. The child's profile starts empty.
inline void after_fork_in_child() {
  registry& r = registry::get();
  for (thread_log* log : r.logs) {
    if (log == this_thread.log) continue;
    log->drop_all();
    log->taken = false;
  }
  r.forked = true;
  r.start_era();
  // A thread that was printing does not exist in the child.
  if (r.print_period_ticks > 0) next_print = r.started_ticks + r.print_period_ticks;
  r.mutex.unlock();
}
inline void watch_forks() {
  static std::atomic<bool> watched{false};  // a fork's child may calibrate again
  if (watched.exchange(true)) return;
  pthread_atfork([] { registry::get().mutex.lock(); }, [] { registry::get().mutex.unlock(); },
                 after_fork_in_child);
}
#else
inline void watch_forks() {}
#endif

/// Does nothing. The call makes every program that records link environment.cpp.
void link_environment() noexcept;

/// Returns null if there is not enough memory or the thread has already ended.
[[gnu::noinline]] inline thread_log* take_log() noexcept {
#if defined(VECDET_DISPATCH)
  link_environment();
#endif
  if (this_thread.ends >= rounds_of_keepers) return nullptr;
  try {
    registry& r = registry::get();
    {
      const std::lock_guard<std::mutex> lock(r.mutex);
      const auto idle = std::find_if(r.logs.begin(), r.logs.end(),
                                     [](const thread_log* log) { return !log->taken; });
      if (idle != r.logs.end()) {
        this_thread.log = *idle;
      } else {
        auto log = std::make_unique<thread_log>(static_cast<int>(r.logs.size()));
        r.logs.push_back(log.get());
        this_thread.log = log.release();
      }
      this_thread.log->taken = true;
    }
    this_thread.ends == 0 ? keep_log<0>() : keep_log<1>();
  } catch (...) {
    return nullptr;
  }
  return this_thread.log;
}

/// Applies a reset, a changed size of the trace, or the unloading of a library to the log.
[[gnu::noinline]] inline void refresh(thread_log& log) noexcept {
  registry& r = registry::get();
  const std::lock_guard<std::mutex> lock(r.mutex);
  // Unloading a library takes no lock; if it happens meanwhile, the next call handles it.
  const std::uint32_t generation = state.load(std::memory_order_acquire) >> 1;
  if (log.era.load(std::memory_order_relaxed) != r.era) {
    for (statistics* s : log.all_statistics) s->clear();
    for (std::size_t i = 0; i < log.paths.size(); ++i) {
      path_node& node = log.paths[i];
      node.count.set(0);
      node.total.set(0);
      node.self.set(0);
    }
    log.dropped.set(0);
    log.clock_went_back.set(0);
    log.events.store(0, std::memory_order_relaxed);
    log.era.store(r.era, std::memory_order_release);
  }
  const std::uint32_t unloads_now = unloads.load(std::memory_order_relaxed);
  if (log.unloads != unloads_now) {
    log.forget_names();
    log.unloads = unloads_now;
  }
  if (log.ring_size != r.trace_events) {
    log.ring.reset(r.trace_events != 0 ? new (std::nothrow) trace_slot[r.trace_events] : nullptr);
    log.ring_size = log.ring != nullptr ? r.trace_events : 0;
    log.events.store(0, std::memory_order_relaxed);
  }
  log.generation.store(generation, std::memory_order_relaxed);
}

/// The log's statistics of the problem, or null. Requires the registry's lock.
inline statistics* find_statistics(const registry& r, const thread_log& log, const problem& p) {
  const auto found = r.by_key.find(p);
  if (found == r.by_key.end()) return nullptr;
  statistics* s = found->second->first.load(std::memory_order_relaxed);
  while (s != nullptr && s->owner != &log) s = s->next;
  return s;
}

/// The problem with the registry's own copies of its names, which outlive the libraries that the
/// names came from. Requires the registry's lock.
inline problem with_own_names(registry& r, problem p) {
  for (const char** name : {&p.function, &p.variant, &p.type, &p.implementation}) {
    if (*name != nullptr) *name = r.strings.insert(*name).first->c_str();
  }
  return p;
}

/// The log's statistics of the problem, created if there are none. Requires the registry's lock.
inline statistics* intern_problem(registry& r, thread_log& log, const problem& met) {
  problem p = with_own_names(r, met);
  if (statistics* known = find_statistics(r, log, p)) return known;
  if (r.statistics_made >= problems_kept) {
    p = problem{};
    p.function = other_problems;
    p = with_own_names(r, p);
    if (statistics* known = find_statistics(r, log, p)) return known;
  }
  interned_problem*& interned = r.by_key[p];
  if (interned == nullptr) {
    auto fresh = std::make_unique<interned_problem>();
    fresh->key = p;
    fresh->index = r.problems.size();
    r.problems.push_back(fresh.get());
    interned = fresh.release();
  }
  auto s = std::make_unique<statistics>();
  s->interned = interned;
  s->owner = &log;
  s->random = hash_problem(&log, p);
  s->next = interned->first.load(std::memory_order_relaxed);
  log.all_statistics.push_back(s.get());
  ++r.statistics_made;
  interned->first.store(s.get(), std::memory_order_release);
  return s.release();
}

/// Returns null if there is not enough memory.
[[gnu::noinline]] inline path_node* add_path(thread_log& log, const problem& p,
                                             std::uint64_t hash) noexcept {
  registry& r = registry::get();
  const bool full = r.paths_made.load(std::memory_order_relaxed) >= paths_kept;
  if (full && log.overflow != nullptr) return log.overflow;
  try {
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (full) {
      problem other;
      other.function = other_problems;
      log.overflow = log.paths.add(intern_problem(r, log, other), nullptr);
      return log.overflow;
    }
    statistics* const stats = intern_problem(r, log, p);
    path_node* node = log.recall(log.here(), stats);
    if (node == nullptr) {
      node = log.paths.add(stats, log.here());
      r.paths_made.fetch_add(1, std::memory_order_relaxed);
    }
    log.insert(node, p, hash);
    return node;
  } catch (...) {
    return nullptr;
  }
}

/// Grows the stack for deeper nesting. Returns false if there is not enough memory.
[[gnu::noinline]] inline bool add_frames(thread_log& log) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(registry::get().mutex);
    log.add_frames();
    return true;
  } catch (...) {
    return false;
  }
}

[[gnu::noinline]] inline void enter(open_scope& scope, const problem& p,
                                    std::uint32_t seen) noexcept {
  thread_log* log = this_thread.log;
  if (__builtin_expect(log == nullptr, 0)) {
    log = take_log();
    if (log == nullptr) return;
  }
  if (__builtin_expect(log->generation.load(std::memory_order_relaxed) != seen >> 1, 0)) {
    refresh(*log);
  }
  log->settle();
  const std::uint64_t hash = hash_problem(log->here(), p);
  path_node* node = log->find(p, hash);
  if (__builtin_expect(node == nullptr, 0)) node = add_path(*log, p, hash);
  if (__builtin_expect(node == nullptr || (!log->has_spare() && !add_frames(*log)), 0)) {
    log->dropped.add(1);
    return;
  }
  log->enter(scope, node, p);
}

/// Marks a scope that ends on another thread. The log and its frames exist even if their thread has
/// ended. The log drops the scope the next time it is used.
[[gnu::noinline]] inline void leave_elsewhere(const open_scope& scope) noexcept {
  std::int64_t ticket = scope.ticket;
  scope.place->ticket.compare_exchange_strong(ticket, ticket | given_up, std::memory_order_relaxed);
  dropped_elsewhere.fetch_add(1, std::memory_order_relaxed);
}

[[gnu::noinline]] inline void leave(const open_scope& scope) noexcept {
  const std::int64_t end = ticks();
  if (__builtin_expect(this_thread.log != scope.log, 0)) {
    leave_elsewhere(scope);
    return;
  }
  scope.log->leave(scope, end);
}

/// Measures the clock and the profiler's own cost by timing empty scopes. Uses the median of
/// several batches.
inline void calibrate() noexcept {
  calibrate_clock();
  thread_log* log = this_thread.log != nullptr ? this_thread.log : take_log();
  if (log == nullptr) return;
  refresh(*log);
  problem p;
  p.function = "(around empty scopes)";
  const std::uint32_t now = state.load(std::memory_order_relaxed);
  open_scope outer;
  enter(outer, p, now);
  p.function = "(empty scope)";
  if (outer.log == nullptr) return;
  constexpr int batch = 256, batches = 25;
  std::array<std::int64_t, batches> inside{}, whole{};
  for (std::size_t i = 0; i < batches; ++i) {
    std::int64_t within = 0;
    const std::int64_t begin = ticks();
    for (int j = 0; j < batch; ++j) {
      open_scope inner;
      enter(inner, p, now);
      if (inner.log == nullptr) return;
      const frame& f = *inner.place;
      leave(inner);
      within += f.node->stats->last_end.get() - f.begin;
    }
    whole[i] = (ticks() - begin) / batch;
    inside[i] = within / batch;
  }
  leave(outer);
  std::nth_element(inside.begin(), inside.begin() + batches / 2, inside.end());
  std::nth_element(whole.begin(), whole.begin() + batches / 2, whole.end());
  overhead.inside = std::max<std::int64_t>(inside[batches / 2], 0);
  overhead.whole = std::max(whole[batches / 2], overhead.inside.load());
}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

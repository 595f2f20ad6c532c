// SPDX-License-Identifier: Apache-2.0
// The data that one thread has recorded about one problem. Only that thread writes; any thread may
// read at any time. Every field is an atomic that is only loaded and stored, which costs no more
// than plain memory on x86-64 and 64-bit Arm.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/clock.hpp>
#include <vecdet/profile/histogram.hpp>
#include <vecdet/profile/problem.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// The number of durations per problem that are kept individually, sampled evenly from all of them:
/// for exact quantiles of short runs and for rank tests.
constexpr std::size_t samples_kept = 256;

namespace detail {

/// A number with one writer and any number of readers.
template <class T>
class counter {
 public:
  T get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(T value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(T value) noexcept { set(static_cast<T>(get() + value)); }

 private:
  std::atomic<T> value_{T{}};
};

/// A span of clock ticks.
struct span {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t overlap(const span& other) const noexcept {
    return std::max<std::int64_t>(0, std::min(end, other.end) - std::max(begin, other.begin));
  }
};

struct statistics;

/// The part of a problem shared by all threads: the list of their statistics, newest first. Never
/// freed.
struct interned_problem {
  problem key;
  std::size_t index = 0;
  std::atomic<statistics*> first{nullptr};
};

struct statistics {
  interned_problem* interned = nullptr;
  const void* owner = nullptr;
  statistics* next = nullptr;

  counter<std::uint64_t> count;
  counter<std::int64_t> total, inclusive, self, min, max;
  counter<std::int64_t> bytes, flops;
  // Sums of differences from the first duration, which avoids cancellation in the variance.
  counter<double> origin, sum, sum_of_squares;
  // When this thread was last inside the problem, for other threads to read, and the overlap that
  // this thread has measured with them.
  counter<std::int64_t> active_begin, last_begin, last_end;
  counter<double> overlap, overlap_base;
  std::array<counter<float>, samples_kept> samples;
  std::array<counter<std::uint64_t>, histogram_size> histogram;

  // Used only by the writer.
  int depth = 0;
  std::uint64_t next_sample = 0;
  std::uint64_t random = 0;
  double keep = 1;

  /// Records one call of `duration` nanoseconds, of which `own` were outside nested scopes.
  void record(std::int64_t duration, std::int64_t own) noexcept {
    const std::uint64_t n = count.get();
    histogram[static_cast<std::size_t>(histogram_bucket(duration))].add(1);
    total.add(duration);
    self.add(own);
    if (depth == 0) inclusive.add(duration);
    if (n == 0) {
      origin.set(static_cast<double>(duration));
      min.set(duration);
      max.set(duration);
    } else {
      const double difference = static_cast<double>(duration) - origin.get();
      sum.add(difference);
      sum_of_squares.add(difference * difference);
      if (duration < min.get()) min.set(duration);
      if (duration > max.get()) max.set(duration);
    }
    if (n < samples_kept) {
      samples[static_cast<std::size_t>(n)].set(static_cast<float>(duration));
    } else if (n >= next_sample) {
      replace_sample(n, duration);
    }
    count.set(n + 1);
  }

  /// Measures how much of this call other threads spent in the same problem. Checks one call in
  /// sixteen, and at most eight other threads.
  void look_at_others(const span& call) noexcept {
    const std::uint64_t n = count.get();
    if (n >= 64 && n % 16 != 0) return;
    if (interned->first.load(std::memory_order_acquire) == this && next == nullptr) {
      overlap_base.add(static_cast<double>(call.end - call.begin));
      return;
    }
    look_at_list(call);
  }

  /// Marks that the thread is no longer inside the problem, although no call has ended.
  void leave_all() noexcept {
    depth = 0;
    active_begin.set(0);
  }

  void clear() noexcept {
    leave_all();
    for (auto* c :
         {&total, &inclusive, &self, &min, &max, &bytes, &flops, &last_begin, &last_end}) {
      c->set(0);
    }
    for (auto* c : {&origin, &sum, &sum_of_squares, &overlap, &overlap_base}) c->set(0);
    for (auto& bucket : histogram) bucket.set(0);
    count.set(0);
    next_sample = 0;
    keep = 1;
  }

 private:
  double uniform() noexcept {
    random += 0x9e3779b97f4a7c15u;  // splitmix64
    std::uint64_t z = random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
  }

  /// Reservoir sampling after Li, "Reservoir-sampling algorithms of time complexity
  /// O(n(1+log(N/n)))", ACM TOMS 20, 1994 (algorithm L): draws the number of calls to skip.
  [[gnu::noinline]] void replace_sample(std::uint64_t n, std::int64_t duration) noexcept {
    const auto size = static_cast<double>(samples_kept);
    if (next_sample != 0) {
      const auto slot = static_cast<std::size_t>(uniform() * size) % samples_kept;
      samples[slot].set(static_cast<float>(duration));
    }
    keep *= std::exp(std::log(uniform()) / size);
    const double skip = std::floor(std::log(uniform()) / std::log1p(-keep));
    next_sample = n + 1 + static_cast<std::uint64_t>(std::min(skip, 1e18));
  }

  [[gnu::noinline]] void look_at_list(const span& call) noexcept {
    constexpr int looks = 8;
    int others = 0, seen = 0;
    double inside = 0;
    for (const statistics* s = interned->first.load(std::memory_order_acquire); s != nullptr;
         s = s->next) {
      if (s == this) continue;
      ++others;
      if (seen == looks) continue;
      ++seen;
      const std::int64_t active = s->active_begin.get();
      if (active != 0) inside += static_cast<double>(call.overlap({active, call.end}));
      inside += static_cast<double>(call.overlap({s->last_begin.get(), s->last_end.get()}));
    }
    const auto length = static_cast<double>(call.end - call.begin);
    overlap.add(std::min(inside * others / std::max(seen, 1), length * others));
    overlap_base.add(length);
  }
};

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Division of calls into chunks, and the threading policies of parallel.hpp that run them.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <stdexcept>
#include <thread>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace vecdet {
inline namespace VECDET_ABI {

inline int threading::threads() const {
  // oneTBB counts 0 processors if the system reports none, as Wine does.
  return threads_ != all_of_arena ? threads_ : std::max(tbb::this_task_arena::max_concurrency(), 1);
}

inline bool threading::is_sequential(index_t count) const {
  return count <= 1 || (loop_ == nullptr && threads() == 1);
}

inline void threading::run(index_t count, const task& work) const {
  if (is_sequential(count)) {
    for (index_t i = 0; i < count; ++i) work(i);
  } else if (loop_ != nullptr) {
    run_on_loop_(loop_, count, work);
  } else {
    run_on_arena(count, work);
  }
}

inline void threading::run_on_arena(index_t count, const task& work) {
  // A separate context: an exception in another task of the caller cancels the caller's context,
  // but must not stop this call halfway. Isolated: while this thread waits, it must not start the
  // caller's other tasks, which would run inside this call.
  tbb::task_group_context context(tbb::task_group_context::isolated);
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<index_t>(0, count),
        [&](const tbb::blocked_range<index_t>& range) {
          for (index_t i = range.begin(); i != range.end(); ++i) work(i);
        },
        context);
  });
}

namespace detail {

/// Divides `total` items into at most max_count chunks of `size` items, at least `smallest`; only
/// the last chunk may be shorter. `size` is rounded up to a multiple of `multiple`, unless
/// `multiple` is larger.
struct chunking {
  static constexpr index_t max_count = 256;
  index_t total, size, count;

  chunking(index_t items, index_t smallest, index_t multiple = 1) noexcept : total(items) {
    size = std::max(smallest, (items + max_count - 1) / max_count);
    if (multiple <= size) size = (size + multiple - 1) / multiple * multiple;
    count = (items + size - 1) / size;
  }
  index_t begin(index_t chunk) const noexcept { return chunk * size; }
  index_t end(index_t chunk) const noexcept { return std::min(total, (chunk + 1) * size); }
};

/// The number of pieces to divide equal items into: four per thread, or fewer if the busiest thread
/// then has at least a ninth less work.
inline index_t even_pieces(index_t items, index_t threads) noexcept {
  index_t best = 1, least = items;
  for (index_t rounds = 4; rounds > 0; --rounds) {
    const index_t pieces = std::min({rounds * threads, items, chunking::max_count});
    if (pieces < 1) break;
    const index_t turns = (pieces + threads - 1) / threads;
    const index_t longest = turns * ((items + pieces - 1) / pieces);
    if (9 * longest > 8 * least) continue;
    best = pieces;
    least = longest;
  }
  return best;
}

/// The number of threads to divide work for. A policy may claim any number of threads.
inline index_t usable_threads(const threading& policy) {
  return std::min(index_t{policy.threads()}, chunking::max_count);
}

/// The set of pieces that have started. It detects a caller's loop that passes an index twice.
class started_pieces {
 public:
  /// Adds a piece and returns whether it is new.
  bool add(index_t piece) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (piece % 64);
    return (words_[piece / 64].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

 private:
  std::atomic<std::uint64_t> words_[chunking::max_count / 64] = {};
};

/// The calling thread's number. Threads are numbered in the order in which they first ask.
inline index_t this_thread_number() noexcept {
  static std::atomic<index_t> count{0};
  thread_local const index_t number = count.fetch_add(1, std::memory_order_relaxed);
  return number;
}

/// Hands out slots of scratch memory: a chunk takes one while it runs. There are as many slots as
/// threads, and a thread gets the same slot every time unless that is taken. The slot thus stays in
/// the thread's cache, and its pages in the thread's memory.
class slot_pool {
 public:
  explicit slot_pool(index_t count) noexcept : count_(std::min(count, chunking::max_count)) {
    for (index_t i = 0; i < count_; ++i) give_back(i);
  }

  index_t count() const noexcept { return count_; }
  /// Waits if the caller's loop runs more chunks concurrently than its declared number of threads.
  index_t take() noexcept {
    index_t number = this_thread_number() % count_;
    for (index_t tried = 1; slots_[number].is_taken.exchange(true, std::memory_order_acquire);
         ++tried) {
      if (++number == count_) number = 0;
      if (tried % count_ == 0) std::this_thread::yield();
    }
    return number;
  }
  /// Takes this slot, which must be free.
  void take(index_t number) noexcept {
    slots_[number].is_taken.store(true, std::memory_order_relaxed);
  }
  void give_back(index_t number) noexcept {
    slots_[number].is_taken.store(false, std::memory_order_release);
  }

 private:
  /// In a cache line of its own: threads write to their slots at the same time.
  struct alignas(64) slot {
    std::atomic<bool> is_taken;
  };

  index_t count_;
  slot slots_[chunking::max_count];
};

/// Calls work(chunk, begin, end) for every chunk. Rethrows the exception of the first chunk to
/// fail.
template <class Work>
void for_each_chunk(threading policy, const chunking& chunks, const Work& work) {
  if (policy.is_sequential(chunks.count)) {
    for (index_t c = 0; c < chunks.count; ++c) work(c, chunks.begin(c), chunks.end(c));
    return;
  }
  // Exceptions are caught here and rethrown after the loop: if one left a loop of OpenMP, it would
  // terminate the program.
  std::exception_ptr failure;
  std::atomic<bool> has_failed{false}, has_wrong_piece{false};
  started_pieces has_begun;
  std::atomic<index_t> run{0};
  const auto run_chunk = [&](index_t c) noexcept {
    if (c < 0 || c >= chunks.count || !has_begun.add(c)) {
      has_wrong_piece.store(true, std::memory_order_relaxed);
      return;
    }
    try {
      work(c, chunks.begin(c), chunks.end(c));
    } catch (...) {
      if (!has_failed.exchange(true)) failure = std::current_exception();
    }
    run.fetch_add(1, std::memory_order_relaxed);
  };
  policy.run(chunks.count, task(run_chunk));
  if (failure) std::rethrow_exception(failure);
  if (has_wrong_piece.load() || run.load() != chunks.count)
    throw std::logic_error("vecdet::threading: parallel_for did not run every piece exactly once");
}

/// The sum of work(begin, end) over all chunks, in chunk order, in double.
template <class Work>
double sum_over_chunks(threading policy, const chunking& chunks, const Work& work) {
  double partial[chunking::max_count];
  for_each_chunk(policy, chunks, [&](index_t chunk, index_t begin, index_t end) {
    partial[chunk] = work(begin, end);
  });
  double sum = 0;
  for (index_t c = 0; c < chunks.count; ++c) sum = rounded(sum + partial[c]);  // in this order
  // Always the same NaN: the compiler may choose which operand's NaN an addition propagates.
  return is_nan(sum) ? std::numeric_limits<double>::quiet_NaN() : sum;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

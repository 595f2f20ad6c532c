// SPDX-License-Identifier: Apache-2.0
// How calls are cut into chunks, and how an execution of parallel.hpp runs them.
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

inline int execution::threads() const {
  return threads_ != all_of_arena ? threads_ : tbb::this_task_arena::max_concurrency();
}

inline bool execution::is_sequential(index_t count) const {
  return count <= 1 || (loop_ == nullptr && threads() == 1);
}

inline void execution::run(index_t count, const task& work) const {
  if (is_sequential(count)) {
    for (index_t i = 0; i < count; ++i) work(i);
  } else if (loop_ != nullptr) {
    run_on_loop_(loop_, count, work);
  } else {
    run_on_arena(count, work);
  }
}

inline void execution::run_on_arena(index_t count, const task& work) {
  // A context of its own: cancelling the caller's, as an exception in another task of the caller's
  // does, must not end this call half done. Isolated: while this thread waits, it takes no other
  // task of the caller's, which would run inside this call.
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

/// `total` items in at most max_count chunks of `size` items (the last may be shorter), none but
/// the last smaller than `smallest`. `size` is rounded up to a multiple of `multiple`, unless
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

/// The threads that work is cut for: an execution may claim any number.
inline index_t usable_threads(const execution& policy) {
  return std::min(index_t{policy.threads()}, chunking::max_count);
}

/// The pieces that have begun: a loop of the caller's might name one twice, or one that is none.
class started_pieces {
 public:
  /// Whether it is new.
  bool add(index_t piece) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (piece % 64);
    return (words_[piece / 64].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

 private:
  std::atomic<std::uint64_t> words_[chunking::max_count / 64] = {};
};

/// Pieces of memory, one of which a chunk takes while it runs: as many as there are threads, so
/// that they stay in the caches. The least number that is free is taken.
class slot_pool {
 public:
  explicit slot_pool(index_t count) noexcept : count_(std::min(count, chunking::max_count)) {}

  index_t count() const noexcept { return count_; }
  /// Waits where a loop of the caller's runs more chunks at a time than it said.
  index_t take() noexcept {
    index_t number = 0;
    while (is_taken_[number].exchange(true, std::memory_order_acquire)) {
      if (++number < count_) continue;
      number = 0;
      std::this_thread::yield();
    }
    return number;
  }
  void give_back(index_t number) noexcept {
    is_taken_[number].store(false, std::memory_order_release);
  }

 private:
  index_t count_;
  std::atomic<bool> is_taken_[chunking::max_count] = {};
};

/// work(chunk, begin, end) for every chunk. Throws what the first of them to fail has thrown.
template <class Work>
void for_each_chunk(execution policy, const chunking& chunks, const Work& work) {
  if (policy.is_sequential(chunks.count)) {
    for (index_t c = 0; c < chunks.count; ++c) work(c, chunks.begin(c), chunks.end(c));
    return;
  }
  // Exceptions are held back: they must not leave a loop of the caller's, as OpenMP's, which would
  // end the program.
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
    throw std::logic_error("vecdet::execution: parallel_for has not run every piece exactly once");
}

/// The sum of work(begin, end) over all chunks, in their order, in double.
template <class Work>
double sum_over_chunks(execution policy, const chunking& chunks, const Work& work) {
  double partial[chunking::max_count];
  for_each_chunk(policy, chunks, [&](index_t chunk, index_t begin, index_t end) {
    partial[chunk] = work(begin, end);
  });
  // Volatile: in this order also where the caller compiles with -ffast-math.
  volatile double sum = 0;
  for (index_t c = 0; c < chunks.count; ++c) sum = sum + partial[c];
  // One NaN for all: which of two an addition passes on is the compiler's choice.
  return is_nan(sum) ? std::numeric_limits<double>::quiet_NaN() : sum;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Where a call runs: on the calling thread, on oneTBB's threads, or on threads of the caller's own.
// Results are the same bits in all three, for any number of threads: a call is cut into chunks by
// its size alone, and partial sums are added in the order of the chunks.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace vecdet {
inline namespace VECDET_ABI {

/// A call's work as a parallel loop of the caller's sees it: task(i) does the i-th piece. It never
/// throws, and pieces may run at the same time and in any order.
class task {
 public:
  template <class Piece>
  explicit task(const Piece& piece) noexcept
      : piece_(&piece),
        run_([](const void* of, index_t i) { (*static_cast<const Piece*>(of))(i); }) {}

  void operator()(index_t i) const { run_(piece_, i); }

 private:
  const void* piece_;
  void (*run_)(const void* piece, index_t i);
};

/// Where a call runs. Copy it freely.
class execution {
 public:
  /// On the calling thread alone.
  static const execution sequential;

  /// On all threads of the calling thread's oneTBB task arena; limit them with tbb::task_arena or
  /// tbb::global_control. The default of every function.
  static const execution parallel;

  /// On threads of the caller's own. `parallel_for(count, task)` runs task(i) once for each i in
  /// [0, count), on any threads, and returns when all have run; count is 256 at most. It is called
  /// on the thread of the call, once or several times a call, and is not copied: it has to outlive
  /// the execution. `threads`, 1 or more, says how many there are: some functions cut their work
  /// accordingly, and none depends on it for its result.
  ///
  ///     const auto openmp = [](vecdet::index_t count, const vecdet::task& task) {
  ///     #pragma omp parallel for schedule(dynamic)
  ///       for (vecdet::index_t i = 0; i < count; ++i) task(i);
  ///     };
  ///     const auto on_openmp = vecdet::execution::on(openmp, omp_get_max_threads());
  ///
  /// @throws std::invalid_argument when `threads` is below 1. The call itself throws
  /// std::logic_error when parallel_for returns before every piece has run, or has named one twice
  /// or one that is none, which it does not run; its outputs may be unfinished then.
  template <class ParallelFor>
  static execution on(const ParallelFor& parallel_for, int threads) {
    static_assert(std::is_object<ParallelFor>::value, "wrap the function in a lambda");
    detail::check(threads >= 1, "execution::on", "threads", threads, "1 or more");
    return execution(
        &parallel_for,
        [](const void* loop, index_t count, const task& work) {
          (*static_cast<const ParallelFor*>(loop))(count, work);
        },
        threads);
  }
  /// Not a temporary: it would be gone before the call.
  template <class ParallelFor>
  static execution on(const ParallelFor&& parallel_for, int threads) = delete;

  /// The threads that a call may use.
  int threads() const {
    return threads_ != all_of_arena ? threads_ : tbb::this_task_arena::max_concurrency();
  }

  /// Whether `count` pieces run one after the other on the calling thread, without a loop of the
  /// caller's.
  bool is_sequential(index_t count) const {
    return count <= 1 || (loop_ == nullptr && threads() == 1);
  }

  /// Runs task(i) for each i in [0, count).
  void run(index_t count, const task& work) const {
    if (is_sequential(count)) {
      for (index_t i = 0; i < count; ++i) work(i);
    } else if (loop_ != nullptr) {
      run_on_loop_(loop_, count, work);
    } else {
      run_on_arena(count, work);
    }
  }

 private:
  using run_loop = void (*)(const void* loop, index_t count, const task& work);
  static constexpr int all_of_arena = 0;

  constexpr explicit execution(int threads) noexcept : threads_(threads) {}
  constexpr execution(const void* loop, run_loop run_on_loop, int threads) noexcept
      : loop_(loop), run_on_loop_(run_on_loop), threads_(threads) {}

  static void run_on_arena(index_t count, const task& work) {
    // A context of its own: cancelling the caller's, as an exception in another task of the
    // caller's does, must not end this call half done. Isolated: while this thread waits, it takes
    // no other task of the caller's, which would run inside this call.
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

  const void* loop_ = nullptr;
  run_loop run_on_loop_ = nullptr;
  int threads_;
};

inline constexpr execution execution::sequential{1};
inline constexpr execution execution::parallel{all_of_arena};

namespace detail {

/// `total` items in at most max_count chunks of `size` items (the last may be shorter), none but
/// the last smaller than `smallest`; `size` is a multiple of `multiple` where that is no more.
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

/// The pieces that have begun: a loop of the caller's might name one twice, or one that is none.
class piece_set {
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
class memory_numbers {
 public:
  explicit memory_numbers(index_t count) noexcept : count_(std::min(count, chunking::max_count)) {}

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
  piece_set has_begun;
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

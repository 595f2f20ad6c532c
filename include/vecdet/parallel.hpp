// SPDX-License-Identifier: Apache-2.0
// Where a call runs: on the calling thread, on oneTBB's threads, or on threads of the caller's own.
// Results are the same bits in all three, for any number of threads: a call is cut into chunks by
// its size alone, and partial sums are added in the order of the chunks.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

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
  int threads() const;

  /// Whether `count` pieces run one after the other on the calling thread, without a loop of the
  /// caller's.
  bool is_sequential(index_t count) const;

  /// Runs task(i) for each i in [0, count).
  void run(index_t count, const task& work) const;

 private:
  using run_loop = void (*)(const void* loop, index_t count, const task& work);
  static constexpr int all_of_arena = 0;

  constexpr explicit execution(int threads) noexcept : threads_(threads) {}
  constexpr execution(const void* loop, run_loop run_on_loop, int threads) noexcept
      : loop_(loop), run_on_loop_(run_on_loop), threads_(threads) {}

  static void run_on_arena(index_t count, const task& work);

  const void* loop_ = nullptr;
  run_loop run_on_loop_ = nullptr;
  int threads_;
};

inline constexpr execution execution::sequential{1};
inline constexpr execution execution::parallel{all_of_arena};

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/chunks.hpp>

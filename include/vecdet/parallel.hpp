// SPDX-License-Identifier: Apache-2.0
// Selects the threads that a call runs on: the calling thread, oneTBB's threads, or the caller's
// own threads. Results are bit-identical in all three cases and on any number of threads, because
// the division into chunks depends only on the size of the call, and partial sums are added in
// chunk order.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// The work of a call, passed to the caller's parallel loop: task(i) executes piece i. It never
/// throws. Pieces may run concurrently and in any order.
class task {
 public:
  template <class Piece>
  explicit task(const Piece& piece) noexcept
      : piece_(&piece),
        run_([](const void* stored, index_t i) { (*static_cast<const Piece*>(stored))(i); }) {}

  void operator()(index_t i) const { run_(piece_, i); }

 private:
  const void* piece_;
  void (*run_)(const void* piece, index_t i);
};

/// The threads that a call runs on. Cheap to copy.
class threading {
 public:
  /// Only the calling thread.
  static const threading sequential;

  /// All threads of the calling thread's oneTBB task arena; limit them with tbb::task_arena or
  /// tbb::global_control. This is the default of every function.
  static const threading parallel;

  /// The caller's own threads. `parallel_for(count, task)` must run task(i) exactly once for each i
  /// in [0, count), on any threads, and return when all have finished; count is at most 256.
  /// parallel_for is called on the calling thread, once or more per call. It is not copied and must
  /// outlive the policy. `threads`, 1 or more, is the number of threads. Some functions divide
  /// their work accordingly; results do not depend on it.
  ///
  ///     const auto openmp = [](vecdet::index_t count, const vecdet::task& task) {
  ///     #pragma omp parallel for schedule(dynamic)
  ///       for (vecdet::index_t i = 0; i < count; ++i) task(i);
  ///     };
  ///     const auto on_openmp = vecdet::threading::on(openmp, omp_get_max_threads());
  ///
  /// @throws std::invalid_argument if `threads` is below 1. A call throws std::logic_error if
  /// parallel_for returns before every piece has run, or passes an index twice or out of range;
  /// such an index is not run. Outputs may then be incomplete.
  template <class ParallelFor>
  static threading on(const ParallelFor& parallel_for, int threads) {
    static_assert(std::is_object<ParallelFor>::value, "wrap the function in a lambda");
    detail::check(threads >= 1, "threading::on", "threads", threads, "1 or more");
    return threading(
        &parallel_for,
        [](const void* loop, index_t count, const task& work) {
          (*static_cast<const ParallelFor*>(loop))(count, work);
        },
        threads);
  }
  /// Deleted for temporaries, which would be destroyed before the call.
  template <class ParallelFor>
  static threading on(const ParallelFor&& parallel_for, int threads) = delete;

  /// The number of threads that a call may use.
  int threads() const;

  /// Whether `count` pieces run one after the other on the calling thread, without the caller's
  /// loop.
  bool is_sequential(index_t count) const;

  /// Runs task(i) for each i in [0, count).
  void run(index_t count, const task& work) const;

 private:
  using run_loop = void (*)(const void* loop, index_t count, const task& work);
  static constexpr int all_of_arena = 0;

  constexpr explicit threading(int threads) noexcept : threads_(threads) {}
  constexpr threading(const void* loop, run_loop run_on_loop, int threads) noexcept
      : loop_(loop), run_on_loop_(run_on_loop), threads_(threads) {}

  static void run_on_arena(index_t count, const task& work);

  const void* loop_ = nullptr;
  run_loop run_on_loop_ = nullptr;
  int threads_;
};

inline constexpr threading threading::sequential{1};
inline constexpr threading threading::parallel{all_of_arena};

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/chunks.hpp>

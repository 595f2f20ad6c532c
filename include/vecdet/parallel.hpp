// SPDX-License-Identifier: Apache-2.0
// How work is spread over threads with oneTBB. The threads are those of the caller's task arena;
// results do not depend on their number, because chunk borders follow from the size of the work
// alone and partial sums are added in the order of the chunks.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace vecdet {

/// Where a call runs: on the calling thread, or on all threads of the calling thread's task arena
/// (limit them with tbb::task_arena or tbb::global_control). The result is the same bits.
enum class execution { sequential, parallel };

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

/// The threads that a call under this policy may use.
inline int thread_count(execution policy) {
  return policy == execution::sequential ? 1 : tbb::this_task_arena::max_concurrency();
}

/// work(chunk, begin, end) for every chunk.
template <class Work>
void for_each_chunk(execution policy, const chunking& chunks, const Work& work) {
  if (chunks.count <= 1 || thread_count(policy) == 1) {
    for (index_t c = 0; c < chunks.count; ++c) work(c, chunks.begin(c), chunks.end(c));
    return;
  }
  // A context of its own: cancelling the caller's, as an exception in another task of the caller's
  // does, must not end this call half done. Isolated: while this thread waits, it takes no other
  // task of the caller's, which would run inside this call.
  tbb::task_group_context context(tbb::task_group_context::isolated);
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<index_t>(0, chunks.count),
        [&](const tbb::blocked_range<index_t>& range) {
          for (index_t c = range.begin(); c != range.end(); ++c) {
            work(c, chunks.begin(c), chunks.end(c));
          }
        },
        context);
  });
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
}  // namespace vecdet

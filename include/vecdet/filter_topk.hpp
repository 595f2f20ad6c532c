// SPDX-License-Identifier: Apache-2.0
// What a dense detector does first with its logits: those whose score is above a threshold, and of
// them the best k.
//
//   score = 1 / (1 + exp(-x)) > s      x > log(s / (1 - s))
//
// The comparison is made on logits, so that no sigmoid is computed over the tensor: one read of it,
// no write. Order is by descending logit, equal logits by lower element; NaN never passes. The
// result is the same for any number of threads.
//
// Logits are rows x cols of float or bfloat16, with any row stride and any number of elements.
// Throws std::invalid_argument where the threshold is outside [0, 1] or k is negative.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/room.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/filter_topk/filter_topk.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

/// Memory that filter_topk works in: it grows to what the largest call needs, some 32 bytes for
/// each of 2 k + 4096 candidates a thread, and is reused from then on. One call at a time.
class filter_topk_workspace {
 public:
  // What follows is for vecdet's own functions.
  std::vector<std::uint64_t> records, spare;
  std::vector<index_t> found, elements;
  std::vector<float> logits;
};

/// The best logits, descending, and the elements they are: row * cols + column. The memory is the
/// workspace's, until its next use.
struct filter_topk_result {
  vector_view<const float> logits;
  vector_view<const index_t> elements;
};

/// log(score / (1 - score)): the logit of a score; -inf at 0, +inf at 1.
inline double logit_of(double score) { return std::log(score) - std::log1p(-score); }

namespace detail {

/// The greatest float at or below x: of floats, those above it are those above x.
inline double float_at_or_below(double x) {
  const float nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x
             ? static_cast<double>(std::nextafter(nearest, -std::numeric_limits<float>::infinity()))
             : static_cast<double>(nearest);
}

/// Chunks of `items` of as many elements each. Few: each has to find its own k-th best.
inline chunking search_chunks(index_t items, index_t elements, execution policy) {
  constexpr index_t smallest = 1 << 17, largest = index_t{1} << 31;
  const index_t threads = policy.threads();
  const auto of_elements = [&](index_t count) {
    return std::max(index_t{1}, count / std::max(index_t{1}, elements));
  };
  return {items, std::min(of_elements(largest),
                          std::max(of_elements(smallest), (items + threads - 1) / threads))};
}

/// search(first, last, records, spare) leaves the best records of a chunk, and their number;
/// start(n) is told how many of all, at most k, take(i, first item of its chunk, record) gets one
/// by one: the best first, and of equal ones that of the earlier chunk.
template <class Search, class Start, class Take>
void search_best(filter_topk_workspace& ws, const chunking& chunks, index_t capacity, index_t k,
                 execution policy, const Search& search, const Start& start, const Take& take) {
  std::uint64_t* const records = room(ws.records, chunks.count * capacity);
  std::uint64_t* const spare = room(ws.spare, chunks.count * capacity);
  index_t* const found = room(ws.found, 2 * chunks.count);
  for_each_chunk(policy, chunks, [&](index_t c, index_t first, index_t last) {
    found[c] = search(first, last, records + c * capacity, spare + c * capacity);
  });
  index_t total = 0;
  for (index_t c = 0; c < chunks.count; ++c) total += found[c];
  total = std::min(total, k);
  start(total);
  index_t* const next = found + chunks.count;
  std::fill(next, next + chunks.count, index_t{0});
  for (index_t i = 0; i < total; ++i) {
    index_t best = -1;
    std::uint64_t best_key = 0;
    for (index_t c = 0; c < chunks.count; ++c) {
      if (next[c] == found[c]) continue;
      const std::uint64_t key = records[c * capacity + next[c]] >> 32;
      if (best >= 0 && key >= best_key) continue;
      best = c;
      best_key = key;
    }
    take(i, chunks.begin(best), records[best * capacity + next[best]++]);
  }
}

}  // namespace detail

namespace detail_filter_topk {

template <class T>
filter_topk_result run(isa target, matrix_view<T> logits, double score_threshold, index_t k,
                       filter_topk_workspace& workspace, execution policy) {
  using stored = std::remove_const_t<T>;
  detail::check(detail::is_within(score_threshold, 0, 1), "filter_topk", "score_threshold",
                score_threshold, "a number in [0, 1]");
  detail::check(k >= 0, "filter_topk", "k", k, "0 or more");
  const index_t size = logits.size();
  if (size == 0 || k == 0) return {};
  const profile::scope timing([&] {
    return profile::problem{"filter_topk",
                            profile::numbered_name("threshold", score_threshold),
                            dtype_name<stored>(),
                            {logits.rows(), logits.cols()},
                            isa_name(target),
                            policy.threads(),
                            size * index_t{sizeof(T)},
                            size};  // a maximum a logit; few pass, and are compared as integers
  });

  const detail::chunking chunks = detail::search_chunks(size, 1, policy);
  detail::filter_topk_args<stored> args{};
  args.logits = logits.data();
  args.cols = logits.cols();
  args.stride = logits.stride();
  args.threshold = detail::float_at_or_below(logit_of(score_threshold));
  args.limit = k;
  args.capacity = detail::filter_topk_capacity(k, chunks.size);
  const auto search = detail::kernels<detail::filter_topk_kernels<stored>>(target).search;
  index_t total = 0;
  index_t* elements = nullptr;
  float* values = nullptr;
  detail::search_best(
      workspace, chunks, args.capacity, k, policy,
      [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
        return search(args, first, last, records, spare);
      },
      [&](index_t count) {
        total = count;
        elements = detail::room(workspace.elements, count);
        values = detail::room(workspace.logits, count);
      },
      [&](index_t i, index_t first, std::uint64_t record) {
        elements[i] = first + static_cast<index_t>(record & 0xffffffffu);
        values[i] = detail::score_of_record(record);
      });
  return {{values, total}, {elements, total}};
}

}  // namespace detail_filter_topk

/// The best k of the logits whose score is above `score_threshold`.
template <class T>
filter_topk_result filter_topk(matrix_view<T> logits, double score_threshold, index_t k,
                               filter_topk_workspace& workspace,
                               execution policy = execution::parallel) {
  return detail_filter_topk::run(active_isa(), logits, score_threshold, k, workspace, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The functions of filter_topk.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/workspace.hpp>
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
void search_best(filter_topk_buffers& ws, const chunking& chunks, index_t capacity, index_t k,
                 execution policy, const Search& search, const Start& start, const Take& take) {
  std::uint64_t* const records = grown(ws.records, chunks.count * capacity);
  std::uint64_t* const spare = grown(ws.spare, chunks.count * capacity);
  index_t* const found = grown(ws.found, 2 * chunks.count);
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

template <class T>
filter_topk_result run_filter_topk(isa target, matrix_view<T> logits, double score_threshold,
                                   index_t k, filter_topk_buffers& workspace, execution policy) {
  using stored = std::remove_const_t<T>;
  check(is_within(score_threshold, 0, 1), "filter_topk", "score_threshold", score_threshold,
        "a number in [0, 1]");
  check(k >= 0, "filter_topk", "k", k, "0 or more");
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

  const chunking chunks = search_chunks(size, 1, policy);
  filter_topk_args<stored> args{};
  args.logits = logits.data();
  args.cols = logits.cols();
  args.stride = logits.stride();
  args.threshold = float_at_or_below(logit_of(score_threshold));
  args.limit = k;
  args.capacity = filter_topk_capacity(k, chunks.size);
  const auto search = kernels<filter_topk_kernels<stored>>(target).search;
  index_t total = 0;
  index_t* elements = nullptr;
  float* values = nullptr;
  search_best(
      workspace, chunks, args.capacity, k, policy,
      [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
        return search(args, first, last, records, spare);
      },
      [&](index_t count) {
        total = count;
        elements = grown(workspace.elements, count);
        values = grown(workspace.logits, count);
      },
      [&](index_t i, index_t first, std::uint64_t record) {
        elements[i] = first + static_cast<index_t>(record & 0xffffffffu);
        values[i] = score_of_record(record);
      });
  return {{values, total}, {elements, total}};
}

}  // namespace detail

template <class T>
filter_topk_result filter_topk(matrix_view<T> logits, double score_threshold, index_t k,
                               filter_topk_workspace& workspace, execution policy) {
  return detail::run_filter_topk(active_isa(), logits, score_threshold, k,
                                 detail::workspace_access::buffers(workspace), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

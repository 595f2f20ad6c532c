// SPDX-License-Identifier: Apache-2.0
// The functions of filter_topk.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/quantised_numbers.hpp>
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

/// The greatest float at or below x. A float is above x exactly if it is above this float.
inline double float_at_or_below(double x) {
  const float nearest = rounded(static_cast<float>(x));
  return static_cast<double>(nearest) > x
             ? static_cast<double>(std::nextafter(nearest, -std::numeric_limits<float>::infinity()))
             : static_cast<double>(nearest);
}

/// With VECDET_CHECK=1, reports logits of a head that look like probabilities.
template <class T>
void look_at_logits(const char* function, const char* argument, const head_view<T>& logits) {
  if (!checks_input()) return;
  logits_look look;
  for (index_t l = 0; l < logits.levels().size(); ++l) {
    const level_steps steps(logits, l);
    for (index_t n = 0; n < logits.images(); ++n)
      for (index_t at = 0; at < logits.locations(l); ++at)
        for (index_t a = 0; a < logits.anchors(); ++a)
          for (index_t c = 0; c < logits.classes(); ++c)
            look.add(logits.levels()[l].data[n * steps.image + at * steps.location +
                                             a * steps.anchor + c * steps.number]);
  }
  look.report(function, argument);
}

/// The least number of elements in a chunk of a search: ten microseconds of work. Elements take
/// longer if no threshold excludes any.
inline index_t smallest_search(double threshold) {
  return is_minus_infinity(threshold) ? 1 << 14 : 1 << 17;
}

/// Divides `items` with `elements` elements each into chunks. There are few chunks, because each
/// must find its own k-th best.
inline chunking search_chunks(index_t items, index_t elements, threading policy, index_t smallest) {
  constexpr index_t largest = index_t{1} << 31;
  const index_t threads = policy.threads();
  const auto items_of = [&](index_t count) {
    return std::max(index_t{1}, count / std::max(index_t{1}, elements));
  };
  return {items, std::min(items_of(largest),
                          std::max(items_of(smallest), (items + threads - 1) / threads))};
}

/// What the chunks of a search have found: chunk c has found[c] records from records[c * capacity]
/// on, best first.
struct chunk_records {
  /// Greater than the keys of all records.
  static constexpr std::uint64_t greatest_key = std::uint64_t{1} << 32;

  const std::uint64_t* records;
  index_t capacity;
  const index_t* found;
  index_t chunks;

  const std::uint64_t* of(index_t chunk) const { return records + chunk * capacity; }
  std::uint64_t key(index_t chunk, index_t i) const { return of(chunk)[i] >> 32; }
  /// How many of a chunk's records have keys below this one.
  index_t below(index_t chunk, std::uint64_t key) const {
    if (key >= greatest_key) return found[chunk];
    return std::lower_bound(of(chunk), of(chunk) + found[chunk], key << 32) - of(chunk);
  }
};

/// Calls take(i, chunk, record) for the best `total` records, best first. `next` has an element for
/// each chunk.
template <class Take>
void merge_few(const chunk_records& from, index_t total, index_t* next, const Take& take) {
  std::fill(next, next + from.chunks, index_t{0});
  for (index_t i = 0; i < total; ++i) {
    index_t best = -1;
    std::uint64_t best_key = 0;
    for (index_t c = 0; c < from.chunks; ++c) {
      if (next[c] == from.found[c]) continue;
      const std::uint64_t key = from.key(c, next[c]);
      if (best >= 0 && key >= best_key) continue;
      best = c;
      best_key = key;
    }
    take(i, best, from.of(best)[next[best]++]);
  }
}

/// Counts the records of each chunk that may be among the best `total`. Returns their sum.
inline index_t count_best(const chunk_records& from, index_t total, index_t* counts) {
  // The first records of each chunk, as many as make `total`, have keys up to a bound.
  index_t each = (total + from.chunks - 1) / from.chunks;
  const auto first_ones = [&](index_t c) { return std::min(from.found[c], each); };
  for (;; each *= 2) {
    index_t sum = 0;
    for (index_t c = 0; c < from.chunks; ++c) sum += first_ones(c);
    if (sum >= total) break;
  }
  std::uint64_t bound = 0;
  for (index_t c = 0; c < from.chunks; ++c)
    if (first_ones(c) > 0) bound = std::max(bound, from.key(c, first_ones(c) - 1));
  index_t all = 0;
  for (index_t c = 0; c < from.chunks; ++c) {
    counts[c] = from.below(c, bound + 1);
    all += counts[c];
  }
  return all;
}

/// As merge_few(), but on threads. Keys are divided into ranges, and each piece of work sorts the
/// records of one range. A sample of the keys makes the ranges about equal.
template <class Take>
void merge_many(isa target, const chunk_records& found, index_t total, index_t* counts,
                filter_topk_buffers& buffers, threading policy, const Take& take) {
  constexpr index_t sampled = 8, in_range = 2048;
  const index_t all = count_best(found, total, counts);
  const chunk_records from{found.records, found.capacity, counts, found.chunks};
  const index_t ranges = std::min(all / in_range + 1, chunking::max_count);
  const index_t wanted = sampled * ranges + from.chunks;
  const index_t step = (all + wanted - 1) / wanted;
  std::uint64_t sample[(sampled + 2) * chunking::max_count];
  index_t samples = 0;
  for (index_t c = 0; c < from.chunks; ++c)
    for (index_t i = step / 2; i < counts[c]; i += step) sample[samples++] = from.key(c, i);
  std::sort(sample, sample + samples);
  const auto first_key = [&](index_t range) {
    return range == 0        ? std::uint64_t{0}
           : range == ranges ? chunk_records::greatest_key
                             : sample[samples * range / ranges];
  };
  std::uint64_t* const merged = grown(buffers.merged, all);
  std::uint64_t* const spare = buffers.spare.data();
  const auto sort = kernels<filter_topk_kernels<float>>(target).sort;
  for_each_chunk(policy, chunking(ranges, 1), [&](index_t, index_t range, index_t) {
    const std::uint64_t low = first_key(range), high = first_key(range + 1);
    index_t begin = 0;
    for (index_t c = 0; c < from.chunks; ++c) begin += from.below(c, low);
    if (begin >= total) return;
    // A key and the record's place: records of equal keys then stay in the order of their chunks.
    index_t count = 0;
    std::uint64_t* const own = merged + begin;
    for (index_t c = 0; c < from.chunks; ++c) {
      const index_t end = from.below(c, high);
      for (index_t i = from.below(c, low); i < end; ++i)
        own[count++] = from.key(c, i) << 32 | static_cast<std::uint64_t>(c * from.capacity + i);
    }
    sort(own, spare + begin, count);
    for (index_t i = 0; i < count && begin + i < total; ++i) {
      const auto place = static_cast<index_t>(own[i] & 0xffffffffu);
      take(begin + i, place / from.capacity, from.records[place]);
    }
  });
}

/// search(first, last, records, spare) finds the best records of a chunk and returns their number.
/// The results are the best of all chunks' records, at most k. start(n) is called with their
/// number, then take(i, first item of the chunk, record) for each, in any order and on any thread:
/// i is its place among the results, best first; ties are in chunk order.
template <class Search, class Start, class Take>
void search_best(isa target, filter_topk_buffers& buffers, const chunking& chunks, index_t capacity,
                 index_t k, threading policy, const Search& search, const Start& start,
                 const Take& take) {
  std::uint64_t* const records = grown(buffers.records, chunks.count * capacity);
  std::uint64_t* const spare = grown(buffers.spare, chunks.count * capacity);
  index_t* const found = grown(buffers.found, 2 * chunks.count);
  for_each_chunk(policy, chunks, [&](index_t c, index_t first, index_t last) {
    found[c] = search(first, last, records + c * capacity, spare + c * capacity);
  });
  const chunk_records from{records, capacity, found, chunks.count};
  index_t total = 0;
  for (index_t c = 0; c < chunks.count; ++c) total += found[c];
  total = std::min(total, k);
  start(total);
  const auto take_of_chunk = [&](index_t i, index_t chunk, std::uint64_t record) {
    take(i, chunks.begin(chunk), record);
  };
  // With few records or chunks, sorting would take longer. Places have 32 bits.
  constexpr index_t most_compared = 16384;
  index_t* const counts = found + chunks.count;
  if (total * chunks.count <= most_compared || chunks.count == 1 ||
      chunks.count * capacity > index_t{1} << 32) {
    merge_few(from, total, counts, take_of_chunk);
  } else {
    merge_many(target, from, total, counts, buffers, policy, take_of_chunk);
  }
}

/// The greatest float that is not selected.
inline double search_threshold(double score_threshold, score_kind kind) {
  return float_at_or_below(kind == score_kind::logits ? logit_of(score_threshold)
                                                      : score_threshold);
}

/// A class's limit of logits, for filter_topk_args.
inline float logit_limit(double score_threshold) {
  return static_cast<float>(search_threshold(score_threshold, score_kind::logits));
}

inline void check_search(double score_threshold, index_t k) {
  check(is_within(score_threshold, 0, 1), "filter_topk", "score_threshold", score_threshold,
        "a number in [0, 1]");
  check(k >= 0, "filter_topk", "k", k, "0 or more");
}

/// Appends the results of search_best to the `count` results in the buffers and returns the new
/// count. Each item has `elements` elements; element indices start at `first_element`.
template <class Search>
index_t append_best(isa target, filter_topk_buffers& buffers, const chunking& chunks,
                    index_t elements, index_t capacity, index_t k, index_t count,
                    index_t first_element, threading policy, const Search& search) {
  index_t total = 0;
  search_best(
      target, buffers, chunks, capacity, k, policy, search,
      [&](index_t found) {
        total = found;
        grown(buffers.elements, count + found);
        grown(buffers.logits, count + found);
      },
      [&](index_t i, index_t first, std::uint64_t record) {
        buffers.elements[static_cast<std::size_t>(count + i)] =
            first_element + first * elements + static_cast<index_t>(record & 0xffffffffu);
        buffers.logits[static_cast<std::size_t>(count + i)] = score_of_record(record);
      });
  return count + total;
}

/// The search for the best of a matrix's elements, with a threshold for chunks of this size.
template <class T>
filter_topk_args<value_of<T>> matrix_search(const matrix_view<T>& logits, double threshold,
                                            index_t limit, index_t chunk_size) {
  filter_topk_args<value_of<T>> args{};
  args.logits = logits.data();
  args.cols = logits.cols();
  args.stride = logits.stride();
  args.threshold = threshold;
  args.limit = limit;
  args.capacity = filter_topk_capacity(limit, chunk_size);
  return args;
}

/// Returns a threshold that probably more than k elements exceed, but not many more. It is the
/// given one if few elements exceed that, or a sample is not worth its time. Without this, each
/// chunk of a search would raise the threshold in small steps, and sort thousands of records after
/// each.
///
/// The sample is one stretch of each 64, so it should have k / 64 of the best k elements. The
/// result is the sample's element number 2.5 k / 64 + 16 from the top: high elements often occur
/// together, so the sample may have more of them.
template <class T>
double likely_threshold(isa target, const matrix_view<T>& logits, double threshold, index_t k,
                        filter_topk_buffers& buffers, threading policy) {
  constexpr index_t stretch = 512, every = 64, fewest = 1 << 20, fewest_per_result = 256;
  const index_t size = logits.size();
  const bool is_dense = logits.stride() == logits.cols() || logits.rows() == 1;
  if (!is_dense || size < fewest || k > size / fewest_per_result) return threshold;
  const matrix_view<T> sample(logits.data(), size / (stretch * every), stretch, stretch * every);
  const index_t rank = 5 * k / (2 * every) + 16;
  const chunking chunks = search_chunks(sample.size(), 1, policy, smallest_search(threshold) / 4);
  const auto args = matrix_search(sample, threshold, rank, chunks.size);
  const auto search = kernels<filter_topk_kernels<value_of<T>>>(target).search;
  double likely = threshold;
  search_best(
      target, buffers, chunks, args.capacity, rank, policy,
      [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
        return search(args, first, last, records, spare);
      },
      [](index_t) {},
      [&](index_t i, index_t, std::uint64_t record) {
        if (i == rank - 1) likely = static_cast<double>(score_of_record(record));
      });
  return likely;
}

/// append_best() for a matrix.
template <class T>
index_t append_best_of_rows(isa target, const matrix_view<T>& logits, double threshold, index_t k,
                            index_t count, index_t first_element, filter_topk_buffers& buffers,
                            threading policy, const float* class_limits = nullptr) {
  const chunking chunks = search_chunks(logits.size(), 1, policy, smallest_search(threshold));
  const auto search = kernels<filter_topk_kernels<value_of<T>>>(target).search;
  const auto append_above = [&](double least) {
    auto args = matrix_search(logits, least, k, chunks.size);
    args.class_limits = class_limits;
    return append_best(
        target, buffers, chunks, 1, args.capacity, k, count, first_element, policy,
        [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
          return search(args, first, last, records, spare);
        });
  };
  if (class_limits == nullptr) {
    const double likely = likely_threshold(target, logits, threshold, k, buffers, policy);
    const index_t all = append_above(likely);
    if (all - count == k || !(likely > threshold)) return all;
  }
  return append_above(threshold);
}

template <class T>
index_t append_best_of_rows(isa target, const quantised_matrix<T>& logits, double threshold,
                            index_t k, index_t count, index_t first_element,
                            filter_topk_buffers& buffers, threading policy,
                            const float* class_limits = nullptr) {
  const chunking chunks = search_chunks(logits.size(), 1, policy, smallest_search(threshold));
  const quantised_numbers numbers(logits);
  quantised_search_args args = numbers.search_args();
  args.scores = numbers.bytes(0);
  args.classes = logits.cols();
  args.threshold = threshold;
  args.limit = k;
  args.capacity = filter_topk_capacity(k, chunks.size);
  args.class_limits = class_limits;
  const auto search = kernels<quantised_kernels>(target).search;
  return append_best(
      target, buffers, chunks, 1, args.capacity, k, count, first_element, policy,
      [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
        return search(args, first, last, records, spare);
      });
}

/// A level of one image of a head in NCHW.
template <class T>
plane_search_args<value_of<T>> plane_args(const head_view<T>& logits, index_t image,
                                          index_t level) {
  const level_steps steps(logits, level);
  plane_search_args<value_of<T>> args{};
  args.logits = logits.levels()[level].data + image * steps.image;
  args.anchors = logits.anchors();
  args.classes = logits.classes();
  args.plane = steps.number;
  args.anchor_step = steps.anchor;
  return args;
}

/// A level of one image of a head in NHWC.
template <class T>
matrix_view<T> level_rows(const head_view<T>& logits, index_t image, index_t level) {
  const level_steps steps(logits, level);
  return {logits.levels()[level].data + image * steps.image,
          logits.locations(level) * logits.anchors(), logits.classes(), logits.channels()};
}

/// append_best() for a level of one image.
template <class T>
index_t append_level_best(isa target, const head_view<T>& logits, index_t image, index_t level,
                          double threshold, index_t k, index_t count, index_t first_element,
                          filter_topk_buffers& buffers, threading policy,
                          const float* class_limits = nullptr) {
  const index_t per_location = logits.anchors() * logits.classes();
  if (per_location * logits.locations(level) == 0 || k == 0) return count;
  if (logits.layout() == head_layout::nhwc) {
    return append_best_of_rows(target, level_rows(logits, image, level), threshold, k, count,
                               first_element, buffers, policy, class_limits);
  }
  const chunking chunks =
      search_chunks(logits.locations(level), per_location, policy, smallest_search(threshold));
  auto args = plane_args(logits, image, level);
  args.threshold = threshold;
  args.limit = k;
  args.capacity = filter_topk_capacity(k, chunks.size * per_location);
  args.class_limits = class_limits;
  const auto search = kernels<filter_topk_kernels<value_of<T>>>(target).search_planes;
  return append_best(
      target, buffers, chunks, per_location, args.capacity, k, count, first_element, policy,
      [&](index_t first, index_t last, std::uint64_t* records, std::uint64_t* spare) {
        return search(args, first, last, records, spare);
      });
}

/// filter_topk() of a matrix_view or a quantised_matrix.
template <class Matrix>
filter_topk_result run_filter_topk(isa target, const Matrix& logits, double score_threshold,
                                   index_t k, filter_topk_buffers& buffers, threading policy,
                                   score_kind kind = score_kind::logits,
                                   const float* class_limits = nullptr) {
  check_search(score_threshold, k);
  const index_t size = logits.size();
  if (size == 0 || k == 0) return {};
  const profile::scope timing([&] {
    return profile::problem{
        "filter_topk",
        profile::numbered_name(kind == score_kind::logits ? "threshold" : "probability",
                               score_threshold),
        dtype_of(logits),
        {logits.rows(), logits.cols()},
        isa_name(target),
        policy.threads(),
        bytes_of(logits),
        size};  // one maximum per logit; the few that pass are compared as integers
  });
  const index_t total = append_best_of_rows(target, logits, search_threshold(score_threshold, kind),
                                            k, 0, 0, buffers, policy, class_limits);
  return {{buffers.logits.data(), total}, {buffers.elements.data(), total}};
}

template <class T>
filter_topk_levels_result run_level_filter_topk(isa target, const head_view<T>& logits,
                                                double score_threshold, index_t k,
                                                filter_topk_buffers& buffers, threading policy,
                                                score_kind kind) {
  check_search(score_threshold, k);
  const index_t levels = logits.levels().size(), groups = logits.images() * levels;
  index_t* const offsets = grown(buffers.offsets, groups + 1);
  offsets[0] = 0;
  const profile::scope timing([&] {
    return profile::problem{"filter_topk",
                            levels_variant(logits.layout()),
                            dtype_name<value_of<T>>(),
                            {logits.images(), logits.anchors_per_image(), logits.classes()},
                            isa_name(target),
                            policy.threads(),
                            logits.size() * index_t{sizeof(T)},
                            logits.size()};
  });
  const double threshold = search_threshold(score_threshold, kind);
  index_t count = 0;
  for (index_t n = 0; n < logits.images(); ++n) {
    index_t first_anchor = 0;
    for (index_t l = 0; l < levels; ++l) {
      count = append_level_best(target, logits, n, l, threshold, k, count,
                                first_anchor * logits.classes(), buffers, policy);
      offsets[n * levels + l + 1] = count;
      first_anchor += logits.locations(l) * logits.anchors();
    }
  }
  return {{buffers.logits.data(), count}, {buffers.elements.data(), count}, {offsets, groups + 1}};
}

}  // namespace detail

template <class T>
filter_topk_result filter_topk(matrix_view<T> logits, double score_threshold, index_t k,
                               filter_topk_workspace& workspace, threading policy,
                               score_kind kind) {
  static_assert(!std::is_integral<T>::value, "integers need a scale: quantised_matrix");
  if (kind == score_kind::logits) detail::look_at_logits("filter_topk", "logits", logits);
  return detail::run_filter_topk(active_isa(), logits, score_threshold, k,
                                 detail::workspace_access::buffers(workspace), policy, kind);
}

template <class T>
filter_topk_levels_result filter_topk(const head_view<T>& logits, double score_threshold, index_t k,
                                      filter_topk_workspace& workspace, threading policy,
                                      score_kind kind) {
  if (kind == score_kind::logits) detail::look_at_logits("filter_topk", "logits", logits);
  return detail::run_level_filter_topk(active_isa(), logits, score_threshold, k,
                                       detail::workspace_access::buffers(workspace), policy, kind);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Threshold and top-k in one read of the logits. Blocks of 128 logits are reduced to their
// greatest, so that a block without any above the threshold costs a load and a max for each vector.
// Whenever the memory for those that pass is full, the best k stay and the k-th becomes the
// threshold: later logits that equal it would lose the tie.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/radix_sort.hpp>
#include <vecdet/kernels/score_key.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/math.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::filter_topk_args;
using detail::row_score;
using detail::row_search_args;

/// Asks for the cache line some bytes behind an address, which may lie outside the caller's memory.
VECDET_INLINE void prefetch_behind(const void* address, std::uintptr_t bytes) {
  const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(address) + bytes;
  __builtin_prefetch(reinterpret_cast<const void*>(behind), 0, 0);
}

/// The records found so far.
template <class T>
class topk_search {
  using real = compute_type<T>;
  using reals = row_pack<real>;
  static constexpr int lanes = 16, block = 128;
  // Ahead of what the hardware prefetches, which stops at pages.
  static constexpr std::uintptr_t ahead = 6144;

 public:
  topk_search(const filter_topk_args<T>& args, uint64_t* records, uint64_t* spare)
      : threshold_(static_cast<real>(args.threshold)),
        limit_(args.limit),
        most_before_block_(args.capacity - block),
        records_(records),
        spare_(spare) {}

  /// `size` logits, of which the first is element `element`.
  VECDET_INLINE void scan(const T* logits, index_t size, index_t element) {
    index_t i = 0;
    for (; i + block <= size; i += block) {
      for (int k = 0; k < block; k += static_cast<int>(64 / sizeof(T)))
        prefetch_behind(logits + i + k, ahead);
      reals greatest(-__builtin_huge_val());
      VECDET_UNROLL
      for (int k = 0; k < block; k += lanes)
        greatest = max(load(logits + i + k), greatest);  // skips NaN
      if (__builtin_expect(to_bits(greatest > reals(threshold_)) != 0, 0))
        take(logits + i, block, element + i);
    }
    if (size - i >= lanes) {
      scan_rest(logits + i, size - i, element + i);
    } else if (i < size) {
      take(logits + i, size - i, element + i);
    }
  }

  /// Leaves the best k, best first, in the records.
  index_t finish() {
    keep_best();
    return count_;
  }

 private:
  static VECDET_INLINE reals load(const T* logits) { return load_pack<reals::batches>(logits); }

  /// 16 to 127 logits: whole rows where there is a stride.
  VECDET_INLINE void scan_rest(const T* logits, index_t size, index_t element) {
    reals greatest = max(load(logits + size - lanes), reals(-__builtin_huge_val()));  // skips NaN
    for (index_t i = 0; i + lanes < size; i += lanes) {
      prefetch_behind(logits + i, ahead);
      greatest = max(load(logits + i), greatest);
    }
    if (__builtin_expect(to_bits(greatest > reals(threshold_)) != 0, 0))
      take(logits, size, element);
  }

  /// Takes those above the threshold, of a block at most.
  VECDET_NOINLINE void take(const T* logits, index_t size, index_t element) {
    index_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      uint32_t bits = to_bits(load(logits + i) > reals(threshold_));
      for (; bits != 0; bits &= bits - 1) {
        const index_t lane = i + lowest_bit(bits);
        record(logits[lane], element + lane);
      }
    }
    const int rest = static_cast<int>(size - i);  // below 16
    for (int lane = 0; lane < rest; ++lane, ++i)
      if (static_cast<real>(logits[i]) > threshold_) record(logits[i], element + i);
    if (count_ > most_before_block_) keep_best();
  }
  VECDET_INLINE void record(T logit, index_t element) {
    records_[count_++] = static_cast<uint64_t>(descending_key(static_cast<real>(logit))) << 32 |
                         static_cast<uint64_t>(element);
  }

  VECDET_NOINLINE void keep_best() {
    radix_sort(records_, spare_, count_);
    if (count_ < limit_) return;
    count_ = limit_;
    const real last = detail::score_of_record(records_[limit_ - 1]);
    threshold_ = last > threshold_ ? last : threshold_;
  }

  real threshold_;
  index_t limit_, most_before_block_, count_ = 0;
  uint64_t *records_, *spare_;
};

template <class T>
index_t search_topk(const filter_topk_args<T>& args, index_t first, index_t last, uint64_t* records,
                    uint64_t* spare) {
  topk_search<T> search(args, records, spare);
  if (args.stride == args.cols) {
    search.scan(args.logits + first, last - first, 0);
    return search.finish();
  }
  index_t row = first / args.cols, col = first % args.cols;
  for (index_t i = first; i < last; ++row, col = 0) {
    const index_t size = args.cols - col < last - i ? args.cols - col : last - i;
    search.scan(args.logits + row * args.stride + col, size, i - first);
    i += size;
  }
  return search.finish();
}

/// log(sum exp(row)), which is greatest + rest: in one number, a large logit would swallow the
/// rest.
struct log_sum {
  double greatest, rest;
};

/// The rest is NaN where a logit is NaN or +inf.
template <class T>
VECDET_INLINE log_sum log_sum_exp(const T* row, index_t cols) {
  constexpr int batches = row_pack<float>::batches;
  using floats = row_pack<float>;
  // The row with its last 16 filled up by -inf.
  const index_t full = cols / 16 * 16;
  alignas(64) T rest[16];
  for (index_t i = 0; i < 16; ++i)
    rest[i] = full + i < cols ? row[full + i] : T(-__builtin_huge_valf());
  floats greatest = load_pack<batches>(rest);
  uint32_t nan = to_bits(greatest != greatest);
  for (index_t i = 0; i < full; i += 16) {
    const floats x = load_pack<batches>(row + i);
    nan |= to_bits(x != x);
    greatest = max(x, greatest);
  }
  alignas(64) float lane[16];
  store_pack<batches>(lane, greatest);
  const float most = greatest16(lane);
  if (nan != 0 || !(most < __builtin_huge_valf())) return {0, __builtin_nan("")};
  floats sum = exp_minus_abs(load_pack<batches>(rest) - floats(most));
  for (index_t i = 0; i < full; i += 16)
    sum = sum + exp_minus_abs(load_pack<batches>(row + i) - floats(most));
  store_pack<batches>(lane, sum);
  double total = 0;
  for (int i = 0; i < 16; ++i) total += static_cast<double>(lane[i]);
  return {static_cast<double>(most), __builtin_log(total)};
}

/// The logits that pass are those above a bound of their row, found without exp; their score is
/// computed, and decides.
template <class T>
index_t search_row_scores(const row_search_args<T>& args, index_t first, index_t last,
                          uint64_t* records, uint64_t* spare) {
  constexpr int batches = row_pack<float>::batches;
  const bool softmax = args.kind == row_score::softmax;
  constexpr double slack = 1e-4;  // of a bound, for what rounding does to it
  const index_t columns = args.cols;
  const index_t nearly_full = args.capacity - columns;
  float threshold = static_cast<float>(args.score_threshold);  // as frameworks compare it
  index_t count = 0;
  for (index_t r = first; r < last; ++r) {
    const T* const row = args.logits + r * args.stride;
    log_sum sum{0, 0};
    double centre = 1, bound;
    if (softmax) {
      sum = log_sum_exp(row, columns);
      bound = __builtin_log(static_cast<double>(threshold)) - slack + sum.rest + sum.greatest;
    } else {
      centre = 1 / (1 + __builtin_exp(-static_cast<double>(args.centerness[r])));
      const double p = static_cast<double>(threshold) * static_cast<double>(threshold) / centre;
      if (p >= 1) continue;
      bound = __builtin_log(p / (1 - p)) - slack;
    }
    // One float lower, as a large logit's is less precise than the slack.
    const float below = __builtin_nextafterf(static_cast<float>(bound), -__builtin_huge_valf());
    const auto take = [&](index_t col) {
      const auto x = static_cast<double>(row[col]);
      const double score = softmax ? __builtin_exp(x - sum.greatest - sum.rest)
                                   : __builtin_sqrt(centre / (1 + __builtin_exp(-x)));
      const auto rounded_score = static_cast<float>(score);
      if (!(rounded_score > threshold)) return;
      records[count++] = static_cast<uint64_t>(descending_key(rounded_score)) << 32 |
                         static_cast<uint64_t>((r - first) * columns + col);
    };
    index_t col = softmax ? 1 : 0;
    for (; col + 16 <= columns; col += 16) {
      const auto x = load_pack<batches>(row + col);
      for (uint32_t bits = to_bits(x > row_pack<float>(below)); bits != 0; bits &= bits - 1)
        take(col + lowest_bit(bits));
    }
    for (; col < columns; ++col)
      if (static_cast<float>(row[col]) > below) take(col);
    if (count <= nearly_full) continue;
    radix_sort(records, spare, count);
    if (count < args.limit) continue;
    count = args.limit;
    threshold = detail::score_of_record(records[count - 1]);
  }
  radix_sort(records, spare, count);
  return count < args.limit ? count : args.limit;
}

template <class T>
struct kernels_of<detail::filter_topk_kernels<T>> {
  static constexpr detail::filter_topk_kernels<T> get() {
    detail::filter_topk_kernels<T> kernels{};
    kernels.search = search_topk<T>;
    kernels.search_rows = search_row_scores<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

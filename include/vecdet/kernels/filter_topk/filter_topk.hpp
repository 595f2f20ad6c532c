// SPDX-License-Identifier: Apache-2.0
// Threshold and top-k in one read of the logits. Blocks of 128 logits are reduced to their maximum,
// so a block without a logit above the threshold costs one load and one max per vector. Whenever
// the memory for passing logits is full, the best k stay and the k-th becomes the threshold: a
// later logit equal to it would lose the tie. Planes of classes are not scanned in the order of the
// elements. There, equal logits pass as well, and records are sorted by element first.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/kernels/best_records.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/prefetch.hpp>
#include <vecdet/kernels/radix_sort.hpp>
#include <vecdet/kernels/score_key.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/math.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::filter_topk_args;
using detail::plane_search_args;
using detail::row_score;
using detail::row_search_args;

/// The records found so far.
template <class T>
class topk_search {
  using real = compute_type<T>;
  using reals = row_pack<real>;
  static constexpr int lanes = 16, block = 128;

 public:
  topk_search(const filter_topk_args<T>& args, index_t first, uint64_t* records, uint64_t* spare)
      : threshold_(static_cast<real>(args.threshold)),
        limit_(args.limit),
        most_before_block_(args.capacity - block),
        class_limits_(args.class_limits),
        classes_(args.cols),
        first_(first),
        records_(records),
        spare_(spare) {}
  topk_search(const plane_search_args<T>& args, uint64_t* records, uint64_t* spare)
      : threshold_(static_cast<real>(args.threshold)),
        limit_(args.limit),
        most_before_block_(args.capacity - block),
        step_(args.anchors * args.classes),
        is_in_order_(false),
        class_limits_(args.class_limits),
        classes_(args.classes),
        records_(records),
        spare_(spare) {}

  /// Scans `size` logits: the first is element `element`, and each next one is step_ elements
  /// further. `looks`: least() covers them.
  template <bool looks = false>
  VECDET_INLINE void scan(const T* logits, index_t size, index_t element) {
    index_t i = 0;
    for (; i + block <= size; i += block) {
      VECDET_UNROLL
      for (int k = 0; k < block; k += static_cast<int>(64 / sizeof(T)))
        prefetch_behind(logits + i + k, stream_ahead);
      reals greatest(-infinity<real>()), least(0);
      VECDET_UNROLL
      for (int k = 0; k < block; k += lanes) {
        const reals x = load(logits + i + k);
        greatest = max(x, greatest);  // skips NaN
        if constexpr (looks) least = min(x, least);
      }
      if constexpr (looks) least_ = min(least, least_);
      if (__builtin_expect(to_bits(greatest > reals(threshold_)) != 0, 0))
        take(logits + i, block, element + i * step_);
    }
    if constexpr (looks) look(logits + i, size - i);
    if (size - i >= lanes) {
      scan_rest(logits + i, size - i, element + i * step_);
    } else if (i < size) {
      take(logits + i, size - i, element + i * step_);
    }
  }

  /// Whether a logit that scan() has looked at is below `limit`.
  bool is_any_below(real limit) const {
    return least_of_rest_ < limit || to_bits(least_ < reals(limit)) != 0;
  }

  /// Keeps the best k in the records, best first.
  index_t finish() {
    keep_best();
    return count_;
  }

 private:
  static VECDET_INLINE reals load(const T* logits) { return load_pack<reals::batches>(logits); }

  VECDET_INLINE void look(const T* logits, index_t size) {
    index_t i = 0;
    for (; i + lanes <= size; i += lanes) least_ = min(load(logits + i), least_);  // skips NaN
    for (; i < size; ++i) {
      const auto x = static_cast<real>(logits[i]);
      least_of_rest_ = x < least_of_rest_ ? x : least_of_rest_;
    }
  }

  /// Scans 16 to 127 logits: the rows of a strided matrix.
  VECDET_INLINE void scan_rest(const T* logits, index_t size, index_t element) {
    reals greatest = max(load(logits + size - lanes), reals(-infinity<real>()));  // skips NaN
    for (index_t i = 0; i + lanes < size; i += lanes) {
      prefetch_behind(logits + i, stream_ahead);
      greatest = max(load(logits + i), greatest);
    }
    if (__builtin_expect(to_bits(greatest > reals(threshold_)) != 0, 0))
      take(logits, size, element);
  }

  /// Appends the logits above the threshold; takes at most one block.
  VECDET_NOINLINE void take(const T* logits, index_t size, index_t element) {
    if (class_limits_ != nullptr) return take_above_limits(logits, size, element);
    index_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      uint32_t bits = to_bits(load(logits + i) > reals(threshold_));
      for (; bits != 0; bits &= bits - 1) {
        const index_t lane = i + lowest_bit(bits);
        record(logits[lane], element + lane * step_);
      }
    }
    const int rest = static_cast<int>(size - i);  // below 16
    for (int lane = 0; lane < rest; ++lane, ++i)
      if (static_cast<real>(logits[i]) > threshold_) record(logits[i], element + i * step_);
    if (count_ > most_before_block_) keep_best();
  }
  VECDET_NOINLINE void take_above_limits(const T* logits, index_t size, index_t element) {
    for (index_t i = 0; i < size; ++i, element += step_) {
      const auto x = static_cast<real>(logits[i]);
      if (x > threshold_ && x > class_limits_[(first_ + element) % classes_])
        record(logits[i], element);
    }
    if (count_ > most_before_block_) keep_best();
  }
  VECDET_INLINE void record(T logit, index_t element) {
    records_[count_++] = record_of(logit, static_cast<uint32_t>(element));
  }

  VECDET_NOINLINE void keep_best() {
    if (is_in_order_) {
      radix_sort(records_, spare_, count_);
    } else {
      sort_records(records_, spare_, count_);
    }
    if (count_ < limit_) return;
    count_ = limit_;
    const real last_score = detail::score_of_record(records_[limit_ - 1]);
    const real last = is_in_order_ ? last_score : float_below(last_score);
    threshold_ = last > threshold_ ? last : threshold_;
  }

  real threshold_, least_of_rest_ = 0;
  reals least_ = reals(0);
  index_t limit_, most_before_block_, count_ = 0;
  index_t step_ = 1;         ///< from a logit's element to that of the next
  bool is_in_order_ = true;  ///< whether elements ascend in the order of the scan
  const float* class_limits_;
  index_t classes_, first_ = 0;  ///< elements are numbered from `first_` on
  uint64_t *records_, *spare_;
};

template <class T>
index_t search_topk(const filter_topk_args<T>& args, index_t first, index_t last, uint64_t* records,
                    uint64_t* spare) {
  topk_search<T> search(args, first, records, spare);
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

/// log(sum exp(row)) = greatest + rest. In a single number, a large logit would swallow the rest.
struct log_sum {
  double greatest, rest;
};

/// The rest is NaN if a logit is NaN or +inf.
template <class T>
VECDET_INLINE log_sum log_sum_exp(const T* row, index_t cols) {
  constexpr int batches = row_pack<float>::batches;
  using floats = row_pack<float>;
  // The last 16 numbers of the row, padded with -inf.
  const index_t full = cols / 16 * 16;
  alignas(64) T rest[16];
  for (index_t i = 0; i < 16; ++i)
    rest[i] = full + i < cols ? row[full + i] : T(-infinity<float>());
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
  if (nan != 0 || !(most < infinity<float>())) return {0, not_a_number<double>()};
  floats sum = exp_minus_abs(load_pack<batches>(rest) - floats(most));
  for (index_t i = 0; i < full; i += 16)
    sum = sum + exp_minus_abs(load_pack<batches>(row + i) - floats(most));
  store_pack<batches>(lane, sum);
  double total = 0;
  for (int i = 0; i < 16; ++i) total += static_cast<double>(lane[i]);
  return {static_cast<double>(most), __builtin_log(total)};
}

/// The largest rounding error of a bound.
constexpr double bound_slack = 1e-4;

template <class T>
VECDET_INLINE double probability(T logit) {
  return 1 / (1 + __builtin_exp(-static_cast<double>(logit)));
}

/// FCOS's score of a logit.
VECDET_INLINE double centered_score(double centre, double x) {
  return __builtin_sqrt(centre / (1 + __builtin_exp(-x)));
}

/// Sets a bound that every logit with a score above the threshold exceeds; returns false if no
/// logit can have such a score.
VECDET_INLINE bool find_centered_bound(float threshold, double centre, double& bound) {
  const double p = static_cast<double>(threshold) * static_cast<double>(threshold) / centre;
  bound = __builtin_log(p / (1 - p)) - bound_slack;
  return !(p >= 1);
}

/// Only logits above their row's bound can pass, so scores are computed and compared for these
/// alone.
template <class T>
index_t search_row_scores(const row_search_args<T>& args, index_t first, index_t last,
                          uint64_t* records, uint64_t* spare) {
  constexpr int batches = row_pack<float>::batches;
  const bool softmax = args.kind == row_score::softmax;
  const index_t columns = args.cols;
  const index_t nearly_full = args.capacity - columns;
  float threshold = static_cast<float>(args.score_threshold);  // frameworks compare it in float
  index_t count = 0;
  for (index_t r = first; r < last; ++r) {
    const T* const row = args.logits + r * args.stride;
    log_sum sum{0, 0};
    double centre = 1, bound;
    if (softmax) {
      sum = log_sum_exp(row, columns);
      bound = __builtin_log(static_cast<double>(threshold)) - bound_slack + sum.rest + sum.greatest;
    } else {
      centre = probability(args.centerness[r * args.centerness_step]);
      if (!find_centered_bound(threshold, centre, bound)) continue;
    }
    // One float lower: a large logit is less precise than the slack.
    const float below = float_below(static_cast<float>(bound));
    const auto take = [&](index_t col) {
      const auto x = static_cast<double>(row[col]);
      const double score =
          softmax ? __builtin_exp(x - sum.greatest - sum.rest) : centered_score(centre, x);
      const auto rounded_score = static_cast<float>(score);
      if (!(rounded_score > threshold) ||
          !detail::is_above_limit(args.class_limits, col, rounded_score))
        return;
      records[count++] =
          record_of(rounded_score, static_cast<uint32_t>((r - first) * columns + col));
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

/// FCOS's scores in planes: the bounds of some hundred locations of an anchor are computed first;
/// then all classes are compared with them.
template <class T>
index_t search_centered_planes(const plane_search_args<T>& args, index_t first, index_t last,
                               uint64_t* records, uint64_t* spare) {
  constexpr int batches = row_pack<float>::batches, together = 256;
  const index_t every = args.anchors * args.classes;
  const index_t nearly_full = args.capacity - row_lanes;
  float threshold = static_cast<float>(args.score_threshold);
  index_t count = 0;
  const auto keep_best = [&] {
    sort_records(records, spare, count);
    if (count < args.limit) return;
    count = args.limit;
    const float last_score = float_below(detail::score_of_record(records[count - 1]));
    threshold = last_score > threshold ? last_score : threshold;
  };
  alignas(64) float bounds[together];
  double centres[together];
  for (index_t begin = first; begin < last; begin += together) {
    const index_t size = last - begin < together ? last - begin : together;
    for (index_t a = 0; a < args.anchors; ++a) {
      for (index_t i = 0; i < size; ++i) {
        double bound;
        centres[i] = probability(args.centerness[a * args.centerness_step + begin + i]);
        const bool passes = find_centered_bound(threshold, centres[i], bound);
        bounds[i] = passes ? float_below(static_cast<float>(bound)) : infinity<float>();
      }
      for (index_t c = 0; c < args.classes; ++c) {
        const T* const plane = args.logits + a * args.anchor_step + c * args.plane + begin;
        const auto take = [&](index_t i) {
          const auto score =
              static_cast<float>(centered_score(centres[i], static_cast<double>(plane[i])));
          if (!(score > threshold) || !detail::is_above_limit(args.class_limits, c, score)) return;
          records[count++] = record_of(
              score, static_cast<uint32_t>((begin - first + i) * every + a * args.classes + c));
        };
        index_t i = 0;
        for (; i + row_lanes <= size; i += row_lanes) {
          uint32_t bits = to_bits(load_pack<batches>(plane + i) > load_pack<batches>(bounds + i));
          for (; bits != 0; bits &= bits - 1) take(i + lowest_bit(bits));
          if (count > nearly_full) keep_best();
        }
        for (; i < size; ++i)
          if (static_cast<float>(plane[i]) > bounds[i]) take(i);
        if (count > nearly_full) keep_best();
      }
    }
  }
  keep_best();
  return count;
}

template <class T>
index_t search_planes(const plane_search_args<T>& args, index_t first, index_t last,
                      uint64_t* records, uint64_t* spare) {
  if (args.centerness != nullptr) return search_centered_planes(args, first, last, records, spare);
  topk_search<T> search(args, records, spare);
  const auto each_plane = [&](const auto& scan) VECDET_INLINE_LAMBDA {
    for (index_t a = 0; a < args.anchors; ++a)
      for (index_t c = 0; c < args.classes; ++c)
        scan(args.logits + a * args.anchor_step + c * args.plane + first, last - first,
             a * args.classes + c);
  };
  if (args.has_negative != nullptr) {
    each_plane([&](const T* logits, index_t size, index_t element)
                   VECDET_INLINE_LAMBDA { search.template scan<true>(logits, size, element); });
    *args.has_negative = search.is_any_below(detail::least_probability);
  } else {
    each_plane([&](const T* logits, index_t size, index_t element)
                   VECDET_INLINE_LAMBDA { search.scan(logits, size, element); });
  }
  return search.finish();
}

template <class T>
struct kernels_of<detail::filter_topk_kernels<T>> {
  static constexpr detail::filter_topk_kernels<T> get() {
    detail::filter_topk_kernels<T> kernels{};
    kernels.search = search_topk<T>;
    kernels.search_rows = search_row_scores<T>;
    kernels.search_planes = search_planes<T>;
    kernels.sort = radix_sort;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(filter_topk_kernels<float>)
VECDET_KERNELS(filter_topk_kernels<bfloat16>)

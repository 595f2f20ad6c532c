// SPDX-License-Identifier: Apache-2.0
// The best scores so far, as records of score_key.hpp in a memory of limited size.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/kernels/radix_sort.hpp>
#include <vecdet/kernels/score_key.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Sorts records by key and ties by element, from any order.
VECDET_NOINLINE inline void sort_records(uint64_t* records, uint64_t* spare, index_t count) {
  radix_sort_lower(records, spare, count);
  radix_sort(records, spare, count);
}

/// The greatest float below x.
inline float float_below(float x) { return __builtin_nextafterf(x, -infinity<float>()); }

/// Records of scores above a threshold. Whenever their memory is full, the best stay, and the last
/// of them sets the threshold. If elements are added in ascending order, a later score must exceed
/// the last one, because an equal one loses by its element.
class best_records {
 public:
  template <class Args>
  best_records(const Args& args, uint64_t* records, uint64_t* spare, bool is_in_order = true)
      : threshold_(static_cast<float>(args.threshold)),
        limit_(args.limit),
        capacity_(args.capacity),
        class_limits_(args.class_limits),
        is_in_order_(is_in_order),
        records_(records),
        spare_(spare) {}

  /// Only scores above it may be added.
  VECDET_INLINE float threshold() const { return threshold_; }
  VECDET_INLINE bool has_class_limits() const { return class_limits_ != nullptr; }
  /// Adds the score of an element, unless it is not above the limit of its class.
  VECDET_INLINE void add(float score, index_t element, index_t class_index) {
    if (!detail::is_above_limit(class_limits_, class_index, score)) return;
    records_[count_++] = record_of(score, static_cast<uint32_t>(element));
    if (count_ == capacity_) keep_best();
  }
  /// Keeps the best, in descending order, and returns their number.
  index_t finish() {
    keep_best();
    return count_;
  }

 private:
  VECDET_NOINLINE void keep_best() {
    if (is_in_order_) {
      radix_sort(records_, spare_, count_);
    } else {
      sort_records(records_, spare_, count_);
    }
    if (count_ < limit_) return;
    count_ = limit_;
    const float last_score = detail::score_of_record(records_[limit_ - 1]);
    const float last = is_in_order_ ? last_score : float_below(last_score);
    threshold_ = last > threshold_ ? last : threshold_;
  }

  float threshold_;
  index_t limit_, capacity_, count_ = 0;
  const float* class_limits_;
  bool is_in_order_;
  uint64_t *records_, *spare_;
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Greedy non-maximum suppression of one group of boxes, and the preceding sort. The first kept
// boxes are compared with all others, which is fastest if few boxes suppress the rest. An index
// over the remaining boxes serves the later ones.
#pragma once

#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/nms/merge.hpp>
#include <vecdet/kernels/nms/soft_nms.hpp>
#include <vecdet/kernels/nms/tree.hpp>
#include <vecdet/kernels/radix_sort.hpp>
#include <vecdet/kernels/score_key.hpp>
#include <vecdet/kernels/sixteens.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
index_t select_scores(const T* scores, index_t first, index_t last, double threshold, bool drop_nan,
                      nms_record* records) {
  const bool keeps_numbers = threshold == -infinity<double>();
  if (keeps_numbers && !drop_nan) {
    for_each_by_sixteens(first, last, [&](index_t i) VECDET_INLINE_LAMBDA {
      records[i - first] = record_of(scores[i], static_cast<uint32_t>(i));
    });
    return last - first;
  }
  index_t count = 0;
  for (index_t i = first; i < last; ++i) {
    const auto score = static_cast<compute_type<T>>(scores[i]);
    records[count] = record_of(scores[i], static_cast<uint32_t>(i));
    count += is_nan(score) ? !drop_nan : keeps_numbers || static_cast<double>(score) > threshold;
  }
  return count;
}

template <class T>
index_t drop_degenerate_boxes(const nms_args<T>& args, nms_record* records, index_t count) {
  using real = compute_type<T>;
  const real one = args.plus_one ? real(1) : real(0);
  index_t left = 0;
  for (index_t i = 0; i < count; ++i) {
    const nms_box<real> box =
        load_nms_box<real>(args.boxes, detail::index_of(records[i]), args.format);
    records[left] = records[i];
    left += box.x2 - box.x1 + one > 0 && box.y2 - box.y1 + one > 0;
  }
  return left;
}

template <class T>
void sort_by_score(const T* scores, nms_record* records, nms_record* spare, index_t count) {
  if constexpr (sizeof(T) == 8) {
    // The lower half of the key first, then the upper half.
    for (index_t i = 0; i < count; ++i) {
      const uint32_t box = detail::index_of(records[i]);
      records[i] = descending_key(scores[box]) << 32 | box;
    }
    radix_sort(records, spare, count);
    for (index_t i = 0; i < count; ++i) {
      const uint32_t box = detail::index_of(records[i]);
      records[i] = record_of(scores[box], box);
    }
  }
  radix_sort(records, spare, count);
}

/// Sorts records with equal upper halves by their lower halves.
inline void order_ties(nms_record* records, nms_record* spare, index_t count) {
  uint64_t descents = 0;
  for_each_by_sixteens(1, count, [&](index_t i) VECDET_INLINE_LAMBDA {
    descents |= static_cast<uint64_t>(records[i - 1] > records[i]);
  });
  if (descents == 0) return;
  for (index_t first = 0, last; first < count; first = last) {
    for (last = first + 1; last < count && records[last] >> 32 == records[first] >> 32;) ++last;
    if (last > first + 1) radix_sort_lower(records + first, spare, last - first);
  }
}

template <class T>
void sort_any_by_score(const T* scores, nms_record* records, nms_record* spare, index_t count) {
  if constexpr (sizeof(T) == 8) {
    radix_sort_lower(records, spare, count);
    sort_by_score(scores, records, spare, count);
  } else {
    radix_sort(records, spare, count);
    order_ties(records, spare, count);
  }
}

template <class Real>
index_t nms_scratch_bytes(index_t count) {
  return nms_memory<Real>(nullptr, count).bytes;
}

template <class T>
void begin_nms(const nms_args<T>& args, nms_state& state) {
  using real = compute_type<T>;
  const nms_rule<real> rule(args);
  nms_memory<real> memory(state.scratch, state.count);
  gather_boxes(args, rule, memory, state);
  state.kept_count = 0;
  state.done = false;
  constexpr index_t scanned_first = 16;
  if (args.plus_one) {
    scan<nms_test::plus_one>(rule, memory, state, args.max_kept, scanned_first);
  } else {
    scan<nms_test::plain>(rule, memory, state, args.max_kept, scanned_first);
  }
}

template <class T>
void build_nms_index(const nms_args<T>&, nms_state& state) {
  nms_memory<compute_type<T>> memory(state.scratch, state.count);
  build_tree(memory, state);
}

template <class T>
void finish_nms(const nms_args<T>& args, nms_state& state) {
  using real = compute_type<T>;
  const nms_rule<real> rule(args);
  nms_memory<real> memory(state.scratch, state.count);
  if (args.plus_one) {
    walk_tree<nms_test::plus_one>(rule, memory, state, args.max_kept);
  } else {
    walk_tree<nms_test::plain>(rule, memory, state, args.max_kept);
  }
}

template <class T>
struct kernels_of<detail::nms_kernels<T>> {
  static constexpr detail::nms_kernels<T> get() {
    detail::nms_kernels<T> kernels{};
    kernels.select = select_scores<T>;
    kernels.drop_degenerate = drop_degenerate_boxes<T>;
    kernels.sort = sort_by_score<T>;
    kernels.sort_any = sort_any_by_score<T>;
    kernels.sort_by_index = radix_sort_lower;
    kernels.scratch_bytes = nms_scratch_bytes<compute_type<T>>;
    kernels.begin = begin_nms<T>;
    kernels.build_index = build_nms_index<T>;
    kernels.finish = finish_nms<T>;
    kernels.merge_scratch_bytes = merge_scratch_bytes<compute_type<T>>;
    kernels.merge = merge_group<T>;
    kernels.soft = soft_nms_group<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(nms_kernels)

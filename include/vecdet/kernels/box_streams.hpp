// SPDX-License-Identifier: Apache-2.0
// The loops shared by all box kernels. An operation computes 16 boxes at given addresses. The loops
// here run it over all boxes, over the boxes that labels select, or over a list, and handle the
// remainders. Losses are always added in the order of the boxes, in rows of 16, on every
// instruction set.
//
// An operation is a struct with
//   row_pack<real> operator()(const box_streams<T>& at) const   16 boxes; returns what is added up
//   static constexpr bool adds_up           whether the 16 numbers returned are added to a sum
//   static constexpr bool lanes_are_boxes   whether lane i is box i, so that lanes of missing boxes
//                                           can be cleared; if not, inputs of zeros, which stand
//                                           for missing boxes, must add nothing
// The loop over full groups is compiled for each operation. The code around it is compiled once and
// calls that loop through a pointer.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/selected_boxes.hpp>
#include <vecdet/kernels/box_weights.hpp>
#include <vecdet/kernels/boxes.hpp>
#include <vecdet/simd/bits.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Boxes that are computed together.
constexpr int box_group = row_lanes;

using detail::loss_output;
using detail::stored;

/// An output known at compile time: only what it needs is computed.
template <loss_output Output>
using known_box_output = std::integral_constant<loss_output, Output>;

/// Whether losses without gradients have their own code. Training rarely asks for them in types
/// other than float; for those types, the gradient is computed but not written.
template <class S>
constexpr bool loss_alone_has_code = std::is_same<S, float>::value;

/// Memory of consecutive boxes with storage S. Pointers that a call does not use are null.
template <class S>
struct box_streams {
  typename stored<S>::in in;           ///< boxes, or deltas
  typename stored<S>::boxes boxes[2];  ///< what `in` is compared with, or coded against
  const float* weights;                ///< one number per box
  typename stored<S>::out out;         ///< boxes, or deltas
  typename stored<S>::each out_each;   ///< one number per box
  /// Box i is paired with number i % period of boxes[0], or with number i if period is 0.
  index_t period = 0;

  VECDET_INLINE box_streams at(index_t box) const {
    return {detail::advanced(in, box),
            {detail::advanced(boxes[0], box), detail::advanced(boxes[1], box)},
            weights != nullptr ? weights + box : weights,
            detail::advanced(out, box),
            out_each != nullptr ? out_each + box : out_each,
            0};
  }
};

/// Memory for a group of boxes, of the type that a stream's pointer points to.
template <class Pointer>
struct group_memory;
template <class T>
struct group_memory<T*> {
  alignas(64) value_of<T> number[4 * box_group];
  VECDET_INLINE value_of<T>* begin() { return number; }
};
template <class T>
struct group_memory<detail::coordinate_arrays<T>> {
  alignas(64) value_of<T> number[4][box_group];
  VECDET_INLINE detail::coordinate_arrays<value_of<T>> begin() {
    return {{number[0], number[1], number[2], number[3]}, 0};
  }
};
template <class T>
VECDET_INLINE const T* as_input(T* boxes) {
  return boxes;
}
template <class T>
VECDET_INLINE detail::coordinate_arrays<const T> as_input(
    const detail::coordinate_arrays<T>& boxes) {
  return {{boxes.of[0], boxes.of[1], boxes.of[2], boxes.of[3]}, boxes.first};
}

/// Keeps the first `count` lanes of a row and sets the others to 0.
template <class Real>
VECDET_INLINE row_pack<Real> first_lanes(const row_pack<Real>& row, int count) {
  alignas(64) Real lane[row_lanes];
  store_pack<row_pack<Real>::batches>(lane, row);
  for (int i = count; i < row_lanes; ++i) lane[i] = 0;
  return load_pack<row_pack<Real>::batches>(lane);
}

/// `groups` times 16 boxes; the last group has `valid` boxes.
template <class Op, class S>
void run_groups(const void* op, const box_streams<S>& streams, index_t groups, int valid,
                lane_sums& sums) {
  const Op local = *static_cast<const Op*>(op);  // stores to the streams cannot change a local copy
  lane_sums total = sums;
  box_streams<S> at = streams;
  for (index_t g = 0; g < groups; ++g, at = at.at(box_group)) {
    if constexpr (Op::adds_up) {
      const row_pack<typename stored<S>::real> row = local(at);
      total.add(Op::lanes_are_boxes && valid < box_group ? first_lanes(row, valid) : row);
    } else {
      local(at);
    }
  }
  sums = total;
}

/// An operation and its loop over full groups, with types erased.
template <class S>
struct box_operation {
  const void* op;
  void (*run)(const void* op, const box_streams<S>& streams, index_t groups, int valid,
              lane_sums& sums);
};
template <class S, class Op>
box_operation<S> as_operation(const Op& op) {
  return {&op, run_groups<Op, S>};
}

/// Up to 16 boxes that are scattered in memory, or fewer than 16.
template <class S>
class gathered_boxes {
 public:
  explicit gathered_boxes(const box_streams<S>& streams) : streams_(streams) {}
  gathered_boxes(const gathered_boxes&) = delete;

  int count() const { return count_; }

  /// Adds box `index`, whose third input is box `index_of_third` of its stream. At most 16 until
  /// scatter().
  VECDET_NOINLINE void add(index_t index, index_t index_of_third) {
    copy(streams_.in, index, in_.begin(), count_);
    copy(streams_.boxes[0], streams_.period == 0 ? index : index % streams_.period,
         boxes_[0].begin(), count_);
    copy(streams_.boxes[1], index_of_third, boxes_[1].begin(), count_);
    if (streams_.weights != nullptr) weights_[count_] = streams_.weights[index];
    index_[count_++] = index;
  }

  /// The boxes added, followed by zeros of weight 1, in this object's memory.
  VECDET_NOINLINE box_streams<S> completed() {
    for (int i = count_; i < box_group; ++i) {
      clear(in_, i);
      clear(boxes_[0], i);
      clear(boxes_[1], i);
      weights_[i] = 1;
    }
    box_streams<S> local{};
    if (detail::is_given(streams_.in)) local.in = as_input(in_.begin());
    for (int s = 0; s < 2; ++s)
      if (detail::is_given(streams_.boxes[s])) local.boxes[s] = as_input(boxes_[s].begin());
    local.weights = streams_.weights != nullptr ? weights_ : nullptr;
    if (detail::is_given(streams_.out)) local.out = out_.begin();
    local.out_each = streams_.out_each != nullptr ? out_each_ : nullptr;
    return local;
  }

  /// Writes the results to where they belong and empties the group.
  VECDET_NOINLINE void scatter() {
    for (int i = 0; i < count_; ++i) {
      if (streams_.out_each != nullptr) streams_.out_each[index_[i]] = out_each_[i];
      copy(out_.begin(), i, streams_.out, index_[i]);
    }
    count_ = 0;
  }

 private:
  template <class From, class To>
  static VECDET_INLINE void copy(const From& from, index_t box, const To& to, index_t at) {
    if (!detail::is_given(from) || !detail::is_given(to)) return;
    if constexpr (std::is_pointer<From>::value && std::is_pointer<To>::value) {
      __builtin_memcpy(to + 4 * at, from + 4 * box, 4 * sizeof(*to));
    } else {
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k) detail::coordinate(to, at, k) = detail::coordinate(from, box, k);
    }
  }
  template <class Pointer>
  static VECDET_INLINE void clear(group_memory<Pointer>& memory, int box) {
    VECDET_UNROLL
    for (int k = 0; k < 4; ++k) {
      auto& number = detail::coordinate(memory.begin(), box, k);
      number = std::decay_t<decltype(number)>(0.0f);
    }
  }

  const box_streams<S> streams_;
  int count_ = 0;
  index_t index_[box_group];
  group_memory<typename stored<S>::in> in_;
  group_memory<typename stored<S>::boxes> boxes_[2];
  alignas(64) float weights_[box_group];
  group_memory<typename stored<S>::out> out_;
  alignas(64) std::remove_pointer_t<typename stored<S>::each> out_each_[box_group];
};

/// Computes the gathered boxes and writes their results to where they belong.
template <class S>
void run_gathered(const box_operation<S>& op, gathered_boxes<S>& gathered, lane_sums& sums) {
  if (gathered.count() == 0) return;
  op.run(op.op, gathered.completed(), 1, gathered.count(), sums);
  gathered.scatter();
}

/// Adds a box; computes the gathered boxes once there are 16.
template <class S>
VECDET_INLINE void run_with(const box_operation<S>& op, gathered_boxes<S>& gathered, index_t index,
                            index_t index_of_third, lane_sums& sums) {
  gathered.add(index, index_of_third);
  if (gathered.count() == box_group) run_gathered(op, gathered, sums);
}

/// Boxes [first, last).
template <class S>
VECDET_NOINLINE double run_boxes(const box_operation<S>& op, const box_streams<S>& streams,
                                 index_t first, index_t last) {
  lane_sums sums;
  const index_t groups = (last - first) / box_group;
  op.run(op.op, streams.at(first), groups, box_group, sums);
  const index_t done = first + groups * box_group;
  if (done < last) {
    gathered_boxes<S> rest(streams);
    for (index_t i = done; i < last; ++i) rest.add(i, i);
    run_gathered(op, rest, sums);
  }
  return sums.total();
}

// ---- selected boxes

/// The number of labels tested, and of boxes set to 0, at a time.
constexpr int label_block = 64;

template <class T>
VECDET_INLINE void store_zeros(T* to, index_t size) {
  using real = compute_type<T>;
  // Hidden from GCC, which would emit "rep stos": a third slower for a kilobyte.
  const auto zero = rounded(pack<real, 1>(real(0)));
  constexpr int lanes = batch_lanes<real>;
  index_t i = 0;
  for (; i + lanes <= size; i += lanes) store_pack<1>(to + i, zero);
  for (; i < size; ++i) to[i] = T(0.0f);
}

/// Sets the outputs of boxes [first, last) to 0.
template <class S>
VECDET_INLINE void clear_boxes(const box_streams<S>& streams, index_t first, index_t last) {
  if (streams.out != nullptr) store_zeros(streams.out + 4 * first, 4 * (last - first));
  if (streams.out_each != nullptr) store_zeros(streams.out_each + first, last - first);
}

/// Bit i: whether the label begin + i of a block of `size`, at most label_block, is selected.
template <class Bits>
VECDET_NOINLINE std::uint64_t selected_bits(const detail::label_bits<Bits>& labels, index_t begin,
                                            int size, const detail::skipped_labels<Bits>& skipped) {
  std::uint64_t selected = 0;
  if (size == label_block && !skipped.none) {
    VECDET_UNROLL_ROWS
    for (int i = 0; i < label_block; i += row_lanes) {
      const std::uint32_t bits = either_of_16(labels.at(begin + i), skipped.a, skipped.b);
      selected |= std::uint64_t{~bits & 0xffff} << i;
    }
  } else {
    for (int i = 0; i < size; ++i) {
      const Bits label = labels[begin + i];
      selected |= std::uint64_t{skipped.none || (label != skipped.a && label != skipped.b)} << i;
    }
  }
  return selected;
}

/// Calls visit(i), in order, for every i in [first, last) whose label is neither background nor
/// ignore, and before(begin, end) ahead of each block.
template <class Before, class Visit>
VECDET_INLINE void for_each_selected(const detail::selected_boxes& selected, index_t first,
                                     index_t last, const Before& before, const Visit& visit) {
  using access = detail::labels_access;
  const labels_view& labels = selected.labels;
  const detail::skipped_labels<std::int64_t> wide(labels, selected.background, selected.ignore);
  const detail::skipped_labels<std::int32_t> narrow(labels, selected.background, selected.ignore);
  for (index_t begin = first; begin < last; begin += label_block) {
    const index_t end = last - begin < label_block ? last : begin + label_block;
    before(begin, end);
    const int size = static_cast<int>(end - begin);
    std::uint64_t bits =
        access::are_wide(labels)
            ? selected_bits(access::bits<std::int64_t>(labels), begin, size, wide)
            : selected_bits(access::bits<std::int32_t>(labels), begin, size, narrow);
    for (; bits != 0; bits &= bits - 1) visit(begin + __builtin_ctzll(bits));
  }
}

/// Computes the selected boxes of [first, last), or numbers [first, last) of the list. With labels,
/// outputs of boxes not selected become 0, and their inputs are not read. With a list, nothing else
/// is written. Box i's third input is number matches[i] of its stream, or i if matches is null.
template <class S>
VECDET_NOINLINE double run_selected(const box_operation<S>& op, const box_streams<S>& streams,
                                    const detail::selected_boxes& selected, const index_t* matches,
                                    index_t first, index_t last) {
  using detail::box_choice;
  if (selected.choice == box_choice::all && matches == nullptr) {
    if (streams.period == 0) return run_boxes(op, streams, first, last);
    double sum = 0;
    while (first < last) {
      const index_t in_period = first % streams.period;
      const index_t left = last - first, whole = streams.period - in_period;
      const index_t count = left < whole ? left : whole;
      box_streams<S> part = streams.at(first);
      part.boxes[0] = detail::advanced(streams.boxes[0], in_period);
      sum += run_boxes(op, part, 0, count);
      first += count;
    }
    return sum;
  }
  lane_sums sums;
  gathered_boxes<S> gathered(streams);
  const auto run = [&](index_t i) {
    run_with(op, gathered, i, matches != nullptr ? matches[i] : i, sums);
  };
  if (selected.choice == box_choice::labelled) {
    for_each_selected(
        selected, first, last,
        [&](index_t begin, index_t end) { clear_boxes(streams, begin, end); }, run);
  } else {
    for (index_t k = first; k < last; ++k) {
      run(selected.choice == box_choice::listed ? selected.indices[k] : k);
    }
  }
  run_gathered(op, gathered, sums);
  return sums.total();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

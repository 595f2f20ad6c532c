// SPDX-License-Identifier: Apache-2.0
// The loops that all box kernels share. An operation computes 16 boxes at given addresses; here are
// the loops over all boxes, over those that labels select, and over a list, with their remainders.
// So the order in which losses are added is that of the boxes, in rows of 16, on every instruction
// set.
//
// An operation is a struct with
//   row_pack<real> operator()(const box_streams<T>& at) const   16 boxes; returns what adds up
//   static constexpr bool adds_up                               else it returns nothing
//   static constexpr bool lanes_are_boxes                       else inputs of zeros add zeros
#pragma once

#include <vecdet/detail/rows/box_streams.hpp>
#include <vecdet/detail/simd_boxes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Boxes that are computed together.
constexpr int box_group = row_lanes;

using detail::box_loss_output;

/// An output known when compiling: only what it needs is computed.
template <box_loss_output Output>
using known_box_output = std::integral_constant<box_loss_output, Output>;

/// Memory of consecutive boxes. What a call does not use is null.
template <class T>
struct box_streams {
  const T* in[3];        ///< boxes, or deltas
  const float* weights;  ///< one number a box
  T* out;                ///< boxes, or deltas
  T* out_each;           ///< one number a box

  VECDET_INLINE box_streams at(index_t box) const {
    box_streams moved = *this;
    for (const T*& stream : moved.in) stream = stream != nullptr ? stream + 4 * box : stream;
    if (weights != nullptr) moved.weights = weights + box;
    if (out != nullptr) moved.out = out + 4 * box;
    if (out_each != nullptr) moved.out_each = out_each + box;
    return moved;
  }
};

/// The first `count` lanes of a row, the others 0.
template <class Real>
VECDET_INLINE row_pack<Real> first_lanes(const row_pack<Real>& row, int count) {
  alignas(64) Real lane[row_lanes];
  store_pack<row_pack<Real>::batches>(lane, row);
  for (int i = count; i < row_lanes; ++i) lane[i] = 0;
  return load_pack<row_pack<Real>::batches>(lane);
}

/// `groups` times 16 boxes, of which the last group has `valid`.
template <class Op, class T>
VECDET_NOINLINE void run_groups(const Op& op, const box_streams<T>& streams, index_t groups,
                                int valid, lane_sums& sums) {
  const Op local = op;  // out of reach of what is stored through the streams
  lane_sums total = sums;
  for (index_t g = 0; g < groups; ++g) {
    if constexpr (Op::adds_up) {
      const row_pack<compute_type<T>> row = local(streams.at(g * box_group));
      total.add(Op::lanes_are_boxes && valid < box_group ? first_lanes(row, valid) : row);
    } else {
      local(streams.at(g * box_group));
    }
  }
  sums = total;
}

/// Up to 16 boxes that do not lie together, or are fewer.
template <class Op, class T>
class gathered_boxes {
 public:
  gathered_boxes(const Op& op, const box_streams<T>& streams) : op_(op), streams_(streams) {}

  /// Box `index`, whose third input is box `index_of_third` of its stream.
  void add(index_t index, index_t index_of_third, lane_sums& sums) {
    if (count_ == box_group) flush(sums);
    const index_t source[3] = {index, index, index_of_third};
    for (int s = 0; s < 3; ++s) {
      if (streams_.in[s] == nullptr) continue;
      for (int k = 0; k < 4; ++k) in_[s][4 * count_ + k] = streams_.in[s][4 * source[s] + k];
    }
    if (streams_.weights != nullptr) weights_[count_] = streams_.weights[index];
    index_[count_++] = index;
  }

  /// Computes what has been added since.
  void flush(lane_sums& sums) {
    if (count_ == 0) return;
    for (int s = 0; s < 3; ++s)
      for (int i = 4 * count_; i < 4 * box_group; ++i) in_[s][i] = T(0.0f);
    for (int i = count_; i < box_group; ++i) weights_[i] = 0;
    box_streams<T> local{};
    for (int s = 0; s < 3; ++s) local.in[s] = streams_.in[s] != nullptr ? in_[s] : nullptr;
    local.weights = streams_.weights != nullptr ? weights_ : nullptr;
    local.out = streams_.out != nullptr ? out_ : nullptr;
    local.out_each = streams_.out_each != nullptr ? out_each_ : nullptr;
    run_groups(op_, local, 1, count_, sums);
    for (int i = 0; i < count_; ++i) {
      if (streams_.out_each != nullptr) streams_.out_each[index_[i]] = out_each_[i];
      if (streams_.out == nullptr) continue;
      for (int k = 0; k < 4; ++k) streams_.out[4 * index_[i] + k] = out_[4 * i + k];
    }
    count_ = 0;
  }

 private:
  const Op& op_;
  const box_streams<T>& streams_;
  int count_ = 0;
  index_t index_[box_group];
  alignas(64) T in_[3][4 * box_group];
  alignas(64) float weights_[box_group];
  alignas(64) T out_[4 * box_group];
  alignas(64) T out_each_[box_group];
};

/// Boxes [first, last).
template <class Op, class T>
double run_boxes(const Op& op, const box_streams<T>& streams, index_t first, index_t last) {
  lane_sums sums;
  const index_t groups = (last - first) / box_group;
  run_groups(op, streams.at(first), groups, box_group, sums);
  const index_t done = first + groups * box_group;
  if (done < last) {
    gathered_boxes<Op, T> rest(op, streams);
    for (index_t i = done; i < last; ++i) rest.add(i, i, sums);
    rest.flush(sums);
  }
  return sums.total();
}

/// The same, where box i's third input is number matches[i] of its stream.
template <class Op, class T>
double run_matched(const Op& op, const box_streams<T>& streams, const index_t* matches,
                   index_t first, index_t last) {
  lane_sums sums;
  gathered_boxes<Op, T> gathered(op, streams);
  for (index_t i = first; i < last; ++i) gathered.add(i, matches[i], sums);
  gathered.flush(sums);
  return sums.total();
}

// ---- selected boxes
// ----------------------------------------------------------------------------

/// Labels that are looked at, and boxes that are set to 0, together.
constexpr int label_block = 64;

template <class T>
VECDET_INLINE void store_zeros(T* to, index_t size) {
  using real = compute_type<T>;
  const pack<real, 1> zero(real(0));
  constexpr int lanes = batch_lanes<real>;
  index_t i = 0;
  for (; i + lanes <= size; i += lanes) store_pack<1>(to + i, zero);
  for (; i < size; ++i) to[i] = T(0.0f);
}

/// Sets the outputs of boxes [first, last) to 0.
template <class T>
VECDET_INLINE void clear_boxes(const box_streams<T>& streams, index_t first, index_t last) {
  if (streams.out != nullptr) store_zeros(streams.out + 4 * first, 4 * (last - first));
  if (streams.out_each != nullptr) store_zeros(streams.out_each + first, last - first);
}

/// visit(i) for every i in [first, last) whose label is neither background nor ignore, in order;
/// before(begin, end) ahead of each block.
template <class Label, class Before, class Visit>
VECDET_INLINE void for_each_selected(const Label* labels, index_t background, index_t ignore,
                                     index_t first, index_t last, const Before& before,
                                     const Visit& visit) {
  // Both values as labels of this width; one that does not fit is no label.
  const auto as_label = [](index_t value, index_t other) {
    return static_cast<Label>(static_cast<index_t>(static_cast<Label>(value)) == value ? value
                                                                                       : other);
  };
  const Label not_this = as_label(background, ignore), nor_this = as_label(ignore, background);
  for (index_t begin = first; begin < last; begin += label_block) {
    const index_t end = last - begin < label_block ? last : begin + label_block;
    before(begin, end);
    if (end - begin == label_block) {
      Label any = 0;
      for (int k = 0; k < label_block; ++k) {
        const Label label = labels[begin + k];
        any |= static_cast<Label>((label ^ not_this) != 0 && (label ^ nor_this) != 0);
      }
      if (any == 0) continue;
    }
    for (index_t i = begin; i < end; ++i) {
      if (labels[i] != background && labels[i] != ignore) visit(i);
    }
  }
}

template <class Before, class Visit>
VECDET_INLINE void for_each_selected(const detail::selected_boxes& selected, index_t first,
                                     index_t last, const Before& before, const Visit& visit) {
  if (selected.labels.wide() != nullptr) {
    for_each_selected(selected.labels.wide(), selected.background, selected.ignore, first, last,
                      before, visit);
  } else {
    for_each_selected(selected.labels.narrow(), selected.background, selected.ignore, first, last,
                      before, visit);
  }
}

/// Of boxes [first, last) those whose label selects them; the outputs of the others become 0
/// without their inputs being read. Box i's third input is number matches[i] of its stream, or i
/// where matches is null.
template <class Op, class T>
double run_labelled(const Op& op, const box_streams<T>& streams,
                    const detail::selected_boxes& selected, const index_t* matches, index_t first,
                    index_t last) {
  lane_sums sums;
  gathered_boxes<Op, T> gathered(op, streams);
  for_each_selected(
      selected, first, last, [&](index_t begin, index_t end) { clear_boxes(streams, begin, end); },
      [&](index_t i) { gathered.add(i, matches != nullptr ? matches[i] : i, sums); });
  gathered.flush(sums);
  return sums.total();
}

/// Numbers [first, last) of the list; nothing else is written.
template <class Op, class T>
double run_listed(const Op& op, const box_streams<T>& streams,
                  const detail::selected_boxes& selected, const index_t* matches, index_t first,
                  index_t last) {
  lane_sums sums;
  gathered_boxes<Op, T> gathered(op, streams);
  for (index_t k = first; k < last; ++k) {
    const index_t i = selected.indices[k];
    gathered.add(i, matches != nullptr ? matches[i] : i, sums);
  }
  gathered.flush(sums);
  return sums.total();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

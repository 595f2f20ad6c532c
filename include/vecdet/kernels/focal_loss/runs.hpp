// SPDX-License-Identifier: Apache-2.0
// The focal loss over a run of consecutive elements, some of which are left out. Whole groups of
// blocks are computed in place, the rest on copies.
#pragma once

#include <vecdet/kernels/focal_loss/equations.hpp>
#include <vecdet/simd/bits.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
T minus_infinity() {
  return T(-infinity<compute_type<T>>());
}

/// Copies 16 elements at a time, because a memcpy of constant size becomes moves.
template <class T>
VECDET_INLINE void copy_elements(const T* from, int count, T* to) {
  int k = 0;
  for (; k + row_lanes <= count; k += row_lanes) {
    __builtin_memcpy(to + k, from + k, row_lanes * sizeof(T));
  }
  for (; k < count; ++k) to[k] = from[k];
}
template <class T>
VECDET_INLINE void fill_elements(T value, index_t count, T* to) {
  for (index_t k = 0; k < count; ++k) to[k] = value;
}

/// Elements [begin, end) of a run that are left out: they are not counted, and their outputs are 0.
struct focal_hole {
  index_t begin, end;
};

/// An ascending sequence of nonempty holes.
class focal_holes {
 public:
  focal_holes() = default;
  focal_holes(const focal_hole* holes, int count) : next_(holes), last_(holes + count) {}

  /// Drops the holes that end before `begin`.
  VECDET_INLINE void skip_to(index_t begin) {
    while (next_ != last_ && next_->end <= begin) ++next_;
  }
  /// The begin and the end of the next hole; `otherwise` if there is none.
  VECDET_INLINE index_t next_begin(index_t otherwise) const {
    return next_ != last_ ? next_->begin : otherwise;
  }
  VECDET_INLINE index_t next_end(index_t otherwise) const {
    return next_ != last_ ? next_->end : otherwise;
  }
  /// Calls each(begin, end) for the parts of holes within [begin, end), counted from `begin`.
  template <class Each>
  VECDET_INLINE void within(index_t begin, index_t end, const Each& each) const {
    for (const focal_hole* hole = next_; hole != last_ && hole->begin < end; ++hole) {
      each((hole->begin > begin ? hole->begin : begin) - begin,
           (hole->end < end ? hole->end : end) - begin);
    }
  }

 private:
  const focal_hole *next_ = nullptr, *last_ = nullptr;
};

/// A copy of at most max_focal_group elements, padded to `size`, for groups that are short or have
/// elements left out. The padding is logits of -inf, which add nothing.
template <class T>
class focal_padded_block {
  using real = compute_type<T>;
  static constexpr int row = row_pack<real>::batches;

 public:
  /// Copies elements [begin, begin + count) of a run.
  VECDET_NOINLINE focal_padded_block(const focal_span<T>& run, index_t begin, int count, int size,
                                     focal_holes holes)
      : from_(run.at(begin)), count_(count), size_(size) {
    for (int k = 0; k < size; k += row_lanes) {
      holes.skip_to(begin + k);
      const index_t hole = holes.next_begin(begin + size) - begin;
      const int clear = hole < size ? static_cast<int>(hole) : size;
      for (; k + row_lanes <= clear; k += row_lanes) {
        store_pack<row, rounded_nans::from_bfloat16>(x_ + k, row_of(from_.x, k));
      }
      if (k == size) break;
      // Holes are cut in registers: a vector loaded from memory that was stored in parts would have
      // to wait until all earlier stores are complete.
      auto x = row_of(from_.x, k);
      holes.within(begin + k, begin + k + row_lanes, [&](index_t b, index_t e) {
        const auto lane = load_pack<row>(lane_numbers<real>);
        const auto is_left_out = (lane >= row_pack<real>(static_cast<real>(b))) &
                                 (lane < row_pack<real>(static_cast<real>(e)));
        x = select(is_left_out, row_pack<real>(-infinity<real>()), x);
      });
      store_pack<row, rounded_nans::from_bfloat16>(x_ + k, x);
    }
    copy_if_short(from_.t, t_);
    copy_if_short(from_.upstream, upstream_);
  }

  /// The memory to compute on: the copy of the logits, and the other arrays in place, or their
  /// copies if they are short.
  focal_span<T> span() {
    if (count_ == size_) return {x_, from_.t, from_.upstream, from_.out};
    return {x_, from_.t != nullptr ? t_ : nullptr, from_.upstream != nullptr ? upstream_ : nullptr,
            from_.out != nullptr ? out_ : nullptr};
  }

  /// Writes the results to where the elements belong.
  void write() const {
    if (count_ != size_ && from_.out != nullptr) copy_elements(out_, count_, from_.out);
  }

 private:
  /// The elements from k on; -inf beyond the end.
  VECDET_INLINE row_pack<real> row_of(const T* x, int k) const {
    if (k + row_lanes <= count_) return load_pack<row>(x + k);
    if (k >= count_) return -infinity<real>();
    alignas(64) T rest[row_lanes];
    fill_elements(minus_infinity<T>(), row_lanes, rest);
    copy_elements(x + k, count_ - k, rest);
    return load_pack<row>(rest);
  }
  VECDET_INLINE void copy_if_short(const T* from, T* to) const {
    if (from == nullptr || count_ == size_) return;
    fill_elements(T(0.0f), size_, to);
    copy_elements(from, count_, to);
  }

  focal_span<T> from_;
  int count_, size_;
  alignas(64) T x_[max_focal_group], t_[max_focal_group], upstream_[max_focal_group],
      out_[max_focal_group];
};

/// Computes elements [begin, begin + count) of a run with holes, padded to `size`.
template <class T>
VECDET_NOINLINE void focal_padded(const focal_equation<T>& equation, const focal_span<T>& run,
                                  index_t begin, int count, int size, const focal_holes& holes,
                                  lane_sums& sums) {
  focal_padded_block<T> block(run, begin, count, size, holes);
  equation.compute(equation, block.span(), size, sums);
  if (run.out == nullptr) return;
  block.write();
  // 0 for any weight and upstream gradient, also for NaN.
  T* const out = run.out + begin;
  holes.within(begin, begin + count,
               [&](index_t b, index_t e) { fill_elements(T(0.0f), e - b, out + b); });
}

/// Computes `size` elements except for the holes.
template <class T>
VECDET_NOINLINE double focal_run(const focal_equation<T>& equation, const focal_span<T>& run,
                                 index_t size, focal_holes holes) {
  const int group = equation.group;
  lane_sums sums;
  for (index_t i = 0; i < size;) {
    holes.skip_to(i);
    const int step = size - i >= group ? group : focal_block;
    if (const index_t clear = holes.next_begin(size) - i; clear >= step) {
      const index_t whole = clear / step * step;
      equation.compute(equation, run.at(i), whole, sums);
      i += whole;
    } else if (const index_t hole = holes.next_end(i) - i; clear <= 0 && hole >= step) {
      if (run.out != nullptr) fill_elements(T(0.0f), hole, run.out + i);
      i += hole;
    } else {
      const int count = static_cast<int>(size - i < step ? size - i : step);
      focal_padded(equation, run, i, count, step, holes, sums);
      i += count;
    }
  }
  return sums.total();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Max pooling of planes, with neighbouring columns of the output in lanes.
//
// The rows of the input that a row of windows reads are copied to a ring, with -infinity for the
// columns of the padding. Columns are sorted by their remainder modulo the stride. The columns that
// a position of neighbouring windows reads then follow each other.
#pragma once

#include <vecdet/args/max_pool.hpp>
#include <vecdet/kernels/max_pool/wins.hpp>
#include <vecdet/simd/bytes.hpp>
#include <vecdet/simd/transpose.hpp>

#include <limits>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

constexpr index_t at_least(index_t size, index_t least) { return size < least ? least : size; }
constexpr index_t at_most(index_t size, index_t most) { return size < most ? size : most; }

/// The rows of a plane in a ring.
template <class T>
class pool_ring {
 public:
  using real = compute_type<T>;

  pool_ring(const detail::pool_windows& windows, real* memory)
      : x_(windows.x), slots_(slots(windows)), remainder_(length(windows.x)), memory_(memory) {}

  static index_t size(const detail::pool_windows& windows) {
    return slots(windows) * remainders(windows.x) * length(windows.x);
  }

  /// Copies row y of the plane.
  void take(const T* row, index_t y) {
    real* to = slot(y);
    const real nothing = -std::numeric_limits<real>::infinity();
    if constexpr (std::is_same<real, float>::value) {
      if (x_.stride == 2 && remainders(x_) == 2) {
        take_pairs(row, to);
        return;
      }
    }
    for (index_t r = 0; r < remainders(x_); ++r, to += remainder_) {
      // Entry k is column k * stride + r - padding.
      const index_t first = r - x_.padding;
      const index_t begin =
          at_most(first < 0 ? (-first + x_.stride - 1) / x_.stride : 0, remainder_);
      const index_t left = x_.inputs - first;
      const index_t end =
          at_least(at_most(left <= 0 ? 0 : (left + x_.stride - 1) / x_.stride, remainder_), begin);
      for (index_t k = 0; k < begin; ++k) to[k] = nothing;
      if (x_.stride == 1)
        convert(row + begin + first, end - begin, to + begin);
      else
        for (index_t k = begin; k < end; ++k) to[k] = static_cast<real>(row[k * x_.stride + first]);
      for (index_t k = end; k < remainder_; ++k) to[k] = nothing;
    }
  }

  /// Where a row begins, and where in it the columns of the windows' position j are, one window
  /// after the other.
  VECDET_INLINE const real* row(index_t y) const { return slot(y); }
  VECDET_INLINE index_t column(index_t j) const {
    const index_t at = j * x_.dilation;
    return at % x_.stride * remainder_ + at / x_.stride;
  }

 private:
  static index_t slots(const detail::pool_windows& windows) {
    return at_most(windows.y.reach() + 1, windows.y.inputs);
  }
  static index_t remainders(const detail::pool_axis& x) { return at_most(x.reach() + 1, x.stride); }
  /// Whole rows of 16 windows are read.
  static index_t length(const detail::pool_axis& x) {
    return at_least(x.outputs, row_lanes) + x.reach() / x.stride;
  }
  VECDET_INLINE real* slot(index_t y) const {
    return memory_ + y % slots_ * remainders(x_) * remainder_;
  }

  /// The same for a stride of 2. Even and odd columns are split, 16 pairs at a time.
  void take_pairs(const T* row, real* to) {
    const auto column = [&](index_t at) {
      return at >= 0 && at < x_.inputs ? static_cast<real>(row[at])
                                       : -std::numeric_limits<real>::infinity();
    };
    constexpr int N = row_pack<float>::batches;
    real* const odd = to + remainder_;
    index_t k = 0;
    const auto one = [&] {
      to[k] = column(2 * k - x_.padding);
      odd[k] = column(2 * k + 1 - x_.padding);
      ++k;
    };
    while (k < remainder_ && 2 * k < x_.padding) one();
    for (; k + row_lanes <= remainder_ && 2 * (k + row_lanes) - x_.padding <= x_.inputs;
         k += row_lanes) {
      const auto both = load_pack<2 * N>(row + 2 * k - x_.padding);
      VECDET_UNROLL
      for (int b = 0; b < N; ++b) {
        f32_batch even_columns = both.v[2 * b], odd_columns = both.v[2 * b + 1];
        split_even_odd(even_columns, odd_columns);
        store(to + k + b * batch_lanes<float>, even_columns);
        store(odd + k + b * batch_lanes<float>, odd_columns);
      }
    }
    while (k < remainder_) one();
  }

  const detail::pool_axis& x_;
  index_t slots_, remainder_;
  real* memory_;
};

template <class T>
index_t pool_plane_scratch_size(const detail::pool_windows& windows) {
  return at_least(windows.x.outputs, row_lanes) + pool_ring<T>::size(windows);
}

template <class T, bool HasPositions>
void pool_plane(const detail::max_pool_args<T>& a, index_t plane, index_t first, index_t last,
                compute_type<T>* scratch) {
  using real = compute_type<T>;
  constexpr int N = row_pack<real>::batches;
  const detail::pool_axis &y = a.windows.y, &x = a.windows.x;
  const T* const input = a.input + plane * y.inputs * x.inputs;
  const index_t out = plane * y.outputs * x.outputs;
  // The first position of each window in a row of positions, for windows with nothing above
  // -infinity. Windows without a position in the map get position 0.
  constexpr real none = -256;
  real* const first_inside = scratch;
  const index_t length = at_least(x.outputs, row_lanes);
  for (index_t o = 0; o < length; ++o)
    first_inside[o] =
        x.first_inside(o) < x.end_inside(o) ? static_cast<real>(x.first_inside(o)) : none;
  pool_ring<T> ring(a.windows, scratch + length);
  index_t shift[256];
  for (index_t j = 0; j < x.size; ++j) shift[j] = ring.column(j);
  const real* columns[256];
  real numbers[256];
  index_t next = 0;
  for (index_t o = first; o < last; ++o) {
    const index_t begin = y.first_inside(o), end = y.end_inside(o);
    if (begin < end) {
      // Also rows between those of this window: later windows may read them.
      next = at_least(next, at_least(y.begin(o), 0));
      for (; next <= y.begin(o) + (end - 1) * y.dilation; ++next)
        ring.take(input + next * x.inputs, next);
    }
    index_t count = 0;
    for (index_t i = begin; i < end; ++i) {
      const real* const from = ring.row(y.begin(o) + i * y.dilation);
      for (index_t j = 0; j < x.size; ++j, ++count) {
        columns[count] = from + shift[j];
        numbers[count] = static_cast<real>(i * x.size + j);
      }
    }
    const row_pack<real> row(begin < end ? static_cast<real>(begin * x.size) : none);
    T* const values = a.output + out + o * x.outputs;
    std::uint8_t* const positions = HasPositions ? a.positions + out + o * x.outputs : nullptr;
    pool_sixteens<HasPositions, T>(
        x.outputs,
        [&](index_t at) VECDET_INLINE_LAMBDA {
          return max(load_pack<N>(first_inside + at) + row, row_pack<real>(real(0)));
        },
        count, numbers,
        [&](index_t k, index_t at) VECDET_INLINE_LAMBDA { return load_pack<N>(columns[k] + at); },
        values, positions);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

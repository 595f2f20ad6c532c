// SPDX-License-Identifier: Apache-2.0
// IoU of rotated boxes: of all pairs of two lists, and of corresponding boxes of two lists.
//
// All pairs: the enclosing upright boxes of one box of `a` and a tile of `b` are compared first.
// The few boxes of `b` that remain are packed together, so that the expensive part runs on full
// registers. Pairs of upright boxes have the IoU of their corners, operation by operation.
//
// Pairs of float boxes whose areas could over- or underflow are computed in double.
#pragma once

#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/rotated_boxes/convert.hpp>
#include <vecdet/kernels/rotated_boxes/nms.hpp>
#include <vecdet/kernels/rotated_boxes/pairs.hpp>
#include <vecdet/kernels/rotated_boxes/prob_iou.hpp>
#include <vecdet/kernels/rotated_boxes/prob_loss.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::rotated_iou_args;

/// Boxes of `b` that are processed together.
constexpr int rotated_columns = 256;
template <class Real>
using rotated_columns_tile = rotated_tile<Real, rotated_columns>;
/// One box against the boxes of a tile.
template <class Real>
struct rotated_ious {
  static constexpr int N = 1, lanes = pack<Real, N>::lanes;
  using real = pack<Real, N>;
  const rotated_row_tile<Real>& a;
  const rotated_columns_tile<Real>& b;
  bool empty_is_zero;
  alignas(64) Real value[rotated_columns];  ///< the results
  alignas(64) std::uint32_t left[rotated_columns + 16];

  /// Fills value[0, size) with the IoUs of box i.
  VECDET_NOINLINE void compute(int i, int size) {
    const bool is_upright = a.upright[i] != 0 && b.has_upright;
    const int count = is_upright ? scan<true>(i, size) : scan<false>(i, size);
    const auto box = a.template repeated<N>(i);
    for (int k = 0; k < count; k += row_lanes) {
      // Fill up with the last box.
      for (int j = count; j < k + row_lanes; ++j) left[j] = left[count - 1];
      intersect(box, left + k);
    }
  }

 private:
  /// Writes what the enclosing boxes decide, and returns the number of boxes that are left.
  template <bool Upright>
  VECDET_INLINE int scan(int i, int size) {
    const real zero = Real(0), area = a.area[i], one = Real(1);
    const auto enclosing = a.template repeated_enclosing<N>(i);
    const auto corners = a.template repeated_corners<N>(i);
    const bool has_area = a.area[i] > 0;
    int count = 0;
    for (int j = 0; j < size; j += lanes) {
      auto is_decided = are_apart(enclosing, b.template enclosing<N>(j));
      real iou = zero;
      if (!has_area) iou = iou_of_areas(zero, area, load_pack<N>(b.area + j), empty_is_zero);
      if constexpr (Upright) {
        const auto upright = load_pack<N>(b.upright + j) == one;
        iou = select(upright, upright_iou(corners, b.template corners<N>(j), empty_is_zero), iou);
        is_decided = is_decided | upright;
      }
      store_pack<N>(value + j, iou);
      const int in_range = size - j < lanes ? size - j : lanes;
      const std::uint32_t bits = ~to_bits(is_decided) & ((1u << in_range) - 1);
      if (bits != 0) count += write_set_bits(bits, static_cast<std::uint32_t>(j), left + count);
    }
    return count;
  }

  /// Writes the IoUs of the box with those of 16 numbers.
  VECDET_INLINE void intersect(const rotated_pack<Real, N>& box, const std::uint32_t* at) {
    alignas(64) Real gathered[7][row_lanes], iou[row_lanes];
    for (int k = 0; k < row_lanes; ++k) {
      const std::uint32_t j = at[k];
      gathered[0][k] = b.x[j], gathered[1][k] = b.y[j];
      gathered[2][k] = b.half_width[j], gathered[3][k] = b.half_height[j];
      gathered[4][k] = b.cosine[j], gathered[5][k] = b.sine[j], gathered[6][k] = b.area[j];
    }
    for (int k = 0; k < row_lanes; k += lanes) {
      const rotated_pack<Real, N> other{
          load_pack<N>(gathered[0] + k), load_pack<N>(gathered[1] + k),
          load_pack<N>(gathered[2] + k), load_pack<N>(gathered[3] + k),
          load_pack<N>(gathered[4] + k), load_pack<N>(gathered[5] + k),
          load_pack<N>(gathered[6] + k)};
      store_pack<N>(iou + k,
                    iou_of_areas(intersection_of(box, other), box.area, other.area, empty_is_zero));
    }
    for (int k = 0; k < row_lanes; ++k) value[at[k]] = iou[k];
  }
};

/// The boxes of `a` against the boxes [first_b, first_b + size) of a tile.
template <class Real, class T>
VECDET_NOINLINE void rotated_rows(const rotated_iou_args<T>& args, const rotated_row_tile<Real>& a,
                                  int rows, const rotated_columns_tile<Real>& b, int size, T* out) {
  rotated_ious<Real> ious{a, b, args.rule == empty_iou::zero, {}, {}};
  for (int i = 0; i < rows; ++i) {
    ious.compute(i, size);
    T* const to = out + i * args.out_stride;
    if constexpr (std::is_same<Real, T>::value)
      __builtin_memcpy(to, ious.value, static_cast<std::size_t>(size) * sizeof(T));
    else
      for (int j = 0; j < size; ++j)
        if (a.extreme[i] || b.extreme[j]) to[j] = static_cast<T>(ious.value[j]);
  }
}

/// The same in double, for the pairs with an extreme box.
template <class T>
VECDET_NOINLINE void extreme_rows(const rotated_iou_args<T>& args, index_t first_a, int rows,
                                  index_t first_b, int size, T* out) {
  rotated_row_tile<double> a;
  rotated_columns_tile<double> b;
  a.fill(args.a, args.a_stride, first_a, rows, args.angles);
  b.fill(args.b, args.b_stride, first_b, size, args.angles);
  rotated_rows(args, a, rows, b, size, out);
}

template <class T>
void pairwise_rotated_iou(const rotated_iou_args<T>& args, index_t first_a, index_t last_a,
                          index_t first_b, index_t last_b) {
  rotated_columns_tile<T> b;
  rotated_row_tile<T> a;
  const auto at_most = [](index_t count, int most) {
    return static_cast<int>(count < most ? count : index_t{most});
  };
  for (index_t begin = first_b; begin < last_b; begin += rotated_columns) {
    const int size = at_most(last_b - begin, rotated_columns);
    b.fill(args.b, args.b_stride, begin, size, args.angles);
    for (index_t i = first_a; i < last_a; i += row_lanes) {
      const int rows = at_most(last_a - i, row_lanes);
      a.fill(args.a, args.a_stride, i, rows, args.angles);
      T* const out = args.out + i * args.out_stride + begin;
      rotated_rows(args, a, rows, b, size, out);
      if (a.has_extreme || b.has_extreme) extreme_rows(args, i, rows, begin, size, out);
    }
  }
}

/// The IoUs of up to 16 pairs.
template <class Real, class T>
VECDET_NOINLINE void rotated_pairs(const rotated_iou_args<T>& args, const rotated_row_tile<Real>& a,
                                   const rotated_row_tile<Real>& b, int size, T* out) {
  alignas(64) Real iou[row_lanes];
  ious_of_sixteen<true>(a, 0, b, args.rule == empty_iou::zero, iou);
  for (int k = 0; k < size; ++k)
    if (std::is_same<Real, T>::value || a.extreme[k] || b.extreme[k])
      out[k] = static_cast<T>(iou[k]);
}

template <class T>
VECDET_NOINLINE void extreme_pairs(const rotated_iou_args<T>& args, index_t first, int size) {
  rotated_row_tile<double> a, b;
  a.fill(args.a, args.a_stride, first, size, args.angles);
  b.fill(args.b, args.b_stride, first, size, args.angles);
  rotated_pairs(args, a, b, size, args.out + first);
}

template <class T>
void elementwise_rotated_iou(const rotated_iou_args<T>& args, index_t first, index_t last) {
  rotated_row_tile<T> a, b;
  for (index_t i = first; i < last; i += row_lanes) {
    const int size = static_cast<int>(last - i < row_lanes ? last - i : index_t{row_lanes});
    a.fill(args.a, args.a_stride, i, size, args.angles);
    b.fill(args.b, args.b_stride, i, size, args.angles);
    rotated_pairs(args, a, b, size, args.out + i);
    if (a.has_extreme || b.has_extreme) extreme_pairs(args, i, size);
  }
}

template <class T>
struct kernels_of<detail::rotated_boxes_kernels<T>> {
  static constexpr detail::rotated_boxes_kernels<T> get() {
    detail::rotated_boxes_kernels<T> kernels{};
    kernels.pairwise_iou = pairwise_rotated_iou<T>;
    kernels.elementwise_iou = elementwise_rotated_iou<T>;
    kernels.convert = convert_rotated_boxes<T>;
    kernels.pairwise_prob_iou = pairwise_prob_iou<T>;
    kernels.elementwise_prob_iou = elementwise_prob_iou<T>;
    kernels.prob_iou_loss = prob_iou_loss<T>;
    kernels.nms = rotated_nms<T, exact_overlap>;
    kernels.nms_scratch_bytes = rotated_nms_scratch_bytes<T, exact_overlap>;
    kernels.prob_nms = rotated_nms<T, prob_overlap>;
    kernels.prob_nms_scratch_bytes = rotated_nms_scratch_bytes<T, prob_overlap>;
    kernels.drop_degenerate = drop_degenerate_rotated<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(rotated_boxes_kernels<float>)
VECDET_KERNELS(rotated_boxes_kernels<double>)

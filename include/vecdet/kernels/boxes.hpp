// SPDX-License-Identifier: Apache-2.0
// Boxes in registers, in one of two forms.
//
// box_pack: four packs, one per coordinate, from N x 4 numbers in memory. If registers hold several
// 128-bit lanes, transposing within these lanes costs two shuffles per batch and changes the order
// of the boxes. The order matters only when boxes meet numbers stored one per box: to_box_order and
// to_lane_order convert a pack between the two orders.
//
// box_halves: two packs, (x1, y1) and (x2, y2) of all boxes. Code that treats both axes alike needs
// no more. It takes half the shuffles, and a constant that differs by axis takes one register.
#pragma once

#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/shuffles.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Four numbers of each of many boxes: corners, centre and size, or deltas.
template <class Real, int N>
struct box_pack {
  static constexpr int count = pack<Real, N>::lanes;
  pack<Real, N> x1, y1, x2, y2;
};

/// The results of a box loss for each box: the loss, and its gradient with respect to the four
/// numbers.
template <class Real, int N>
struct box_loss_terms {
  pack<Real, N> loss;
  box_pack<Real, N> grad;
};

/// The first two and the last two numbers of each of many boxes: two corners, centre and size, or
/// their deltas. Lanes alternate between the axes; if coordinates are in separate arrays, the first
/// half of the batches is x.
template <class Real, int N>
struct box_halves {
  static constexpr int count = pack<Real, N>::lanes / 2;
  pack<Real, N> first, second;
};

/// Batches of each coordinate that are processed together. With more, four coordinates and the
/// intermediate results would not fit 16 registers.
constexpr int boxes_in_flight = 1;

/// Reads box_pack<..., N>::count boxes.
template <int N, class T>
VECDET_INLINE box_pack<compute_type<T>, N> load_boxes(const T* from) {
  using real = compute_type<T>;
  constexpr int lanes = batch_lanes<real>;
  box_pack<real, N> boxes;
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) {
    batch<real> r[4];
    if constexpr (std::is_same<T, bfloat16>::value) {
      load_two(from + 4 * i * lanes, r[0], r[1]);
      load_two(from + (4 * i + 2) * lanes, r[2], r[3]);
      transpose4(r);
    } else if constexpr (std::is_same<real, float>::value) {
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k) r[k] = load(from + (4 * i + k) * lanes);
      transpose4(r);
    } else {
      alignas(64) real coordinate[4][lanes];
      for (int j = 0; j < lanes; ++j)
        for (int k = 0; k < 4; ++k) coordinate[k][j] = from[4 * (i * lanes + j) + k];
      for (int k = 0; k < 4; ++k) r[k] = load(coordinate[k]);
    }
    boxes.x1.v[i] = r[0];
    boxes.y1.v[i] = r[1];
    boxes.x2.v[i] = r[2];
    boxes.y2.v[i] = r[3];
  }
  return boxes;
}

template <int N, class T>
VECDET_INLINE box_pack<compute_type<value_of<T>>, N> load_boxes(
    const detail::coordinate_arrays<T>& from) {
  return {load_pack<N>(from.at(0)), load_pack<N>(from.at(1)), load_pack<N>(from.at(2)),
          load_pack<N>(from.at(3))};
}

/// Writes them; rounds if T is bfloat16.
template <int N, class T>
VECDET_INLINE void store_boxes(T* to, const box_pack<compute_type<T>, N>& boxes) {
  using real = compute_type<T>;
  constexpr int lanes = batch_lanes<real>;
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) {
    batch<real> r[4] = {boxes.x1.v[i], boxes.y1.v[i], boxes.x2.v[i], boxes.y2.v[i]};
    if constexpr (std::is_same<T, bfloat16>::value) {
      transpose4(r);
      store_two<rounded_nans::any>(to + 4 * i * lanes, r[0], r[1]);
      store_two<rounded_nans::any>(to + (4 * i + 2) * lanes, r[2], r[3]);
    } else if constexpr (std::is_same<real, float>::value) {
      transpose4(r);
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k) store(to + (4 * i + k) * lanes, r[k]);
    } else {
      alignas(64) real coordinate[4][lanes];
      for (int k = 0; k < 4; ++k) store(coordinate[k], r[k]);
      for (int j = 0; j < lanes; ++j)
        for (int k = 0; k < 4; ++k) to[4 * (i * lanes + j) + k] = coordinate[k][j];
    }
  }
}

/// Writes one number per box, in the lanes of load_boxes, repeated for each number of a box.
template <int N, class Real>
VECDET_INLINE void store_for_each_number(Real* to, const pack<Real, N>& x) {
  if constexpr (std::is_same<Real, float>::value) {
    VECDET_UNROLL
    for (int i = 0; i < N; ++i) {
      f32_batch r[4];
      repeat4(x.v[i], r);
      VECDET_UNROLL
      for (int k = 0; k < 4; ++k) store(to + (4 * i + k) * batch_lanes<float>, r[k]);
    }
  } else {
    store_boxes(to, box_pack<Real, N>{x, x, x, x});
  }
}

/// Reads box_halves<..., N>::count boxes.
template <int N, class T>
VECDET_INLINE box_halves<compute_type<T>, N> load_halves(const T* from) {
  const auto both = load_pack<2 * N>(from);
  box_halves<compute_type<T>, N> boxes;
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) {
    boxes.first.v[i] = both.v[2 * i];
    boxes.second.v[i] = both.v[2 * i + 1];
    transpose_pairs(boxes.first.v[i], boxes.second.v[i]);
  }
  return boxes;
}
template <int N, class T>
VECDET_INLINE box_halves<compute_type<value_of<T>>, N> load_halves(
    const detail::coordinate_arrays<T>& from) {
  const auto boxes = load_boxes<N / 2>(from);
  return {joined(boxes.x1, boxes.y1), joined(boxes.x2, boxes.y2)};
}

/// Writes them; rounds if T is bfloat16.
template <int N, class T>
VECDET_INLINE void store_halves(T* to, const box_halves<compute_type<T>, N>& boxes) {
  pack<compute_type<T>, 2 * N> both;
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) {
    both.v[2 * i] = boxes.first.v[i];
    both.v[2 * i + 1] = boxes.second.v[i];
    transpose_pairs(both.v[2 * i], both.v[2 * i + 1]);
  }
  store_pack<2 * N>(to, both);
}
template <int N, class T>
VECDET_INLINE void store_halves(const detail::coordinate_arrays<T>& to,
                                const box_halves<compute_type<T>, N>& boxes) {
  store_pack<N / 2>(to.at(0), slice<N / 2>(boxes.first, 0));
  store_pack<N / 2>(to.at(1), slice<N / 2>(boxes.first, N / 2));
  store_pack<N / 2>(to.at(2), slice<N / 2>(boxes.second, 0));
  store_pack<N / 2>(to.at(3), slice<N / 2>(boxes.second, N / 2));
}

/// The boxes of halves, loaded from N x 4, as one pack per coordinate.
template <int N, class Real>
VECDET_INLINE box_pack<Real, N / 2> coordinates(const box_halves<Real, N>& boxes) {
  if constexpr (std::is_same<Real, float>::value) {
    box_pack<float, N / 2> result;
    VECDET_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      result.x1.v[i] = boxes.first.v[2 * i];
      result.y1.v[i] = boxes.first.v[2 * i + 1];
      result.x2.v[i] = boxes.second.v[2 * i];
      result.y2.v[i] = boxes.second.v[2 * i + 1];
      split_axes(result.x1.v[i], result.y1.v[i]);
      split_axes(result.x2.v[i], result.y2.v[i]);
    }
    return result;
  } else {
    alignas(64) Real number[4 * box_halves<Real, N>::count];
    store_halves<N>(number, boxes);
    return load_boxes<N / 2>(number);
  }
}

/// x in the lanes of the x axis and y in those of the y axis, in the layout of box_halves for boxes
/// with storage S.
template <class S, int N, class Real>
VECDET_INLINE pack<Real, N> by_axis(Real x, Real y) {
  if constexpr (std::is_pointer<typename detail::stored<S>::in>::value) {
    const batch<Real> both = alternating(x, y);
    pack<Real, N> result;
    VECDET_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = both;
    return result;
  } else {
    return joined(pack<Real, N / 2>(x), pack<Real, N / 2>(y));
  }
}

/// Reorders numbers, one per box, computed from load_boxes: from lane order to box order.
template <class S, class Real, int N>
VECDET_INLINE pack<Real, N> each_in_box_order(const pack<Real, N>& x) {
  if constexpr (std::is_pointer<typename detail::stored<S>::in>::value) return to_box_order(x);
  return x;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Boxes in registers, in one of two forms.
//
// box_pack: the N x 4 numbers in memory become four packs, one a coordinate. Where registers hold
// several 128-bit lanes, transposing within the lanes costs two shuffles a batch and leaves the
// boxes in another order. That does not matter until it meets numbers that lie one a box in memory:
// to_box_order and to_lane_order change a pack from one order to the other.
//
// box_halves: two packs, (x1, y1) of all boxes and (x2, y2). What treats both axes alike needs no
// more: it costs half the shuffles, and a constant that differs by axis takes one register.
#pragma once

#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Four numbers of each of many boxes: corners, centre and size, or deltas.
template <class Real, int N>
struct box_pack {
  static constexpr int count = pack<Real, N>::lanes;
  pack<Real, N> x1, y1, x2, y2;
};

/// What a loss of boxes computes of each: the loss, and its gradient by the four numbers.
template <class Real, int N>
struct box_loss_terms {
  pack<Real, N> loss;
  box_pack<Real, N> grad;
};

/// The first two and the last two numbers of each of many boxes: two corners, centre and size, or
/// the deltas of these. Lanes alternate between the axes, or the first half of the batches is x
/// where the coordinates lie in arrays of their own.
template <class Real, int N>
struct box_halves {
  static constexpr int count = pack<Real, N>::lanes / 2;
  pack<Real, N> first, second;
};

/// Batches of each coordinate that are worked on at once: with more, four coordinates and what is
/// computed of them would not fit 16 registers.
constexpr int boxes_in_flight = 1;

// transpose_pairs: of numbers a0 a1 a2 a3... and b0 b1 b2 b3..., a gets a0 a1 b0 b1... and b gets
// a2 a3 b2 b3... in every four; twice gives them back. split_axes: a gets a0 a2 b0 b2..., b gets
// a1 a3 b1 b3... alternating: even, odd, even, odd...
#if defined(VECDET_TARGET_AVX512)

VECDET_INLINE f32_batch interleave_lower(f32_batch a, f32_batch b) {
  return _mm512_unpacklo_ps(a, b);
}
VECDET_INLINE f32_batch interleave_upper(f32_batch a, f32_batch b) {
  return _mm512_unpackhi_ps(a, b);
}
VECDET_INLINE void transpose_pairs(f32_batch& a, f32_batch& b) {
  const __m512d lower = _mm512_castps_pd(a), upper = _mm512_castps_pd(b);
  a = _mm512_castpd_ps(_mm512_unpacklo_pd(lower, upper));
  b = _mm512_castpd_ps(_mm512_unpackhi_pd(lower, upper));
}
VECDET_INLINE void transpose_pairs(f64_batch& a, f64_batch& b) {
  const __m512d lower = a, upper = b;
  a = _mm512_permutex2var_pd(lower, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), upper);
  b = _mm512_permutex2var_pd(lower, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), upper);
}
VECDET_INLINE void split_axes(f32_batch& a, f32_batch& b) {
  const f32_batch even = _mm512_shuffle_ps(a, b, 0x88), odd = _mm512_shuffle_ps(a, b, 0xdd);
  a = even;
  b = odd;
}
VECDET_INLINE f64_batch alternating(double even, double odd) {
  return _mm512_unpacklo_pd(_mm512_set1_pd(even), _mm512_set1_pd(odd));
}
VECDET_INLINE f32_batch to_box_order(f32_batch x) {
  return _mm512_permutexvar_ps(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}
VECDET_INLINE f32_batch to_lane_order(f32_batch x) { return to_box_order(x); }

#elif defined(VECDET_TARGET_AVX2)

VECDET_INLINE f32_batch interleave_lower(f32_batch a, f32_batch b) {
  return _mm256_unpacklo_ps(a, b);
}
VECDET_INLINE f32_batch interleave_upper(f32_batch a, f32_batch b) {
  return _mm256_unpackhi_ps(a, b);
}
VECDET_INLINE void transpose_pairs(f32_batch& a, f32_batch& b) {
  const __m256d lower = _mm256_castps_pd(a), upper = _mm256_castps_pd(b);
  a = _mm256_castpd_ps(_mm256_unpacklo_pd(lower, upper));
  b = _mm256_castpd_ps(_mm256_unpackhi_pd(lower, upper));
}
VECDET_INLINE void transpose_pairs(f64_batch& a, f64_batch& b) {
  const __m256d lower = a, upper = b;
  a = _mm256_permute2f128_pd(lower, upper, 0x20);
  b = _mm256_permute2f128_pd(lower, upper, 0x31);
}
VECDET_INLINE void split_axes(f32_batch& a, f32_batch& b) {
  const f32_batch even = _mm256_shuffle_ps(a, b, 0x88), odd = _mm256_shuffle_ps(a, b, 0xdd);
  a = even;
  b = odd;
}
VECDET_INLINE f64_batch alternating(double even, double odd) {
  return _mm256_unpacklo_pd(_mm256_set1_pd(even), _mm256_set1_pd(odd));
}
VECDET_INLINE f32_batch to_box_order(f32_batch x) {
  return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
VECDET_INLINE f32_batch to_lane_order(f32_batch x) {
  return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

#else

VECDET_INLINE f32_batch interleave_lower(f32_batch a, f32_batch b) { return xsimd::zip_lo(a, b); }
VECDET_INLINE f32_batch interleave_upper(f32_batch a, f32_batch b) { return xsimd::zip_hi(a, b); }
VECDET_INLINE void transpose_pairs(f32_batch& a, f32_batch& b) {
  const f64_batch lower = bit_cast<double>(a), upper = bit_cast<double>(b);
  a = bit_cast<float>(xsimd::zip_lo(lower, upper));
  b = bit_cast<float>(xsimd::zip_hi(lower, upper));
}
VECDET_INLINE void transpose_pairs(f64_batch&, f64_batch&) {}  // a batch is a pair
VECDET_INLINE void split_axes(f32_batch& a, f32_batch& b) {
  const f32_batch lower = xsimd::zip_lo(a, b), upper = xsimd::zip_hi(a, b);
  a = xsimd::zip_lo(lower, upper);
  b = xsimd::zip_hi(lower, upper);
}
VECDET_INLINE f64_batch alternating(double even, double odd) {
  return xsimd::zip_lo(f64_batch(even), f64_batch(odd));
}
VECDET_INLINE f32_batch to_box_order(f32_batch x) { return x; }
VECDET_INLINE f32_batch to_lane_order(f32_batch x) { return x; }

#endif

VECDET_INLINE f32_batch alternating(float even, float odd) {
  return interleave_lower(f32_batch(even), f32_batch(odd));
}

VECDET_INLINE f64_batch to_box_order(f64_batch x) { return x; }
VECDET_INLINE f64_batch to_lane_order(f64_batch x) { return x; }

template <class Real, int N>
VECDET_INLINE pack<Real, N> to_box_order(const pack<Real, N>& x) {
  return map<Real, N>([](auto b) VECDET_INLINE_LAMBDA { return VECDET_TARGET::to_box_order(b); },
                      x);
}
template <class Real, int N>
VECDET_INLINE pack<Real, N> to_lane_order(const pack<Real, N>& x) {
  return map<Real, N>([](auto b) VECDET_INLINE_LAMBDA { return VECDET_TARGET::to_lane_order(b); },
                      x);
}

/// Transposes the 4 x 4 blocks of four batches; twice gives them back.
VECDET_INLINE void transpose4(f32_batch (&r)[4]) {
  const f32_batch a = interleave_lower(r[0], r[2]), b = interleave_lower(r[1], r[3]);
  const f32_batch c = interleave_upper(r[0], r[2]), d = interleave_upper(r[1], r[3]);
  r[0] = interleave_lower(a, b);
  r[1] = interleave_upper(a, b);
  r[2] = interleave_lower(c, d);
  r[3] = interleave_upper(c, d);
}

/// What transpose4 makes of four copies of x.
VECDET_INLINE void repeat4(f32_batch x, f32_batch (&r)[4]) {
#if defined(VECDET_TARGET_AVX512)
  r[0] = _mm512_permute_ps(x, 0x00);
  r[1] = _mm512_permute_ps(x, 0x55);
  r[2] = _mm512_permute_ps(x, 0xaa);
  r[3] = _mm512_permute_ps(x, 0xff);
#elif defined(VECDET_TARGET_AVX2)
  r[0] = _mm256_permute_ps(x, 0x00);
  r[1] = _mm256_permute_ps(x, 0x55);
  r[2] = _mm256_permute_ps(x, 0xaa);
  r[3] = _mm256_permute_ps(x, 0xff);
#else
  r[0] = r[1] = r[2] = r[3] = x;
  transpose4(r);
#endif
}

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

/// Writes them; rounds when T is bfloat16.
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

/// Writes one number a box, in the lanes of load_boxes, as often as a box has numbers.
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

/// Writes them; rounds when T is bfloat16.
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

/// The boxes of halves, which lie N x 4 in memory, as a pack for each coordinate.
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

/// x in the lanes of the x axis and y in those of the y axis, as box_halves of boxes that are
/// stored as S says have them.
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

/// Numbers computed of boxes that load_boxes gave, one a box, in the order of the boxes.
template <class S, class Real, int N>
VECDET_INLINE pack<Real, N> each_in_box_order(const pack<Real, N>& x) {
  if constexpr (std::is_pointer<typename detail::stored<S>::in>::value) return to_box_order(x);
  return x;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

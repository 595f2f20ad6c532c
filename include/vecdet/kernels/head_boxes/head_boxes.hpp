// SPDX-License-Identifier: Apache-2.0
// Boxes of a head's levels as N x 4, and back. In NCHW, each of the four numbers of an anchor is a
// plane: a batch of locations is transposed in registers and each box is written at once.
#pragma once

#include <vecdet/args/head_boxes.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/simd/shuffles.hpp>
#include <vecdet/simd/transpose.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::level_box_steps;

/// Locations whose boxes are transposed together.
constexpr int transposed_boxes = batch_lanes<float>;

/// Boxes of planes `step` apart, at consecutive locations, to boxes `every` elements apart.
template <class T>
void transpose_planes(const T* planes, index_t step, T* boxes, index_t every) {
  for (int i = 0; i < transposed_boxes; ++i)
    for (int k = 0; k < 4; ++k) boxes[i * every + k] = planes[k * step + i];
}
/// The inverse.
template <class T>
void transpose_boxes(const T* boxes, index_t every, T* planes, index_t step) {
  for (int i = 0; i < transposed_boxes; ++i)
    for (int k = 0; k < 4; ++k) planes[k * step + i] = boxes[i * every + k];
}
VECDET_INLINE void transpose_planes(const float* planes, index_t step, float* boxes,
                                    index_t every) {
  f32_batch r[4];
  VECDET_UNROLL
  for (int k = 0; k < 4; ++k) r[k] = load(planes + k * step);
  transpose4(r);
  VECDET_UNROLL
  for (int i = 0; i < 4; ++i) store_quads([&](int q) { return boxes + (i + 4 * q) * every; }, r[i]);
}
VECDET_INLINE void transpose_boxes(const float* boxes, index_t every, float* planes, index_t step) {
  f32_batch r[4];
  VECDET_UNROLL
  for (int i = 0; i < 4; ++i) r[i] = load_quads([&](int q) { return boxes + (i + 4 * q) * every; });
  transpose4(r);
  VECDET_UNROLL
  for (int k = 0; k < 4; ++k) store(planes + k * step, r[k]);
}

/// Boxes of bfloat16 as pairs of 32-bit words, in the order that shuffles between two batches give.
struct bfloat16_boxes {
  alignas(64) float word[2 * transposed_boxes];

  VECDET_INLINE float* box(int i) {
    return word + i / 4 * 4 + i % 2 * 2 + i % 4 / 2 * transposed_boxes;
  }
};
VECDET_INLINE void transpose_planes(const bfloat16* planes, index_t step, bfloat16* boxes,
                                    index_t every) {
  using words = pack<std::int32_t, 1>;
  const auto pair_of = [&](int k) VECDET_INLINE_LAMBDA {
    const words low = bit_cast<std::int32_t>(load_pack<1>(planes + k * step));
    const words high = bit_cast<std::int32_t>(load_pack<1>(planes + (k + 1) * step));
    return bit_cast<float>(((low >> 16) & words(0xffff)) | high).v[0];
  };
  const f32_batch first = pair_of(0), second = pair_of(2);
  bfloat16_boxes transposed;
  store(transposed.word, interleave_lower(first, second));
  store(transposed.word + transposed_boxes, interleave_upper(first, second));
  VECDET_UNROLL
  for (int i = 0; i < transposed_boxes; ++i)
    __builtin_memcpy(boxes + i * every, transposed.box(i), 4 * sizeof(bfloat16));
}
VECDET_INLINE void transpose_boxes(const bfloat16* boxes, index_t every, bfloat16* planes,
                                   index_t step) {
  using words = pack<std::int32_t, 1>;
  bfloat16_boxes gathered;
  VECDET_UNROLL
  for (int i = 0; i < transposed_boxes; ++i)
    __builtin_memcpy(gathered.box(i), boxes + i * every, 4 * sizeof(bfloat16));
  f32_batch r[2] = {load(gathered.word), load(gathered.word + transposed_boxes)};
  split_axes(r[0], r[1]);
  VECDET_UNROLL
  for (int k = 0; k < 2; ++k) {
    pack<float, 1> pair;
    pair.v[0] = r[k];
    const words bits = bit_cast<std::int32_t>(pair);
    store_pack<1>(planes + 2 * k * step, bit_cast<float>(bits << 16));
    store_pack<1>(planes + (2 * k + 1) * step, bit_cast<float>(bits & words(-0x10000)));
  }
}

/// For each anchor of a location, its boxes in [first, last): batch(l, b) where transposed_boxes of
/// them are consecutive in each plane, and one(l, b) for single boxes. `l` is the offset of the
/// first box in the level, `b` among N x 4. The last batch may overlap the one before it.
template <class Batch, class One>
VECDET_INLINE void for_each_batch(const level_box_steps& steps, index_t first, index_t last,
                                  const Batch& batch, const One& one) {
  const index_t every = 4 * steps.anchors;
  for (index_t a = 0; a < steps.anchors; ++a) {
    const index_t begin = (first - a + steps.anchors - 1) / steps.anchors;
    const index_t count = (last - a + steps.anchors - 1) / steps.anchors - begin;
    const index_t l = begin * steps.location + a * steps.anchor;
    const index_t b = 4 * (begin * steps.anchors + a - first);
    index_t i = 0;
    if (steps.location == 1 && count >= transposed_boxes) {
      for (; i + transposed_boxes <= count; i += transposed_boxes) batch(l + i, b + i * every);
      const index_t rest = count - transposed_boxes;
      if (i < count) batch(l + rest, b + rest * every);
    } else {
      for (; i < count; ++i) one(l + i * steps.location, b + i * every);
    }
  }
}

template <class T>
void gather_boxes(const T* level, const level_box_steps& steps, index_t first, index_t last,
                  T* boxes) {
  for_each_batch(
      steps, first, last,
      [&](index_t l, index_t b) VECDET_INLINE_LAMBDA {
        transpose_planes(level + l, steps.number, boxes + b, 4 * steps.anchors);
      },
      [&](index_t l, index_t b) VECDET_INLINE_LAMBDA {
        for (index_t k = 0; k < 4; ++k) boxes[b + k] = level[l + k * steps.number];
      });
}

template <class T>
void scatter_boxes(const T* boxes, const level_box_steps& steps, index_t first, index_t last,
                   T* level) {
  for_each_batch(
      steps, first, last,
      [&](index_t l, index_t b) VECDET_INLINE_LAMBDA {
        transpose_boxes(boxes + b, 4 * steps.anchors, level + l, steps.number);
      },
      [&](index_t l, index_t b) VECDET_INLINE_LAMBDA {
        for (index_t k = 0; k < 4; ++k) level[l + k * steps.number] = boxes[b + k];
      });
}

inline index_t find_selected(const detail::selected_boxes& selected, index_t first, index_t last,
                             index_t most, index_t* found, index_t& count) {
  count = 0;
  while (first < last && count + label_block <= most) {
    // So many that all of them may select.
    const index_t left = (most - count) / label_block * label_block;
    const index_t end = last - first < left ? last : first + left;
    for_each_selected(
        selected, first, end, [](index_t, index_t) {}, [&](index_t i) { found[count++] = i; });
    first = end;
  }
  return first;
}

template <class T>
struct kernels_of<detail::head_boxes_kernels<T>> {
  static constexpr detail::head_boxes_kernels<T> get() {
    detail::head_boxes_kernels<T> kernels{};
    kernels.gather = gather_boxes<T>;
    kernels.scatter = scatter_boxes<T>;
    kernels.find = find_selected;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(head_boxes_kernels)

// SPDX-License-Identifier: Apache-2.0
// The best class of every box above a threshold, in one read of the scores. For channels-first
// scores, the best scores so far of some thousand boxes stay in the cache while the planes stream
// through. Each plane is compared with them, 64 boxes per branch; few boxes have a new best score.
#pragma once

#include <vecdet/args/postprocess_yolo.hpp>
#include <vecdet/kernels/best_records.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/math.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::yolo_search_args;

/// The best scores of a tile's boxes, above the threshold, and their classes.
class yolo_tile {
  using floats = row_pack<float>;
  static constexpr int batches = floats::batches, lanes = row_lanes, together = 64;
  using integers = pack<std::int32_t, batches>;

 public:
  // All boxes of a 640 x 640 input: consecutive planes then form one stream.
  static constexpr index_t most_boxes = 8448;

  VECDET_INLINE void start(index_t boxes, float threshold) {
    size_ = boxes;
    for (index_t i = 0; i < boxes; i += lanes) store_pack<batches>(best_ + i, floats(threshold));
  }

  /// Notes scores below least_probability if `looks`.
  template <bool looks, class T>
  VECDET_INLINE void add_plane(const T* plane, index_t class_index) {
    const auto number = static_cast<float>(class_index);
    integers signs(0);  // their or: a minimum would be slower
    index_t i = 0;
    for (; i + together <= size_; i += together) {
      uint32_t bits[together / lanes], any = 0;
      VECDET_UNROLL
      for (int k = 0; k < together / lanes; ++k) {
        bits[k] = greater_bits<looks>(plane + i + k * lanes, i + k * lanes, signs);
        any |= bits[k];
      }
      if (__builtin_expect(any == 0, 1)) continue;
      VECDET_UNROLL
      for (int k = 0; k < together / lanes; ++k)
        if (bits[k] != 0) take(plane + i + k * lanes, i + k * lanes, number);
    }
    for (; i + lanes <= size_; i += lanes)
      if (greater_bits<looks>(plane + i, i, signs) != 0) take(plane + i, i, number);
    if constexpr (looks) {
      // A sign bit may also be that of -0, NaN or a number within the margin.
      const bool has_sign = to_bits(signs < integers(0)) != 0;
      for (index_t k = has_sign ? 0 : i; k < size_; ++k)
        has_negative_ |= static_cast<float>(plane[k]) < detail::least_probability;
    }
    for (; i < size_; ++i) {
      const auto x = static_cast<float>(plane[i]);
      if (!(x > best_[i])) continue;
      best_[i] = x;
      class_[i] = number;
    }
  }

  /// Whether one of the scores so far is below least_probability.
  VECDET_INLINE bool has_negative() const { return has_negative_; }

  /// Calls use(box, score, class) in box order for every box above the threshold given to start().
  template <class Use>
  VECDET_INLINE void for_each_found(float threshold, const Use& use) {
    const index_t padded = (size_ + lanes - 1) / lanes * lanes;
    for (index_t i = size_; i < padded; ++i) best_[i] = threshold;
    for (index_t i = 0; i < padded; i += lanes) {
      uint32_t bits = to_bits(load_pack<batches>(best_ + i) > floats(threshold));
      for (; bits != 0; bits &= bits - 1) {
        const index_t box = i + lowest_bit(bits);
        use(box, best_[box], static_cast<index_t>(class_[box]));
      }
    }
  }

 private:
  template <bool looks, class T>
  VECDET_INLINE uint32_t greater_bits(const T* plane, index_t box, integers& signs) const {
    const floats x = load_pack<batches>(plane);
    if constexpr (looks) signs = signs | bit_cast<std::int32_t>(x);
    return to_bits(x > load_pack<batches>(best_ + box));
  }
  template <class T>
  VECDET_INLINE void take(const T* plane, index_t box, float number) {
    const floats x = load_pack<batches>(plane), before = load_pack<batches>(best_ + box);
    const auto greater = x > before;
    store_pack<batches>(best_ + box, select(greater, x, before));
    store_pack<batches>(class_ + box,
                        select(greater, floats(number), load_pack<batches>(class_ + box)));
  }

  index_t size_ = 0;
  bool has_negative_ = false;
  alignas(64) float best_[most_boxes];
  alignas(64) float class_[most_boxes];  ///< below 2^24; unset where the score is the threshold
};

template <bool looks, class T>
index_t search_yolo_planes(const yolo_search_args<T>& args, index_t first, index_t last,
                           uint64_t* records, uint64_t* spare) {
  best_records found(args, records, spare);
  yolo_tile tile;
  for (index_t begin = first; begin < last; begin += yolo_tile::most_boxes) {
    const index_t size =
        last - begin < yolo_tile::most_boxes ? last - begin : yolo_tile::most_boxes;
    const float threshold = found.threshold();
    tile.start(size, threshold);
    for (index_t c = 0; c < args.classes; ++c)
      tile.add_plane<looks>(args.scores + c * args.stride + begin, c);
    tile.for_each_found(
        threshold, [&](index_t box, float score, index_t class_index) VECDET_INLINE_LAMBDA {
          if (score > found.threshold())
            found.add(score, (begin + box) * args.classes + class_index, class_index);
        });
  }
  if constexpr (looks) *args.has_outside = tile.has_negative();
  return found.finish();
}

template <class T>
index_t search_yolo_channels(const yolo_search_args<T>& args, index_t first, index_t last,
                             uint64_t* records, uint64_t* spare) {
  return args.has_outside != nullptr ? search_yolo_planes<true>(args, first, last, records, spare)
                                     : search_yolo_planes<false>(args, first, last, records, spare);
}

/// The maximum of a row's products; -infinity if all are NaN.
template <class T>
VECDET_INLINE float greatest_score(const T* scores, index_t classes, float objectness) {
  using floats = row_pack<float>;
  constexpr int batches = floats::batches;
  float greatest = -infinity<float>();
  index_t c = 0;
  if (classes >= row_lanes) {
    floats most(-infinity<float>());
    for (; c + row_lanes <= classes; c += row_lanes)
      most = max(load_pack<batches>(scores + c) * floats(objectness), most);  // skips NaN
    alignas(64) float lane[row_lanes];
    store_pack<batches>(lane, most);
    greatest = greatest16(lane);
  }
  for (; c < classes; ++c) {
    const float score = static_cast<float>(scores[c]) * objectness;
    greatest = score > greatest ? score : greatest;
  }
  return greatest;
}

/// Whether a score of a row is no probability.
template <class T>
VECDET_INLINE bool any_outside(const T* scores, index_t classes) {
  using floats = row_pack<float>;
  floats least(0), most(0);
  index_t c = 0;
  for (; c + row_lanes <= classes; c += row_lanes) {
    const floats x = load_pack<floats::batches>(scores + c);
    least = min(x, least);  // both skip NaN
    most = max(x, most);
  }
  bool any = (to_bits(least < floats(detail::least_probability)) |
              to_bits(most > floats(detail::greatest_probability))) != 0;
  for (; c < classes; ++c) {
    const auto x = static_cast<float>(scores[c]);
    any |= x < detail::least_probability || x > detail::greatest_probability;
  }
  return any;
}

template <class T>
index_t search_yolo_rows(const yolo_search_args<T>& args, index_t first, index_t last,
                         uint64_t* records, uint64_t* spare) {
  constexpr index_t ahead = 24;  // rows to prefetch: most are read only for their objectness
  best_records found(args, records, spare);
  const bool looks = args.has_outside != nullptr;
  bool has_outside = false;
  float least = 0;  // of the objectness
  for (index_t box = first; box < last; ++box) {
    const T* const scores = args.scores + box * args.stride;
    float objectness = 1;
    if (args.objectness != nullptr) {
      const T* const box_objectness = args.objectness + box * args.stride;
      if (box + ahead < last) __builtin_prefetch(box_objectness + ahead * args.stride);
      objectness = static_cast<float>(*box_objectness);
      least = objectness < least ? objectness : least;  // skips NaN
      if (!(objectness > args.threshold)) continue;
      has_outside |= objectness > detail::greatest_probability;
    }
    const float greatest = greatest_score(scores, args.classes, objectness);
    // Not the threshold of the records, which rises: the check would depend on the threads' rows.
    if (looks && greatest > args.threshold) has_outside |= any_outside(scores, args.classes);
    if (!(greatest > found.threshold())) continue;
    for (index_t c = 0; c < args.classes; ++c) {
      const float score = static_cast<float>(scores[c]) * objectness;
      if (args.multi_label) {
        if (score > found.threshold()) found.add(score, box * args.classes + c, c);
      } else if (score == greatest) {
        found.add(score, box * args.classes + c, c);
        break;
      }
    }
  }
  if (looks) *args.has_outside = has_outside || least < detail::least_probability;
  return found.finish();
}

template <class T>
struct kernels_of<detail::yolo_kernels<T>> {
  static constexpr detail::yolo_kernels<T> get() {
    detail::yolo_kernels<T> kernels{};
    kernels.search_channels = search_yolo_channels<T>;
    kernels.search_rows = search_yolo_rows<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(yolo_kernels<float>)
VECDET_KERNELS(yolo_kernels<bfloat16>)

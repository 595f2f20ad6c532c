// SPDX-License-Identifier: Apache-2.0
// Threshold, top-k and best classes over numbers stored as bytes. Bytes are compared by their
// ranks, as unsigned integers, 64 in a row; a rank passes if its number in float does. Only what
// passes is looked up as a float, so records are those of the floats. Ranks have the order of the
// numbers, and equal numbers have equal ranks, so ties are the same, too.
#pragma once

#include <vecdet/args/quantised_outputs.hpp>
#include <vecdet/kernels/best_records.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/prefetch.hpp>
#include <vecdet/simd/byte_rows.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::quantised_search_args;
using std::uint8_t;

/// The first rank, from `rank` on, whose number is above x; 256 if there is none.
VECDET_INLINE int rank_above(const float* numbers, float x, int rank = 0) {
  while (rank < 256 && !(numbers[rank] > x)) ++rank;
  return rank;
}

/// The first rank whose number is not below the least probability.
VECDET_INLINE int first_probability(const quantised_search_args& args) {
  return rank_above(args.numbers, float_below(detail::least_probability));
}

/// Finds the best numbers of a stream of bytes.
class byte_search {
  static constexpr int lanes = byte_row::lanes, block = 512;

 public:
  /// Elements are counted from that of `first`; `step`: from a byte's element to that of the next.
  byte_search(const quantised_search_args& args, index_t first, index_t step, uint64_t* records,
              uint64_t* spare)
      : args_(args),
        found_(args, records, spare, step == 1),
        first_(first),
        step_(step),
        lowest_(rank_above(args.numbers, static_cast<float>(args.threshold))) {}

  /// Scans `size` bytes, from `element` on. `looks`: has_below() covers them.
  template <bool looks = false>
  VECDET_INLINE void scan(const uint8_t* bytes, index_t size, index_t element) {
    const byte_row flip = all_bytes(args_.flip);
    index_t i = 0;
    for (; i + block <= size; i += block) {
      VECDET_UNROLL
      for (int k = 0; k < block; k += lanes) prefetch_behind(bytes + i + k, stream_ahead);
      scan_rows<looks, block / lanes>(bytes + i, flip, element + i * step_);
    }
    for (; i + lanes <= size; i += lanes) scan_rows<looks, 1>(bytes + i, flip, element + i * step_);
    for (; i < size; ++i) {
      const int rank = bytes[i] ^ args_.flip;
      if constexpr (looks) least_of_rest_ = rank < least_of_rest_ ? rank : least_of_rest_;
      if (rank >= lowest_) add(rank, element + i * step_);
    }
  }

  /// Whether the rank of a byte that scan() has looked at is below `rank`.
  bool has_below(int rank) const {
    return rank > 0 && (least_of_rest_ < rank ||
                        ~at_least_bits(least_, all_bytes(static_cast<uint8_t>(rank))) != 0);
  }
  index_t finish() { return found_.finish(); }

 private:
  template <bool looks, int rows>
  VECDET_INLINE void scan_rows(const uint8_t* bytes, const byte_row& flip, index_t element) {
    byte_row greatest = load_row(bytes) ^ flip, least = greatest;
    VECDET_UNROLL
    for (int k = 1; k < rows; ++k) {
      const byte_row x = load_row(bytes + k * lanes) ^ flip;
      greatest = max(greatest, x);
      if constexpr (looks) least = min(least, x);
    }
    if constexpr (looks) least_ = min(least_, least);
    if (__builtin_expect(at_least_bits(greatest, lowest_row()) != 0, 0))
      take(bytes, rows * lanes, element);
  }
  VECDET_INLINE byte_row lowest_row() const {
    return all_bytes(static_cast<uint8_t>(lowest_ < 256 ? lowest_ : 255));
  }

  VECDET_NOINLINE void take(const uint8_t* bytes, int size, index_t element) {
    if (lowest_ > 255) return;  // none passes, but lowest_row() holds 255
    const byte_row flip = all_bytes(args_.flip);
    for (int i = 0; i < size; i += lanes) {
      uint64_t bits = at_least_bits(load_row(bytes + i) ^ flip, lowest_row());
      for (; bits != 0; bits &= bits - 1) {
        const int at = i + lowest_byte(bits);
        const int rank = bytes[at] ^ args_.flip;
        if (rank >= lowest_) add(rank, element + at * step_);
      }
    }
  }
  VECDET_INLINE void add(int rank, index_t element) {
    const index_t class_index = found_.has_class_limits() ? (first_ + element) % args_.classes : 0;
    found_.add(args_.numbers[rank], element, class_index);
    lowest_ = rank_above(args_.numbers, found_.threshold(), lowest_);
  }

  const quantised_search_args& args_;
  best_records found_;
  index_t first_, step_;
  int lowest_;  ///< the lowest rank that passes
  byte_row least_ = all_bytes(255);
  int least_of_rest_ = 255;
};

inline index_t search_quantised(const quantised_search_args& args, index_t first, index_t last,
                                uint64_t* records, uint64_t* spare) {
  byte_search search(args, first, 1, records, spare);
  if (args.stride == args.classes) {
    search.scan(args.scores + first, last - first, 0);
    return search.finish();
  }
  index_t row = first / args.classes, col = first % args.classes;
  for (index_t i = first; i < last; ++row, col = 0) {
    const index_t size = args.classes - col < last - i ? args.classes - col : last - i;
    search.scan(args.scores + row * args.stride + col, size, i - first);
    i += size;
  }
  return search.finish();
}

inline index_t search_quantised_planes(const quantised_search_args& args, index_t first,
                                       index_t last, uint64_t* records, uint64_t* spare) {
  // A single plane is scanned in the order of its elements.
  byte_search search(args, 0, args.classes, records, spare);
  const int probable = args.has_outside != nullptr ? first_probability(args) : 0;
  for (index_t c = 0; c < args.classes; ++c) {
    const uint8_t* const plane = args.scores + c * args.stride + first;
    if (probable > 0) {
      search.scan<true>(plane, last - first, c);
    } else {
      search.scan(plane, last - first, c);
    }
  }
  if (args.has_outside != nullptr) *args.has_outside = search.has_below(probable);
  return search.finish();
}

/// The best ranks of a tile's boxes, and their classes.
class byte_tile {
  static constexpr int lanes = byte_row::lanes, together = 256, rows = together / lanes;

 public:
  static constexpr index_t most_boxes = 8448;  // as in yolo_tile

  /// `flip` is that of quantised_search_args.
  byte_tile(uint8_t flip, index_t classes)
      : flip_(flip),
        class_bytes_(classes > 65536 ? 3
                     : classes > 256 ? 2
                                     : 1) {}

  /// Only ranks above `rank` are found.
  VECDET_INLINE void start(index_t boxes, int rank) {
    size_ = boxes;
    start_ = static_cast<uint8_t>(rank);
    for (index_t i = 0; i < boxes; i += lanes) store_row(best_ + i, all_bytes(start_));
  }

  /// has_below() covers the plane if `looks`.
  template <bool looks>
  VECDET_INLINE void add_plane(const uint8_t* plane, index_t class_index) {
    const byte_row flip = all_bytes(flip_);
    byte_row least = least_;
    index_t i = 0;
    for (; i + together <= size_; i += together) {
      uint64_t bits[rows], any = 0;
      VECDET_UNROLL
      for (int k = 0; k < rows; ++k) {
        const byte_row x = load_row(plane + i + k * lanes) ^ flip;
        if constexpr (looks) least = min(least, x);
        bits[k] = greater_bits(x, load_row(best_ + i + k * lanes));
        any |= bits[k];
      }
      if (__builtin_expect(any == 0, 1)) continue;
      VECDET_UNROLL
      for (int k = 0; k < rows; ++k)
        if (bits[k] != 0) take(plane + i + k * lanes, i + k * lanes, class_index);
    }
    for (; i + lanes <= size_; i += lanes) {
      const byte_row x = load_row(plane + i) ^ flip;
      if constexpr (looks) least = min(least, x);
      if (greater_bits(x, load_row(best_ + i)) != 0) take(plane + i, i, class_index);
    }
    least_ = least;
    for (; i < size_; ++i) {
      const auto rank = static_cast<uint8_t>(plane[i] ^ flip_);
      if constexpr (looks) least_of_rest_ = rank < least_of_rest_ ? rank : least_of_rest_;
      if (rank <= best_[i]) continue;
      best_[i] = rank;
      for (int k = 0; k < class_bytes_; ++k) class_[k][i] = byte_of(class_index, k);
    }
  }

  /// Whether a rank so far is below `rank`.
  VECDET_INLINE bool has_below(int rank) const {
    return least_of_rest_ < rank ||
           ~at_least_bits(least_, all_bytes(static_cast<uint8_t>(rank))) != 0;
  }

  /// Calls use(box, rank, class) in box order for every box above the rank given to start().
  template <class Use>
  VECDET_INLINE void for_each_found(const Use& use) {
    const index_t padded = (size_ + lanes - 1) / lanes * lanes;
    for (index_t i = size_; i < padded; ++i) best_[i] = start_;
    for (index_t i = 0; i < padded; i += lanes) {
      uint64_t bits = greater_bits(load_row(best_ + i), all_bytes(start_));
      for (; bits != 0; bits &= bits - 1) {
        const index_t box = i + lowest_byte(bits);
        index_t class_index = 0;
        for (int k = 0; k < class_bytes_; ++k) class_index |= index_t{class_[k][box]} << (8 * k);
        use(box, best_[box], class_index);
      }
    }
  }

 private:
  static VECDET_INLINE uint8_t byte_of(index_t class_index, int k) {
    return static_cast<uint8_t>((class_index >> (8 * k)) & 255);
  }
  VECDET_INLINE void take(const uint8_t* plane, index_t box, index_t class_index) {
    const byte_row x = load_row(plane) ^ all_bytes(flip_), before = load_row(best_ + box);
    store_row(best_ + box, max(x, before));
    for (int k = 0; k < class_bytes_; ++k)
      store_row(class_[k] + box, select_greater(x, before, all_bytes(byte_of(class_index, k)),
                                                load_row(class_[k] + box)));
  }

  index_t size_ = 0;
  uint8_t flip_, start_ = 0, least_of_rest_ = 255;
  int class_bytes_;
  byte_row least_ = all_bytes(255);
  alignas(64) uint8_t best_[most_boxes];
  /// The bytes of class indices, lowest first; unset where no rank was found.
  alignas(64) uint8_t class_[3][most_boxes];
};

template <bool looks>
index_t search_quantised_tiles(const quantised_search_args& args, index_t first, index_t last,
                               uint64_t* records, uint64_t* spare) {
  best_records found(args, records, spare);
  byte_tile tile(args.flip, args.classes);
  int lowest = 0;
  for (index_t begin = first; begin < last; begin += byte_tile::most_boxes) {
    const index_t size =
        last - begin < byte_tile::most_boxes ? last - begin : byte_tile::most_boxes;
    // The number of rank 0 is not above 0, so the lowest rank that passes is 1 or more.
    lowest = rank_above(args.numbers, found.threshold(), lowest);
    tile.start(size, lowest - 1);
    for (index_t c = 0; c < args.classes; ++c)
      tile.add_plane<looks>(args.scores + c * args.stride + begin, c);
    tile.for_each_found([&](index_t box, uint8_t rank, index_t c) VECDET_INLINE_LAMBDA {
      const float score = args.numbers[rank];
      if (score > found.threshold()) found.add(score, (begin + box) * args.classes + c, c);
    });
  }
  if constexpr (looks) *args.has_outside = tile.has_below(first_probability(args));
  return found.finish();
}

inline index_t search_quantised_channels(const quantised_search_args& args, index_t first,
                                         index_t last, uint64_t* records, uint64_t* spare) {
  const bool looks = args.has_outside != nullptr && first_probability(args) > 0;
  return looks ? search_quantised_tiles<true>(args, first, last, records, spare)
               : search_quantised_tiles<false>(args, first, last, records, spare);
}

/// Calls use(row, first class) with the ranks of a box's scores, 64 in a row, then `padding`, until
/// use() returns true.
template <class Use>
VECDET_INLINE void for_each_rank_row(const quantised_search_args& args, const uint8_t* scores,
                                     uint8_t padding, const Use& use) {
  const byte_row flip = all_bytes(args.flip);
  index_t c = 0;
  for (; c + byte_row::lanes <= args.classes; c += byte_row::lanes)
    if (use(load_row(scores + c) ^ flip, c)) return;
  const auto fill = static_cast<uint8_t>(padding ^ args.flip);
  if (c < args.classes) use(load_part(scores + c, args.classes - c, fill) ^ flip, c);
}

/// Whether a box's least rank is below `rank`.
VECDET_INLINE bool is_any_rank_below(const quantised_search_args& args, const uint8_t* scores,
                                     int rank) {
  bool is_any = false;
  if (rank > 0)
    for_each_rank_row(args, scores, 255, [&](const byte_row& ranks, index_t) VECDET_INLINE_LAMBDA {
      return is_any = ~at_least_bits(ranks, all_bytes(static_cast<uint8_t>(rank))) != 0;
    });
  return is_any;
}

inline index_t search_quantised_rows(const quantised_search_args& args, index_t first, index_t last,
                                     uint64_t* records, uint64_t* spare) {
  constexpr index_t ahead = 24;  // rows to prefetch: most are read only for their objectness
  best_records found(args, records, spare);
  const float* const numbers = args.numbers;
  const bool looks = args.has_outside != nullptr;
  const int probable = looks ? first_probability(args) : 0;
  const int improbable = rank_above(numbers, detail::greatest_probability);
  const float threshold = found.threshold();
  const int lowest = rank_above(numbers, threshold);
  const byte_row lowest_row = all_bytes(static_cast<uint8_t>(lowest < 256 ? lowest : 255));
  bool has_outside = false;
  for (index_t box = first; box < last; ++box) {
    const uint8_t* const scores = args.scores + box * args.stride;
    float objectness = 1;
    if (args.objectness != nullptr) {
      const uint8_t* const box_objectness = args.objectness + box * args.stride;
      if (box + ahead < last) __builtin_prefetch(box_objectness + ahead * args.stride);
      const int rank = *box_objectness ^ args.flip;
      has_outside |= rank < probable;
      if (rank < lowest) continue;
      has_outside |= looks && rank >= improbable;
      objectness = numbers[rank];
    }
    byte_row most = all_bytes(0);
    for_each_rank_row(args, scores, 0, [&](const byte_row& ranks, index_t) VECDET_INLINE_LAMBDA {
      most = max(most, ranks);
      return false;
    });
    if (args.objectness == nullptr && at_least_bits(most, lowest_row) == 0) continue;
    // The objectness is above 0, so products ascend with ranks, and the greatest product is that of
    // the greatest rank.
    const int greatest_rank = greatest_byte(most);
    const float greatest = numbers[greatest_rank] * objectness;
    if (looks && greatest > threshold)
      has_outside |= greatest_rank >= improbable || is_any_rank_below(args, scores, probable);
    if (!(greatest > found.threshold())) continue;
    // The lowest rank whose product passes. Products of different ranks may be equal if they are
    // tiny.
    int rank = greatest_rank;
    const auto passes = [&](float score) VECDET_INLINE_LAMBDA {
      return args.multi_label ? score > found.threshold() : score >= greatest;
    };
    while (rank > 0 && passes(numbers[rank - 1] * objectness)) --rank;
    const byte_row rank_row = all_bytes(static_cast<uint8_t>(rank));
    for_each_rank_row(args, scores, 0, [&](const byte_row& ranks, index_t c) VECDET_INLINE_LAMBDA {
      for (uint64_t bits = at_least_bits(ranks, rank_row); bits != 0; bits &= bits - 1) {
        const index_t label = c + lowest_byte(bits);
        const float score = numbers[scores[label] ^ args.flip] * objectness;
        if (passes(score)) found.add(score, box * args.classes + label, label);
        if (!args.multi_label) return true;
      }
      return false;
    });
  }
  if (looks) *args.has_outside = has_outside;
  return found.finish();
}

template <>
struct kernels_of<detail::quantised_kernels> {
  static constexpr detail::quantised_kernels get() {
    detail::quantised_kernels kernels{};
    kernels.search = search_quantised;
    kernels.search_planes = search_quantised_planes;
    kernels.search_channels = search_quantised_channels;
    kernels.search_rows = search_quantised_rows;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(quantised_kernels)

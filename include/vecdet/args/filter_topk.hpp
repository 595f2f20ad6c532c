// SPDX-License-Identifier: Apache-2.0
// Threshold and top-k over logits: what the functions and their kernels agree on.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// rows x cols logits. Elements are counted along the rows: element i is (i / cols, i % cols).
template <class T>
struct filter_topk_args {
  const T* logits;
  index_t cols, stride;
  double threshold;  ///< logits above it pass
  index_t limit;     ///< the k of top-k, at least 1
  index_t capacity;  ///< records that fit the memory
};

/// The logits of a level in NCHW: class c of anchor a at location p lies at
/// logits[a * anchor_step + c * plane + p], and is element (p * anchors + a) * classes + c.
template <class T>
struct plane_search_args {
  const T* logits;
  index_t anchors, classes;
  index_t plane, anchor_step;
  double threshold;         ///< logits above it pass
  index_t limit, capacity;  ///< as in filter_topk_args

  // For FCOS alone: scores above score_threshold pass, whatever `threshold` is.
  const T* centerness;  ///< that of anchor a at [a * centerness_step + p]; null: not FCOS
  index_t centerness_step;
  double score_threshold;
};

/// Scores that a whole row of logits has a part in.
enum class row_score {
  centerness,  ///< sqrt(sigmoid(x) sigmoid(c)), c one a row: FCOS
  softmax      ///< exp(x) / sum exp(row), column 0 being background: SSD
};

template <class T>
struct row_search_args {
  const T* logits;
  index_t cols, stride;
  row_score kind;
  const T* centerness;  ///< that of row r at [r * centerness_step]
  index_t centerness_step;
  double score_threshold;   ///< scores above it pass
  index_t limit, capacity;  ///< as in filter_topk_args
};

/// Records that a search of `size` elements needs memory for, twice over: for those that pass,
/// and to sort them.
VECDET_INLINE constexpr index_t filter_topk_capacity(index_t limit, index_t size) {
  constexpr index_t block = 128, least = 4096;
  const index_t enough = limit < size ? 2 * limit + least : size;
  return (enough < size ? enough : size) + block;
}

/// The score, other than NaN, of a record: its upper half is the kernels' descending_key(score).
VECDET_INLINE float score_of_record(std::uint64_t record) {
  const auto key = static_cast<std::uint32_t>(record >> 32);
  const std::uint32_t bits = (key >> 31) != 0 ? key : ~(key | 0x80000000u);
  float score;
  std::memcpy(&score, &bits, sizeof score);
  return score;
}

template <class T>
struct filter_topk_kernels {
  static_assert(!std::is_same<T, double>::value, "this function takes float or vecdet::bfloat16");
  /// Writes the best `limit` of the elements [first, last), at most 2^32, best first, and returns
  /// their number. A record's upper half is the sort key, its lower the element less `first`.
  index_t (*search)(const filter_topk_args<T>&, index_t first, index_t last, std::uint64_t* records,
                    std::uint64_t* spare);
  /// The same by a score of the whole row, over rows [first, last); the sort key is the score's.
  index_t (*search_rows)(const row_search_args<T>&, index_t first, index_t last,
                         std::uint64_t* records, std::uint64_t* spare);
  /// The same of locations [first, last) of planes; a record's lower half is the element less the
  /// first location's.
  index_t (*search_planes)(const plane_search_args<T>&, index_t first, index_t last,
                           std::uint64_t* records, std::uint64_t* spare);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

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

/// rows x cols logits. Elements are numbered row-major: element i is (i / cols, i % cols).
template <class T>
struct filter_topk_args {
  const T* logits;
  index_t cols, stride;
  double threshold;  ///< logits above it are selected
  index_t limit;     ///< the k of top-k, at least 1
  index_t capacity;  ///< number of records that fit into the memory
  /// A logit is selected only if it is also above the limit of its column; null: there are none.
  const float* class_limits;
};

/// The logits of a level in NCHW. Class c of anchor a at location p is
/// logits[a * anchor_step + c * plane + p] and has the element index
/// (p * anchors + a) * classes + c.
template <class T>
struct plane_search_args {
  const T* logits;
  index_t anchors, classes;
  index_t plane, anchor_step;
  double threshold;           ///< logits above it are selected
  index_t limit, capacity;    ///< as in filter_topk_args
  const float* class_limits;  ///< of each class, for scores if there is centerness; or null

  // Only for FCOS: scores above score_threshold are selected; `threshold` is not used.
  const T* centerness;  ///< anchor a's is at [a * centerness_step + p]; null: not FCOS
  index_t centerness_step;
  double score_threshold;

  bool* has_negative;  ///< set if a logit is below least_probability; null: not asked for
};

/// Numbers outside these limits are no probabilities. The limits leave room for the rounding of
/// models in float16 or with quantised weights.
inline constexpr float least_probability = -0.001f, greatest_probability = 1.001f;

/// Scores that depend on more than one logit of a row.
enum class row_score {
  centerness,  ///< sqrt(sigmoid(x) sigmoid(c)), one c per row: FCOS
  softmax      ///< exp(x) / sum exp(row), where column 0 is background: SSD
};

template <class T>
struct row_search_args {
  const T* logits;
  index_t cols, stride;
  row_score kind;
  const T* centerness;  ///< row r's is at [r * centerness_step]
  index_t centerness_step;
  double score_threshold;     ///< scores above it are selected
  index_t limit, capacity;    ///< as in filter_topk_args
  const float* class_limits;  ///< of each column, for scores; or null
};

/// The number of records for which a search of `size` elements needs memory, in each of two arrays:
/// one for the selected records, one to sort them.
VECDET_INLINE constexpr index_t filter_topk_capacity(index_t limit, index_t size) {
  constexpr index_t block = 128, least = 4096;
  const index_t enough = limit < size ? 2 * limit + least : size;
  return (enough < size ? enough : size) + block;
}

/// Whether a score is above the limit of its class, if there are limits.
VECDET_INLINE bool is_above_limit(const float* limits, index_t class_index, float score) {
  return limits == nullptr || score > limits[class_index];
}

/// The score of a record, which is not NaN. A record's upper half is the kernels'
/// descending_key(score).
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
  /// Writes the best `limit` of the elements [first, last), at most 2^32 of them, best first, and
  /// returns their number. A record's upper half is the sort key, its lower half the element minus
  /// `first`.
  index_t (*search)(const filter_topk_args<T>&, index_t first, index_t last, std::uint64_t* records,
                    std::uint64_t* spare);
  /// The same for rows [first, last) with a row_score, from which the sort key is made.
  index_t (*search_rows)(const row_search_args<T>&, index_t first, index_t last,
                         std::uint64_t* records, std::uint64_t* spare);
  /// The same for locations [first, last) of planes. A record's lower half is the element minus the
  /// first element of location `first`.
  index_t (*search_planes)(const plane_search_args<T>&, index_t first, index_t last,
                           std::uint64_t* records, std::uint64_t* spare);
  /// Sorts records by their upper halves, using as many spare ones; equal ones keep their order.
  void (*sort)(std::uint64_t* records, std::uint64_t* spare, index_t count);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

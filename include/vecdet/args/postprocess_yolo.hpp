// SPDX-License-Identifier: Apache-2.0
// Scores of raw outputs: what postprocess_yolo() and its kernels agree on.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// An image's scores. Score c of box b is scores[c * stride + b] in channels and
/// scores[b * stride + c] in rows; its element index is b * classes + c.
template <class T>
struct yolo_search_args {
  const T* scores;
  const T* objectness;  ///< box b's is at [b * stride], rows only; null: none
  index_t classes, stride;
  bool multi_label;         ///< rows only: every class above the threshold
  float threshold;          ///< scores above it are selected
  index_t limit, capacity;  ///< as in filter_topk_args
  /// A box is found only if its score is also above the limit of its class; null: there are none.
  const float* class_limits;
  bool* has_outside;  ///< set if a score that is read is no probability; null: not asked for
};

template <class T>
struct yolo_kernels {
  /// Finds the best score above the threshold of each box in [first, last), and the best k of them.
  /// Writes their records, best first, ties by lower element, and returns their number. A record's
  /// upper half is the sort key, its lower half the element. `spare` has the same size.
  /// `args.has_outside` is set, in channels, for any score below least_probability (the greatest
  /// ones are among the records); in rows, for any objectness that is no probability, and any score
  /// of a box that has one above the threshold.
  index_t (*search_channels)(const yolo_search_args<T>&, index_t first, index_t last,
                             std::uint64_t* records, std::uint64_t* spare);
  index_t (*search_rows)(const yolo_search_args<T>&, index_t first, index_t last,
                         std::uint64_t* records, std::uint64_t* spare);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

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

/// An image's scores: score c of box b lies at scores[c * stride + b] in channels and at
/// scores[b * stride + c] in rows, and is element b * classes + c.
template <class T>
struct yolo_search_args {
  const T* scores;
  const T* objectness;  ///< that of box b at [b * stride], rows alone; null: none
  index_t classes, stride;
  bool multi_label;         ///< rows alone: every class above the threshold
  float threshold;          ///< scores above it pass
  index_t limit, capacity;  ///< as in filter_topk_args
};

template <class T>
struct yolo_kernels {
  /// The best score of each box of [first, last) above the threshold, and of them the best k:
  /// writes their records, best first, equal ones by lower element, and returns their number. A
  /// record's upper half is the sort key, its lower the element. `spare` holds as many.
  index_t (*search_channels)(const yolo_search_args<T>&, index_t first, index_t last,
                             std::uint64_t* records, std::uint64_t* spare);
  index_t (*search_rows)(const yolo_search_args<T>&, index_t first, index_t last,
                         std::uint64_t* records, std::uint64_t* spare);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Searches of quantised numbers: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Numbers stored as bytes. The rank of a byte is byte ^ flip: ranks ascend with the numbers.
/// Element indices are those of yolo_search_args and filter_topk_args. Records and their order are
/// those of the numbers in float.
struct quantised_search_args {
  const std::uint8_t* scores;
  const std::uint8_t* objectness;  ///< box b's is at [b * stride], search_rows only; null: none
  const float* numbers;            ///< the numbers of ranks 0 to 255, strictly ascending, finite
  std::uint8_t flip;
  index_t classes, stride;  ///< or the columns of a matrix
  bool multi_label;         ///< search_rows only: every class above the threshold
  double threshold;         ///< numbers above it, as a float, are selected
  index_t limit, capacity;  ///< as in filter_topk_args
  const float* class_limits;
  bool* has_outside;  ///< set if a score that is read is no probability; null: not asked for
};

/// What is selected, the order of records and what sets has_outside are as in the kernels for
/// floats: filter_topk_kernels::search and search_planes (with one anchor), and
/// yolo_kernels::search_channels and search_rows. Only search may have a threshold below 0.
struct quantised_kernels {
  using function = index_t (*)(const quantised_search_args&, index_t first, index_t last,
                               std::uint64_t* records, std::uint64_t* spare);
  function search, search_planes, search_channels, search_rows;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Chunks of items whose cost is known.
#pragma once

#include <vecdet/impl/chunks.hpp>
#include <vecdet/views.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Chunks of `items` that cost `cost` altogether, of `least_cost` or more each.
inline chunking chunks_of_cost(index_t items, index_t cost, index_t least_cost) {
  const index_t smallest = 1 + items * least_cost / std::max(cost, index_t{1});
  return {items, std::max(std::min(items, smallest), index_t{1})};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

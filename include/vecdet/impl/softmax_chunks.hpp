// SPDX-License-Identifier: Apache-2.0
// The chunks of losses with a softmax over rows.
#pragma once

#include <vecdet/parallel.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Divides rows of `cols` columns into chunks that are worth a task: a few microseconds each.
inline chunking softmax_chunks(index_t rows, index_t cols) {
  constexpr index_t elements = 1 << 14, group = 16;
  return {rows, std::max(group, elements / std::max(index_t{1}, cols) / group * group), group};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

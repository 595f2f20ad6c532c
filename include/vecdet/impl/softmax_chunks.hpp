// SPDX-License-Identifier: Apache-2.0
// The chunks of losses with a softmax of rows.
#pragma once

#include <vecdet/parallel.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Chunks of so many rows of `cols` columns that they are worth a task of their own: some
/// microseconds.
inline chunking softmax_chunks(index_t rows, index_t cols) {
  constexpr index_t elements = 1 << 14, group = 16;
  return {rows, std::max(group, elements / std::max(index_t{1}, cols) / group * group), group};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

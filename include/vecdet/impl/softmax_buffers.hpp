// SPDX-License-Identifier: Apache-2.0
// What the workspace of hard negatives holds.
#pragma once

#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct hard_negative_buffers {
  std::vector<std::uint32_t> keys;
  std::vector<index_t> rows, counts;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

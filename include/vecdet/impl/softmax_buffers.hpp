// SPDX-License-Identifier: Apache-2.0
// The buffers of softmax_cross_entropy_workspace.
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

// SPDX-License-Identifier: Apache-2.0
// What filter_topk_workspace holds.
#pragma once

#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct filter_topk_buffers {
  std::vector<std::uint64_t> records, spare;
  std::vector<index_t> found, elements, offsets;
  std::vector<float> logits;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

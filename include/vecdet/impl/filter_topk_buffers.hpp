// SPDX-License-Identifier: Apache-2.0
// The buffers of filter_topk_workspace.
#pragma once

#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct filter_topk_buffers {
  std::vector<std::uint64_t> records, spare, merged;
  std::vector<index_t> found, elements, offsets;
  std::vector<float> logits;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

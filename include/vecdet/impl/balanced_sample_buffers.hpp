// SPDX-License-Identifier: Apache-2.0
// What balanced_sample_workspace holds.
#pragma once

#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct balanced_sample_buffers {
  std::vector<index_t> indices, offsets, positives, counts;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

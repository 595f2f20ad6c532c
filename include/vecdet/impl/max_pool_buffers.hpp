// SPDX-License-Identifier: Apache-2.0
// The buffers of max_pool_workspace.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct max_pool_buffers {
  aligned_vector<cache_line> scratch;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

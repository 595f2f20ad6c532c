// SPDX-License-Identifier: Apache-2.0
// The buffers of batch_norm_workspace.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct batch_norm_buffers {
  aligned_vector<cache_line> sums, coefficients;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

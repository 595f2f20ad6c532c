// SPDX-License-Identifier: Apache-2.0
// The buffers of grouped_conv3x3_workspace.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/conv3x3_buffers.hpp>
#include <vecdet/impl/workspace.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct grouped_conv3x3_buffers {
  aligned_vector<cache_line> weights, sums, scratch;
  conv3x3_buffers filtering;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

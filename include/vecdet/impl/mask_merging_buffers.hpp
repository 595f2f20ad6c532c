// SPDX-License-Identifier: Apache-2.0
// The buffers of mask_merging_workspace.
#pragma once

#include <vecdet/impl/mask_bits_buffers.hpp>
#include <vecdet/impl/merged_groups_buffers.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct mask_merging_buffers : merged_groups_buffers {
  mask_bits_buffers masks;
  std::vector<aligned_vector<cache_line>> unions;  ///< per concurrent task: of one group's masks
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

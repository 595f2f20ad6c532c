// SPDX-License-Identifier: Apache-2.0
// The buffers of mask_merging_workspace.
#pragma once

#include <vecdet/impl/mask_bits_buffers.hpp>
#include <vecdet/impl/nms_buffers.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct mask_merging_buffers {
  mask_bits_buffers masks;
  nms_buffers groups;
  std::vector<index_t> sequence;      ///< the members of all groups, class by class
  std::vector<index_t> first_member;  ///< per mask that begins a group: its place in the sequence
  std::vector<index_t> sizes;         ///< likewise: the number of members
  std::vector<index_t> members, offsets;
  std::vector<aligned_vector<cache_line>> unions;  ///< per concurrent task: of one group's masks
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

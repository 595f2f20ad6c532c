// SPDX-License-Identifier: Apache-2.0
// The buffers that merging boxes and merging masks have in common.
#pragma once

#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct merged_groups_buffers {
  nms_buffers groups;
  std::vector<index_t> sequence;      ///< the members of all groups, class by class
  std::vector<index_t> first_member;  ///< per box that begins a group: its place in the sequence
  std::vector<index_t> sizes;         ///< likewise: the number of members
  std::vector<index_t> members, offsets;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

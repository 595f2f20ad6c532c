// SPDX-License-Identifier: Apache-2.0
// Groups of boxes or of masks that become one: the steps before and after those that find the
// groups.
#pragma once

#include <vecdet/args/nms.hpp>
#include <vecdet/impl/merged_groups_buffers.hpp>
#include <vecdet/impl/nms_groups.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <limits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Sorts the boxes whose scores are numbers by class and image, and makes room for their groups.
/// Returns how many there are.
template <class S>
index_t begin_merged_groups(const vector_view<const S>& scores, const nms_groups& groups,
                            const nms_kernels<S>& kernels, merged_groups_buffers& buffers,
                            threading policy) {
  nms_buffers& own = buffers.groups;
  const index_t size = scores.size();
  const index_t count =
      kernels.select(scores.data(), 0, size, -std::numeric_limits<double>::infinity(), true,
                     grown(own.records, size));
  partition_into_groups(groups, size, count, own, policy);
  grown(own.spare, count);
  grown(own.kept, count);
  grown(buffers.sequence, count);
  grown(buffers.first_member, size);
  grown(buffers.sizes, size);
  return count;
}

/// Lists the members of the groups that the first `found` records begin, and calls
/// use(g, members, size) for each group.
template <class Use>
void list_members(merged_groups_buffers& buffers, index_t count, index_t found, threading policy,
                  const Use& use) {
  const nms_record* const records = buffers.groups.records.data();
  index_t* const members = grown(buffers.members, count);
  index_t* const offsets = grown(buffers.offsets, found + 1);
  offsets[0] = 0;
  for (index_t g = 0; g < found; ++g)
    offsets[g + 1] = offsets[g] + buffers.sizes[index_of(records[g])];
  // Chunks have about the same number of members: groups may be few, and large.
  constexpr index_t smallest_chunk = 4096;
  for_each_chunk(policy, chunking(count, smallest_chunk),
                 [&](index_t, index_t first_member, index_t last_member) {
                   const auto group_at = [&](index_t member) {
                     return std::lower_bound(offsets, offsets + found, member) - offsets;
                   };
                   const index_t last = group_at(last_member);
                   for (index_t g = group_at(first_member); g < last; ++g) {
                     const index_t* const from =
                         buffers.sequence.data() + buffers.first_member[index_of(records[g])];
                     const index_t size = offsets[g + 1] - offsets[g];
                     std::copy_n(from, size, members + offsets[g]);
                     use(g, from, size);
                   }
                 });
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The buffers of nms_workspace.
#pragma once

#include <vecdet/args/nms.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A task: consecutive groups, processed one after the other.
struct nms_task {
  index_t first_group, last_group;
  index_t largest;  ///< number of boxes of the largest group
};

struct nms_buffers {
  std::vector<nms_record> records, spare, kept;
  std::vector<index_t> group_begin, group_kept, counters, result, wanted, class_groups;
  std::vector<std::uint32_t> group_of, group_image, owners;
  std::vector<nms_task> tasks;
  aligned_vector<cache_line> scratch;
  index_t groups = 0, images = 0;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// What roi_align_workspace holds.
#pragma once

#include <vecdet/args/roi_align.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct roi_align_buffers {
  std::vector<roi_plan> plans;
  std::vector<index_t> group_of, group_begin;
  std::vector<std::int32_t> is_touched;
  aligned_vector<cache_line> tables, memory;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// What merge_workspace holds.
#pragma once

#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct merge_buffers {
  nms_buffers groups;
  std::vector<std::uint32_t> first_tie, next;
  std::vector<index_t> sequence, first_member, sizes, members, offsets;
  std::vector<float> boxes, scores;
  std::vector<double> double_boxes, double_scores;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

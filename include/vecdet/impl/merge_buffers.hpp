// SPDX-License-Identifier: Apache-2.0
// The buffers of merge_workspace.
#pragma once

#include <vecdet/impl/merged_groups_buffers.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct merge_buffers : merged_groups_buffers {
  std::vector<std::uint32_t> first_tie, next;
  std::vector<float> boxes, scores;
  std::vector<double> double_boxes, double_scores;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The buffers of masks_workspace.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct masks_buffers {
  std::vector<mask_plan> plans;
  std::vector<paste_plan> pastes;
  std::vector<mask_picture> pictures;
  std::vector<std::int32_t> locations;
  std::vector<float> weights;
  std::vector<index_t> boxes, offsets;
  aligned_vector<cache_line> scratch, pixels;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

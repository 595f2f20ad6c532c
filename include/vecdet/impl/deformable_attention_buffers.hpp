// SPDX-License-Identifier: Apache-2.0
// The buffers of deformable_attention_workspace.
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct deformable_attention_buffers {
  aligned_vector<attention_levels> levels;
  std::vector<std::int32_t> band_of, begin;
  std::vector<index_t> borders;
  aligned_vector<cache_line> memory, packed, points;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

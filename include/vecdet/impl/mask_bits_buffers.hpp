// SPDX-License-Identifier: Apache-2.0
// The buffers of mask_bits_workspace.
#pragma once

#include <vecdet/args/mask_bits.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct mask_bits_buffers {
  std::vector<mask_strips> strips;
  aligned_vector<cache_line> words;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

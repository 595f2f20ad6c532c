// SPDX-License-Identifier: Apache-2.0
// The buffers of conv3x3_workspace and conv3x3_weights.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct conv3x3_buffers {
  std::vector<conv3x3_level<float>> f32_levels;
  std::vector<conv3x3_level<double>> f64_levels;
  aligned_vector<cache_line> scratch, sums;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

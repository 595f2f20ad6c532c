// SPDX-License-Identifier: Apache-2.0
// What letterbox_workspace holds.
#pragma once

#include <vecdet/args/letterbox.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/letterbox_transform.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct letterbox_buffers {
  std::vector<letterbox_transform> transforms;
  std::vector<letterbox_args> images;
  std::vector<axis_weights> axes;
  aligned_vector<cache_line> scratch;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

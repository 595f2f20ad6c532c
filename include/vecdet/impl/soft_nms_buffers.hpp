// SPDX-License-Identifier: Apache-2.0
// What soft_nms_workspace holds.
#pragma once

#include <vecdet/impl/nms_buffers.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class Real>
struct soft_nms_buffers {
  nms_buffers groups;
  std::vector<Real> rescored, scores;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

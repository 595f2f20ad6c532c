// SPDX-License-Identifier: Apache-2.0
// What retinanet_loss_workspace holds.
#pragma once

#include <vecdet/matching.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct retinanet_loss_buffers {
  match_workspace matching;
  std::vector<index_t> matches, labels, foreground;
  std::vector<float> scales;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

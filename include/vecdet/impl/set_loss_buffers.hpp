// SPDX-License-Identifier: Apache-2.0
// The buffers of set_loss_workspace.
#pragma once

#include <vecdet/args/set_loss.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct set_loss_buffers {
  std::vector<index_t> labels;  ///< the box of each query, then its class
  std::vector<set_pair> pairs;
  std::vector<float> ious;
  std::vector<index_t> rows;  ///< for cross entropy: rows with a box, then rows without
  std::vector<float> logits, logits_grad;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// What the workspaces of whole losses hold.
#pragma once

#include <vecdet/assigners.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/softmax_buffers.hpp>
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

struct ssd_loss_buffers {
  match_workspace matching;
  hard_negative_buffers mining;
  std::vector<index_t> matches, labels;
};

struct fcos_loss_buffers {
  assigner_workspace assigner;
  std::vector<grid_size> levels;
  std::vector<index_t> matches, labels;
  /// Of the matched anchors; all labels of the centre-ness are 0.
  std::vector<index_t> zeros;
  std::vector<float> centerness, targets, grad;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The whole loss of SSD in one call: match_anchors, softmax_cross_entropy_loss_and_grad with
// mining, and regression_loss_and_grad. It reads a head's outputs and the ground truth, and
// computes both losses and both gradients. Liu et al.: "SSD: Single Shot MultiBox Detector", arXiv
// 1512.02325, section 2.2.
//
//   classification   softmax cross entropy of each image's foreground and hardest negatives
//   regression       smooth L1 of the matched anchors' deltas
//
// Both are sums divided by max(1, matched anchors of the batch), as in torchvision. Column 0 is
// background.
#pragma once

#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/detector_loss_buffers.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/softmax_cross_entropy.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct ssd_loss_params {
  /// The matcher's coder is also that of the deltas. Its `background` is not used, because column 0
  /// is background. Its `ignore` must not be a column; anchors with that label do not count.
  matcher_params matcher = matcher_params::ssd();
  index_t negatives_per_foreground = 3;  ///< 0 or more
  double beta = 1;                       ///< of smooth L1; 0 is L1
  double scale = 1;                      ///< factor on both losses and gradients, for loss scaling
};

struct ssd_losses {
  double classification = 0, regression = 0;
  index_t foreground = 0;  ///< matched anchors of all images
};

/// Inputs and outputs of the loss. Rows and boxes are ordered by image, then by anchor. Levels
/// differ in their number of anchors per location, so they are concatenated, as in torchvision.
/// `deltas_grad` may overwrite the deltas. Gradients may not share memory in any other way.
struct ssd_head {
  matrix_view<const float> logits;          ///< (images x anchors) x classes
  lasting<boxes_view<const float>> deltas;  ///< images x anchors
  matrix_view<float> logits_grad;
  lasting<boxes_view<float>> deltas_grad;
};

/// Scratch memory: about 28 bytes per anchor of the batch, plus that of match_workspace. It grows
/// to the needs of the largest call and is reused. Only one call at a time may use it.
class ssd_loss_workspace {
  friend detail::workspace_access;
  detail::ssd_loss_buffers buffers_;
};

/// `anchors` are those of one image. Classes of the ground truth start at 1.
///
/// Throws std::invalid_argument, and writes nothing, if sizes differ, a gradient shares memory in a
/// way not allowed above, offsets do not ascend from 0 to the number of boxes, a class is 0 or not
/// a column of the logits, or one of the three functions would reject a parameter. NaN and
/// infinities have the same effect as in those functions.
ssd_losses ssd_loss_and_grad(const ssd_head& head, const anchor_index& anchors,
                             const ground_truth& truth, const ssd_loss_params& params,
                             ssd_loss_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/ssd_loss.hpp>

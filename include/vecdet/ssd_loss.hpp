// SPDX-License-Identifier: Apache-2.0
// The whole loss of SSD, from a head's outputs and the ground truth to both losses and both
// gradients: match_anchors, softmax_cross_entropy_loss_and_grad with mining, and
// regression_loss_and_grad in one call. Liu et al.: "SSD: Single Shot MultiBox Detector", arXiv
// 1512.02325, section 2.2.
//
//   classification   softmax cross entropy of each image's foreground and of its hardest negatives
//   regression       smooth L1 of the matched anchors' deltas
//
// both divided by max(1, matched anchors of the batch): so torchvision. Column 0 is background.
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
  /// Its coder is that of the deltas. Its background is not used: that is column 0. Its ignore
  /// must not be a column; anchors with that label do not count.
  matcher_params matcher = matcher_params::ssd();
  index_t negatives_per_foreground = 3;  ///< 0 or more
  double beta = 1;                       ///< of smooth L1; 0 is L1
  double scale = 1;                      ///< factor on both losses and gradients, a loss scaler's
};

struct ssd_losses {
  double classification = 0, regression = 0;
  index_t foreground = 0;  ///< matched anchors of all images
};

/// What the loss reads and writes: rows and boxes run over the images, and in an image over its
/// anchors. Levels differ in their numbers of anchors, and so come concatenated, as in torchvision.
/// `deltas_grad` may be the deltas themselves; otherwise a gradient shares memory with nothing
/// else.
struct ssd_head {
  matrix_view<const float> logits;          ///< (images x anchors) x classes
  lasting<boxes_view<const float>> deltas;  ///< images x anchors
  matrix_view<float> logits_grad;
  lasting<boxes_view<float>> deltas_grad;
};

/// Memory that the loss works in: some 28 bytes an anchor of the batch, and what matching works in.
/// It grows to what the largest call needs and is reused. One call at a time.
class ssd_loss_workspace {
  friend detail::workspace_access;
  detail::ssd_loss_buffers buffers_;
};

/// `anchors` are those of one image. The ground truth has classes from 1 on.
///
/// Throws std::invalid_argument, and writes nothing, when sizes differ, a gradient shares memory
/// otherwise than said, offsets do not ascend from 0 to the number of boxes, a class is no column
/// or 0, or one of the functions named above would refuse a parameter. NaN and infinities give what
/// those functions give.
ssd_losses ssd_loss_and_grad(const ssd_head& head, const anchor_index& anchors,
                             const ground_truth& truth, const ssd_loss_params& params,
                             ssd_loss_workspace& workspace, execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/ssd_loss.hpp>

// SPDX-License-Identifier: Apache-2.0
// The whole loss of RetinaNet in one call: match_anchors, sigmoid_focal_loss_and_grad and
// regression_loss_and_grad. It reads the head's outputs in place and the ground truth, and computes
// both losses and both gradients. Lin, Goyal, Girshick, He, Dollar: "Focal Loss for Dense Object
// Detection", arXiv 1708.02002, section 4.
//
//   classification   the sum of the focal losses of all anchors that are not ignored
//   regression       the sum of the losses of the matched anchors' deltas
//
// The sum of each image is divided by max(1, matched anchors of the image); the loss is the mean
// over images. This is as in torchvision and, with the default parameters, as in MLPerf's
// reference.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/detector_loss_buffers.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/regression_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct retinanet_loss_params {
  /// Its coder also decodes the deltas for the box loss.
  matcher_params matcher = matcher_params::retinanet();
  double alpha = 0.25;  ///< of the focal loss
  double gamma = 2;     ///< of the focal loss
  box_loss loss = box_loss::smooth_l1;
  double beta = 0;   ///< of smooth L1; 0 is L1, as in torchvision
  double scale = 1;  ///< factor on both losses and gradients, for loss scaling
};

struct retinanet_losses {
  double classification = 0, regression = 0;
  index_t foreground = 0;  ///< matched anchors of all images
};

/// Inputs and outputs of the loss. All four have levels of the same sizes, anchors and layout. The
/// classes of `deltas` are the four numbers of a box. A gradient may overwrite its own input, level
/// for level, but may share no other memory. All four may be channels of one tensor.
template <class T>
struct retinanet_head {
  head_view<const T> logits, deltas;
  head_view<T> logits_grad, deltas_grad;
};

/// Scratch memory: 16 bytes per anchor of the batch, plus that of match_workspace. It grows to the
/// needs of the largest call and is reused. Only one call at a time may use it.
class retinanet_loss_workspace {
  friend detail::workspace_access;
  detail::retinanet_loss_buffers buffers_;
};

/// T is float or bfloat16; no other type compiles. `anchors` are those of one image in the order of
/// head_levels.hpp. The ground truth's classes are columns of the logits.
///
/// Throws std::invalid_argument, and writes nothing, if sizes differ, a gradient shares memory in a
/// way not allowed above, offsets do not ascend from 0 to the number of boxes, a class is not a
/// column of the logits, or one of the three functions would reject a parameter. NaN and infinities
/// have the same effect as in those functions.
template <class T>
retinanet_losses retinanet_loss_and_grad(const retinanet_head<T>& head, const anchor_index& anchors,
                                         const ground_truth& truth,
                                         const retinanet_loss_params& params,
                                         retinanet_loss_workspace& workspace,
                                         threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/retinanet_loss.hpp>

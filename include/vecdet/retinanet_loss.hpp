// SPDX-License-Identifier: Apache-2.0
// The whole loss of RetinaNet, from a head's outputs as its convolutions left them and the ground
// truth to both losses and both gradients: match_anchors, sigmoid_focal_loss_and_grad and
// regression_loss_and_grad in one call. Lin, Goyal, Girshick, He, Dollar: "Focal Loss for Dense
// Object Detection", arXiv 1708.02002, section 4.
//
//   classification   of each image the focal losses of all anchors that are not ignored
//   regression       of each image the losses of the matched anchors' deltas
//
// each divided by max(1, matched anchors of the image), and then the mean over images: so
// torchvision, and with the parameters as they are MLPerf's reference as well.
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
  /// Its coder is that of the deltas, also of the box loss.
  matcher_params matcher = matcher_params::retinanet();
  double alpha = 0.25;  ///< of the focal loss
  double gamma = 2;     ///< of the focal loss
  box_loss loss = box_loss::smooth_l1;
  double beta = 0;   ///< of smooth L1; 0 is L1, as in torchvision
  double scale = 1;  ///< factor on both losses and gradients, a loss scaler's
};

struct retinanet_losses {
  double classification = 0, regression = 0;
  index_t foreground = 0;  ///< matched anchors of all images
};

/// What the loss reads and writes, levels of the same sizes, anchors and layout. The classes of
/// `deltas` are the four numbers of a box. A gradient may be what it is the gradient of, level by
/// level; otherwise it shares memory with nothing else. All four may be channels of one tensor.
template <class T>
struct retinanet_head {
  head_view<const T> logits, deltas;
  head_view<T> logits_grad, deltas_grad;
};

/// Memory that the loss works in: 16 bytes an anchor of the batch, and what matching works in. It
/// grows to what the largest call needs and is reused. One call at a time.
class retinanet_loss_workspace {
  friend detail::workspace_access;
  detail::retinanet_loss_buffers buffers_;
};

/// T is float or bfloat16: nothing else compiles. `anchors` are those of one image in the order of
/// the head's, which head_levels.hpp gives. Classes of the ground truth are columns of the logits.
///
/// Throws std::invalid_argument, and writes nothing, when sizes differ, a gradient shares memory
/// otherwise than said, offsets do not ascend from 0 to the number of boxes, a class is no column,
/// or one of the functions named above would refuse a parameter. NaN and infinities give what those
/// functions give.
template <class T>
retinanet_losses retinanet_loss_and_grad(const retinanet_head<T>& head, const anchor_index& anchors,
                                         const ground_truth& truth,
                                         const retinanet_loss_params& params,
                                         retinanet_loss_workspace& workspace,
                                         execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/retinanet_loss.hpp>

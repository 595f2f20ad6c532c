// SPDX-License-Identifier: Apache-2.0
// The whole loss of FCOS, from a head's outputs as its convolutions left them and the ground truth
// to three losses and their gradients: assign_fcos, sigmoid_focal_loss_and_grad, decode_distances
// with iou_loss_and_grad (GIoU), and bce_loss_and_grad in one call. Tian, Shen, Chen, He: "FCOS",
// arXiv 1904.01355, section 3.
//
//   classification   the focal losses of all anchors
//   regression       the GIoU losses of the matched anchors' boxes, and their gradients by the
//                    distances that the boxes are decoded from
//   centerness       binary cross entropy of the matched anchors' centre-ness and
//                    sqrt(min(l, r) / max(l, r) min(t, b) / max(t, b)), of the distances from the
//                    anchor's centre to the sides of its box
//
// all divided by max(1, matched anchors of the batch): so torchvision.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/detector_loss_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct fcos_loss_params {
  double radius = 1.5;    ///< of centre sampling, in widths of an anchor; 0 or more
  bool by_size = true;    ///< distances are divided by the anchor's width and height
  double alpha = 0.25;    ///< of the focal loss
  double gamma = 2;       ///< of the focal loss
  double epsilon = 1e-7;  ///< of the GIoU loss; 0 or more
  double scale = 1;       ///< factor on all losses and gradients, a loss scaler's
};

struct fcos_losses {
  double classification = 0, regression = 0, centerness = 0;
  index_t foreground = 0;  ///< matched anchors of all images
};

/// What the loss reads and writes, levels of the same sizes and layout with one anchor at each
/// location. The classes of `distances` are left, top, right and bottom; `centerness` has one. A
/// gradient may be what it is the gradient of, level by level; otherwise it shares memory with
/// nothing else. All may be channels of one tensor.
template <class T>
struct fcos_head {
  head_view<const T> logits, distances, centerness;
  head_view<T> logits_grad, distances_grad, centerness_grad;
};

/// Memory that the loss works in: some 20 bytes an anchor of the batch. It grows to what the
/// largest call needs and is reused. One call at a time.
class fcos_loss_workspace {
  friend detail::workspace_access;
  detail::fcos_loss_buffers buffers_;
};

/// T is float or bfloat16: nothing else compiles. `anchors` are those of one image in the order of
/// the head's, corners around points that form a grid on each level. Classes of the ground truth
/// are columns of the logits.
///
/// Throws std::invalid_argument, and writes nothing, when sizes differ, a gradient shares memory
/// otherwise than said, anchors form no grid, offsets do not ascend from 0 to the number of boxes,
/// there are regions, a class is no column, or one of the functions named above would refuse a
/// parameter. NaN and infinities give what those functions give.
template <class T>
fcos_losses fcos_loss_and_grad(const fcos_head<T>& head, boxes_view<const float> anchors,
                               const ground_truth& truth, const fcos_loss_params& params,
                               fcos_loss_workspace& workspace,
                               execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/fcos_loss.hpp>

// SPDX-License-Identifier: Apache-2.0
// The whole loss of FCOS in one call: assign_fcos, sigmoid_focal_loss_and_grad, decode_distances
// with iou_loss_and_grad (GIoU), and bce_loss_and_grad. It reads the head's outputs in place and
// the ground truth, and computes three losses and their gradients. Tian, Shen, Chen, He: "FCOS",
// arXiv 1904.01355, section 3.
//
//   classification   the focal losses of all anchors that are not ignored
//   regression       the GIoU losses of the matched anchors' decoded boxes, with gradients with
//                    respect to the distances
//   centerness       the binary cross entropy of the matched anchors' predicted centre-ness
//                    against sqrt(min(l, r) / max(l, r) min(t, b) / max(t, b)), where l, r, t, b
//                    are the distances from the anchor's centre to the sides of its box
//
// Each is a sum divided by max(1, matched anchors of the batch), as in torchvision.
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/detector_loss_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct fcos_loss_params {
  double radius = 1.5;    ///< of centre sampling, in anchor widths; 0 or more
  distance_params coder;  ///< of the distances; its anchors are corners
  double alpha = 0.25;    ///< of the focal loss
  double gamma = 2;       ///< of the focal loss
  double epsilon = 1e-7;  ///< of the GIoU loss; 0 or more
  double scale = 1;       ///< factor on all losses and gradients, for loss scaling
};

struct fcos_losses {
  double classification = 0, regression = 0, centerness = 0;
  index_t foreground = 0;  ///< matched anchors of all images
};

/// Inputs and outputs of the loss. All levels have the same sizes and layout, and one anchor per
/// location. The classes of `distances` are left, top, right and bottom; `centerness` has one
/// class. A gradient may overwrite its own input, level for level, but may share no other memory.
/// All may be channels of one tensor.
template <class T>
struct fcos_head {
  head_view<const T> logits, distances, centerness;
  head_view<T> logits_grad, distances_grad, centerness_grad;
};

/// Scratch memory: about 20 bytes per anchor of the batch. It grows to the needs of the largest
/// call and is reused. Only one call at a time may use it.
class fcos_loss_workspace {
  friend detail::workspace_access;
  detail::fcos_loss_buffers buffers_;
};

/// T is float or bfloat16; no other type compiles. `anchors` are those of one image in the order of
/// head_levels.hpp: corners, whose centres form a grid on each level. The ground truth's classes
/// are columns of the logits.
///
/// Throws std::invalid_argument, and writes nothing, if sizes differ, a gradient shares memory in a
/// way not allowed above, anchors do not form a grid, offsets do not ascend from 0 to the number of
/// boxes, a class is not a column of the logits, or one of the functions named above would reject a
/// parameter or the ignore regions. NaN and infinities have the same effect as in those
/// functions.
template <class T>
fcos_losses fcos_loss_and_grad(const fcos_head<T>& head, boxes_view<const float> anchors,
                               const ground_truth& truth, const fcos_loss_params& params,
                               fcos_loss_workspace& workspace,
                               threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/fcos_loss.hpp>

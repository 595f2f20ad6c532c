// SPDX-License-Identifier: Apache-2.0
// The whole loss of a DETR in one call, with the gradients of each layer: the class loss of all
// queries, and the L1 and GIoU losses of matched queries, for all images, decoder layers and
// denoising groups. Carion et al.: "End-to-End Object Detection with Transformers", arXiv
// 2005.12872, section 3.1; RT-DETR: Zhao et al., arXiv 2304.08069. A layer's losses are
//
//   focal          class_weight / N sum of sigmoid_focal_loss over all queries and classes
//   varifocal      class_weight / N sum of varifocal_loss, where the target of a matched query's
//                  class is the IoU of its box, and p^gamma and the IoU are constants
//   cross entropy  class_weight / W sum of w softmax_cross_entropy_loss; the label of a query
//                  without a box is the last column; w is 1 if the query has a box, else
//                  no_object_weight; W is the sum of w over the layer's queries
//   L1             l1_weight / N sum of |p - t| over cx, cy, w and h of matched queries
//   GIoU           giou_weight / N sum of 1 - GIoU of matched queries, as in iou_loss.hpp
//
// N = max(1, boxes) x groups, where each box is matched once per group. If no image has a box, the
// number of groups is unknown and counts as 1. IoU and the GIoU loss are those of iou.hpp and
// iou_loss.hpp, with 1e-16 added to the divisors, so a box without area has IoU 0 and finite
// gradients. If coordinates are NaN, the box losses are NaN and the IoU is 0.
//
// Losses are summed in double. The gradients of class losses are bit-identical to those of the
// functions named above with the same weights. GIoU has the accuracy of iou_loss.hpp, and L1 is
// within 4 ulp. bfloat16 results are these floats, rounded once.
#pragma once

#include <vecdet/detr_outputs.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/set_loss_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/set_class_loss.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct set_loss_params {
  set_class_loss class_loss = set_class_loss::varifocal;
  /// focal: weight of positives, at most 1; if negative, no weights. varifocal: weight of
  /// negatives, 0 or more.
  double alpha = 0.75;
  double gamma = 2;               ///< focal and varifocal: focusing exponent, 0 or more
  double no_object_weight = 0.1;  ///< cross entropy: weight of queries without a box, 0 or more
  double class_weight = 1, l1_weight = 5, giou_weight = 2;  ///< weights of the losses
  /// If above 0, sums are divided by this number of boxes instead of the ground truth's. Trainers
  /// with several ranks use the mean over ranks. This number is multiplied by the number of groups,
  /// which follows from the matches; without ground-truth boxes, the number of groups counts as 1.
  double boxes = 0;
  double scale = 1;  ///< factor on losses and gradients, for loss scaling

  /// RT-DETR: varifocal, weights 1, 5, 2.
  static set_loss_params rt_detr() { return {}; }
  /// Deformable DETR: focal with alpha 0.25, weights 2, 5, 2. DINO has class_weight 1.
  static set_loss_params deformable_detr() {
    set_loss_params params;
    params.class_loss = set_class_loss::focal;
    params.alpha = 0.25;
    params.class_weight = 2;
    return params;
  }
  /// DETR: cross entropy, weights 1, 5, 2.
  static set_loss_params detr() {
    set_loss_params params;
    params.class_loss = set_class_loss::cross_entropy;
    return params;
  }
};

/// The outputs of a decoder layer or of the denoising queries, their matches, and the memory for
/// their gradients. This memory may not overlap any other argument.
template <class T>
struct set_loss_layer {
  detr_outputs<T> outputs;
  /// Groups x boxes, as written by match_queries: the index of each box's query within its image,
  /// or -1. For denoising queries, that is the query that was made from the box. No query may have
  /// two boxes.
  lasting<vector_view<const index_t>> matches;
  matrix_view<T> logits_grad;         ///< the shape of the logits
  lasting<boxes_view<T>> boxes_grad;  ///< the shape of the boxes
};

/// The weighted losses of a layer. Their sum over all layers is the loss whose gradients are
/// written.
struct set_losses {
  double classification = 0, l1 = 0, giou = 0;
  double total() const { return classification + l1 + giou; }
};

/// Scratch memory: about 16 bytes per query of all layers; with cross entropy also 8 per query of
/// the largest layer and, for bfloat16, 8 per logit of that layer. It grows to the needs of the
/// largest call and is reused. Only one call at a time may use it.
class set_loss_workspace {
  friend detail::workspace_access;
  detail::set_loss_buffers buffers_;
};

/// Writes the losses of each layer to `losses`, and the gradients of their sum to the layers'
/// memory. Layers may have different numbers of queries. `truth.boxes` are cx cy w h, and
/// `truth.classes` are columns of the logits; cross entropy excludes the last one. Without classes,
/// all are 0. T is float or bfloat16.
///
/// Throws std::invalid_argument, and writes nothing, if sizes differ, a match is not a query of its
/// image or is used twice, a class is not a column, a parameter is out of range, `truth` has
/// regions, or an output shares memory with an input or with another output of its layer.
template <class T>
void set_loss_and_grad(vector_view<const set_loss_layer<T>> layers, const ground_truth& truth,
                       vector_view<set_losses> losses, const set_loss_params& params,
                       set_loss_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/set_loss.hpp>

// SPDX-License-Identifier: Apache-2.0
// The box regression loss of a detector in one pass: deltas, anchors, targets and labels in, loss
// and gradient by the deltas out. Encoded targets and decoded boxes are never stored.
//
//   smooth_l1         smooth L1 of the deltas against the encoded targets: box_coding.hpp,
//                     smooth_l1.hpp
//   giou, diou, ciou  the IoU loss of the decoded boxes against the targets, and its gradient back
//                     through decoding: 0 through a dw or dh that the clamp cut off: iou_loss.hpp
//
// Deltas, anchors and targets are N x 4 of float, bfloat16 or double, anchors and targets as
// corners; deltas of bfloat16 also go with anchors and targets of float. Anchors are one per delta,
// or those of one image, by which the number of deltas is then divisible. Targets are one box per
// delta, or ground-truth boxes and for each delta the index of its own, as a matcher gives them.
// Only the boxes that a box_selection selects count, commonly by their labels; what the others hold
// is never read, and their gradient is 0.
//
// Accuracy: as the functions that this one joins; a difference of a delta and its target loses what
// cancels. Degenerate boxes that are selected are data: they give what the formulas give; NaN gives
// NaN in the sum. A weight of 0 gives 0 even where the loss is infinite, and a loss of 0 stays 0
// under an infinite weight, as in smooth_l1.hpp.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, `grad` shares
// memory with an input, a selected anchor's match is no ground truth, beta or epsilon is negative,
// a coder weight is not from 1e-35 to 1e35, or another number among the parameters is not a finite
// float (box weights are data).
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/box_loss.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

struct regression_loss_params {
  box_loss loss = box_loss::smooth_l1;
  double beta = 1.0 / 9;  ///< of smooth L1; 0 or more
  double epsilon = 1e-7;  ///< of the IoU losses; 0 or more
  double scale = 1;       ///< factor on loss and gradient; trainers use 1 / max(1, foreground)
  coder_params coder;     ///< anchors are corners; the clamp concerns the IoU losses alone
  /// A further factor for each anchor; empty: all 1.
  lasting<vector_view<const float>> box_weights;
};

/// What anchors are regressed to: a box for each anchor, or ground truth and the index of each
/// anchor's own. Converts from whatever boxes_view<const T> converts from.
template <class T>
class regression_targets {
 public:
  template <class Boxes, detail::require_convertible<Boxes, boxes_view<const T>> = 0,
            detail::require_lasting<Boxes> = 0>
  regression_targets(Boxes&& one_per_anchor, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE())
      : boxes_(lasting<boxes_view<const T>>(one_per_anchor, file, line)) {}
  template <class Boxes, detail::require_convertible<Boxes, boxes_view<const T>> = 0,
            detail::require_temporary_owner<Boxes> = 0>
  regression_targets(Boxes&& one_per_anchor VECDET_LIFETIMEBOUND,
                     const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : boxes_(one_per_anchor, file, line) {}

  /// `matches` holds one index an anchor; what it holds for anchors that are not selected, such as
  /// -1 or -2, does not matter.
  regression_targets(boxes_view<const T> ground_truth, vector_view<const index_t> matches)
      : boxes_(ground_truth), matches_(matches), is_matched_(true) {}

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  regression_targets& operator=(Owner&& ends_with_the_statement) = delete;

  const boxes_view<const T>& boxes() const noexcept { return boxes_; }
  const vector_view<const index_t>& matches() const noexcept { return matches_; }
  bool is_matched() const noexcept { return is_matched_; }

 private:
  boxes_view<const T> boxes_;
  vector_view<const index_t> matches_;
  bool is_matched_ = false;
};

/// The sum of the losses of the selected `deltas`.
template <class Boxes>
double regression_loss(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                       const regression_targets<coordinate_of<Boxes>>& targets,
                       const box_selection& selection, const regression_loss_params& params = {},
                       execution policy = execution::parallel);

/// The same of bfloat16 deltas on anchors and targets in float.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
double regression_loss(const Boxes& deltas, boxes_view<const float> anchors,
                       const regression_targets<float>& targets, const box_selection& selection,
                       const regression_loss_params& params = {},
                       execution policy = execution::parallel);

/// The sum, and its gradient by the deltas into `grad`, N x 4: memory of its own, which need not be
/// zeroed before.
template <class Boxes>
double regression_loss_and_grad(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                                const regression_targets<coordinate_of<Boxes>>& targets,
                                const box_selection& selection,
                                boxes_view<coordinate_of<Boxes>> grad,
                                const regression_loss_params& params = {},
                                execution policy = execution::parallel);

/// The same of bfloat16 deltas on anchors and targets in float, with the gradient in bfloat16.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
double regression_loss_and_grad(const Boxes& deltas, boxes_view<const float> anchors,
                                const regression_targets<float>& targets,
                                const box_selection& selection, boxes_view<bfloat16> grad,
                                const regression_loss_params& params = {},
                                execution policy = execution::parallel);

/// The same of a head's levels as they lie in memory, float or bfloat16, for all images at once.
/// `anchors` are those of one image, in the order of head_levels.hpp; targets or matches, labels,
/// indices and params.box_weights are of the anchors of all images. The gradient goes to `grad`,
/// levels of the same sizes and layout, which may be the deltas themselves, each its own, unless a
/// list selects. `image_scales` are a further factor for each image, as 1 / max(1, foreground of
/// the image); empty: all 1. Gradients are the bits of boxes in one array.
template <class T>
double regression_loss_and_grad(const head_view<T>& deltas, boxes_view<const float> anchors,
                                const regression_targets<float>& targets,
                                const box_selection& selection, const head_view<value_of<T>>& grad,
                                vector_view<const float> image_scales = {},
                                const regression_loss_params& params = {},
                                execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/regression_loss.hpp>

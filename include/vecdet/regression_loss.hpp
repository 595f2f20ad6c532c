// SPDX-License-Identifier: Apache-2.0
// The box regression loss of a detector in one pass over memory. It reads deltas, anchors, targets
// and labels, and computes the loss and its gradient with respect to the deltas. Encoded targets
// and decoded boxes are never stored.
//
//   smooth_l1         smooth L1 of the deltas against the encoded targets; see box_coding.hpp,
//                     smooth_l1.hpp
//   giou, diou, ciou  the IoU loss of the decoded boxes against the targets, with its gradient
//                     propagated back through decoding; a clamped dw or dh gets gradient 0; see
//                     iou_loss.hpp
//
// Deltas, anchors and targets are N x 4 of float, bfloat16 or double; anchors and targets are
// corners. Deltas of bfloat16 also work with anchors and targets of float. There is one anchor per
// row of deltas, or the anchors of one image serve all images; their number then divides the number
// of rows. Targets are one box per row of deltas, or ground-truth boxes and, as matchers return it,
// one index of a box per row. Only boxes that the box_selection selects count, usually by their
// labels. Other boxes are never read, and their gradient is 0.
//
// Accuracy: as in box_coding.hpp, smooth_l1.hpp and iou_loss.hpp. Digits may cancel in the
// difference between a delta and its target. Selected degenerate boxes are data: the formulas apply
// to them unchanged. NaN gives NaN in the sum. A weight of 0 gives 0 even if the loss is infinite,
// and a loss of 0 stays 0 under an infinite weight, as in smooth_l1.hpp.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, `grad` shares
// memory with an input, the match of a selected anchor is not the index of a ground-truth box, beta
// or epsilon is negative, a coder weight is outside [1e-35, 1e35], or another numeric parameter is
// not a finite float (box weights are data and not checked).
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
  coder_params coder;     ///< anchors must be corners; only the IoU losses use the clamp
  /// An additional factor per anchor; empty: all 1.
  lasting<vector_view<const float>> box_weights;
};

/// The targets of the anchors: one box per anchor, or ground-truth boxes and the index of one of
/// these per anchor. Everything that converts to boxes_view<const T> converts to
/// regression_targets.
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

  template <class Boxes, detail::require_other_numbers<Boxes, T> = 0>
  regression_targets(Boxes&& has_another_element_type) = delete;

  /// `matches` holds one index per anchor. The values of anchors that are not selected, such as -1
  /// or -2, are not used.
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
                       threading policy = threading::parallel);

/// The same for bfloat16 deltas with anchors and targets of float.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
double regression_loss(const Boxes& deltas, boxes_view<const float> anchors,
                       const regression_targets<float>& targets, const box_selection& selection,
                       const regression_loss_params& params = {},
                       threading policy = threading::parallel);

/// Returns the sum of the losses and writes its gradient with respect to the deltas to `grad`,
/// N x 4. `grad` may not share memory with the inputs and need not be zeroed before.
template <class Boxes>
double regression_loss_and_grad(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                                const regression_targets<coordinate_of<Boxes>>& targets,
                                const box_selection& selection,
                                boxes_view<coordinate_of<Boxes>> grad,
                                const regression_loss_params& params = {},
                                threading policy = threading::parallel);

/// The same for bfloat16 deltas with anchors and targets of float; the gradient is bfloat16.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
double regression_loss_and_grad(const Boxes& deltas, boxes_view<const float> anchors,
                                const regression_targets<float>& targets,
                                const box_selection& selection, boxes_view<bfloat16> grad,
                                const regression_loss_params& params = {},
                                threading policy = threading::parallel);

/// The same for a head's levels in place, float or bfloat16, for all images at once. `anchors` are
/// those of one image, in the order of head_levels.hpp. Targets or matches, labels, indices and
/// params.box_weights have one element per anchor of all images. The gradient goes to `grad`, whose
/// levels have the same sizes and layout. It may reuse the deltas' memory, level for level, unless
/// `selection` is a list. `image_scales` holds an additional factor per image, e.g. 1 / max(1,
/// foreground of the image); empty: all 1. Gradients are bit-identical to those of boxes in one
/// array.
template <class T>
double regression_loss_and_grad(const head_view<T>& deltas, boxes_view<const float> anchors,
                                const regression_targets<float>& targets,
                                const box_selection& selection, const head_view<value_of<T>>& grad,
                                vector_view<const float> image_scales = {},
                                const regression_loss_params& params = {},
                                threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/regression_loss.hpp>

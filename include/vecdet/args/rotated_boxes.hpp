// SPDX-License-Identifier: Apache-2.0
// Rotated boxes: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/nms.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// How angles are given; see angle_convention.
struct angle_rule {
  bool degrees;    ///< else radians
  bool clockwise;  ///< from the x axis towards the y axis; else away from it
};

/// What a box's numbers are to the kernels; see rotated_format.
enum class rotated_form { centre, corner, corners, upright };

/// One call over boxes of centre, width, height and angle. Strides are between rows.
template <class T>
struct rotated_iou_args {
  const T *a, *b;
  index_t a_stride, b_stride;
  T* out;
  index_t columns, out_stride;  ///< pairwise: the number of boxes b, and out's row stride
  angle_rule angles;
  empty_iou rule;
};

template <class T>
struct rotated_convert_args {
  const T* boxes;
  index_t stride;
  T* out;
  index_t out_stride;
  rotated_form from, to;
  angle_rule angles;
};

/// NMS of boxes of centre, width, height and angle.
template <class T>
struct rotated_nms_args {
  const T* boxes;
  index_t stride;
  angle_rule angles;
  /// A box is suppressed if its IoU or ProbIoU, of type T, is at least this.
  double least_overlap;
  /// ProbIoU: boxes whose distance along an axis exceeds this times the root of the sum of their
  /// variances have less.
  double reach;
  index_t max_kept;
};

/// The ProbIoU loss of N pairs.
template <class T>
struct prob_iou_loss_args {
  const T *predicted, *targets;
  index_t predicted_stride, targets_stride;
  angle_rule angles;
  const float* box_weights;  ///< one per pair, or null: all 1
  double scale;
  loss_output output;
  T* grad;  ///< N x 5; may be the predicted boxes
  index_t grad_stride;
  T* loss;  ///< one per pair
};

template <class T>
struct rotated_boxes_kernels {
  /// Writes out[i * out_stride + j] for boxes i of a in [first_a, last_a) and boxes j of b in
  /// [first_b, last_b).
  void (*pairwise_iou)(const rotated_iou_args<T>&, index_t first_a, index_t last_a, index_t first_b,
                       index_t last_b);
  /// Writes out[i] for box i of a and box i of b.
  void (*elementwise_iou)(const rotated_iou_args<T>&, index_t first, index_t last);
  /// The same with ProbIoU; args.rule is not used.
  void (*pairwise_prob_iou)(const rotated_iou_args<T>&, index_t first_a, index_t last_a,
                            index_t first_b, index_t last_b);
  void (*elementwise_prob_iou)(const rotated_iou_args<T>&, index_t first, index_t last);
  /// Computes pairs [first, last) and returns the unscaled sum of their losses.
  double (*prob_iou_loss)(const prob_iou_loss_args<T>&, index_t first, index_t last);
  /// Converts boxes [first, last).
  void (*convert)(const rotated_convert_args<T>&, index_t first, index_t last);
  /// NMS of a group of records in descending score. Writes the kept ones and returns their number.
  index_t (*nms)(const rotated_nms_args<T>&, const nms_record* order, index_t count, void* scratch,
                 nms_record* kept);
  index_t (*nms_scratch_bytes)(index_t count);  ///< per group; aligned to 64 bytes
  /// The same by ProbIoU: a box is kept unless any box before it overlaps it.
  index_t (*prob_nms)(const rotated_nms_args<T>&, const nms_record* order, index_t count,
                      void* scratch, nms_record* kept);
  index_t (*prob_nms_scratch_bytes)(index_t count);
  /// Drops the records of boxes that are not numbers or have no area. Returns how many are left.
  index_t (*drop_degenerate)(const rotated_nms_args<T>&, nms_record* records, index_t count);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Turns the outputs of a two-stage detector's box head into detections, in one call per batch:
//
//   score = softmax of the proposal's row, where column 0 is background; keep scores above a
//   threshold
//   decode a box from the proposal with the class's own deltas, clip it, remove small boxes
//   apply NMS per class, and keep the best detections of each image
//
// Girshick: "Fast R-CNN", arXiv 1504.08083, as in torchvision's Faster R-CNN
// (postprocess_detections). Ties of scores are broken by lower proposal index, then by lower class.
// A row with a NaN logit gives no detections.
//
// Proposals come from postprocess() with postprocess_params::rpn(). roi_align.hpp pools the
// features that are the inputs of the box head.
#pragma once

#include <vecdet/postprocess.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The defaults are those of torchvision's Faster R-CNN.
struct box_head_params {
  double score_threshold = 0.05;  ///< In [0, 1]; scores above it count.
  double iou_threshold = 0.5;     ///< In [0, 1].
  index_t max_detections = 100;   ///< Per image.
  /// The coder of the deltas; proposals are corners.
  coder_params coder = coder_params::roi();
  double min_size = 1e-2;  ///< Boxes with a smaller side are removed; 0 removes none.
};

/// The outputs of the head for the proposals of all images, image after image.
template <class T>
struct box_head_outputs {
  matrix_view<const T> logits;          ///< proposals x classes, background first
  lasting<boxes_view<const T>> deltas;  ///< proposals x classes, four each
};

/// The detections of a batch. Labels are columns of the logits. The proposals (x1 y1 x2 y2) of
/// image k are [image_offsets[k], image_offsets[k + 1]); its boxes are clipped to image_sizes[k],
/// or to the one image_size that is given for all images.
///
/// @throws std::invalid_argument if sizes differ, image_offsets do not ascend from 0 to the number
/// of proposals, there are more than 2^32 logits, or a parameter or image size is outside the range
/// that postprocess() accepts.
template <class T>
detections_view postprocess_box_head(const box_head_outputs<T>& outputs,
                                     boxes_view<const float> proposals,
                                     vector_view<const index_t> image_offsets,
                                     const image_sizes_view& image_sizes,
                                     const box_head_params& params,
                                     postprocess_workspace& workspace,
                                     threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/box_head.hpp>

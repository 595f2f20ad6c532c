// SPDX-License-Identifier: Apache-2.0
// From the outputs of a two-stage detector's box head to its detections, in one call for a batch:
//
//   score = softmax of the proposal's row, column 0 being background; those above a threshold
//   boxes decoded from the proposal, by each class's own deltas, clipped, small ones removed
//   NMS per class, and of each image the best detections
//
// Girshick: "Fast R-CNN", arXiv 1504.08083, as torchvision's Faster R-CNN does it
// (postprocess_detections). Candidates of equal score go by lower proposal, then lower class. A row
// with a NaN logit has no scores, and gives nothing.
//
// Proposals are what postprocess() gives with postprocess_params::rpn(); the box head sees what
// roi_align.hpp cuts out for them.
#pragma once

#include <vecdet/postprocess.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct box_head_params {
  double score_threshold = 0.05;             ///< In [0, 1]; scores above it count.
  double iou_threshold = 0.5;                ///< In [0, 1].
  index_t max_detections = 100;              ///< Of an image.
  coder_params coder = coder_params::roi();  ///< Of the deltas; proposals are corners.
  double min_size = 1e-2;  ///< Boxes of a smaller side are removed; 0 removes none.
};

/// What the head gives for the proposals of all images, one after the other.
template <class T>
struct box_head_outputs {
  matrix_view<const T> logits;          ///< proposals x classes, background first
  lasting<boxes_view<const T>> deltas;  ///< proposals x classes, four each
};

/// The detections of a batch; labels are columns of the logits. Image k's proposals (x1 y1 x2 y2)
/// are [image_offsets[k], image_offsets[k + 1]), and are clipped to image_sizes[k].
///
/// @throws std::invalid_argument where sizes do not agree, image_offsets do not ascend from 0 to
/// the number of proposals, there are more than 2^32 logits, or a parameter or image size is out of
/// the range that postprocess() takes.
template <class T>
detections_view postprocess_box_head(const box_head_outputs<T>& outputs,
                                     boxes_view<const float> proposals,
                                     vector_view<const index_t> image_offsets,
                                     vector_view<const image_size> image_sizes,
                                     const box_head_params& params,
                                     postprocess_workspace& workspace,
                                     execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/box_head.hpp>

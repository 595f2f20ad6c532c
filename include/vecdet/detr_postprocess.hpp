// SPDX-License-Identifier: Apache-2.0
// From the raw output of a DETR to its detections, without NMS:
//
//   DETR                  of each query the best class; score = softmax, the last column being
//                         "no object"
//   Deformable DETR,      of all queries and classes the best k; score = sigmoid
//   DINO, RT-DETR
//
// Boxes are cx cy w h in parts of the image's size. Detections have a score above a threshold; they
// are in descending score, equal ones by lower query and class. Sigmoids are ranked by their
// logits, where rounded ones may tie. NaN logits never pass, nor does any class of a query with a
// NaN or infinite logit under softmax.
//
// Throws std::invalid_argument where shapes do not agree, the threshold is outside [0, 1], a limit
// is negative, or an image's size is not a positive float.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>
#include <vecdet/yolo_postprocess.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct detr_postprocess_params {
  bool softmax = false;          ///< Else sigmoid.
  double score_threshold = 0.5;  ///< In [0, 1]; scores above it count.
  index_t max_detections = 300;  ///< Of an image.
  box_format results = box_format::xyxy;

  /// DETR, Conditional DETR without focal loss: softmax, 100 queries.
  static detr_postprocess_params detr();
  /// RT-DETR, DINO, Deformable DETR (which has 100 detections): sigmoid, 300 detections.
  static detr_postprocess_params rt_detr();
};

/// A batch's output; rows run over the images, and in an image over its queries.
template <class T>
struct detr_outputs {
  matrix_view<const T> logits;         ///< (images x queries) x classes
  lasting<boxes_view<const T>> boxes;  ///< images x queries: cx cy w h in [0, 1]
};

/// The detections of a batch, whose boxes are in pixels and clipped to the image. `image_sizes` has
/// an element an image; `sources` are queries, and there are no extras. T is float or bfloat16.
template <class T>
yolo_detections_view postprocess_detr(const detr_outputs<T>& outputs,
                                      vector_view<const image_size> image_sizes,
                                      const detr_postprocess_params& params,
                                      yolo_postprocess_workspace& workspace,
                                      execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/detr_postprocess.hpp>

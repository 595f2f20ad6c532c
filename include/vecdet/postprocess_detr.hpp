// SPDX-License-Identifier: Apache-2.0
// Turns the raw output of a DETR into detections, without NMS:
//
//   DETR                  the best class of each query; score = softmax, where the last column is
//                         "no object"
//   Deformable DETR,      the best k over all queries and classes; score = sigmoid
//   DINO, RT-DETR
//
// Boxes are cx cy w h in fractions of the image's size. Only scores above the threshold give
// detections. Detections are in descending score; ties are broken by lower query, then by lower
// class. Sigmoids are ranked by their logits, because rounded sigmoids may tie. NaN logits are
// never selected. With softmax, a query with a NaN or +infinite logit gives no detection, nor does
// one whose logits are all -infinite; otherwise a -infinite logit is a class of probability 0.
//
// Throws std::invalid_argument if shapes differ, a threshold is outside [0, 1], a limit is
// negative, a wanted class is not a class of the logits, class_thresholds do not have one element
// per class, or an image's size is not a positive float.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/detections_view.hpp>
#include <vecdet/detr_outputs.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct postprocess_detr_params {
  /// Softmax, whose last column is "no object", instead of sigmoid.
  bool softmax = false;
  double score_threshold = 0.5;  ///< In [0, 1]; scores above it count.
  index_t max_detections = 300;  ///< Per image.
  box_format result_format = box_format::xyxy;
  /// The wanted classes; empty: all. With softmax, a query whose best class is not wanted gives no
  /// detection.
  lasting<vector_view<const index_t>> classes;
  /// A threshold per class, in [0, 1], instead of score_threshold; empty: none. Softmax's "no
  /// object" has none.
  lasting<vector_view<const double>> class_thresholds;

  /// DETR: softmax, 100 queries. Also for Conditional DETR without focal loss.
  static postprocess_detr_params detr();
  /// RT-DETR, DINO, Deformable DETR: sigmoid, 300 detections (Deformable DETR uses 100).
  static postprocess_detr_params rt_detr();
};

/// The detections of a batch. Boxes are in pixels and clipped to the image. `image_sizes` holds one
/// size per image. The result's `sources` are queries, and it has no extras. T is float or
/// bfloat16.
template <class T>
detections_view postprocess_detr(const detr_outputs<T>& outputs,
                                 vector_view<const image_size> image_sizes,
                                 const postprocess_detr_params& params,
                                 postprocess_workspace& workspace,
                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/postprocess_detr.hpp>

// SPDX-License-Identifier: Apache-2.0
// Postprocessing of quantised models, and of models that give boxes and scores in separate tensors.
//
// Results are bit-identical to those of the functions in float after dequantisation. The same
// inputs are errors; messages name the arguments given. The integers are compared: an integer
// passes a threshold if its number does. Only candidates are dequantised.
//
// If a single tensor holds coordinates in pixels and scores, its scale is that of the coordinates,
// about 640 / 255, so that all scores are 0. Such models give normalised coordinates
// (params.normalised) or separate tensors.
//
// Besides the errors of the functions in float, std::invalid_argument is thrown if the shapes of
// separate tensors do not match, or if params.scores is score_and_class and the scores are
// quantised: a class index of another scale would be rounded to another class. Models with a class
// index per box give it as a float tensor.
#pragma once

#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/quantised_numbers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/postprocess_detr.hpp>
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/quantised_matrix.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The quantised output of a YOLO model, in the shapes of yolo_outputs.
template <class T>
struct quantised_yolo_outputs {
  quantised_matrix<T> boxes_and_scores;
  index_t images = 1;
};

/// The output of a YOLO model as two tensors, in the layout params.layout. Boxes and Scores are
/// matrix_view<const float>, matrix_view<const bfloat16>, or quantised_matrix; each may be another
/// type.
template <class Boxes, class Scores = Boxes>
struct separate_yolo_outputs {
  static_assert(detail::has_numbers<Boxes> && detail::has_numbers<Scores>,
                "outputs are float or bfloat16; integers need a scale: quantised_matrix");
  Boxes boxes;    ///< the coordinates: (images x 4) x boxes, or (images x boxes) x 4
  Scores scores;  ///< all numbers after the coordinates, in the same layout
  index_t images = 1;
};

/// The quantised output of a DETR. Boxes is a type as in separate_yolo_outputs.
template <class T, class Boxes = quantised_matrix<T>>
struct quantised_detr_outputs {
  static_assert(detail::has_numbers<Boxes>,
                "boxes are float or bfloat16; integers need a scale: quantised_matrix");
  quantised_matrix<T> logits;  ///< (images x queries) x classes
  Boxes boxes;                 ///< (images x queries) x 4: cx cy w h in [0, 1]
};

template <class T>
quantised_yolo_outputs(quantised_matrix<T>, index_t = 1) -> quantised_yolo_outputs<T>;
template <class Boxes, class Scores>
separate_yolo_outputs(Boxes, Scores, index_t = 1) -> separate_yolo_outputs<Boxes, Scores>;
template <class T, class Boxes>
quantised_detr_outputs(quantised_matrix<T>, Boxes) -> quantised_detr_outputs<T, Boxes>;

/// Like postprocess_yolo() of postprocess_yolo.hpp.
template <class T>
detections_view postprocess_yolo(const quantised_yolo_outputs<T>& outputs,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 postprocess_workspace& workspace,
                                 threading policy = threading::parallel);
template <class Boxes, class Scores>
detections_view postprocess_yolo(const separate_yolo_outputs<Boxes, Scores>& outputs,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 postprocess_workspace& workspace,
                                 threading policy = threading::parallel);

/// Like postprocess_detr() of postprocess_detr.hpp.
template <class T, class Boxes>
detections_view postprocess_detr(const quantised_detr_outputs<T, Boxes>& outputs,
                                 vector_view<const image_size> image_sizes,
                                 const postprocess_detr_params& params,
                                 postprocess_workspace& workspace,
                                 threading policy = threading::parallel);

/// Like filter_topk() of filter_topk.hpp, but only of a matrix, not of a head's levels. The
/// result's logits are dequantised.
template <class T>
filter_topk_result filter_topk(const quantised_matrix<T>& logits, double score_threshold, index_t k,
                               filter_topk_workspace& workspace,
                               threading policy = threading::parallel,
                               score_kind kind = score_kind::logits);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/quantised_outputs.hpp>

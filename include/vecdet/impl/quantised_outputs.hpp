// SPDX-License-Identifier: Apache-2.0
// The functions of quantised_outputs.hpp. The calls are those of the functions in float.
#pragma once

#include <vecdet/impl/quantised_numbers.hpp>
#include <vecdet/quantised_outputs.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

template <class T>
detections_view postprocess_yolo(const quantised_yolo_outputs<T>& outputs,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 postprocess_workspace& workspace, threading policy) {
  return detail::run_postprocess_yolo<quantised_matrix<T>>(
      nullptr, outputs.boxes_and_scores, outputs.images, transforms, params,
      detail::workspace_access::buffers(workspace), policy);
}

template <class Boxes, class Scores>
detections_view postprocess_yolo(const separate_yolo_outputs<Boxes, Scores>& outputs,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 postprocess_workspace& workspace, threading policy) {
  return detail::run_postprocess_yolo(&outputs.boxes, outputs.scores, outputs.images, transforms,
                                      params, detail::workspace_access::buffers(workspace), policy);
}

template <class T, class Boxes>
detections_view postprocess_detr(const quantised_detr_outputs<T, Boxes>& outputs,
                                 vector_view<const image_size> image_sizes,
                                 const postprocess_detr_params& params,
                                 postprocess_workspace& workspace, threading policy) {
  return detail::run_postprocess_detr(outputs.logits, outputs.boxes, image_sizes, params,
                                      detail::workspace_access::buffers(workspace), policy);
}

template <class T>
filter_topk_result filter_topk(const quantised_matrix<T>& logits, double score_threshold, index_t k,
                               filter_topk_workspace& workspace, threading policy,
                               score_kind kind) {
  if (kind == score_kind::logits) detail::look_at_logits("filter_topk", "logits", logits);
  return detail::run_filter_topk(active_isa(), logits, score_threshold, k,
                                 detail::workspace_access::buffers(workspace), policy, kind);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

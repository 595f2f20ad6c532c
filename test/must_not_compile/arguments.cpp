// SPDX-License-Identifier: Apache-2.0
// What functions do not take; see ../must_not_compile.sh.
#define VECDET_DISPATCH
#include <vecdet/vecdet.hpp>

#include <cstdint>
#include <vector>

using namespace vecdet;

std::vector<float> make_weights();
std::vector<int> make_labels();
/// N x 6 detections.
matrix_view<const float> detections();

void arguments(matrix_view<float> ids, std::vector<float> scores) {
  const boxes_view<const float> boxes(scores);
  const matrix_view<float> out;
#if WRONG == 21  // says: has_strides
  pairwise_iou(boxes, detections(), out);
#else
  pairwise_iou(boxes, scores, out);
#endif
#if WRONG == 22  // says: no matching function
  nms(detections(), vector_view<const float>(scores));
#else
  nms(boxes, vector_view<const float>(scores));
#endif
#if WRONG == 23  // says: focal_targets
  matrix_view<std::int64_t> numbers;
  sigmoid_focal_loss(out, numbers);
#else
  sigmoid_focal_loss(out, make_labels());
#endif
#if WRONG == 24  // says: regression_targets
  regression_loss(boxes, boxes, detections(), box_selection::all());
#else
  regression_loss(boxes, boxes, make_weights(), box_selection::all());
#endif
#if WRONG == 25  // says: box_selection
  smooth_l1_loss(boxes, boxes, ids);
#else
  smooth_l1_loss(boxes, boxes, make_labels());
#endif
}

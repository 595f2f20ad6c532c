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

/// As cv::Rect2f.
struct rect {
  float x, y, width, height;
};
template <>
struct vecdet::box_layout<rect> : vecdet::box_numbers<float, vecdet::box_format::xywh> {};
struct unknown_box {
  float left, top, right, bottom;
};

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

void elements(std::vector<float> numbers, std::vector<double> doubles, std::vector<bool> bits,
              std::vector<short> shorts, std::vector<rect> rects, std::vector<unknown_box> unknown,
              std::vector<int> ints, std::vector<index_t> indices, std::vector<std::uint8_t> mask) {
  const matrix_view<float> x;
#if WRONG == 31  // says: needs_integers_of_32_or_64_bits
  sigmoid_focal_loss(x, bits);
#else
  sigmoid_focal_loss(x, ints);
#endif
#if WRONG == 32  // says: needs_integers_of_32_or_64_bits
  sigmoid_focal_loss(x, numbers);
#else
  sigmoid_focal_loss(x, indices);
#endif
#if WRONG == 33  // says: needs_integers_of_32_or_64_bits
  smooth_l1_loss(numbers, numbers, shorts);
#else
  smooth_l1_loss(numbers, numbers, ints);
#endif
#if WRONG == 34  // says: has_another_element_type
  smooth_l1_loss(numbers, doubles);
#else
  smooth_l1_loss(doubles, doubles);
#endif
#if WRONG == 35  // says: has_another_element_type
  large_boxes(numbers, 1, ints);
#else
  large_boxes(numbers, 1, indices);
#endif
#if WRONG == 36  // says: convert_boxes
  nms(rects, numbers, 0.5);
#else
  convert_boxes(rects, box_format::xyxy, numbers);
#endif
#if WRONG == 37  // says: has_no_corners_use_convert_boxes
  pairwise_iou(numbers, rects, x);
#else
  pairwise_iou(numbers, numbers, x);
#endif
#if WRONG == 38  // says: specialise vecdet::box_layout
  nms(unknown, numbers, 0.5);
#else
  nms(numbers, numbers, 0.5);
#endif
#if WRONG == 39  // says: vecdet kernels take float, vecdet::bfloat16 or double
  nms(ints, numbers, 0.5);
#else
  nms(doubles, numbers, 0.5);
#endif
#if WRONG == 40  // says: has_another_element_type
  const match_results results{ints, {}, {}, {}, {}};
#else
  const match_results results{indices, {}, {}, {}, {}};
#endif
  large_box_mask(numbers, 1, mask);
  (void)results;
}

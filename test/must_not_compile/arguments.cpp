// SPDX-License-Identifier: Apache-2.0
// Arguments that functions refuse; see ../must_not_compile.sh.
#define VECDET_DISPATCH
#include <vecdet/vecdet.hpp>

#include <cstdint>
#include <vector>

using namespace vecdet;

std::vector<float> make_weights();
std::vector<int> make_labels();
/// N x 6 detections.
matrix_view<const float> detections();

matrix_view<const std::int8_t> integers();

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
  // Wrong (has_strides): pairwise_iou(boxes, detections(), out);
  pairwise_iou(boxes, scores, out);
  // Wrong (no matching function): nms(detections(), vector_view<const float>(scores));
  nms(boxes, vector_view<const float>(scores));
  // Wrong (focal_targets): matrix_view<std::int64_t> numbers; sigmoid_focal_loss(out, numbers);
  sigmoid_focal_loss(out, make_labels());
  // Wrong (regression_targets): regression_loss(boxes, boxes, detections(), box_selection::all());
  regression_loss(boxes, boxes, make_weights(), box_selection::all());
  // Wrong (box_selection): smooth_l1_loss(boxes, boxes, ids);
  smooth_l1_loss(boxes, boxes, make_labels());
}

void quantised(filter_topk_workspace& topk, postprocess_workspace& yolo) {
  const auto v8 = postprocess_yolo_params::v8();
  const auto rt_detr = postprocess_detr_params::rt_detr();
  const vector_view<const image_size> sizes;
  // Wrong (quantised_matrix): quantised_matrix<std::int8_t> exchanged(integers(), 3, 1);
  const quantised_matrix<std::int8_t> x(integers(), 0.5, 3);
  // Wrong (quantised_matrix): quantised_matrix<std::int8_t> logical(integers(), 0.5, true);
  // Wrong (integers need a scale: quantised_matrix): filter_topk(integers(), 0.5, 9, topk);
  filter_topk(x, 0.5, 9, topk);
  // Wrong (integers need a scale): postprocess_yolo(yolo_outputs<std::int8_t>{}, {}, v8, yolo);
  postprocess_yolo(quantised_yolo_outputs<std::int8_t>{x}, {}, v8, yolo);
  // Wrong (integers need a scale): postprocess_detr(detr_outputs<char>{}, sizes, rt_detr, yolo);
  postprocess_detr(quantised_detr_outputs<std::int8_t>{x, x}, sizes, rt_detr, yolo);
  // Wrong (quantised_matrix): quantised_yolo_outputs<std::int8_t> unscaled{integers()};
  quantised_yolo_outputs<std::int8_t> scaled{x};
  // Wrong (std::int8_t or std::uint8_t): quantised_matrix<short> wide({}, 0.5, 3);
  // Wrong (integers need a scale: quantised_matrix): separate_yolo_outputs raw{integers(), x};
  separate_yolo_outputs<quantised_matrix<std::int8_t>> separate{x, x};
  // Wrong (integers need a scale: quantised_matrix): separate_yolo_outputs raw{x, integers()};
  postprocess_yolo(separate, {}, v8, yolo);
  postprocess_yolo(scaled, {}, v8, yolo);
}

void elements(std::vector<float> numbers, std::vector<double> doubles, std::vector<bool> bits,
              std::vector<short> shorts, std::vector<rect> rects, std::vector<unknown_box> unknown,
              std::vector<int> ints, std::vector<index_t> indices, std::vector<std::uint8_t> mask) {
  const matrix_view<float> x;
  // Wrong (needs_integers_of_32_or_64_bits): sigmoid_focal_loss(x, bits);
  sigmoid_focal_loss(x, ints);
  // Wrong (needs_integers_of_32_or_64_bits): sigmoid_focal_loss(x, numbers);
  sigmoid_focal_loss(x, indices);
  // Wrong (needs_integers_of_32_or_64_bits): smooth_l1_loss(numbers, numbers, shorts);
  smooth_l1_loss(numbers, numbers, ints);
  // Wrong (has_another_element_type): smooth_l1_loss(numbers, doubles);
  smooth_l1_loss(doubles, doubles);
  // Wrong (has_another_element_type): large_boxes(numbers, 1, ints);
  large_boxes(numbers, 1, indices);
  // Wrong (groups must be nms_groups): batched_nms(numbers, numbers, numbers, 0.5);
  batched_nms(numbers, numbers, ints, 0.5);
  // Wrong (groups must be nms_groups or a container of): batched_nms(numbers, numbers, 0.5);
  batched_nms(numbers, numbers, make_labels());
  // Wrong (convert_boxes): nms(rects, numbers, 0.5);
  convert_boxes(rects, box_format::xyxy, numbers);
  // Wrong (has_no_corners_use_convert_boxes): pairwise_iou(numbers, rects, x);
  pairwise_iou(numbers, numbers, x);
  // Wrong (specialise vecdet::box_layout): nms(unknown, numbers, 0.5);
  nms(numbers, numbers, 0.5);
  // Wrong (vecdet kernels take float, vecdet::bfloat16 or double): nms(ints, numbers, 0.5);
  nms(doubles, numbers, 0.5);
  // Wrong (has_another_element_type): const match_results results{ints, {}, {}, {}, {}};
  const match_results results{indices, {}, {}, {}, {}};
  large_box_mask(numbers, 1, mask);
  (void)results;
}

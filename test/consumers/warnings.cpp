// SPDX-License-Identifier: Apache-2.0
// A header-only user's file, whose kernels are compiled with warnings.
#include <vecdet/vecdet.hpp>

#include <vector>

double losses_and_boxes(std::vector<float>& numbers, const std::vector<int>& labels) {
  const vecdet::matrix_view<float> logits(numbers.data(), 2, 2);
  double sum = vecdet::sigmoid_focal_loss_and_grad(logits, labels, logits);
  sum += vecdet::smooth_l1_loss(numbers, numbers);
  sum += vecdet::iou_loss(numbers, numbers, vecdet::iou_kind::giou);
  vecdet::decode_boxes(numbers, numbers, vecdet::image_size::height_width(4, 3), numbers);
  vecdet::pairwise_iou(numbers, numbers, logits);
  const std::vector<vecdet::index_t> kept = vecdet::batched_nms(numbers, numbers, labels, 0.5);
  return sum + static_cast<double>(kept.size());
}

// SPDX-License-Identifier: Apache-2.0
// A user's file, compiled with warnings that the headers must not cause even if included by -I. Its
// using-directives must not make a name ambiguous, and the system's macros stay out of it.
#include <vecdet/profile.hpp>
#include <vecdet/vecdet.hpp>
#if defined(PROT_READ)
#error "a header includes <sys/mman.h>"
#endif

#include <execution>
#include <vector>

using namespace std;
using namespace vecdet;

double losses_of(std::vector<float>& a, std::vector<double>& b, std::vector<int>& labels);
double losses_of(std::vector<float>& a, std::vector<double>& b, std::vector<int>& labels) {
  double sum = smooth_l1_loss(a, a) + smooth_l1_loss(b, b, labels, {}, threading::sequential);
  sum += regression_loss(a, a, a, labels) + regression_loss(b, b, b, labels);
  sum += iou_loss(a, a, iou_kind::giou);
  const matrix_view<float> x(a.data(), 2, 2);
  sum += sigmoid_focal_loss_and_grad(x, labels, x);
  sum += quality_focal_loss(x, {labels, a}) + softmax_cross_entropy_loss(x, labels);
  const auto kept = nms(a, a, 0.5);
  batched_nms(b, a, {labels, {}, {}}, nms_params::torchvision(0.5));
  pairwise_iou(a, a, x);
  decode_boxes(a, a, image_size::height_width(4, 3), a);
  convert_boxes(b, box_format::xywh, box_format::xyxy, b);
  split_detections(x, a, a);
  filter_topk_workspace topk_workspace;
  filter_topk(x, 0.5, 10, topk_workspace);
  postprocess_workspace workspace;
  const head_outputs<float> outputs{x, a, {}};
  const std::vector<image_size> sizes{image_size::height_width(480, 640)};
  const auto found = postprocess(outputs, a, {}, sizes, {}, workspace);
  fcos_loss_workspace fcos_workspace;
  const std::vector<grid_size> levels;
  sum += fcos_loss_and_grad(fcos_head<float>{}, a, {a, labels, {}, {}, {}}, {}, fcos_workspace)
             .regression;
  roi_align_workspace roi_workspace;
  const roi_boxes<float> boxes{a};
  const feature_view<float> map(a.data(), 1, 1, 1, 1, feature_layout::nchw);
  roi_align(map, boxes, map, {}, roi_workspace);
  deformable_attention_workspace attention_workspace;
  const vector_view<const float> numbers(a);
  deformable_attention(numbers, a, a, a, {}, attention_workspace);
  deformable_attention_grad(numbers, a, a, a, {}, {}, attention_workspace);
  query_match_workspace match_workspace;
  set_loss_workspace losses_workspace;
  assignment_workspace lsa_workspace;
  match_queries<float>({}, {a, labels, {}, {}, {}}, {}, {}, match_workspace);
  set_loss_and_grad<float>({}, {a, labels, {}, {}, {}}, {}, {}, losses_workspace);
  sum += assign_least_cost(x, {}, lsa_workspace);
  return sum + static_cast<double>(kept.size()) + static_cast<double>(found.scores.size());
}

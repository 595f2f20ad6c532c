// SPDX-License-Identifier: Apache-2.0
// Values that functions' parameters refuse; see ../must_not_compile.sh.
#define VECDET_DISPATCH
#include <vecdet/vecdet.hpp>

#include <vector>

using namespace vecdet;

std::vector<float> make_weights();
std::vector<int> make_labels();
std::vector<index_t> make_offsets();
std::vector<head_level<const float>> make_levels();
std::vector<image_size> make_sizes();

void parameters(std::vector<float> weights, std::vector<int> labels, std::vector<index_t> offsets) {
  focal_loss_params focal;
  nms_groups groups;
  // Wrong (ends_with_the_statement): focal.row_weights = make_weights();
  focal.row_weights = weights;
  // Wrong (ends_with_the_statement): smooth_l1_params smooth_l1{1, 1, make_weights()};
  smooth_l1_params smooth_l1{1, 1, weights};
  // Wrong (ends_with_the_statement): iou_loss_params iou{0, 1, make_weights()};
  iou_loss_params iou{0, 1, weights};
  regression_loss_params regression;
  // Wrong (ends_with_the_statement): regression.box_weights = make_weights();
  regression.box_weights = weights;
  // Wrong (ends_with_the_statement): groups.classes = make_labels();
  groups.classes = labels;
  // Wrong (ends_with_the_statement): nms_groups per_image{{}, make_labels(), {}};
  nms_groups per_image{{}, labels, {}};
  // Wrong (ends_with_the_statement): groups.image_offsets = make_offsets();
  groups.image_offsets = offsets;
  // Wrong (candidate): groups.image_offsets = {0, 0};
  groups.image_offsets = {offsets.data(), offsets.size()};
  // Wrong (ends_with_the_statement): head_outputs<float> heads{{}, make_weights(), {}};
  head_outputs<float> heads{{}, weights, {}};
  // Wrong (ends_with_the_statement): heads.centerness = make_weights();
  heads.centerness = weights;
  focal_targets<float> targets = labels;
  // Wrong (ends_with_the_statement): targets = make_labels();
  targets = matrix_view<float>();
  regression_targets<float> boxes = weights;
  // Wrong (ends_with_the_statement): boxes = make_weights();
  boxes = weights;
  box_selection selection = box_selection::all();
  // Wrong (ends_with_the_statement): selection = make_labels();
  selection = labels;
  const std::vector<head_level<const float>> levels = make_levels();
  const auto nchw = head_layout::nchw;
  // Wrong (ends_with_the_statement): head_view<const float> head(make_levels(), 1, 1, 1, nchw);
  head_view<const float> head(levels, 1, 1, 1, nchw);
  // Wrong (ends_with_the_statement): const ssd_head ssd{{}, make_weights(), {}, {}};
  const ssd_head ssd{{}, weights, {}, {}};
  // Wrong (private): const image_size image{600, 800};
  const image_size image = image_size::height_width(600, 800);
  // Wrong (ends_with_the_statement): const scored_labels scored{make_labels(), weights};
  const scored_labels scored{labels, weights};
  // Wrong (ends_with_the_statement): const scored_labels dangling{labels, make_weights()};
  const scored_labels dangling{labels, vector_view<const float>(weights)};
  image_sizes_view sizes;
  // Wrong (ends_with_the_statement): sizes = make_sizes();
  sizes = image;
  (void)sizes, (void)image, (void)scored, (void)dangling;
  (void)smooth_l1, (void)iou, (void)per_image, (void)head, (void)ssd;
}

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
#if WRONG == 1  // says: ends_with_the_statement
  focal.row_weights = make_weights();
#else
  focal.row_weights = weights;
#endif
#if WRONG == 2  // says: ends_with_the_statement
  smooth_l1_params smooth_l1{1, 1, make_weights()};
#else
  smooth_l1_params smooth_l1{1, 1, weights};
#endif
#if WRONG == 3  // says: ends_with_the_statement
  iou_loss_params iou{0, 1, make_weights()};
#else
  iou_loss_params iou{0, 1, weights};
#endif
#if WRONG == 4  // says: ends_with_the_statement
  regression_loss_params regression;
  regression.box_weights = make_weights();
#else
  regression_loss_params regression;
  regression.box_weights = weights;
#endif
#if WRONG == 5  // says: ends_with_the_statement
  groups.classes = make_labels();
#else
  groups.classes = labels;
#endif
#if WRONG == 6  // says: ends_with_the_statement
  nms_groups per_image{{}, make_labels(), {}};
#else
  nms_groups per_image{{}, labels, {}};
#endif
#if WRONG == 7  // says: ends_with_the_statement
  groups.image_offsets = make_offsets();
#else
  groups.image_offsets = offsets;
#endif
#if WRONG == 8  // says: {0, 0}
  groups.image_offsets = {0, 0};
#else
  groups.image_offsets = {offsets.data(), offsets.size()};
#endif
#if WRONG == 9  // says: ends_with_the_statement
  head_outputs<float> heads{{}, make_weights(), {}};
#else
  head_outputs<float> heads{{}, weights, {}};
#endif
#if WRONG == 10  // says: ends_with_the_statement
  heads.centerness = make_weights();
#else
  heads.centerness = weights;
#endif
#if WRONG == 11  // says: ends_with_the_statement
  focal_targets<float> targets = labels;
  targets = make_labels();
#else
  focal_targets<float> targets = labels;
  targets = matrix_view<float>();
#endif
#if WRONG == 12  // says: ends_with_the_statement
  regression_targets<float> boxes = weights;
  boxes = make_weights();
#else
  regression_targets<float> boxes = weights;
  boxes = weights;
#endif
#if WRONG == 13  // says: ends_with_the_statement
  box_selection selection = box_selection::all();
  selection = make_labels();
#else
  box_selection selection = box_selection::all();
  selection = labels;
#endif
  const std::vector<head_level<const float>> levels = make_levels();
#if WRONG == 14  // says: ends_with_the_statement
  const head_view<const float> head(make_levels(), 1, 1, 1, head_layout::nchw);
#else
  const head_view<const float> head(levels, 1, 1, 1, head_layout::nchw);
#endif
#if WRONG == 15  // says: ends_with_the_statement
  const ssd_head ssd{{}, make_weights(), {}, {}};
#else
  const ssd_head ssd{{}, weights, {}, {}};
#endif
#if WRONG == 16  // says: private
  const image_size image{600, 800};
#else
  const image_size image = image_size::height_width(600, 800);
#endif
#if WRONG == 17  // says: ends_with_the_statement
  const scored_labels scored{make_labels(), weights};
#else
  const scored_labels scored{labels, weights};
#endif
#if WRONG == 18  // says: ends_with_the_statement
  const scored_labels dangling{labels, make_weights()};
#else
  const scored_labels dangling{labels, vector_view<const float>(weights)};
#endif
#if WRONG == 19  // says: ends_with_the_statement
  image_sizes_view sizes;
  sizes = make_sizes();
#else
  image_sizes_view sizes;
  sizes = image;
#endif
  (void)sizes, (void)image, (void)scored, (void)dangling;
  (void)smooth_l1, (void)iou, (void)per_image, (void)head, (void)ssd;
}

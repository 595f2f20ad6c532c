/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface as a C99 program uses it: results, errors, workspaces and threads. */
#include <vecdet/c.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void check(int holds, const char* what, int line) {
  if (holds) return;
  printf("interface.c:%d: %s\n  last error: %s\n", line, what, vecdet_last_error());
  ++failures;
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)
#define SUCCEEDS(...) CHECK((__VA_ARGS__) == VECDET_OK)

static void fails(vecdet_status status, const char* text, const char* what, int line) {
  check(status == VECDET_INVALID_ARGUMENT, what, line);
  check(strstr(vecdet_last_error(), text) != NULL, text, line);
}
#define FAILS(text, ...) fails((__VA_ARGS__), text, #__VA_ARGS__, __LINE__)

static int near(double a, double b) { return fabs(a - b) < 1e-5; }

static const float boxes[] = {0, 0, 10, 10, 1, 0, 11, 10, 20, 20, 30, 30};
static const float scores[] = {0.8f, 0.9f, 0.7f};

static void test_nms(void) {
  int64_t kept[3] = {-1, -1, -1}, count = -1;
  SUCCEEDS(vecdet_nms(VECDET_FLOAT32, boxes, scores, 3, NULL, NULL, kept, &count));
  CHECK(count == 2 && kept[0] == 1 && kept[1] == 2);

  /* An own workspace, and parameters. */
  vecdet_workspace* workspace = vecdet_workspace_create();
  vecdet_nms_params params = vecdet_nms_params_default();
  CHECK(params.iou_threshold == 0.5 && params.max_total == INT64_MAX);
  params.iou_threshold = 0.9;
  SUCCEEDS(vecdet_nms(VECDET_FLOAT32, boxes, scores, 3, &params, workspace, kept, &count));
  CHECK(count == 3 && kept[0] == 1 && kept[1] == 0 && kept[2] == 2);
  CHECK(vecdet_nms_params_torchvision(0.3).iou_threshold == 0.3);
  CHECK(vecdet_merge_params_default().overlap == VECDET_NMS_SMALLER_AREA);
  params = vecdet_nms_params_sahi(0.5, 1);
  CHECK(params.overlap == VECDET_NMS_SMALLER_AREA && params.suppress_equal == 1);

  const int64_t classes[] = {7, -8, 7};
  SUCCEEDS(vecdet_batched_nms(VECDET_FLOAT32, boxes, scores, classes, NULL, 3, NULL, workspace,
                              kept, &count));
  CHECK(count == 3);
  const int64_t by_list[] = {1, 0, 1}, wanted[] = {1}, same[] = {-3, -3};
  const double thresholds[] = {1, 0};
  params = vecdet_nms_params_default();
  params.class_groups = (vecdet_integer_list){same, 2};
  SUCCEEDS(vecdet_batched_nms(VECDET_FLOAT32, boxes, scores, by_list, NULL, 3, &params, workspace,
                              kept, &count));
  CHECK(count == 2);
  params.classes = (vecdet_integer_list){wanted, 1};
  params.class_thresholds = (vecdet_number_list){thresholds, 2};
  SUCCEEDS(vecdet_batched_nms(VECDET_FLOAT32, boxes, scores, by_list, NULL, 3, &params, workspace,
                              kept, &count));
  CHECK(count == 2 && kept[0] == 0 && kept[1] == 2);
  params.classes.data = NULL;
  FAILS("batched_nms: params.classes.data is null, expected memory of `size` elements",
        vecdet_batched_nms(VECDET_FLOAT32, boxes, scores, by_list, NULL, 3, &params, workspace,
                           kept, &count));
  params.classes.size = -1;
  FAILS("params.classes.size is -1, expected 0 or more",
        vecdet_batched_nms(VECDET_FLOAT32, boxes, scores, by_list, NULL, 3, &params, workspace,
                           kept, &count));

  /* double and bfloat16: 0x3f80 is 1. */
  const double wide[] = {0, 0, 10, 10, 1, 0, 11, 10}, wide_scores[] = {0.1, 0.2};
  SUCCEEDS(vecdet_nms(VECDET_FLOAT64, wide, wide_scores, 2, NULL, workspace, kept, &count));
  CHECK(count == 1 && kept[0] == 1);
  const uint16_t half[] = {0, 0, 0x3f80, 0x3f80, 0, 0, 0x3f80, 0x3f80}, half_scores[] = {0x3f80, 0};
  SUCCEEDS(vecdet_nms(VECDET_BFLOAT16, half, half_scores, 2, NULL, workspace, kept, &count));
  CHECK(count == 1 && kept[0] == 0);

  float soft[3];
  SUCCEEDS(vecdet_soft_nms(VECDET_FLOAT32, boxes, scores, NULL, NULL, 3, NULL, workspace, kept,
                           soft, &count));
  CHECK(count == 3 && kept[0] == 1 && kept[1] == 2 && kept[2] == 0 && soft[2] < 0.2f);

  float merged[12], merged_scores[3];
  int64_t members[3], offsets[4], groups;
  SUCCEEDS(vecdet_merge_boxes(VECDET_FLOAT32, boxes, scores, NULL, NULL, 3, NULL, workspace, merged,
                              merged_scores, members, offsets, &groups));
  CHECK(groups == 2 && offsets[1] == 2 && members[0] == 1 && members[1] == 0);
  CHECK(merged[0] == 0 && merged[2] == 11 && merged_scores[0] == 0.9f);
  vecdet_workspace_free(workspace);
  vecdet_workspace_free(NULL);
}

static void test_errors(void) {
  int64_t kept[3] = {5, 5, 5}, count = 5;
  vecdet_nms_params params = vecdet_nms_params_default();
  params.iou_threshold = 2;
  FAILS("iou_threshold is 2",
        vecdet_nms(VECDET_FLOAT32, boxes, scores, 3, &params, NULL, kept, &count));
  CHECK(count == 5 && kept[0] == 5);
  params = vecdet_nms_params_default();
  params.order = (vecdet_nms_order)9;
  FAILS("params.order is 9",
        vecdet_nms(VECDET_FLOAT32, boxes, scores, 3, &params, NULL, kept, &count));
  FAILS("size is -1", vecdet_nms(VECDET_FLOAT32, boxes, scores, -1, NULL, NULL, kept, &count));
  FAILS("data is null", vecdet_nms(VECDET_FLOAT32, NULL, scores, 3, NULL, NULL, kept, &count));
  FAILS("kept is null", vecdet_nms(VECDET_FLOAT32, boxes, scores, 3, NULL, NULL, NULL, &count));
  FAILS("kept_count is null", vecdet_nms(VECDET_FLOAT32, boxes, scores, 3, NULL, NULL, kept, NULL));
  FAILS("type is 7", vecdet_nms((vecdet_dtype)7, boxes, scores, 3, NULL, NULL, kept, &count));
  FAILS("type is 1", vecdet_filter_topk(VECDET_FLOAT64, boxes, 3, 4, 4, 0.5, 3, VECDET_LOGITS, NULL,
                                        (float[3]){0}, kept, &count));
  FAILS("threads is -1", vecdet_set_threads(-1));
  FAILS("set is 3", vecdet_set_isa((vecdet_isa)3));
  CHECK(count == 5 && kept[0] == 5);
  double loss = 5;
  FAILS("rows is -1",
        vecdet_sigmoid_focal_loss(VECDET_FLOAT32, boxes, -1, 4, 4,
                                  &(vecdet_focal_targets){kept, NULL, NULL}, NULL, &loss));
  FAILS("targets is null",
        vecdet_sigmoid_focal_loss(VECDET_FLOAT32, boxes, 3, 4, 4, NULL, NULL, &loss));
  const int64_t labels[] = {0, 4, -1}; /* 4 is no class */
  FAILS("labels[1] is 4",
        vecdet_sigmoid_focal_loss(VECDET_FLOAT32, boxes, 3, 4, 4,
                                  &(vecdet_focal_targets){labels, NULL, NULL}, NULL, &loss));
  CHECK(loss == 5);
  FAILS("path is null", vecdet_profile_write(NULL));
  CHECK(vecdet_profile_write("/nonexistent/report.json") == VECDET_FAILED);
  CHECK(strstr(vecdet_last_error(), "/nonexistent") != NULL);
}

static void test_boxes(void) {
  float iou[9];
  SUCCEEDS(vecdet_pairwise_iou(VECDET_FLOAT32, boxes, 3, boxes, 3, VECDET_IOU, VECDET_EMPTY_IOU_NAN,
                               iou, 3));
  CHECK(iou[0] == 1 && near(iou[1], 90.0 / 110) && iou[2] == 0);
  SUCCEEDS(vecdet_elementwise_iou(VECDET_FLOAT32, boxes, boxes + 4, 2, VECDET_GIOU,
                                  VECDET_EMPTY_IOU_NAN, iou));
  CHECK(near(iou[0], 90.0 / 110));
  float out[12];
  SUCCEEDS(vecdet_convert_boxes(VECDET_FLOAT32, boxes, 3, VECDET_XYXY, VECDET_CXCYWH, out));
  CHECK(out[4] == 6 && out[5] == 5 && out[6] == 10);
  SUCCEEDS(vecdet_clip_boxes(VECDET_FLOAT32, boxes, 3, (vecdet_image_size){8, 25}, out));
  CHECK(out[3] == 8 && out[10] == 25 && out[11] == 8);
  SUCCEEDS(vecdet_box_areas(VECDET_FLOAT32, boxes, 3, out));
  CHECK(out[0] == 100);
  int64_t large[3], count;
  SUCCEEDS(vecdet_large_boxes(VECDET_FLOAT32, boxes, 3, 11, large, &count));
  CHECK(count == 0);
  float deltas[12], decoded[12];
  SUCCEEDS(vecdet_encode_boxes(VECDET_FLOAT32, boxes, boxes + 4, 2, NULL, deltas));
  SUCCEEDS(vecdet_decode_boxes(VECDET_FLOAT32, deltas, 1, boxes + 4, 2, NULL, NULL, decoded));
  CHECK(near(decoded[0], 0) && near(decoded[2], 10));
  const vecdet_image_size image = {5, 5};
  SUCCEEDS(vecdet_decode_boxes(VECDET_FLOAT32, deltas, 1, boxes + 4, 2, &image, NULL, decoded));
  CHECK(decoded[2] == 5);
  float x1[3], y1[3], x2[3], y2[3], joined[12];
  SUCCEEDS(vecdet_split_boxes(VECDET_FLOAT32, boxes, 3, x1, y1, x2, y2));
  SUCCEEDS(vecdet_join_boxes(VECDET_FLOAT32, x1, y1, x2, y2, 3, joined));
  CHECK(x1[1] == 1 && memcmp(joined, boxes, sizeof joined) == 0);
}

static void test_targets(void) {
  const vecdet_grid_size features[] = {{4, 5}};
  const double size = 8, ratio = 1;
  const vecdet_anchor_shapes shapes = {&size, 1, &ratio, 1};
  int64_t count;
  SUCCEEDS(vecdet_count_anchors(&shapes, features, 1, &count));
  CHECK(count == 20);
  float anchors[80];
  SUCCEEDS(vecdet_make_anchors(&shapes, (vecdet_grid_size){32, 40}, features, 1, anchors, 20));
  CHECK(anchors[0] == -4 && anchors[4] == 4);
  CHECK(vecdet_anchor_shapes_retinanet()[4].size_count == 3);

  vecdet_anchor_index* index = NULL;
  SUCCEEDS(vecdet_anchor_index_create(anchors, 20, &index));
  const float truth_boxes[] = {4, 4, 12, 12};
  const int64_t classes[] = {3};
  vecdet_ground_truth truth = {0};
  truth.boxes = truth_boxes;
  truth.box_count = 1;
  truth.classes = classes;
  int64_t matches[20], labels[20], foreground;
  SUCCEEDS(
      vecdet_match_anchors(index, &truth, NULL, NULL, matches, labels, NULL, NULL, &foreground));
  CHECK(foreground == 1 && matches[6] == 0 && labels[6] == 3 && labels[0] == -1);
  FAILS("truth is null",
        vecdet_match_anchors(index, NULL, NULL, NULL, matches, labels, NULL, NULL, &foreground));
  vecdet_anchor_index_free(index);
  SUCCEEDS(vecdet_assign_atss(anchors, 20, features, 1, &truth, NULL, NULL, matches));
  CHECK(matches[6] == 0 && matches[0] == -1);
  const float regions[] = {-4, -4, 4, 4};
  truth.regions = regions;
  truth.region_count = 1;
  vecdet_fcos_assigner_params fcos = vecdet_fcos_assigner_params_default();
  SUCCEEDS(vecdet_assign_fcos(anchors, 20, features, 1, &truth, &fcos, NULL, matches));
  CHECK(matches[6] == 0 && matches[0] == -2 && matches[1] == -1);
  CHECK(vecdet_task_aligned_params_yolo26().least_side == 8);
  CHECK(vecdet_task_aligned_params_yolo26_one_to_one().final_top == 1);
  float scores[20], objectness[20], predicted[80], points[40], targets[20];
  for (int i = 0; i < 20; ++i) {
    scores[i] = objectness[i] = 1;
    memcpy(predicted + 4 * i, truth_boxes, sizeof truth_boxes);
    points[2 * i] = anchors[4 * i] + 4;
    points[2 * i + 1] = anchors[4 * i + 1] + 4;
  }
  const int64_t zero[] = {0};
  truth.classes = zero;
  const double stride = 8;
  int64_t assigned;
  SUCCEEDS(vecdet_assign_sim_ota(scores, objectness, predicted, 1, points, 20, features, &stride, 1,
                                 &truth, NULL, NULL, matches, targets, &assigned));
  CHECK(assigned == 10 && matches[6] == 0 && targets[6] == 1);
  FAILS("strides[0] is 0",
        vecdet_assign_sim_ota(scores, objectness, predicted, 1, points, 20, features, &(double){0},
                              1, &truth, NULL, NULL, matches, targets, NULL));
  const vecdet_task_aligned_params yolo26 = vecdet_task_aligned_params_yolo26_one_to_one();
  SUCCEEDS(vecdet_assign_task_aligned(scores, predicted, 1, points, 20, features, 1, &truth,
                                      &yolo26, NULL, matches, targets));
  CHECK(matches[6] == 0);
  const float turned[] = {points[12], points[13], 6, 6, 45};  // contains only this point
  float turned_predictions[100];
  for (int i = 0; i < 20; ++i) memcpy(turned_predictions + 5 * i, turned, sizeof turned);
  vecdet_ground_truth rotated = truth;
  rotated.boxes = turned;
  SUCCEEDS(vecdet_assign_rotated_task_aligned(scores, turned_predictions, 1, points, 20, features,
                                              1, &rotated, VECDET_ANGLES_OPENCV, NULL,
                                              NULL, matches, targets));
  CHECK(matches[6] == 0 && matches[5] == -1 && matches[7] == -1 && targets[6] > 0.99f);
  FAILS("angles is 9",
        vecdet_assign_rotated_task_aligned(scores, turned_predictions, 1, points, 20, features, 1,
                                           &rotated, (vecdet_angle_convention)9, NULL, NULL,
                                           matches, targets));
  truth.classes = classes;
  fcos.region_threshold = 2;
  FAILS("region_threshold is 2",
        vecdet_assign_fcos(anchors, 20, features, 1, &truth, &fcos, NULL, matches));

  const int64_t offsets[] = {0, 20};
  int64_t indices[4], sample_offsets[2], positives[1];
  vecdet_balanced_sample_params params = vecdet_balanced_sample_params_default();
  params.size = 4;
  SUCCEEDS(vecdet_sample_balanced(labels, offsets, 1, &params, NULL, indices, sample_offsets,
                                  positives));
  CHECK(sample_offsets[1] == 4 && positives[0] == 1 && indices[0] == 6);
}

static void test_losses(void) {
  const float logits[] = {0, 0, 0, 0};
  const int64_t labels[] = {0, -1};
  double loss;
  float grad[4];
  vecdet_focal_loss_params params = vecdet_focal_loss_params_default();
  params.alpha = -1;
  params.gamma = 0;
  const vecdet_focal_targets targets = {labels, NULL, NULL};
  SUCCEEDS(vecdet_sigmoid_focal_loss_and_grad(VECDET_FLOAT32, logits, 2, 2, 2, &targets, &params,
                                              &loss, grad));
  CHECK(near(loss, 4 * log(2)) && near(grad[0], -0.5) && near(grad[1], 0.5));
  const float row_weights[] = {3, 0};
  params.row_weights = row_weights;
  SUCCEEDS(vecdet_sigmoid_focal_loss(VECDET_FLOAT32, logits, 2, 2, 2, &targets, &params, &loss));
  CHECK(near(loss, 6 * log(2)));
  int64_t foreground;
  SUCCEEDS(vecdet_count_foreground(labels, 2, -1, -2, &foreground));
  CHECK(foreground == 1);
  const float quality[] = {0.5f, 0};
  SUCCEEDS(
      vecdet_quality_focal_loss(VECDET_FLOAT32, logits, 2, 2, 2, labels, quality, NULL, &loss));
  CHECK(near(loss, 3 * 0.25 * log(2)));
  SUCCEEDS(vecdet_bce_loss(VECDET_FLOAT32, logits, 2, 2, 2, labels, quality, NULL, &loss));
  CHECK(near(loss, 4 * log(2)));
  const int64_t classes[] = {0, 1};
  SUCCEEDS(vecdet_softmax_cross_entropy_loss(logits, 2, 2, 2, classes, NULL, &loss));
  CHECK(near(loss, 2 * log(2)));
  const int64_t target_length = 1;
  const vecdet_ctc_targets ctc = {classes + 1, 1, &target_length, 0};  // 1; paths 1 1, 0 1, 1 0
  float ctc_grad[4];
  SUCCEEDS(vecdet_ctc_loss_and_grad(VECDET_FLOAT32, logits, 2, 1, 2, 2, 2, &ctc, NULL, NULL, NULL,
                                    &loss, ctc_grad));
  CHECK(near(loss, log(4.0 / 3)) && near(ctc_grad[0], 0.5 - 1.0 / 3));
  const float steps[] = {0, 2, 0, 2, 3, 0};
  int64_t text[3], text_steps[3], text_offsets[2];
  float chances[3];
  double log_chance;
  SUCCEEDS(vecdet_ctc_greedy(VECDET_FLOAT32, steps, 3, 1, 2, 2, 2, NULL, 0, NULL, text, text_steps,
                             chances, text_offsets, &log_chance));
  CHECK(text_offsets[1] == 1 && text[0] == 1 && text_steps[0] == 0);
  CHECK(near(chances[0], 1 / (1 + exp(-2))));
  int64_t sample_offsets[2];
  SUCCEEDS(vecdet_ctc_beams(VECDET_FLOAT32, steps, 3, 1, 2, 2, 2, NULL, NULL, NULL, text,
                            text_steps, text_offsets, &log_chance, sample_offsets));
  CHECK(sample_offsets[1] == 1 && text_offsets[1] == 1 && text[0] == 1 && text_steps[0] == 0);
  CHECK(log_chance < 0 && log_chance > -1);
  const float prototypes[] = {1, 1, -1, -1}, factor = 1, object[] = {1, 0, 8, 2};
  const vecdet_grid_size picture = {2, 8};
  vecdet_masks masks;
  vecdet_workspace* const of_masks = vecdet_workspace_create();
  SUCCEEDS(vecdet_masks_from_prototypes(VECDET_FLOAT32, prototypes, 1, 1, 1, 4, &factor, 1, object,
                                        1, NULL, &picture, 1, NULL, of_masks, &masks));
  CHECK(masks.count == 1 && masks.boxes[0] == 1 && masks.boxes[2] == 8 && masks.boxes[3] == 2);
  CHECK(masks.offsets[1] == 2 && masks.pixels[0] == 7 && masks.pixels[1] == 7);
  FAILS("workspace is null",
        vecdet_masks_from_prototypes(VECDET_FLOAT32, prototypes, 1, 1, 1, 4, &factor, 1, object, 1,
                                     NULL, &picture, 1, NULL, NULL, &masks));
  const float own_map[] = {0.9f}, of_map[] = {1, 1, 3, 3};
  const vecdet_grid_size small = {5, 5};
  SUCCEEDS(vecdet_paste_masks(VECDET_FLOAT32, own_map, 1, 1, of_map, 1, NULL, 1, &small, 1, NULL,
                              of_masks, &masks));
  CHECK(masks.count == 1 && masks.boxes[2] == 5 && masks.offsets[1] == 5);
  CHECK(masks.pixels[1] == 4 && masks.pixels[2] == 14 && masks.pixels[4] == 0);
  float soft[25];
  SUCCEEDS(vecdet_paste_soft_masks(VECDET_FLOAT32, own_map, 1, 1, of_map, 1, small, NULL, soft));
  CHECK(soft[0] > 0 && soft[0] < 0.1f && soft[12] == 0.9f && soft[7] == soft[11]);
  FAILS("height is -1",
        vecdet_paste_soft_masks(VECDET_FLOAT32, own_map, 1, 1, of_map, 1,
                                (vecdet_grid_size){-1, 5}, NULL, soft));
  FAILS("masks is null", vecdet_paste_masks(VECDET_FLOAT32, own_map, 1, 1, of_map, 1, NULL, 1,
                                            &small, 1, NULL, of_masks, NULL));
  vecdet_run_lengths runs, strings_runs, merged;
  SUCCEEDS(vecdet_encode_masks(&masks, &small, 1, of_masks, &runs));
  CHECK(runs.count == 1 && runs.sizes[0].height == 5 && runs.offsets[1] == 7);
  CHECK(runs.counts[0] == 7 && runs.counts[1] == 1 && runs.counts[3] == 3);
  int64_t pixel_count, corners[4];
  SUCCEEDS(vecdet_mask_areas(&runs, &pixel_count));
  SUCCEEDS(vecdet_mask_boxes(&runs, corners));
  CHECK(pixel_count == 5 && corners[0] == 1 && corners[3] == 4);
  double pixel_overlaps[1];
  SUCCEEDS(vecdet_pixel_mask_areas(&masks, &pixel_count));
  SUCCEEDS(vecdet_pixel_mask_boxes(&masks, corners));
  CHECK(pixel_count == 5 && corners[0] == 1 && corners[1] == 1 && corners[3] == 4);
  SUCCEEDS(vecdet_pixel_mask_iou(&masks, &masks, VECDET_MASK_OVERLAP_SMALLER_AREA, NULL, NULL,
                                 pixel_overlaps));
  CHECK(pixel_overlaps[0] == 1);
  FAILS("overlap is 2, expected one of the enumerators",
        vecdet_pixel_mask_iou(&masks, &masks, (vecdet_mask_overlap)2, NULL, NULL, pixel_overlaps));
  int64_t kept_mask = -1, kept_masks = -1;
  SUCCEEDS(vecdet_mask_nms(&masks, VECDET_FLOAT32, own_map, NULL, NULL, NULL, NULL, &kept_mask,
                           &kept_masks));
  CHECK(kept_masks == 1 && kept_mask == 0);
  FAILS("kept_count is null", vecdet_mask_nms(&masks, VECDET_FLOAT32, own_map, NULL, NULL, NULL,
                                              NULL, &kept_mask, NULL));
  int64_t group_members[1], group_offsets[2], group_count = -1;
  SUCCEEDS(vecdet_group_masks(&masks, VECDET_FLOAT32, own_map, NULL, NULL, VECDET_MASK_OVERLAP_IOU,
                              0.5, NULL, group_members, group_offsets, &group_count));
  CHECK(group_count == 1 && group_members[0] == 0 && group_offsets[1] == 1);
  FAILS("match_threshold is 2, expected a number in [0, 1]",
        vecdet_group_masks(&masks, VECDET_FLOAT32, own_map, NULL, NULL, VECDET_MASK_OVERLAP_IOU, 2,
                           NULL, group_members, group_offsets, &group_count));
  FAILS("masks.offsets is null",
        vecdet_pixel_mask_areas(&(vecdet_masks){1, corners, NULL, NULL, VECDET_MASK_PIXELS_BITS},
                                &pixel_count));
  const char* run_text;
  const int64_t* run_offsets;
  SUCCEEDS(vecdet_run_lengths_to_strings(&runs, of_masks, &run_text, &run_offsets));
  CHECK(run_offsets[1] == 7 && run_text[0] == '7' && run_text[1] == '1');
  vecdet_workspace* const of_strings = vecdet_workspace_create();
  SUCCEEDS(vecdet_run_lengths_from_strings(run_text, run_offsets, &small, 1, of_strings,
                                           &strings_runs));
  CHECK(strings_runs.offsets[1] == 7 && strings_runs.counts[6] == 7);
  FAILS("the sum of the counts of strings[0] is 25, expected 16",
        vecdet_run_lengths_from_strings(run_text, run_offsets, &(vecdet_grid_size){4, 4}, 1,
                                        of_strings, &strings_runs));
  double overlap = 0;
  const uint8_t crowd = 1;
  SUCCEEDS(vecdet_mask_iou(&runs, &strings_runs, VECDET_MASK_OVERLAP_IOU, &crowd, NULL, &overlap));
  CHECK(near(overlap, 1));
  SUCCEEDS(vecdet_mask_iou(&runs, &strings_runs, VECDET_MASK_OVERLAP_SMALLER_AREA, NULL, NULL,
                           &overlap));
  CHECK(overlap == 1);
  FAILS("overlap is 2, expected one of the enumerators",
        vecdet_mask_iou(&runs, &strings_runs, (vecdet_mask_overlap)2, NULL, NULL, &overlap));
  const int64_t *polygons_of_masks, *polygon_ends;
  const double* corners_of_polygons;
  SUCCEEDS(vecdet_mask_polygons(&runs, of_strings, &polygons_of_masks, &polygon_ends,
                                &corners_of_polygons));
  CHECK(polygons_of_masks[1] == 1 && polygon_ends[1] == 12);
  CHECK(corners_of_polygons[0] == 2 && corners_of_polygons[1] == 2 && corners_of_polygons[3] == 1);
  FAILS("points is null",
        vecdet_mask_polygons(&runs, of_strings, &polygons_of_masks, &polygon_ends, NULL));
  uint8_t decoded_pixels[25];
  const vecdet_byte_pictures pictures = {1, 5, 5, 25, 5, 1};
  SUCCEEDS(vecdet_decode_pictures(&runs, &pictures, decoded_pixels));
  CHECK(decoded_pixels[7] == 1 && decoded_pixels[6] == 0 && decoded_pixels[13] == 1);
  SUCCEEDS(vecdet_encode_pictures(&pictures, decoded_pixels, of_masks, &runs));
  CHECK(runs.offsets[1] == 7 && runs.counts[6] == 7);
  SUCCEEDS(vecdet_decode_masks(&runs, VECDET_MASK_PIXELS_BITS, of_strings, &masks));
  CHECK(masks.boxes[3] == 5 && masks.offsets[1] == 5 && masks.pixels[2] == 14);
  SUCCEEDS(vecdet_merge_masks(&runs, VECDET_MASK_MERGING_EVERY, of_strings, &merged));
  CHECK(merged.count == 1 && merged.offsets[1] == 7);
  FAILS("merging is 2, expected one of the enumerators",
        vecdet_merge_masks(&runs, (vecdet_mask_merging)2, of_strings, &merged));
  const double polygon[] = {1, 1, 3, 1, 3, 3, 1, 3}, polygon_box[] = {1, 1, 3, 3};
  const int64_t polygon_offsets[] = {0, 4};
  SUCCEEDS(vecdet_run_lengths_from_polygons(polygon, polygon_offsets, 1, &small, 1, of_masks,
                                            &runs));
  CHECK(runs.offsets[1] == 5 && runs.counts[0] == 6 && runs.counts[1] == 2);
  SUCCEEDS(vecdet_run_lengths_from_boxes(polygon_box, 1, &small, 1, of_masks, &runs));
  CHECK(runs.offsets[1] == 5 && runs.counts[0] == 6 && runs.counts[1] == 2);
  FAILS("runs.offsets is null",
        vecdet_mask_areas(&(vecdet_run_lengths){1, &small, NULL, NULL}, &pixel_count));
  FAILS("runs.count is 9223372036854775807, expected 0 to what memory can hold",
        vecdet_mask_areas(&(vecdet_run_lengths){INT64_MAX, &small, polygon_offsets, NULL},
                          &pixel_count));
  FAILS("count is 9223372036854775807, expected 0 to what memory can hold",
        vecdet_run_lengths_from_polygons(polygon, polygon_offsets, INT64_MAX, &small, 1, of_masks,
                                         &runs));
  FAILS("workspace is null", vecdet_run_lengths_from_boxes(polygon_box, 1, &small, 1, NULL, &runs));
  vecdet_workspace_free(of_strings);
  vecdet_workspace_free(of_masks);
  const float bins[] = {0.5f, 1};
  SUCCEEDS(vecdet_distribution_focal_loss(logits, 2, 2, 2, bins, NULL, 1, &loss));
  CHECK(near(loss, 2 * log(2)));
  SUCCEEDS(vecdet_smooth_l1_loss(VECDET_FLOAT32, boxes, boxes + 4, 1, NULL, 0, 1, NULL, &loss));
  CHECK(near(loss, 2));
  float box_grad[4];
  SUCCEEDS(vecdet_iou_loss_and_grad(VECDET_FLOAT32, boxes, boxes + 4, 1, VECDET_GIOU, 1e-7, 1, NULL,
                                    &loss, box_grad));
  CHECK(near(loss, 1 - 90.0 / 110));
  const float deltas[] = {0.1f, 0, 0, 0};
  SUCCEEDS(vecdet_regression_loss(VECDET_FLOAT32, deltas, 1, boxes, 1, boxes, 1, NULL, NULL, NULL,
                                  NULL, &loss));
  CHECK(near(loss, 0.1 * 0.1 / 2 * 9));
}

static void test_queries(void) {
  /* Two images with two queries and two classes; the first has one box, the second two. */
  const float logits[] = {0, 0, 0, 0, 0, 0, 0, 0};
  const float predicted[] = {0.2f, 0.2f, 0.1f, 0.1f, 0.6f, 0.6f, 0.2f, 0.4f,
                             0.3f, 0.3f, 0.2f, 0.2f, 0.8f, 0.8f, 0.2f, 0.2f};
  const float known[] = {0.6f, 0.6f, 0.2f, 0.2f, 0.8f, 0.8f, 0.2f, 0.2f, 0.3f, 0.3f, 0.2f, 0.2f};
  const int64_t classes[] = {1, 0, 1}, offsets[] = {0, 1, 3};
  vecdet_ground_truth truth = {0};
  truth.boxes = known;
  truth.box_count = 3;
  truth.classes = classes;
  truth.image_offsets = offsets;
  truth.images = 2;
  const vecdet_detr_outputs outputs = {logits, predicted, 2, 2}, layers[] = {outputs, outputs};
  int64_t matches[6] = {-5, -5, -5, -5, -5, -5};
  SUCCEEDS(vecdet_match_queries(VECDET_FLOAT32, layers, 2, &truth, NULL, NULL, matches));
  CHECK(matches[0] == 1 && matches[1] == 1 && matches[2] == 0 &&
        memcmp(matches, matches + 3, sizeof matches / 2) == 0);
  vecdet_query_match_params params = vecdet_query_match_params_detr();
  CHECK(params.class_cost == VECDET_QUERY_COST_SOFTMAX && params.class_weight == 1);
  FAILS("classes[0] is 1",
        vecdet_match_queries(VECDET_FLOAT32, layers, 2, &truth, &params, NULL, matches));
  params = vecdet_query_match_params_rt_detr();
  params.groups = 2;
  SUCCEEDS(vecdet_match_queries(VECDET_FLOAT32, layers, 1, &truth, &params, NULL, matches));
  /* Each group is one query: one box of the second image has none. */
  CHECK(matches[0] == 0 && matches[1] == -1 && matches[2] == 0 && matches[3] == 1 &&
        matches[4] == 1 && matches[5] == -1);
  params.groups = 0;
  FAILS("params.groups is 0",
        vecdet_match_queries(VECDET_FLOAT32, layers, 1, &truth, &params, NULL, matches));
  FAILS("layers.size() is 0",
        vecdet_match_queries(VECDET_FLOAT32, NULL, 0, &truth, NULL, NULL, matches));
  FAILS("truth is null",
        vecdet_match_queries(VECDET_FLOAT32, layers, 1, NULL, NULL, NULL, matches));
  FAILS("data is null", vecdet_match_queries(VECDET_FLOAT32, layers, 1, &truth, NULL, NULL, NULL));
  CHECK(matches[5] == -1);

  /* One match per box; only the first query's height differs, by 0.2. */
  const int64_t used[] = {1, 1, 0};
  float logits_grad[8], boxes_grad[16];
  vecdet_set_loss_layer layer = {outputs, used, 1, logits_grad, boxes_grad};
  vecdet_set_losses losses = {5, 5, 5};
  SUCCEEDS(vecdet_set_loss_and_grad(VECDET_FLOAT32, &layer, 1, &truth, NULL, NULL, &losses));
  CHECK(near(losses.l1, 5 * 0.2 / 3) && near(losses.giou, 2 * 0.5 / 3));
  CHECK(near(boxes_grad[4], 0) && boxes_grad[7] > 1 && boxes_grad[0] == 0);
  vecdet_set_loss_params loss_params = vecdet_set_loss_params_deformable_detr();
  CHECK(loss_params.class_loss == VECDET_SET_LOSS_FOCAL && loss_params.alpha == 0.25);
  CHECK(vecdet_set_loss_params_detr().class_loss == VECDET_SET_LOSS_CROSS_ENTROPY &&
        vecdet_set_loss_params_rt_detr().no_object_weight == 0.1);
  loss_params.alpha = -1;
  loss_params.gamma = 0;
  SUCCEEDS(
      vecdet_set_loss_and_grad(VECDET_FLOAT32, &layer, 1, &truth, &loss_params, NULL, &losses));
  CHECK(near(losses.classification, 2 * 8 * log(2) / 3) && near(logits_grad[0], 1.0 / 3) &&
        near(logits_grad[3], -1.0 / 3));
  losses.l1 = 5;
  const int64_t twice[] = {1, 0, 0};
  layer.matches = twice;
  FAILS("matches",
        vecdet_set_loss_and_grad(VECDET_FLOAT32, &layer, 1, &truth, NULL, NULL, &losses));
  layer.groups = -1;
  FAILS("groups is -1",
        vecdet_set_loss_and_grad(VECDET_FLOAT32, &layer, 1, &truth, NULL, NULL, &losses));
  FAILS("losses is null",
        vecdet_set_loss_and_grad(VECDET_FLOAT32, &layer, 1, &truth, NULL, NULL, NULL));
  FAILS("type is 1",
        vecdet_set_loss_and_grad(VECDET_FLOAT64, &layer, 1, &truth, NULL, NULL, &losses));
  CHECK(losses.l1 == 5);

  const double costs[] = {4, 1, 3, 9, 2, 0, 5, 9, 3, 2, 2, 9}; /* the last column is a gap */
  int64_t columns[3] = {-5, -5, -5};
  double total = 5;
  SUCCEEDS(vecdet_assign_least_cost(VECDET_FLOAT64, costs, 3, 3, 4, NULL, columns, &total));
  CHECK(total == 5 && columns[0] == 1 && columns[1] == 0 && columns[2] == 2);
  SUCCEEDS(vecdet_assign_least_cost(VECDET_FLOAT64, costs, 3, 1, 4, NULL, columns, &total));
  CHECK(total == 2 && columns[0] == -1 && columns[1] == 0 && columns[2] == -1);
  FAILS("costs(0, 0) is",
        vecdet_assign_least_cost(VECDET_FLOAT64, &(double){NAN}, 1, 1, 1, NULL, columns, &total));
  FAILS("total is null",
        vecdet_assign_least_cost(VECDET_FLOAT64, costs, 3, 3, 4, NULL, columns, NULL));
  CHECK(total == 2 && columns[1] == 0);
}

static void test_detections(void) {
  /* One image of YOLOv8 with two boxes and one class: cx, cy, w, h and score planes. */
  const float output[] = {8, 9, 8, 8, 4, 4, 4, 4, 0.9f, 0.6f};
  float found[8], found_scores[2];
  int64_t labels[2], offsets[2];
  vecdet_postprocess_yolo_params params = vecdet_postprocess_yolo_params_v8();
  params.max_detections = 2;
  params.iou_threshold = 0.5;
  SUCCEEDS(vecdet_postprocess_yolo(VECDET_FLOAT32, output, 5, 2, 2, 1, NULL, &params, NULL, found,
                                   found_scores, labels, NULL, NULL, offsets));
  CHECK(offsets[1] == 1 && found[0] == 6 && found_scores[0] == 0.9f);
  vecdet_letterbox_transform transform;
  SUCCEEDS(vecdet_letterbox_transform_centred((vecdet_image_size){32, 16},
                                              (vecdet_image_size){16, 16}, &transform));
  CHECK(transform.scale_x == 0.5 && transform.pad_x == 4);
  SUCCEEDS(vecdet_postprocess_yolo(VECDET_FLOAT32, output, 5, 2, 2, 1, &transform, &params, NULL,
                                   found, found_scores, labels, NULL, NULL, offsets));
  CHECK(found[0] == 4 && found[1] == 12);
  /* The same with a coefficient after the score, and a prototype of 2 x 2. */
  const float with_mask[] = {8, 9, 8, 8, 4, 4, 4, 4, 0.9f, 0.6f, 1, 1};
  const float map_of_mask[] = {1, -1, 1, -1};
  const vecdet_matrix both = {VECDET_FLOAT32, with_mask, 6, 2, 2, 0, 0};
  const vecdet_grid_size of_input = {16, 16};
  vecdet_workspace* const of_both = vecdet_workspace_create();
  vecdet_masks its_masks;
  SUCCEEDS(vecdet_postprocess_yolo_masks(NULL, &both, VECDET_FLOAT32, map_of_mask, 1, 1, 2, 2, NULL,
                                         &of_input, &params, NULL, of_both, found, found_scores,
                                         labels, NULL, NULL, offsets, &its_masks));
  CHECK(offsets[1] == 1 && found[0] == 6 && its_masks.count == 1);
  CHECK(its_masks.boxes[0] == 6 && its_masks.boxes[3] == 10 && its_masks.offsets[1] == 4);
  CHECK(its_masks.pixels[0] == 3 && its_masks.pixels[3] == 3);
  /* In the image's pixels: the letterbox has half of the columns of a prototype of 4 x 4. */
  const float wide_map[] = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1};
  SUCCEEDS(vecdet_postprocess_yolo_masks(NULL, &both, VECDET_FLOAT32, wide_map, 1, 1, 4, 4,
                                         &transform, NULL, &params, NULL, of_both, found,
                                         found_scores, labels, NULL, NULL, offsets, &its_masks));
  CHECK(offsets[1] == 1 && found[0] == 4 && found[3] == 20 && its_masks.count == 1);
  CHECK(its_masks.boxes[0] == 4 && its_masks.boxes[1] == 12 && its_masks.boxes[2] == 12);
  CHECK(its_masks.boxes[3] == 20 && its_masks.offsets[1] == 8);
  CHECK(its_masks.pixels[0] == 240 && its_masks.pixels[7] == 240);
  FAILS("input_size.height is 16, expected 0",
        vecdet_postprocess_yolo_masks(NULL, &both, VECDET_FLOAT32, wide_map, 1, 1, 4, 4, &transform,
                                      &of_input, &params, NULL, of_both, found, found_scores,
                                      labels, NULL, NULL, offsets, &its_masks));
  FAILS("mask_params.rule is cropped",
        vecdet_postprocess_yolo_masks(
            NULL, &both, VECDET_FLOAT32, map_of_mask, 1, 1, 2, 2, &transform, NULL, &params,
            &(vecdet_prototype_masks_params){VECDET_MASK_RULE_CROPPED, VECDET_MASK_PIXELS_BITS},
            of_both, found, found_scores, labels, NULL, NULL, offsets, &its_masks));
  FAILS("workspace is null",
        vecdet_postprocess_yolo_masks(NULL, &both, VECDET_FLOAT32, map_of_mask, 1, 1, 2, 2, NULL,
                                      &of_input, &params, NULL, NULL, found, found_scores, labels,
                                      NULL, NULL, offsets, &its_masks));
  vecdet_workspace_free(of_both);
  /* The same with an angle after the score. */
  const float rotated[] = {8, 9, 8, 8, 4, 4, 4, 4, 0.9f, 0.6f, -0.5f, 0.5f};
  CHECK(params.extras == -1);
  found[0] = 1;
  FAILS("pass extras=",
        vecdet_postprocess_yolo(VECDET_FLOAT32, rotated, 6, 2, 2, 1, NULL, &params, NULL, found,
                                found_scores, labels, NULL, NULL, offsets));
  CHECK(found[0] == 1);
  params.extras = 1;
  float angles[2];
  SUCCEEDS(vecdet_postprocess_yolo(VECDET_FLOAT32, rotated, 6, 2, 2, 1, NULL, &params, NULL, found,
                                   found_scores, labels, NULL, angles, offsets));
  CHECK(found[0] == 6 && labels[0] == 0 && angles[0] == -0.5f);

  const float logits[] = {3, -3, 1, 2};
  float values[2];
  int64_t elements[2], count;
  SUCCEEDS(vecdet_filter_topk(VECDET_FLOAT32, logits, 2, 2, 2, 0.5, 2, VECDET_LOGITS, NULL, values,
                              elements, &count));
  CHECK(count == 2 && elements[0] == 0 && elements[1] == 3 && values[1] == 2);
}

static void test_quantised_outputs(void) {
  /* Two boxes of one class in one matrix: cx cy w h of 128 / 256, 64 / 256. */
  const int8_t joint[] = {0, -64, 0, -64, -64, -64, -64, -64, 100, 20};
  vecdet_matrix numbers = {VECDET_INT8, joint, 5, 2, 2, 1.0 / 256, -128};
  float found[8], found_scores[2];
  int64_t labels[2], sources[2], offsets[2];
  vecdet_postprocess_yolo_params params = vecdet_postprocess_yolo_params_v8();
  params.max_detections = 2;
  SUCCEEDS(vecdet_postprocess_yolo_of_matrices(NULL, &numbers, 1, NULL, &params, NULL, found,
                                               found_scores, labels, sources, NULL, offsets));
  CHECK(offsets[1] == 2 && sources[0] == 0 && found_scores[0] == 228 / 256.0f);
  CHECK(found[0] == 0.375f && found[2] == 0.625f);

  /* The same scores with coordinates in floats. */
  const float centres[] = {100, 20, 100, 20, 8, 8, 8, 8};
  const vecdet_matrix coordinates = {VECDET_FLOAT32, centres, 4, 2, 2, 0, 0};
  numbers.data = joint + 8;
  numbers.rows = 1;
  SUCCEEDS(vecdet_postprocess_yolo_of_matrices(&coordinates, &numbers, 1, NULL, &params, NULL,
                                               found, found_scores, labels, sources, NULL,
                                               offsets));
  CHECK(offsets[1] == 2 && found[0] == 96 && found_scores[1] == 148 / 256.0f);
  found[0] = 1;
  numbers.scale = 0;
  FAILS("scale is 0, expected a positive number",
        vecdet_postprocess_yolo_of_matrices(&coordinates, &numbers, 1, NULL, &params, NULL, found,
                                            found_scores, labels, sources, NULL, offsets));
  numbers.scale = 1.0 / 256;
  numbers.zero_point = 128;
  FAILS("zero_point is 128, expected -128 to 127",
        vecdet_postprocess_yolo_of_matrices(&coordinates, &numbers, 1, NULL, &params, NULL, found,
                                            found_scores, labels, sources, NULL, offsets));
  numbers.zero_point = 0;
  const vecdet_postprocess_yolo_params scored = vecdet_postprocess_yolo_params_v10();
  FAILS("outputs.scores is quantised, expected floats: models with a class index per box",
        vecdet_postprocess_yolo_of_matrices(&coordinates, &numbers, 1, NULL, &scored, NULL, found,
                                            found_scores, labels, sources, NULL, offsets));
  numbers.type = VECDET_FLOAT64;
  numbers.scale = 0;
  FAILS("numbers.type is 1, expected VECDET_FLOAT32, VECDET_BFLOAT16, VECDET_INT8 or VECDET_UINT8",
        vecdet_postprocess_yolo_of_matrices(&coordinates, &numbers, 1, NULL, &params, NULL, found,
                                            found_scores, labels, sources, NULL, offsets));
  numbers.type = VECDET_FLOAT32;
  numbers.scale = 0.5;
  FAILS("numbers.scale is 0.5, expected 0",
        vecdet_postprocess_yolo_of_matrices(&coordinates, &numbers, 1, NULL, &params, NULL, found,
                                            found_scores, labels, sources, NULL, offsets));
  CHECK(found[0] == 1);

  const uint8_t logits[] = {13, 7, 11, 12}, boxes[] = {128, 128, 64, 64, 0, 0, 0, 0};
  const vecdet_matrix classes = {VECDET_UINT8, logits, 2, 2, 2, 1, 10};
  const vecdet_matrix fractions = {VECDET_UINT8, boxes, 2, 4, 4, 1.0 / 256, 0};
  const vecdet_image_size size = {100, 200};
  vecdet_postprocess_detr_params detr = vecdet_postprocess_detr_params_rt_detr();
  detr.max_detections = 1;
  SUCCEEDS(vecdet_postprocess_detr_of_matrices(&classes, &fractions, 1, &size, &detr, NULL, found,
                                               found_scores, labels, sources, offsets));
  CHECK(offsets[1] == 1 && labels[0] == 0 && found[0] == 75 && found[3] == 62.5f);

  float values[2];
  int64_t elements[2], count;
  SUCCEEDS(vecdet_filter_topk_of_matrix(&classes, 0.5, 2, VECDET_LOGITS, NULL, values, elements,
                                        &count));
  CHECK(count == 2 && elements[0] == 0 && elements[1] == 3 && values[1] == 2);
}

static void test_features(void) {
  float map[16], pooled[1];
  for (int i = 0; i < 16; ++i) map[i] = (float)i;
  const vecdet_features features = {map, 1, 1, 4, 4, VECDET_NCHW},
                        out = {pooled, 1, 1, 1, 1, VECDET_NCHW};
  const float box[] = {0.5f, 0.5f, 2.5f, 2.5f};
  const vecdet_roi_boxes rois = {box, 1, NULL};
  SUCCEEDS(vecdet_roi_align(VECDET_FLOAT32, &features, &rois, NULL, NULL, &out));
  CHECK(near(pooled[0], 7.5));

  /* One query and head of one channel; a point on a level of 2 x 2 and one on a level of 1 x 1. */
  const vecdet_attention_level levels[] = {{2, 2, 1}, {1, 1, 1}};
  const vecdet_attention_shape attention = {1, 1, 1, 1, levels, 2};
  const float value[] = {1, 3, 10, 30, 100}, points[] = {0.5f, 0.375f, 0, 0.5f};
  const float amounts[] = {0.5f, 2}, upstream[] = {4};
  float attended[1] = {0}, value_grad[5], points_grad[4], amounts_grad[2] = {-1, -1};
  SUCCEEDS(vecdet_deformable_attention(VECDET_FLOAT32, &attention, value, points, amounts, NULL,
                                       attended));
  CHECK(attended[0] == 103.25f);
  SUCCEEDS(vecdet_deformable_attention_grad(VECDET_FLOAT32, &attention, upstream, value, points,
                                            amounts, NULL, value_grad, points_grad, NULL));
  CHECK(value_grad[4] == 4 && points_grad[1] == 72 && amounts_grad[0] == -1);
  SUCCEEDS(vecdet_deformable_attention_grad(VECDET_FLOAT32, &attention, upstream, value, points,
                                            amounts, NULL, NULL, NULL, amounts_grad));
  CHECK(amounts_grad[0] == 26 && amounts_grad[1] == 200);
  /* A value of bfloat16 has points of float: 0x4048 is 3.125. */
  const uint16_t small[] = {0x4048, 0x4048, 0x4048, 0x4048, 0};
  uint16_t rounded[1] = {0};
  SUCCEEDS(vecdet_deformable_attention(VECDET_BFLOAT16, &attention, small, points,
                                       (const float[]){1, 1}, NULL, rounded));
  CHECK(rounded[0] == 0x4048);
  const vecdet_attention_shape negative = {1, 1, 1, -1, levels, 2},
                               huge = {INT64_MAX, 2, 1, 1, levels, 2};
  FAILS("shape.channels is -1", vecdet_deformable_attention(VECDET_FLOAT32, &negative, value,
                                                            points, amounts, NULL, attended));
  FAILS("what memory can address",
        vecdet_deformable_attention(VECDET_FLOAT32, &huge, value, points, amounts, NULL, attended));
  FAILS("shape is null",
        vecdet_deformable_attention(VECDET_FLOAT32, NULL, value, points, amounts, NULL, attended));
  FAILS("data is null", vecdet_deformable_attention(VECDET_FLOAT32, &attention, value, NULL,
                                                    amounts, NULL, attended));
  CHECK(attended[0] == 103.25f);

  float weights[9] = {0}, convolved[16];
  weights[4] = 2;
  const vecdet_features kernel = {weights, 1, 1, 3, 3, VECDET_NCHW},
                        result = {convolved, 1, 1, 4, 4, VECDET_NCHW};
  vecdet_conv3x3_weights* transformed = NULL;
  SUCCEEDS(
      vecdet_conv3x3_weights_create(&kernel, VECDET_CONV3X3_FORWARD, VECDET_F4X4, &transformed));
  SUCCEEDS(vecdet_conv3x3(&features, transformed, NULL, 0, NULL, &result));
  CHECK(fabs(convolved[5] - 10) < 1e-3);
  vecdet_conv3x3_weights_free(transformed);
  const float amount = 1;
  vecdet_grouped_conv3x3_params grouped = vecdet_grouped_conv3x3_params_default();
  CHECK(grouped.groups == 1 && grouped.stride == 1);
  SUCCEEDS(vecdet_grouped_conv3x3(&features, &kernel, &amount, NULL, NULL, &result));
  CHECK(convolved[5] == 11);
  float reduced[4];
  const vecdet_features halved = {reduced, 1, 1, 2, 2, VECDET_NCHW};
  grouped.stride = 2;
  SUCCEEDS(vecdet_grouped_conv3x3(&features, &kernel, NULL, &grouped, NULL, &halved));
  CHECK(reduced[3] == 20);
  SUCCEEDS(vecdet_grouped_conv3x3_input_grad(&halved, &kernel, &grouped, NULL, &result));
  CHECK(convolved[10] == 40 && convolved[11] == 0);
  float kernel_sums[9], upstream_sum;
  const vecdet_features kernel_grad = {kernel_sums, 1, 1, 3, 3, VECDET_NCHW};
  SUCCEEDS(vecdet_grouped_conv3x3_weight_grad(&features, &halved, &grouped, NULL, &kernel_grad,
                                              &upstream_sum));
  CHECK(upstream_sum == reduced[0] + reduced[1] + reduced[2] + reduced[3]);
  FAILS("output.height() is 4, expected 2",
        vecdet_grouped_conv3x3(&features, &kernel, NULL, &grouped, NULL, &result));
  FAILS("weights is null",
        vecdet_grouped_conv3x3(&features, NULL, NULL, &grouped, NULL, &halved));

  uint8_t pixels[12];
  memset(pixels, 255, sizeof pixels);
  const vecdet_byte_image image = {pixels, 2, 2, 0};
  float batch[12];
  vecdet_letterbox_transform transform;
  SUCCEEDS(vecdet_letterbox(&image, 1, (vecdet_grid_size){2, 2}, NULL, NULL, batch, &transform));
  CHECK(near(batch[0], 1) && transform.scale_x == 1);
  vecdet_letterbox_params params = vecdet_letterbox_params_yolox();
  CHECK(params.mean[2] == 0 && params.deviation[2] == 1);
  params = vecdet_letterbox_params_yolo();
  params.mean[0] = 3;
  params.deviation[0] = 2;
  params.mean[2] = 1;
  SUCCEEDS(vecdet_letterbox(&image, 1, (vecdet_grid_size){2, 2}, &params, NULL, batch, &transform));
  CHECK(near(batch[0], -1) && near(batch[11], 0));
  FAILS("vecdet::letterbox: input.width is 32769, expected 0 to 32768 pixels",
        vecdet_letterbox(&image, 1, (vecdet_grid_size){2, 32769}, NULL, NULL, batch, &transform));
  FAILS("vecdet::letterbox: input.height is -1, expected 0 to 32768 pixels",
        vecdet_letterbox(&image, 1, (vecdet_grid_size){-1, 2}, NULL, NULL, batch, &transform));
}

static void test_profile(void) {
  SUCCEEDS(vecdet_profile_enable());
  vecdet_profile_scope* scope = NULL;
  SUCCEEDS(vecdet_profile_begin("step", &scope));
  test_nms();
  vecdet_profile_end(scope);
  vecdet_profile_disable();
  char* json = vecdet_profile_json();
  CHECK(json != NULL && strstr(json, "\"step\"") != NULL && strstr(json, "batched_nms") != NULL);
  vecdet_profile_free_json(json);
  SUCCEEDS(vecdet_profile_reset());
}

int main(void) {
  CHECK(strlen(vecdet_version()) >= 5);
  CHECK(strcmp(vecdet_last_error(), "") == 0);
  vecdet_isa set;
  SUCCEEDS(vecdet_active_isa(&set));
  CHECK(set <= vecdet_detected_isa());
  SUCCEEDS(vecdet_set_isa(VECDET_BASELINE));
  SUCCEEDS(vecdet_active_isa(&set));
  CHECK(strcmp(vecdet_isa_name(set), "baseline") == 0);
  SUCCEEDS(vecdet_set_isa(vecdet_detected_isa()));
  for (int threads = 0; threads < 4; ++threads) {
    SUCCEEDS(vecdet_set_threads(threads));
    test_nms();
    test_boxes();
    test_targets();
    test_losses();
    test_queries();
    test_detections();
    test_quantised_outputs();
    test_features();
  }
  test_errors();
  test_profile();
  printf("%d failures\n", failures);
  return failures != 0;
}

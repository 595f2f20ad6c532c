// SPDX-License-Identifier: Apache-2.0
// Whatever records itself can be replayed: every public function is called once, the profile is
// written and read back, and each replay must record the very problem that it stands for.
#include "../support/pyramid.hpp"
#include "../support/roi_scene.hpp"
#include "projection.hpp"
#include "read.hpp"
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace profile = vecdet::profile;
using namespace vecdet;

namespace {

constexpr index_t boxes = 2003, classes = 7;

template <class Call>
profile::report record(const Call& call) {
  profile::enable();
  profile::reset();
  call();
  profile::disable();
  return profile::snapshot();
}

profile::report written_and_read(const profile::report& r) {
  std::ostringstream out;
  write_json(out, r);
  return profile::read_profile(nlohmann::json::parse(out.str()));
}

void focal_loss_calls(execution policy) {
  const std::vector<index_t> labels = profile::labels_like_training(boxes, classes);
  const std::vector<float> x = bench::head_logits<float>(labels, classes), dense(x.size(), 0.0f);
  std::vector<float> memory(x.size());
  const matrix_view<const float> logits(x.data(), boxes, classes);
  const matrix_view<float> out(memory.data(), boxes, classes);
  const std::vector<float> scores(labels.size(), 0.25f);
  const scored_labels scored{labels, scores};
  for (const focal_targets<float>& targets :
       {focal_targets<float>(labels), focal_targets<float>(scored),
        focal_targets<float>(matrix_view<const float>(dense.data(), boxes, classes))}) {
    sigmoid_focal_loss(logits, targets, {}, policy);
    sigmoid_focal_loss_unreduced(logits, targets, out, {}, policy);
    sigmoid_focal_loss_and_grad(logits, targets, out, {}, policy);
    sigmoid_focal_loss_grad(logits, targets, 2.0, out, {}, policy);
  }
  const head_level<const float> level{x.data(), boxes, 1};
  const head_level<float> grad_level{memory.data(), boxes, 1};
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    sigmoid_focal_loss_and_grad(head_view<const float>({&level, 1}, 1, 1, classes, layout), labels,
                                head_view<float>({&grad_level, 1}, 1, 1, classes, layout), {}, {},
                                policy);
  }
  quality_focal_loss(logits, scored, {}, policy);
  quality_focal_loss_unreduced(logits, scored, out, {}, policy);
  quality_focal_loss_and_grad(logits, scored, out, {}, policy);
  varifocal_loss(logits, scored, {}, policy);
  varifocal_loss_unreduced(logits, scored, out, {}, policy);
  varifocal_loss_and_grad(logits, scored, out, {}, policy);
  bce_loss(logits, scored, {}, policy);
  bce_loss_unreduced(logits, scored, out, {}, policy);
  bce_loss_and_grad(logits, scored, out, {}, policy);
}

void smooth_l1_calls(execution policy) {
  const std::vector<float> x = bench::head_deltas<float>(boxes);
  const boxes_view<const float> predictions(x), targets(x);
  std::vector<float> out(x.size());
  const std::vector<index_t> list{3, 5}, labels = profile::labels_like_training(boxes, classes);
  for (const box_selection& selection :
       {box_selection::all(), box_selection(labels), box_selection::list(list)}) {
    smooth_l1_loss(predictions, targets, selection, {}, policy);
    smooth_l1_loss_unreduced(predictions, targets, selection, out, {}, policy);
    smooth_l1_loss_and_grad(predictions, targets, selection, out, {}, policy);
  }
}

void box_coding_calls(execution policy) {
  const std::vector<float> a = profile::anchors(boxes), x = bench::head_deltas<float>(boxes);
  const boxes_view<const float> anchors(a), codes(x);
  std::vector<float> out(a.size());
  const image_size image = image_size::height_width(800, 800);
  const std::vector<image_size> images{image};
  encode_boxes(anchors, anchors, out, {}, policy);
  coder_params box_head;
  box_head.weight_x = 10;
  encode_boxes(anchors, anchors, out, box_head, policy);
  decode_boxes(codes, anchors, out, {}, policy);
  decode_boxes(codes, anchors, image, out, {}, policy);
  decode_boxes(codes, anchors, vector_view<const image_size>(images), out, {}, policy);
  for (const bool by_size : {false, true}) {
    distance_params params;
    params.by_size = by_size;
    encode_distances(anchors, anchors, out, params, policy);
    decode_distances(codes, anchors, out, params, policy);
    decode_distances(codes, anchors, image, out, params, policy);
  }

  const std::vector<float> a_planes = bench::as_planes(a), x_planes = bench::as_planes(x);
  const auto anchors_soa = bench::planes(a_planes), codes_soa = bench::planes(x_planes);
  const auto out_soa = bench::planes(out);
  encode_boxes(anchors_soa, anchors_soa, out_soa, {}, policy);
  decode_boxes(codes_soa, anchors_soa, out_soa, {}, policy);
  decode_boxes(codes_soa, anchors_soa, image, out_soa, {}, policy);
  decode_boxes(codes_soa, anchors_soa, vector_view<const image_size>(images), out_soa, {}, policy);

  const std::vector<bfloat16> half(x.begin(), x.end());
  const boxes_view<const bfloat16> half_codes(half);
  decode_boxes(half_codes, anchors, out, {}, policy);
  decode_boxes(half_codes, anchors, image, out, {}, policy);
  decode_boxes(half_codes, anchors, vector_view<const image_size>(images), out, {}, policy);
  for (const bool by_size : {false, true}) {
    distance_params params;
    params.by_size = by_size;
    decode_distances(half_codes, anchors, out, params, policy);
    decode_distances(half_codes, anchors, image, out, params, policy);
  }
}

void box_ops_calls(execution policy) {
  const std::vector<float> a = profile::anchors(boxes);
  const boxes_view<const float> anchors(a);
  std::vector<float> out(a.size()), areas(a.size() / 4);
  std::vector<std::uint8_t> mask(areas.size());
  std::vector<index_t> indices(areas.size());
  convert_boxes(anchors, box_format::xyxy, box_format::xywh, out, policy);
  clip_boxes(anchors, image_size::height_width(480, 640), out, policy);
  box_areas(anchors, areas, policy);
  large_box_mask(anchors, 32, mask, policy);
  large_boxes(anchors, 32, indices);
  const std::vector<float> rows(static_cast<std::size_t>(6 * boxes), 1);
  const matrix_view<const float> detections(rows.data(), boxes, 6);
  split_detections(detections, out, areas, policy);
  split_detections(detections, out, areas, indices, policy);
  std::vector<float> joined(static_cast<std::size_t>(6 * boxes));
  const matrix_view<float> rows_out(joined.data(), boxes, 6);
  join_detections(anchors, vector_view<const float>(areas), rows_out, policy);
  join_detections(anchors, vector_view<const float>(areas), indices, rows_out, policy);
  split_boxes(anchors, bench::planes(out), policy);
  const std::vector<float> separate = bench::as_planes(a);
  join_boxes(bench::planes(separate), boxes_view<float>(out), policy);
}

void iou_calls(execution policy) {
  const std::vector<float> all = profile::anchors(boxes), some = profile::anchors(11);
  const std::vector<float> all_planes = bench::as_planes(all);
  const boxes_view<const float> many(all), few(some);
  std::vector<float> out(static_cast<std::size_t>(11 * boxes)), one(all.size() / 4);
  for (const iou_params params :
       {iou_params{}, iou_params{iou_kind::iou, empty_iou::zero}, iou_params{iou_kind::giou},
        iou_params{iou_kind::diou}, iou_params{iou_kind::ciou}}) {
    pairwise_iou(few, many, {out.data(), 11, boxes}, params, policy);
    pairwise_iou(many, few, {out.data(), boxes, 11}, params, policy);
    elementwise_iou(many, many, one, params, policy);
    elementwise_iou(bench::planes(all_planes), bench::planes(all_planes), one, params, policy);
  }
}

void iou_loss_calls(execution policy) {
  const std::vector<float> a = profile::anchors(boxes), p = bench::predicted_boxes(a);
  const boxes_view<const float> targets(a), predicted(p);
  std::vector<float> grad(a.size()), loss(a.size() / 4);
  for (const iou_kind kind : {iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
    iou_loss(predicted, targets, kind, {}, policy);
    iou_loss_unreduced(predicted, targets, loss, kind, {}, policy);
    iou_loss_and_grad(predicted, targets, grad, kind, {}, policy);
  }
}

void regression_loss_calls(execution policy, bool all) {
  const std::vector<float> a = profile::anchors(boxes), x = bench::head_deltas<float>(boxes);
  const std::vector<index_t> labels = profile::labels_like_training(boxes, classes);
  const box_selection selection = all ? box_selection::all() : box_selection(labels);
  const boxes_view<const float> anchors(a), deltas(x);
  std::vector<float> grad(x.size());
  const std::vector<bfloat16> half(x.begin(), x.end());
  const boxes_view<const bfloat16> half_deltas(half);
  std::vector<bfloat16> half_grad(half.size());
  regression_loss_params params;
  for (const box_loss loss :
       {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou}) {
    params.loss = loss;
    regression_loss(deltas, anchors, a, selection, params, policy);
    regression_loss_and_grad(deltas, anchors, a, selection, grad, params, policy);
    regression_loss(half_deltas, anchors, a, selection, params, policy);
    regression_loss_and_grad(half_deltas, anchors, a, selection, half_grad, params, policy);
  }
}

void nms_calls(execution policy) {
  const bench::detections found = bench::clustered_detections(boxes, classes);
  const boxes_view<const float> where(found.boxes);
  const vector_view<const float> scores(found.scores);
  nms_groups groups;
  groups.classes = found.classes;
  nms(where, scores, {}, policy);
  batched_nms(where, scores, groups, {}, policy);
  soft_nms_workspace<float> workspace;
  soft_nms_params params;
  for (const soft_nms_method method :
       {soft_nms_method::hard, soft_nms_method::linear, soft_nms_method::gaussian}) {
    params.method = method;
    soft_nms(where, scores, groups, params, workspace, policy);
  }
}

void matching_calls(execution policy) {
  const std::vector<float> anchors = profile::anchors(boxes);
  const std::vector<float> truth_boxes = bench::built_in_picture(20).boxes;
  const std::vector<index_t> offsets{0, 5, 20};
  std::vector<index_t> matches(2 * boxes), labels(2 * boxes);
  std::vector<float> ious(2 * boxes);
  ground_truth truth;
  truth.boxes = truth_boxes;
  truth.image_offsets = offsets;
  match_results results;
  results.matches = matches;
  results.labels = labels;
  results.best_ious = ious;
  match_workspace workspace;
  match_anchors(boxes_view<const float>(anchors), truth, results, {}, workspace, policy);
  match_anchors(anchor_index(anchors), truth, results, {}, workspace, policy);
}

void filter_topk_calls(execution policy) {
  const std::vector<float> x =
      bench::head_logits<float>(profile::labels_like_training(boxes, classes), classes);
  filter_topk_workspace workspace;
  filter_topk(matrix_view<const float>(x.data(), boxes, classes), 0.05, 100, workspace, policy);
}

void postprocess_calls(index_t images, execution policy) {
  const std::vector<float> anchors = profile::anchors(boxes);
  const std::vector<float> x =
      bench::head_logits<float>(profile::labels_like_training(images * boxes, classes), classes);
  const std::vector<float> deltas = bench::head_deltas<float>(images * boxes);
  const std::vector<float> centerness(deltas.size() / 4, 0.0f), none;
  const std::vector<image_size> sizes(static_cast<std::size_t>(images),
                                      image_size::height_width(800, 800));
  postprocess_workspace workspace;
  for (const postprocess_params& params :
       {postprocess_params::retinanet(), postprocess_params::fcos(), postprocess_params::ssd()}) {
    const bool is_fcos = params.detector == dense_detector::fcos;
    const head_outputs<float> outputs{{x.data(), images * boxes, classes},
                                      boxes_view<const float>(deltas),
                                      vector_view<const float>(is_fcos ? centerness : none)};
    postprocess(outputs, boxes_view<const float>(anchors), vector_view<const index_t>(),
                vector_view<const image_size>(sizes), params, workspace, policy);
  }
}

void raw_output_calls(execution policy) {
  const std::vector<float> numbers(84 * 100, 0.6f), ends(4 * 6 * 50, 0.5f);
  const std::vector<image_size> sizes(2, image_size::height_width(480, 640));
  yolo_postprocess_workspace workspace;
  for (const auto& params : {yolo_postprocess_params::v8(), yolo_postprocess_params::rt_detr(),
                             yolo_postprocess_params::v5()}) {
    const bool by_rows = params.layout == yolo_layout::rows;
    const index_t rows = by_rows ? 100 : 84, cols = by_rows ? 84 : 100;
    postprocess_yolo(yolo_outputs<float>{{numbers.data(), rows, cols}, 1}, {}, params, workspace,
                     policy);
  }
  postprocess_yolo(yolo_outputs<float>{{ends.data(), 100, 6}, 2}, {},
                   yolo_postprocess_params::v10(), workspace, policy);
  for (const auto& params : {detr_postprocess_params::detr(), detr_postprocess_params::rt_detr()})
    postprocess_detr(detr_outputs<float>{{numbers.data(), 200, 20}, {ends.data(), 200}},
                     vector_view<const image_size>(sizes), params, workspace, policy);

  const bench::detections found = bench::clustered_detections(boxes, classes);
  merge_workspace merging;
  for (const merge_params& params : {merge_params::sahi_greedy_nmm(), merge_params::sahi_nmm()})
    merge_boxes(boxes_view<const float>(found.boxes), vector_view<const float>(found.scores), {},
                params, merging, policy);

  const std::vector<std::uint8_t> pixels(3 * 60 * 80, 7);
  const std::vector<byte_image> images(2, byte_image{pixels.data(), 60, 80, 0});
  std::vector<float> batch(2 * 3 * 32 * 48);
  letterbox_workspace letters;
  letterbox(vector_view<const byte_image>(images), batch, {32, 48}, {}, letters, policy);
}

void retinanet_loss_calls(execution policy) {
  const std::vector<float> anchors = profile::anchors(boxes);
  std::vector<float> x =
      bench::head_logits<float>(profile::labels_like_training(boxes, classes), classes);
  std::vector<float> deltas = bench::head_deltas<float>(boxes);
  const std::vector<head_level<const float>> logits{{x.data(), boxes, 1}},
      at{{deltas.data(), boxes, 1}};
  const std::vector<head_level<float>> grad{{x.data(), boxes, 1}},
      deltas_grad{{deltas.data(), boxes, 1}};
  const head_layout nhwc = head_layout::nhwc;
  const retinanet_head<float> head{{logits, 1, 1, classes, nhwc},
                                   {at, 1, 1, 4, nhwc},
                                   {grad, 1, 1, classes, nhwc},
                                   {deltas_grad, 1, 1, 4, nhwc}};
  const bench::picture picture = bench::built_in_picture();
  const std::vector<index_t> ids(picture.classes.size(), 1);
  ground_truth truth;
  truth.boxes = picture.boxes;
  truth.classes = ids;
  retinanet_loss_workspace workspace;
  for (const box_loss loss :
       {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou}) {
    retinanet_loss_params params;
    params.loss = loss;
    retinanet_loss_and_grad(head, anchor_index(anchors), truth, params, workspace, policy);
  }
}

void levels_calls(execution policy) {
  std::vector<float> x =
      bench::head_logits<float>(profile::labels_like_training(boxes, classes), classes);
  std::vector<float> d = bench::head_deltas<float>(boxes), decoded(d.size());
  const std::vector<float> a = profile::anchors(boxes), centers(static_cast<std::size_t>(boxes));
  const std::vector<index_t> labels = profile::labels_like_training(boxes, classes);
  const std::vector<float> scores(labels.size(), 0.5f);
  const scored_labels scored{labels, scores};
  const boxes_view<const float> anchors(a);
  const std::vector<image_size> sizes{image_size::height_width(800, 800)};
  const head_level<const float> logit_level{x.data(), boxes, 1}, delta_level{d.data(), boxes, 1};
  const head_level<const float> center_level{centers.data(), boxes, 1};
  const head_level<float> logit_out{x.data(), boxes, 1}, delta_out{d.data(), boxes, 1};
  const box_selection all = box_selection::all();
  filter_topk_workspace topk;
  postprocess_workspace workspace;
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    const head_view<const float> logits({&logit_level, 1}, 1, 1, classes, layout);
    const head_view<const float> deltas({&delta_level, 1}, 1, 1, 4, layout);
    const head_view<float> logits_grad({&logit_out, 1}, 1, 1, classes, layout);
    const head_view<float> deltas_grad({&delta_out, 1}, 1, 1, 4, layout);
    quality_focal_loss_and_grad(logits, scored, logits_grad, {}, {}, policy);
    varifocal_loss_and_grad(logits, scored, logits_grad, {}, {}, policy);
    bce_loss_and_grad(logits, scored, logits_grad, {}, {}, policy);
    filter_topk(logits, 0.05, 1000, topk, policy);
    decode_boxes(deltas, anchors, {}, decoded, {}, policy);
    decode_distances(deltas, anchors, {}, decoded, {}, policy);
    for (const box_loss loss :
         {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou}) {
      regression_loss_params params;
      params.loss = loss;
      regression_loss_and_grad(deltas, anchors, anchors, labels, deltas_grad, {}, params, policy);
    }
    smooth_l1_loss_and_grad(deltas, anchors, labels, deltas_grad, {}, {}, policy);
    for (const iou_kind kind : {iou_kind::giou, iou_kind::diou, iou_kind::ciou})
      iou_loss_and_grad(deltas, anchors, all, deltas_grad, kind, {}, {}, policy);
    head_level_outputs<float> outputs;
    outputs.logits = logits;
    outputs.deltas = deltas;
    postprocess(outputs, anchors, sizes, postprocess_params::retinanet(), workspace, policy);
    outputs.centerness = {{&center_level, 1}, 1, 1, 1, layout};
    postprocess(outputs, anchors, sizes, postprocess_params::fcos(), workspace, policy);
  }
}

void detector_loss_calls(execution policy) {
  bench::assigner_scene scene(bench::pyramid_of(160, 3), 20, 160, false);
  for (index_t& id : scene.classes) id = 1 + id % (classes - 1);
  const index_t count = scene.points.size();
  std::vector<float> x(static_cast<std::size_t>(count * classes), -1.0f), d(4 * x.size(), 0.5f);
  const std::vector<float> centers(x.size(), 0.5f);
  std::vector<float> x_grad(x.size()), d_grad(d.size()), centers_grad(x.size());
  fcos_loss_workspace of_fcos;
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    std::vector<head_level<const float>> logits, distances, centerness;
    std::vector<head_level<float>> logits_grad, distances_grad, centerness_grad;
    index_t first = 0;
    for (const grid_size& level : scene.points.levels) {
      logits.push_back({x.data() + first * classes, level.height, level.width});
      distances.push_back({d.data() + first * 4, level.height, level.width});
      centerness.push_back({centers.data() + first, level.height, level.width});
      logits_grad.push_back({x_grad.data() + first * classes, level.height, level.width});
      distances_grad.push_back({d_grad.data() + first * 4, level.height, level.width});
      centerness_grad.push_back({centers_grad.data() + first, level.height, level.width});
      first += level.height * level.width;
    }
    fcos_loss_and_grad<float>({{logits, 1, 1, classes, layout},
                               {distances, 1, 1, 4, layout},
                               {centerness, 1, 1, 1, layout},
                               {logits_grad, 1, 1, classes, layout},
                               {distances_grad, 1, 1, 4, layout},
                               {centerness_grad, 1, 1, 1, layout}},
                              boxes_view<const float>(scene.points.anchors), scene.known(), {},
                              of_fcos, policy);
  }
  ssd_loss_workspace of_ssd;
  ssd_loss_and_grad({{x.data(), count, classes},
                     {d.data(), count},
                     {x_grad.data(), count, classes},
                     {d_grad.data(), count}},
                    anchor_index(boxes_view<const float>(scene.points.anchors)), scene.known(), {},
                    of_ssd, policy);
}

void softmax_calls(execution policy) {
  const index_t rows = 4 * boxes;
  std::vector<index_t> labels = profile::labels_like_training(rows, classes);
  std::replace(labels.begin(), labels.end(), index_t{-1}, index_t{0});
  const std::vector<float> x(static_cast<std::size_t>(rows * classes), 0.5f);
  const std::vector<float> targets(static_cast<std::size_t>(rows), 1.5f);
  std::vector<float> out(x.size()), each(static_cast<std::size_t>(rows));
  const matrix_view<const float> logits(x.data(), rows, classes);
  const matrix_view<float> grad(out.data(), rows, classes);
  distribution_focal_loss(logits, targets, {}, policy);
  distribution_focal_loss_unreduced(logits, targets, each, {}, policy);
  distribution_focal_loss_and_grad(logits, targets, grad, {}, policy);
  decode_distributions(logits, each, policy);
  decode_distribution_boxes(logits, {targets.data(), boxes, 2}, {targets.data(), boxes}, each,
                            policy);
  softmax_cross_entropy_loss(logits, labels, {}, policy);
  softmax_cross_entropy_loss_unreduced(logits, labels, each, {}, policy);
  softmax_cross_entropy_loss_and_grad(logits, labels, grad, {}, policy);
  softmax_cross_entropy_workspace workspace;
  softmax_cross_entropy_loss_and_grad(logits, labels, {}, grad, {}, workspace, policy);
}

void conv3x3_calls(execution policy) {
  const std::vector<float> w(13 * 7 * 9, 0.5f);
  std::vector<float> x(7 * 90), y(13 * 90), weight_grad(w.size()), bias_grad(13);
  const feature_view<const float> weights(w.data(), 13, 7, 3, 3, feature_layout::nchw);
  conv3x3_workspace workspace;
  for (const bool is_nhwc : {false, true})
    for (const conv3x3_tile tile : {conv3x3_tile::f4x4, conv3x3_tile::f2x2}) {
      const auto layout = is_nhwc ? feature_layout::nhwc : feature_layout::nchw;
      const feature_view<float> input(x.data(), 1, 7, 8, 9, layout);
      const feature_view<float> output(y.data(), 1, 13, 8, 9, layout);
      conv3x3(input, conv3x3_weights<float>(weights, conv3x3_use::forward, tile), output, {},
              workspace, policy);
      conv3x3_input_grad(output, {}, conv3x3_weights<float>(weights, conv3x3_use::input_grad, tile),
                         input, workspace, policy);
      conv3x3_weight_grad(input, output, {},
                          feature_view<float>(weight_grad.data(), 13, 7, 3, 3, layout),
                          vector_view<float>(bias_grad), tile, workspace, policy);
      const std::vector<head_level<const float>> inputs{{x.data(), 8, 9},
                                                        {x.data() + 7 * 72, 3, 4}};
      const std::vector<head_level<float>> outputs{{y.data(), 8, 9}, {y.data() + 13 * 72, 3, 4}};
      const auto head = is_nhwc ? head_layout::nhwc : head_layout::nchw;
      conv3x3(
          head_view<const float>(vector_view<const head_level<const float>>(inputs), 1, 1, 7, head),
          conv3x3_weights<float>(weights, conv3x3_use::forward, tile),
          head_view<float>(vector_view<const head_level<float>>(outputs), 1, 1, 13, head), {},
          workspace, policy);
    }
}

void two_stage_calls(execution policy) {
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
    bench::roi_scene<float> scene(23, 5, 30, 7, 6, layout);
    roi_align_params params;
    params.sampling_ratio = layout == feature_layout::nchw ? 2 : 0;
    params.aligned = layout == feature_layout::nchw;
    scene.forward(params, policy);
    scene.backward(params, policy);
    const std::vector<double> scales{1};
    multiscale_roi_align_params pyramid_params;
    pyramid_params.scales = scales;
    const std::vector<feature_view<const float>> maps{scene.map(scene.features)};
    const std::vector<feature_view<float>> grads{scene.map(scene.grad)};
    multiscale_roi_align(vector_view<const feature_view<const float>>(maps), scene.all_boxes(),
                         scene.box_features(scene.bins), pyramid_params, scene.workspace, policy);
    multiscale_roi_align_grad(scene.box_features(scene.upstream), scene.all_boxes(),
                              vector_view<const feature_view<float>>(grads), pyramid_params,
                              scene.workspace, policy);
  }
  const std::vector<float> anchors = profile::anchors(boxes);
  const auto labels = profile::labels_like_training(boxes, classes);
  const std::vector<float> x = bench::head_logits<float>(labels, classes);
  const std::vector<float> deltas = bench::head_deltas<float>(boxes * classes);
  const std::vector<image_size> sizes{image_size::height_width(800, 800)};
  const std::vector<index_t> offsets{0, boxes};
  postprocess_workspace workspace;
  postprocess_box_head(
      box_head_outputs<float>{{x.data(), boxes, classes}, boxes_view<const float>(deltas)},
      boxes_view<const float>(anchors), offsets, vector_view<const image_size>(sizes), {},
      workspace, policy);
  postprocess(head_outputs<float>{{x.data(), boxes, 1}, {deltas.data(), boxes}, {}},
              boxes_view<const float>(anchors), {}, vector_view<const image_size>(sizes),
              postprocess_params::rpn(), workspace, policy);
  balanced_sample_workspace of_samples;
  sample_balanced(labels, offsets, {}, of_samples, policy);
}

void assigner_calls(execution policy) {
  bench::assigner_scene scene(bench::pyramid_of(160, 3), 20, 160, true);
  assigner_workspace workspace;
  assign_atss(boxes_view<const float>(scene.points.anchors), scene.points.levels, scene.known(),
              scene.matches, {}, workspace, policy);
  assign_task_aligned(scene.said(), scene.where(), scene.points.levels, scene.known(),
                      scene.matches, scene.targets, {}, workspace, policy);
  assign_fcos(boxes_view<const float>(scene.points.anchors), scene.points.levels, scene.known(),
              scene.matches, {}, workspace, policy);
}

void call_everything(execution policy) {
  focal_loss_calls(policy);
  smooth_l1_calls(policy);
  box_coding_calls(policy);
  box_ops_calls(policy);
  iou_calls(policy);
  iou_loss_calls(policy);
  regression_loss_calls(policy, true);
  nms_calls(policy);
  matching_calls(policy);
  retinanet_loss_calls(policy);
  levels_calls(policy);
  detector_loss_calls(policy);
  filter_topk_calls(policy);
  softmax_calls(policy);
  assigner_calls(policy);
  two_stage_calls(policy);
  conv3x3_calls(policy);
  raw_output_calls(policy);
  postprocess_calls(1, policy);
  postprocess_calls(2, policy);
}

bool takes_floats_alone(const std::string& function) {
  for (const char* family : {"distribution", "softmax_cross_entropy", "assign_", "match_anchors",
                             "retinanet_loss", "fcos_loss", "ssd_loss", "letterbox"})
    if (function.find(family) != std::string::npos) return true;
  return false;
}

/// Runs the replay once; it must record its problem, with its bytes.
void check_replay(const profile::entry& wanted) {
  CAPTURE(wanted.name);
  REQUIRE(profile::why_not_replayed(wanted) == "");
  tbb::task_arena arena(wanted.threads);
  const execution policy = wanted.threads == 1 ? execution::sequential : execution::parallel;
  const profile::replay_call call = profile::replay_makers().at(wanted.function)(wanted, policy);
  REQUIRE(call);
  const profile::report r = record([&] { arena.execute(call); });
  const auto same = std::find_if(r.entries.begin(), r.entries.end(),
                                 [&](const profile::entry& e) { return e.name == wanted.name; });
  REQUIRE(same != r.entries.end());
  // The mean of several calls of NMS is not a whole number of boxes.
  const double most = wanted.function == "batched_nms" ? 10 : 0;
  CHECK(std::fabs(profile::call_bytes(*same) - profile::call_bytes(wanted)) <= most);
}

}  // namespace

TEST_CASE("replay: labels are those of a training") {
  const std::vector<index_t> labels = profile::labels_like_training(100000, 7);
  CHECK(count_foreground(labels) == 100);
  CHECK(std::count(labels.begin(), labels.end(), index_t{-2}) == 3000);
  for (index_t c = 0; c < 7; ++c) CHECK(std::count(labels.begin(), labels.end(), c) >= 100 / 7);
}

TEST_CASE("replay: every public function records a problem that its replay records again") {
  std::set<std::string> functions;
  for (const execution policy : {execution::sequential, execution::parallel}) {
    const profile::report r = written_and_read(record([&] { call_everything(policy); }));
    for (const profile::entry& e : r.entries) {
      if (e.implementation.empty()) continue;
      functions.insert(e.function);
      check_replay(e);
    }
  }

  // A public function names itself in errors: where its body is, its name stands as a text and
  // before a parenthesis. Anchors are made once for each shape of image, and not recorded;
  // levels of boxes are a part of the call that needs them.
  const std::set<std::string> not_recorded{"count_anchors", "make_anchors", "make_points",
                                           "pyramid_levels"};
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(VECDET_INCLUDE "/impl")) {
    if (!file.is_regular_file()) continue;  // PyTorch's operators call these functions
    const std::filesystem::path path = file.path();
    CAPTURE(path);
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const std::regex quoted("\"([a-z][a-z0-9_]*)\"");
    for (std::sregex_iterator i(text.begin(), text.end(), quoted), end; i != end; ++i) {
      const std::string name = (*i)[1];
      if (!std::regex_search(text, std::regex("[a-z0-9_>] " + name + "\\("))) continue;
      if (not_recorded.count(name) == 1) continue;
      CHECK_MESSAGE(functions.count(name) == 1, name << " is not called above");
      ++found;
    }
  }
  CHECK(found >= 20);
}

TEST_CASE("replay: names tell what benchmarks tell, and which distances") {
  const profile::report r = record([] {
    call_everything(execution::sequential);
    const std::vector<float> logits(boxes * classes, 0.0f);
    filter_topk_workspace workspace;
    filter_topk(matrix_view<const float>(logits.data(), boxes, classes), 0.3, 100, workspace,
                execution::sequential);
  });
  std::set<std::string> names;
  for (const profile::entry& e : r.entries) {
    if (e.variant == "threshold0.3") check_replay(e);
    names.insert(e.function + "/" + e.variant + "/" + e.type + "/" + profile::shape_text(e.shape));
  }
  for (const char* name :
       {"encode_boxes/weights1/f32/2003", "encode_boxes/boxes/f32/2003",
        "encode_boxes/soa_boxes/f32/2003", "decode_boxes/clip/f32/2003",
        "decode_distances/clip/f32/2003", "decode_distances/pixels_clip/f32/2003",
        "decode_distances/float_clip/bf16/2003", "decode_distances/float_pixels_clip/bf16/2003",
        "filter_topk/threshold0.05/f32/2003x7", "filter_topk/threshold0.3/f32/2003x7",
        "postprocess/retinanet/f32/2003x7", "postprocess/retinanet/f32/2x2003x7", "nms//f32/3000",
        "nms.sort//f32/3000", "nms.compare//f32/3000", "nms.partition//f32/3000",
        "nms.merge//f32/3000"}) {
    CHECK_MESSAGE(names.count(name) == 1, name);
  }
}

TEST_CASE("replay: operations are known but where the data decide them") {
  const std::set<std::string> decided_by_data{"nms",
                                              "batched_nms",
                                              "soft_nms",
                                              "postprocess",
                                              "assign_atss",
                                              "assign_task_aligned",
                                              "match_anchors",
                                              "retinanet_loss_and_grad",
                                              "roi_align",
                                              "roi_align_grad",
                                              "multiscale_roi_align",
                                              "multiscale_roi_align_grad",
                                              "postprocess_box_head",
                                              "postprocess_yolo",
                                              "postprocess_detr",
                                              "merge_boxes",
                                              "sample_balanced",
                                              "assign_fcos",
                                              "fcos_loss_and_grad",
                                              "ssd_loss_and_grad"};
  // Labels select, and how many is not known.
  const auto labels_decide = [](const profile::entry& e) {
    return (e.function.compare(0, 9, "smooth_l1") == 0 &&
            (e.variant == "labels" || profile::takes_levels(e))) ||
           (e.function == "regression_loss_and_grad" && profile::takes_levels(e));
  };
  const std::set<std::string> without_floats{"split_detections", "join_detections", "split_boxes",
                                             "join_boxes", "letterbox"};
  const profile::report r = record([] {
    call_everything(execution::sequential);
    regression_loss_calls(execution::sequential, false);
  });
  for (const profile::entry& e : r.entries) {
    if (e.implementation.empty()) continue;
    CAPTURE(e.name);
    CHECK((e.flops > 0) == (decided_by_data.count(e.function) == 0 &&
                            without_floats.count(e.function) == 0 && !labels_decide(e)));
  }
  const auto flops_a_call = [](const auto& call) {
    const profile::report once = record(call);
    REQUIRE(once.entries.size() == 1);
    return once.entries[0].flops;
  };
  const std::vector<float> a = profile::anchors(10);
  const std::vector<index_t> labels(10, 1), list{3, 5};
  const auto loss_of = [&](const box_selection& selection) {
    return flops_a_call([&] { regression_loss(boxes_view<const float>(a), a, a, selection); });
  };
  CHECK(loss_of(box_selection::all()) == 10 * 155);
  CHECK(loss_of(box_selection::list(list)) == 2 * 155);
  CHECK(loss_of(labels) == 0);
  std::vector<float> out(a.size());
  CHECK(flops_a_call([&] {
          convert_boxes(boxes_view<const float>(a), box_format::xyxy, box_format::xywh, out);
        }) == 10 * 2);
}

TEST_CASE("replay: every element type") {
  const profile::report r = record([] { call_everything(execution::sequential); });
  for (profile::entry e : r.entries) {
    if (e.implementation.empty()) continue;
    if (e.type != "f32") continue;  // has but one
    const bool on_logits = e.function == "filter_topk" || e.function.find("postprocess") == 0 ||
                           (profile::takes_levels(e) && (e.function.find("decode_") == 0 ||
                                                         e.function.find("regression") == 0));
    const double f32_bytes = e.bytes;
    for (const char* type : {"bf16", "f64"}) {
      if (takes_floats_alone(e.function)) continue;
      if (on_logits && type == std::string("f64")) continue;
      if (e.function.find("conv3x3") == 0 && type == std::string("bf16")) continue;
      e.type = type;
      e = profile::moved_to(e, "", 0);
      CAPTURE(e.name);
      // Near enough to tell operands by; labels count the same in all types.
      e.bytes = f32_bytes * (type == std::string("bf16") ? 0.5 : 2.0);
      const profile::replay_call call =
          profile::replay_makers().at(e.function)(e, execution::sequential);
      REQUIRE(call);
      const profile::report again = record(call);
      CHECK(std::any_of(again.entries.begin(), again.entries.end(),
                        [&](const profile::entry& a) { return a.name == e.name; }));
    }
    e.type = "f16";
    CHECK_FALSE(profile::replay_makers().at(e.function)(e, execution::sequential));
    e.type = "f32";
    for (const char* variant : {"unheard of", "levels_unheard of"}) {
      e.variant = variant;
      CAPTURE(e.function);
      CAPTURE(e.variant);
      CHECK_FALSE(profile::replay_makers().at(e.function)(e, execution::sequential));
    }
  }
}

TEST_CASE("replay: all boxes or the foreground's are told apart by the bytes") {
  for (const bool all : {false, true}) {
    const profile::report r = record([&] { regression_loss_calls(execution::sequential, all); });
    REQUIRE(r.entries.size() == 16);
    for (const profile::entry& e : r.entries) check_replay(e);
  }
}

TEST_CASE("replay: NMS of all sizes is a few problems, and the mean of each is replayed") {
  const bench::detections found = bench::clustered_detections(3000, classes);
  nms_workspace workspace;
  soft_nms_workspace<float> soft_workspace;
  const profile::report r = record([&] {
    for (index_t count = 1; count <= 3000; ++count) {
      const boxes_view<const float> where(found.boxes.data(), count);
      const vector_view<const float> scores(found.scores.data(), count);
      const vector_view<const index_t> found_classes(found.classes.data(), count);
      nms_groups groups;
      groups.classes = found_classes;
      nms(where, scores, {}, workspace, execution::sequential);
      batched_nms(where, scores, groups, {}, workspace, execution::sequential);
      if (count <= 300) soft_nms(where, scores, {}, {}, soft_workspace, execution::sequential);
    }
  });
  std::map<std::string, std::uint64_t> calls;
  for (const profile::entry& e : r.entries) {
    calls[e.function + "/" + profile::shape_text(e.shape)] += e.count;
    if (e.implementation.empty()) continue;
    const profile::replay_call call =
        profile::replay_makers().at(e.function)(e, execution::sequential);
    REQUIRE(call);
    const profile::report again = record(call);
    const auto same = std::find_if(again.entries.begin(), again.entries.end(),
                                   [&](const profile::entry& a) { return a.name == e.name; });
    REQUIRE(same != again.entries.end());
    CHECK(same->bytes == doctest::Approx(profile::call_bytes(e)).epsilon(0.05));
  }
  for (const char* function : {"nms", "batched_nms"}) {
    const std::string name = function;
    CHECK(calls[name + "/7"] == 1);
    CHECK(calls[name + "/20"] == 10);
    CHECK(calls[name + "/1000"] == 100);
    CHECK(calls[name + "/3000"] == 1000);
  }
  CHECK(calls["soft_nms/300"] == 100);
  CHECK(calls.size() <= 7 * 30);
}

TEST_CASE("replay: scores of another type than the boxes are said to be so") {
  const profile::report r = record([] {
    const bench::detections found = bench::clustered_detections(100);
    const std::vector<double> scores(100, 0.5);
    nms(boxes_view<const float>(found.boxes), vector_view<const double>(scores));
  });
  for (const profile::entry& e : r.entries) {
    if (e.function != "nms") continue;
    CHECK_THROWS_WITH(profile::replay_makers().at("nms")(e, execution::sequential),
                      "its scores are of another type than its boxes");
  }
}

TEST_CASE("replay: no shape and no number of threads does harm") {
  const std::vector<std::vector<std::int64_t>> small{
      {}, {1}, {2}, {5}, {1, 1}, {3, 1}, {1, 7}, {2, 1, 1}, {1, 5, 2}, {1, 1, 1, 1}};
  const std::vector<std::vector<std::int64_t>> large{
      {INT64_MAX}, {std::int64_t{1} << 40}, {std::int64_t{1} << 40, std::int64_t{1} << 40}};
  profile::replay_options options;
  options.seconds = 0.001;
  options.repetitions = options.cold_calls = 1;
  const profile::report r = record([] { call_everything(execution::sequential); });
  for (profile::entry e : r.entries) {
    if (e.implementation.empty()) continue;
    for (const auto& shape : small) {
      e.shape = shape;
      e = profile::moved_to(e, "", 0);
      CAPTURE(e.name);
      const profile::replay_call call =
          profile::replay_makers().at(e.function)(e, execution::sequential);
      if (call) CHECK_NOTHROW(call());
    }
    for (const auto& shape : large) {
      e.shape = shape;
      CHECK_THROWS_WITH_AS(profile::replay(e, options), "too large for this machine",
                           std::runtime_error);
    }
    e.shape = {1};
    e.threads = 2000000000;
    CHECK_THROWS_WITH_AS(profile::replay(e, options), "on more than 4096 threads",
                         std::runtime_error);
  }
}

TEST_CASE("projection: what runs inside of a replayed problem is a part of it") {
  profile::report r = record([] {
    filter_topk_calls(execution::sequential);
    VECDET_PROFILE_SCOPE("step");
    postprocess_calls(2, execution::sequential);
  });
  // A sort so short that nothing is left of it once the timer's own cost is taken off.
  for (profile::path& p : r.paths) {
    profile::entry& e = r.entries[p.entries.back()];
    if (e.function == "nms.sort") e.self_ns = p.self_ns = 0;
  }
  profile::replay_options options;
  options.seconds = 0.001;
  options.repetitions = options.cold_calls = 1;
  std::ostringstream progress;
  const profile::projection p = profile::project(r, "step", {}, options, progress);
  std::set<std::string> replayed, inside;
  double observed = 0;
  for (const profile::projected_problem& problem : p.problems) {
    CHECK(problem.warm_ns > 0);
    if (problem.is_inside) {
      inside.insert(problem.name);
      continue;
    }
    replayed.insert(problem.name);
    CHECK(problem.calls == 1);
    observed += problem.observed_ns;
  }
  CHECK(replayed.size() == 4);  // three detectors, and filter_topk by itself
  CHECK(inside.size() >= 2);    // RetinaNet's filter_topk, and batched_nms
  for (const auto& skipped : p.not_replayed) {
    CAPTURE(skipped.name);
    CHECK(replayed.count(skipped.name) + inside.count(skipped.name) == 0);
    if (skipped.name != "step") {
      CHECK(skipped.reason == "inside of replayed problems, and replayed with them");
      CHECK(skipped.observed_ns == 0);
    }
    observed += skipped.observed_ns;
  }
  CHECK(observed == doctest::Approx(r.whole_ns()));
}

// SPDX-License-Identifier: Apache-2.0
// No call reads or writes outside its arrays or changes its inputs, and results do not depend on where
// the arrays are: every call of the catalogue on every instruction set, at lengths around the vector
// and block widths, with arrays that end at an inaccessible page, that start after one, and at every
// misalignment.
#include "calls/catalogue.hpp"
#include "support/placements.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr execution sequential = execution::sequential;

/// The results of all calls of a family, whose inputs must stay as they are.
std::vector<results> results_at(placed_memory& at, placement place, const family& f,
                                const problem& p) {
  at.place = place;
  at.release();
  const call_set set = f.make(at, p);
  std::vector<results> all;
  for (const call& c : set.calls) {
    CAPTURE(c.name);
    const std::vector<std::string> inputs = c.arrays.copied_inputs();
    all.push_back(c.results_of(sequential));
    CHECK(c.arrays.copied_inputs() == inputs);
  }
  return all;
}

/// Runs test(family, problem) for shapes of this length, on each instruction set.
template <class Test>
void for_each_problem(index_t length, const Test& test) {
  for (const family& f : catalogue()) {
    for (const shape& s : f.sweep(length)) {
      INFO(f.name, " ", f.type, " ", profile::shape_text(s));
      for_each_isa([&](isa) { test(f, problem{s, source::special}); });
    }
  }
}

// ---- focal loss

template <class T>
void focal_loss_call(placed_memory& memory, result_bytes& results, index_t rows, index_t cols,
                     index_t padding, double gamma, bool dense) {
  const index_t stride = cols + padding, extent = (rows - 1) * stride + cols;
  const T* logits = memory.copy(random_logits<T>(extent, 1));
  const matrix_view<const T> x(logits, rows, cols, stride);
  focal_loss_params params;
  params.gamma = gamma;
  const index_t* labels = memory.copy(random_labels(rows, cols, 2));
  std::vector<T> target_values(static_cast<std::size_t>(extent));
  random_generator generator(3);
  for (T& t : target_values) t = to<T>(generator.chance(0.1) ? generator.uniform() : 0.0);
  const matrix_view<const T> targets(memory.copy(target_values), rows, cols, stride);
  const std::vector<float> weights(static_cast<std::size_t>(rows), 0.5f);
  if (padding > 0) params.row_weights = {memory.copy(weights), rows};
  const focal_targets<T> truth =
      dense ? focal_targets<T>(targets) : focal_targets<T>(labels_view(labels, rows));
  const matrix_view<T> out(memory.make<T>(extent), rows, cols, stride);

  results.add(sigmoid_focal_loss(x, truth, params, sequential));
  results.add(sigmoid_focal_loss_and_grad(x, truth, out, params, sequential));
  results.add(out.data(), extent);  // with the padding, which must stay as it was
  sigmoid_focal_loss_unreduced(x, truth, out, params, sequential);
  results.add(out.data(), extent);
  const matrix_view<const T> upstream(memory.copy(random_logits<T>(extent, 4)), rows, cols, stride);
  sigmoid_focal_loss_grad(x, truth, upstream, out, params, sequential);
  results.add(out.data(), extent);
  sigmoid_focal_loss_grad(x, truth, 0.5, out, params, sequential);
  results.add(out.data(), extent);
  if (dense) return;
  const auto wide = random_labels(rows, cols, 2);
  const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
  const labels_view narrow_labels(memory.copy(narrow), rows);
  results.add(
      sigmoid_focal_loss_and_grad(x, focal_targets<T>(narrow_labels), out, params, sequential));
  results.add(out.data(), extent);
  const scored_labels scored{narrow_labels, {memory.copy(weights), rows}};
  for (const double sum : {sigmoid_focal_loss_and_grad(x, scored, out, params, sequential),
                           quality_focal_loss_and_grad(x, scored, out, {}, sequential),
                           varifocal_loss_and_grad(x, scored, out, {}, sequential),
                           bce_loss_and_grad(x, scored, out, {}, sequential)})
    results.add(sum);
  results.add(out.data(), extent);
  quality_focal_loss_unreduced(x, scored, out, {}, sequential);
  results.add(out.data(), extent);
  varifocal_loss_unreduced(x, scored, out, {}, sequential);
  results.add(out.data(), extent);
  bce_loss_unreduced(x, scored, out, {}, sequential);
  results.add(out.data(), extent);
}

template <class T>
void focal_loss_memory() {
  for (const index_t cols : lengths) {
    const index_t rows = 1 + cols % 3, padding = cols % 2 == 0 ? 0 : 1 + cols % 5;
    for (const bool dense : {false, true}) {
      for (const double gamma : {2.0, 1.5}) {
        INFO("rows ", rows, " cols ", cols, " padding ", padding, " gamma ", gamma, " dense ",
             dense);
        check_placements([&](placed_memory& memory, result_bytes& results) {
          focal_loss_call<T>(memory, results, rows, cols, padding, gamma, dense);
        });
      }
    }
  }
  for (const bool dense : {false, true}) {
    check_alignments<T>([&](placed_memory& memory, result_bytes& results) {
      focal_loss_call<T>(memory, results, 3, 91, 0, 2, dense);
    });
  }
}

// ---- boxes

template <class T>
boxes_view<const T> boxes_at(placed_memory& memory, index_t boxes, std::uint64_t seed) {
  auto values = random_boxes<T>(boxes, seed);
  const auto special = special_boxes_as<T>();
  for (std::size_t i = 0; i + 7 < values.size(); i += 37) values[i] = special[i % special.size()];
  return {memory.copy(values), boxes};
}

template <class T>
void box_coding_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto a = boxes_at<T>(memory, boxes, 1), b = boxes_at<T>(memory, boxes, 2);
  const boxes_view<T> out(memory.make<T>(4 * boxes), boxes);
  const auto add = [&] { results.add(out.data(), 4 * boxes); };
  const image_size image{300, 200};
  encode_boxes(a, b, out, {}, sequential), add();
  encode_boxes(a, b, out, coder_params::ssd(), sequential), add();
  decode_boxes(a, b, out, {}, sequential), add();
  decode_boxes(a, b, image, out, coder_params::ssd(), sequential), add();
  const std::vector<image_size> pair{image, {100, 400}};
  const vector_view<const image_size> images(memory.copy(pair), 2);
  const boxes_view<T> two(memory.make<T>(8 * boxes), 2 * boxes);
  decode_boxes(boxes_at<T>(memory, 2 * boxes, 3), b, images, two, {}, sequential);
  results.add(two.data(), 8 * boxes);
  encode_distances(a, b, out, {}, sequential), add();
  decode_distances(a, b, out, {}, sequential), add();
  decode_distances(a, b, image, out, {false, box_format::cxcywh}, sequential), add();
  for (const auto from : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
    for (const auto to : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
      convert_boxes(a, from, to, out, sequential), add();
    }
  }
  clip_boxes(a, image, out, sequential), add();
  const vector_view<T> areas(memory.make<T>(boxes), boxes);
  box_areas(a, areas, sequential);
  results.add(areas.data(), boxes);
  const vector_view<std::uint8_t> mask(memory.make<std::uint8_t>(boxes), boxes);
  large_box_mask(a, 20, mask, sequential);
  results.add(mask.data(), boxes);
  const vector_view<index_t> indices(memory.make<index_t>(boxes), boxes);
  const index_t count = large_boxes(a, 20, indices);
  results.add(indices.data(), count);
}

/// Each coordinate in memory of its own.
template <class T>
void separate_boxes_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto separate = [&](std::uint64_t seed) -> boxes_soa_view<const T> {
    const auto together = boxes_at<T>(memory, boxes, seed);
    std::vector<T> coordinate[4];
    for (index_t i = 0; i < boxes; ++i)
      for (index_t k = 0; k < 4; ++k) coordinate[k].push_back(together(i, k));
    return {memory.copy(coordinate[0]), memory.copy(coordinate[1]), memory.copy(coordinate[2]),
            memory.copy(coordinate[3]), boxes};
  };
  const auto a = separate(1), b = separate(2);
  T* const out[] = {memory.make<T>(boxes), memory.make<T>(boxes), memory.make<T>(boxes),
                    memory.make<T>(boxes)};
  const boxes_soa_view<T> out_boxes(out[0], out[1], out[2], out[3], boxes);
  const auto add = [&] {
    for (T* const coordinate : out) results.add(coordinate, boxes);
  };
  encode_boxes(a, b, out_boxes, {}, sequential), add();
  decode_boxes(a, b, image_size{300, 200}, out_boxes, {}, sequential), add();
  for (const auto kind : {iou_kind::iou, iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
    elementwise_iou(a, b, vector_view<T>(out[0], boxes), {kind, empty_iou::nan}, sequential);
    results.add(out[0], boxes);
  }
}

/// bfloat16 deltas of boxes in float.
void mixed_boxes_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto a = boxes_at<float>(memory, boxes, 1), t = boxes_at<float>(memory, boxes, 2);
  const auto deltas = boxes_at<bfloat16>(memory, boxes, 3);
  const boxes_view<float> out(memory.make<float>(4 * boxes), boxes);
  decode_boxes(deltas, a, out, {}, sequential);
  results.add(out.data(), 4 * boxes);
  decode_distances(deltas, a, out, {}, sequential);
  results.add(out.data(), 4 * boxes);
  const boxes_view<bfloat16> grad(memory.make<bfloat16>(4 * boxes), boxes);
  const index_t* labels = memory.copy(random_labels(boxes, 5, 4));
  for (const box_selection& selection :
       {box_selection::all(), box_selection(labels_view(labels, boxes))}) {
    results.add(regression_loss_and_grad(deltas, a, t, selection, grad, {}, sequential));
    results.add(grad.data(), 4 * boxes);
  }
}

template <class T>
void box_loss_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto a = boxes_at<T>(memory, boxes, 1), b = boxes_at<T>(memory, boxes, 2);
  const auto deltas_of = [&] {
    random_generator generator(3);
    std::vector<T> values(static_cast<std::size_t>(4 * boxes));
    for (T& v : values) v = to<T>(generator.uniform(-2, 2));
    return values;
  };
  const boxes_view<const T> deltas(memory.copy(deltas_of()), boxes);
  const boxes_view<T> out(memory.make<T>(4 * boxes), boxes);
  const vector_view<T> losses(memory.make<T>(boxes), boxes);
  const std::vector<float> weight_values(static_cast<std::size_t>(boxes), 0.5f);
  const vector_view<const float> weights(memory.copy(weight_values), boxes);
  const auto matches = random_labels(boxes, 5, 4);
  const std::vector<std::int32_t> narrow_matches(matches.begin(), matches.end());
  const index_t* labels = memory.copy(matches);
  const std::int32_t* narrow = memory.copy(narrow_matches);
  const auto truth = boxes_at<T>(memory, 5, 5);
  std::vector<index_t> list;
  for (index_t i = 0; i < boxes; i += 3) list.push_back(i);
  const auto listed = static_cast<index_t>(list.size());
  const box_selection selections[] = {
      box_selection::all(), box_selection(labels_view(labels, boxes)),
      box_selection(labels_view(narrow, boxes)),
      box_selection::list(vector_view<const index_t>(memory.copy(list), listed))};
  for (const box_selection& selection : selections) {
    smooth_l1_params params;
    params.box_weights = weights;
    results.add(smooth_l1_loss_and_grad(a, b, selection, out, params, sequential));
    results.add(out.data(), 4 * boxes);
    smooth_l1_loss_unreduced(a, b, selection, out, params, sequential);
    results.add(out.data(), 4 * boxes);
    results.add(smooth_l1_loss(a, b, selection, params, sequential));
    for (const auto loss : {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou}) {
      regression_loss_params regression;
      regression.loss = loss;
      regression.box_weights = weights;
      results.add(
          regression_loss(deltas, a, regression_targets<T>(b), selection, regression, sequential));
      results.add(regression_loss_and_grad(deltas, a, regression_targets<T>(b), selection, out,
                                           regression, sequential));
      results.add(out.data(), 4 * boxes);
      if (selection.is_all() || selection.is_list()) continue;
      const regression_targets<T> matched(truth, {labels, boxes});
      results.add(
          regression_loss_and_grad(deltas, a, matched, selection, out, regression, sequential));
      results.add(out.data(), 4 * boxes);
    }
  }
  iou_loss_params weighted;
  weighted.box_weights = weights;
  using loss_and_grad = double (*)(boxes_view<const T>, boxes_view<const T>, boxes_view<T>,
                                   const iou_loss_params&, execution);
  for (const loss_and_grad loss :
       {loss_and_grad(giou_loss_and_grad<const T>), loss_and_grad(diou_loss_and_grad<const T>),
        loss_and_grad(ciou_loss_and_grad<const T>)}) {
    results.add(loss(a, b, out, weighted, sequential));
    results.add(out.data(), 4 * boxes);
  }
  for (const auto loss : {giou_loss<const T>, diou_loss<const T>, ciou_loss<const T>})
    results.add(loss(a, b, weighted, sequential));
  for (const auto loss :
       {giou_loss_unreduced<const T>, diou_loss_unreduced<const T>, ciou_loss_unreduced<const T>}) {
    loss(a, b, losses, weighted, sequential);
    results.add(losses.data(), boxes);
  }
}

template <class T>
void iou_call(placed_memory& memory, result_bytes& results, index_t boxes, index_t others) {
  const auto a = boxes_at<T>(memory, boxes, 1), same = boxes_at<T>(memory, boxes, 2);
  const auto b = boxes_at<T>(memory, others, 3);
  const index_t stride = others + boxes % 3, extent = (boxes - 1) * stride + others;
  const matrix_view<T> out(memory.make<T>(extent), boxes, others, stride);
  const vector_view<T> pairs(memory.make<T>(boxes), boxes);
  for (const auto kind : {iou_kind::iou, iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
    iou_params params;
    params.kind = kind;
    pairwise_iou(a, b, out, params, sequential);
    results.add(out.data(), extent);
    elementwise_iou(a, same, pairs, params, sequential);
    results.add(pairs.data(), boxes);
  }
}

void matching_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto anchors = boxes_at<float>(memory, boxes, 1);
  ground_truth truth;
  truth.boxes = boxes_at<float>(memory, 7, 2);
  truth.classes = labels_view(memory.copy(std::vector<std::int32_t>(7, 5)), 7);
  truth.image_offsets = {memory.copy(std::vector<index_t>{0, 3, 7}), 3};
  truth.regions = boxes_at<float>(memory, 2, 3);
  truth.region_offsets = {memory.copy(std::vector<index_t>{0, 1, 2}), 3};
  match_results out;
  out.matches = vector_view<index_t>(memory.make<index_t>(2 * boxes), 2 * boxes);
  out.labels = vector_view<index_t>(memory.make<index_t>(2 * boxes), 2 * boxes);
  out.best_ious = vector_view<float>(memory.make<float>(2 * boxes), 2 * boxes);
  out.deltas = boxes_view<float>(memory.make<float>(8 * boxes), 2 * boxes);
  out.foreground = vector_view<index_t>(memory.make<index_t>(2), 2);
  match_workspace workspace;
  const auto add = [&] {
    results.add(out.matches.data(), 2 * boxes);
    results.add(out.labels.data(), 2 * boxes);
    results.add(out.best_ious.data(), 2 * boxes);
    results.add(out.deltas.data(), 8 * boxes);
    results.add(out.foreground.data(), 2);
  };
  match_anchors(anchors, truth, out, matcher_params::ssd(), workspace, sequential), add();
  const anchor_index index(anchors, sequential);
  match_anchors(index, truth, out, matcher_params::rpn(), workspace, sequential), add();
}

template <class T>
void nms_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto b = boxes_at<T>(memory, boxes, 1);
  random_generator generator(2);
  std::vector<T> score_values(static_cast<std::size_t>(boxes));
  for (T& score : score_values) score = to<T>(generator.uniform());
  const vector_view<const T> scores(memory.copy(score_values), boxes);
  std::vector<index_t> offset_values{0, boxes / 3, boxes};
  nms_groups groups;
  groups.classes = {memory.copy(random_labels(boxes, 5, 3)), boxes};
  groups.image_offsets = {memory.copy(offset_values), 3};
  nms_workspace workspace;
  for (const nms_params& params :
       {nms_params{}, ipex_nms(0.3), onnx_nms(0.5, 3, true), opencv_nms(0.5, 0.2)}) {
    const auto kept = nms(b, scores, params, workspace, sequential);
    results.add(kept.data(), kept.size());
    const auto of_groups = batched_nms(b, scores, groups, params, workspace, sequential);
    results.add(of_groups.data(), of_groups.size());
  }
  soft_nms_workspace<compute_type<T>> soft_workspace;
  for (const auto method :
       {soft_nms_method::linear, soft_nms_method::gaussian, soft_nms_method::hard}) {
    soft_nms_params params;
    params.method = method;
    const auto soft = soft_nms(b, scores, groups, params, soft_workspace, sequential);
    results.add(soft.kept.data(), soft.kept.size());
    results.add(soft.scores.data(), soft.scores.size());
  }
  if constexpr (!std::is_same<T, double>::value) {
    const index_t rows = 1 + boxes / 7;
    for (const index_t cols : {7, 16, 17, 91, 130}) {
      const index_t stride = cols + 2, extent = (rows - 1) * stride + cols;
      const matrix_view<const T> logits(memory.copy(random_logits<T>(extent, 5)), rows, cols,
                                        stride);
      filter_topk_workspace topk_workspace;
      const auto top = filter_topk(logits, 0.01, 1 + boxes / 2, topk_workspace, sequential);
      results.add(top.elements.data(), top.elements.size());
      results.add(top.logits.data(), top.logits.size());
    }
  }
}

/// A head of two images and as many classes as `length`, of a row stride beyond, in two levels.
template <class T>
void postprocess_call(placed_memory& memory, result_bytes& results, index_t length) {
  const index_t images = 2, anchors = 3 + length % 5, rows = images * anchors;
  const index_t stride = length + length % 3, extent = (rows - 1) * stride + length;
  const std::vector<index_t> level_values{2, anchors - 2};
  const vector_view<const index_t> levels(memory.copy(level_values), 2);
  const std::vector<image_size> size_values{{300, 200}, {100, 400}};
  const vector_view<const image_size> sizes(memory.copy(size_values), images);
  const boxes_view<const float> boxes(memory.copy(random_boxes<float>(anchors, 1)), anchors);
  const matrix_view<const T> logits(memory.copy(random_logits<T>(extent, 2)), rows, length, stride);
  const boxes_view<const T> deltas(memory.copy(random_logits<T>(4 * rows, 3)), rows);
  const vector_view<const T> centerness(memory.copy(random_logits<T>(rows, 4)), rows);
  postprocess_workspace workspace;
  for (const auto& params : {retinanet_postprocess(), fcos_postprocess(), ssd_postprocess()}) {
    head_outputs<T> outputs{logits, deltas, {}};
    if (params.detector == dense_detector::fcos) outputs.centerness = centerness;
    const auto found = postprocess(outputs, boxes, levels, sizes, params, workspace, sequential);
    results.add(found.boxes.data(), 4 * found.boxes.size());
    results.add(found.scores.data(), found.scores.size());
    results.add(found.labels.data(), found.labels.size());
    results.add(found.offsets.data(), found.offsets.size());
  }
}

// ---- RoIAlign

/// As many channels as `length`, or as wide a map of few channels and of many; boxes inside, on the
/// border and outside.
template <class T>
void roi_align_call(placed_memory& memory, result_bytes& results, index_t length) {
  using real = compute_type<T>;
  for (const index_t wide_channels : {0, 3, 19})
    for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
      const bool is_wide = wide_channels > 0;
      const index_t channels = is_wide ? wide_channels : length, width = is_wide ? length : 6;
      const index_t height = 5;
      const index_t rows = 2, columns = 1 + length % 9, images = 2;
      const auto w = static_cast<real>(width), h = static_cast<real>(height);
      const std::vector<real> corners{
          0,  0,  w, h,         -3,    -2,    2, 3,     w - 1,         h - 1, w,   h,   -9, -9,
          -5, -4, 0, real(0.5), w + 3, h + 4, 2, h - 1, w - real(0.5), h,     -50, -90, 70, 80};
      const auto count = static_cast<index_t>(corners.size() / 4);
      const std::vector<index_t> image_of{1, 0, 1, 1, 0, 1, 1};
      roi_boxes<real> boxes;
      boxes.boxes = boxes_view<const real>(memory.copy(corners), count);
      boxes.images = labels_view(memory.copy(image_of), count);
      roi_align_params params;
      params.sampling_ratio = length % 3;
      params.aligned = length % 2 == 0;
      const index_t of_map = images * channels * height * width;
      const index_t of_bins = count * channels * rows * columns;
      T* const map = memory.copy(random_logits<T>(of_map, 1));
      T* const upstream = memory.copy(random_logits<T>(of_bins, 2));
      T* const out = memory.make<T>(of_bins);
      T* const grad = memory.make<T>(of_map);
      roi_align_workspace workspace;
      roi_align(feature_view<const T>(map, images, channels, height, width, layout), boxes,
                feature_view<T>(out, count, channels, rows, columns, layout), params, workspace,
                sequential);
      roi_align_grad(feature_view<const T>(upstream, count, channels, rows, columns, layout), boxes,
                     feature_view<T>(grad, images, channels, height, width, layout), params,
                     workspace, sequential);
      results.add(out, of_bins);
      results.add(grad, of_map);
    }
}

// ---- rows of a softmax, and assigners

void softmax_call(placed_memory& memory, result_bytes& results, index_t rows, index_t cols,
                  index_t padding) {
  const index_t stride = cols + padding, extent = (rows - 1) * stride + cols;
  const matrix_view<const float> x(memory.copy(random_logits<float>(extent, 1)), rows, cols,
                                   stride);
  const matrix_view<float> out(memory.make<float>(extent), rows, cols, stride);
  const vector_view<float> each(memory.make<float>(rows), rows);
  const auto add_each = [&] { results.add(each.data(), rows); };
  const auto add_all = [&] { results.add(out.data(), extent); };
  if (cols >= 2) {
    std::vector<float> positions, shares;
    for (index_t i = 0; i < rows; ++i) {
      positions.push_back(0.375f * static_cast<float>(i % (2 * cols)));
      shares.push_back(static_cast<float>(i % 3));
    }
    distribution_focal_loss_params params;
    params.row_weights = {memory.copy(shares), rows};
    const vector_view<const float> targets(memory.copy(positions), rows);
    results.add(distribution_focal_loss(x, targets, params, sequential));
    results.add(distribution_focal_loss_and_grad(x, targets, out, params, sequential));
    add_all();
    distribution_focal_loss_unreduced(x, targets, each, params, sequential);
    add_each();
    decode_distributions(x, each, sequential);
    add_each();
    const index_t boxes = rows / 4;
    const matrix_view<const float> sides(x.data(), 4 * boxes, cols, stride);
    const matrix_view<const float> points(
        memory.copy(std::vector<float>(static_cast<std::size_t>(2 * boxes), 9.0f)), boxes, 2);
    const vector_view<const float> strides(
        memory.copy(std::vector<float>(static_cast<std::size_t>(boxes), 8.0f)), boxes);
    decode_distribution_boxes(sides, points, strides, {each.data(), boxes}, sequential);
    add_each();
  }
  std::vector<std::int32_t> classes;
  for (index_t i = 0; i < rows; ++i)
    classes.push_back(i % 7 == 2 ? -2 : i % 5 == 3 ? static_cast<std::int32_t>(i % cols) : 0);
  const labels_view labels(memory.copy(classes), rows);
  results.add(softmax_cross_entropy_loss(x, labels, {}, sequential));
  results.add(softmax_cross_entropy_loss_and_grad(x, labels, out, {}, sequential));
  add_all();
  softmax_cross_entropy_loss_unreduced(x, labels, each, {}, sequential);
  add_each();
  softmax_cross_entropy_workspace workspace;
  results.add(softmax_cross_entropy_loss_and_grad(x, labels, {}, out, {}, workspace, sequential));
  add_all();
}

void assigner_call(placed_memory& memory, result_bytes& results, index_t length) {
  const std::vector<grid_size> sizes{{3, length}, {length, 1}};
  const index_t points = 4 * length, boxes = 1 + length % 37;
  std::vector<float> where, about;
  const auto add = [&](index_t column, index_t row, float stride) {
    const float x = static_cast<float>(column) * stride, y = static_cast<float>(row) * stride;
    where.insert(where.end(), {x, y});
    about.insert(about.end(), {x - 20, y - 20, x + 20, y + 20});
  };
  for (index_t i = 0; i < 3 * length; ++i) add(i % length, i / length, 8);
  for (index_t i = 0; i < length; ++i) add(0, i, 16);
  const vector_view<const grid_size> levels(memory.copy(sizes), 2);
  ground_truth truth;
  truth.boxes = boxes_view<const float>(memory.copy(random_boxes<float>(boxes, 1, 200)), boxes);
  truth.classes =
      labels_view(memory.copy(std::vector<index_t>(static_cast<std::size_t>(boxes), 2)), boxes);
  const vector_view<index_t> matches(memory.make<index_t>(points), points);
  const vector_view<float> targets(memory.make<float>(points), points);
  assigner_workspace workspace;
  assign_atss(boxes_view<const float>(memory.copy(about), points), levels, truth, matches, {},
              workspace, sequential);
  results.add(matches.data(), points);
  std::vector<float> scores(static_cast<std::size_t>(3 * points), 0.25f);
  task_aligned_predictions said;
  said.scores = {memory.copy(scores), points, 3};
  said.boxes = boxes_view<const float>(memory.copy(random_boxes<float>(points, 3, 200)), points);
  assign_task_aligned(said, {memory.copy(where), points, 2}, levels, truth, matches, targets, {},
                      workspace, sequential);
  results.add(matches.data(), points);
  results.add(targets.data(), points);
}

}  // namespace

TEST_CASE("memory: a guard page traps") {
  // The tests below rest on it.
  placed_memory memory;
  const auto dies = [&](placement place, index_t element) {
    memory.place = place;
    memory.release();
    volatile char* array = memory.make<char>(100);
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      array[element] = array[element];
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  };
  CHECK(dies({placement::ends_at_guard}, 100));
  CHECK_FALSE(dies({placement::ends_at_guard}, 99));
  CHECK(dies({placement::starts_at_guard}, -1));
  CHECK_FALSE(dies({placement::starts_at_guard}, 0));
}

TEST_CASE("memory: arrays beside inaccessible pages") {
  placed_memory at;
  for (const index_t length : lengths) {
    for_each_problem(length, [&](const family& f, const problem& p) {
      const auto aligned = results_at(at, {placement::offset, 0}, f, p);
      CHECK(results_at(at, {placement::ends_at_guard}, f, p) == aligned);
      CHECK(results_at(at, {placement::starts_at_guard}, f, p) == aligned);
    });
  }
}

TEST_CASE("memory: misaligned arrays") {
  placed_memory at;
  for_each_problem(91, [&](const family& f, const problem& p) {
    const index_t step = f.type == "f64" ? 8 : f.type == "bf16" ? 2 : 4;
    const auto aligned = results_at(at, {placement::offset, 0}, f, p);
    for (index_t offset = step; offset < 64; offset += step) {
      CAPTURE(offset);
      CHECK(results_at(at, {placement::offset, offset}, f, p) == aligned);
    }
  });
}

TEST_CASE("memory: focal loss, float") { focal_loss_memory<float>(); }
TEST_CASE("memory: focal loss, bfloat16") { focal_loss_memory<bfloat16>(); }
TEST_CASE("memory: focal loss, double") { focal_loss_memory<double>(); }

TEST_CASE_TEMPLATE("memory: box coding and box operations", T, float, bfloat16, double) {
  sweep_memory<T>(box_coding_call<T>);
}
TEST_CASE_TEMPLATE("memory: boxes in four arrays", T, float, bfloat16, double) {
  sweep_memory<T>(separate_boxes_call<T>);
}
TEST_CASE("memory: bfloat16 deltas of float boxes") { sweep_memory<bfloat16>(mixed_boxes_call); }
TEST_CASE_TEMPLATE("memory: box losses", T, float, bfloat16, double) {
  sweep_memory<T>(box_loss_call<T>);
}
TEST_CASE_TEMPLATE("memory: IoU", T, float, bfloat16, double) {
  sweep_memory<T>([](placed_memory& memory, result_bytes& results, index_t length) {
    iou_call<T>(memory, results, length, 1 + length % 19);
    iou_call<T>(memory, results, 1 + length % 7, length);
  });
}
TEST_CASE("memory: matching") { sweep_memory<float>(matching_call); }
TEST_CASE_TEMPLATE("memory: NMS, soft-NMS and top-k filter", T, float, bfloat16, double) {
  sweep_memory<T>(nms_call<T>);
}
TEST_CASE("memory: softmax losses and distributions") {
  sweep_memory<float>([](placed_memory& memory, result_bytes& results, index_t length) {
    softmax_call(memory, results, 1 + length % 21, length, length % 3);
    softmax_call(memory, results, length, 1 + length % 19, length % 2);
  });
}
TEST_CASE_TEMPLATE("memory: RoIAlign", T, float, bfloat16, double) {
  sweep_memory<T>(roi_align_call<T>);
}
TEST_CASE("memory: assigners") { sweep_memory<float>(assigner_call); }
TEST_CASE("memory: weights that are empty are not read, wherever they point") {
  placed_memory memory;
  memory.place = {placement::ends_at_guard};
  const vector_view<const float> none(memory.make<float>(0), 0);  // at the inaccessible page
  const index_t rows = 37;
  const auto labels = random_labels(rows, 4, 1);
  const auto a = random_boxes<float>(rows, 2), b = random_boxes<float>(rows, 3);
  const boxes_view<const float> boxes(a);
  focal_loss_params focal;
  smooth_l1_params l1;
  iou_loss_params giou;
  regression_loss_params regression;
  focal.row_weights = l1.box_weights = giou.box_weights = regression.box_weights = none;
  for_each_isa([&](isa) {
    const matrix_view<const float> logits(a.data(), rows, 4);
    CHECK(sigmoid_focal_loss(logits, labels, focal) == sigmoid_focal_loss(logits, labels));
    CHECK(smooth_l1_loss(boxes, b, labels, l1) == smooth_l1_loss(boxes, b, labels));
    CHECK(smooth_l1_loss(boxes, b, box_selection::all(), l1) ==
          smooth_l1_loss(boxes, b, box_selection::all()));
    CHECK(giou_loss(boxes, b, giou) == giou_loss(boxes, b));
    CHECK(regression_loss(boxes, a, b, labels, regression) == regression_loss(boxes, a, b, labels));
  });
}
TEST_CASE("memory: NMS of so many boxes that they are indexed") {
  for (const index_t boxes : {2600, 2601, 4097}) {
    check_placements([&](placed_memory& memory, result_bytes& results) {
      const auto b = boxes_at<float>(memory, boxes, 1);
      random_generator generator(2);
      std::vector<float> values;
      for (index_t i = 0; i < boxes; ++i) values.push_back(to<float>(generator.uniform()));
      nms_workspace workspace;
      const auto kept = nms(b, vector_view<const float>(memory.copy(values), boxes), nms_params{},
                            workspace, sequential);
      results.add(kept.data(), kept.size());
    });
  }
}
TEST_CASE_TEMPLATE("memory: postprocess", T, float, bfloat16) {
  sweep_memory<T>(postprocess_call<T>);
}

// SPDX-License-Identifier: Apache-2.0
// Prints the detected instruction set, then a hash of every function's results on each instruction
// set that this processor has. A line must be the same on every processor that prints it.
//
// No oneTBB threads and no doctest: under an emulator the whole takes seconds.
#include "support/digest.hpp"

#include "digest_detectors.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr execution sequential = execution::sequential;

template <class T>
void soft_target_loss(isa set) {
  const index_t rows = 41, cols = 80;
  const auto logits = finite_logits<T>(rows * cols, 4);
  const matrix_view<const T> x(logits.data(), rows, cols);
  const auto labels = random_labels(rows, cols, 5);
  random_generator generator(6);
  std::vector<float> scores(labels.size());
  for (float& score : scores) score = static_cast<float>(generator.uniform());
  const scored_labels targets{labels, scores};
  std::vector<T> out(logits.size());
  const matrix_view<T> out_view(out.data(), rows, cols);
  digest hash;
  hash.add(sigmoid_focal_loss_and_grad(x, targets, out_view, {}, sequential));
  hash.add(out);
  for (const double exponent : {2.0, 1.5}) {
    quality_focal_params quality;
    quality.beta = exponent;
    hash.add(quality_focal_loss_and_grad(x, targets, out_view, quality, sequential));
    hash.add(out);
    quality_focal_loss_unreduced(x, targets, out_view, quality, sequential);
    hash.add(out);
    varifocal_params varifocal;
    varifocal.gamma = exponent;
    for (const bool through : {true, false}) {
      varifocal.grad_through_factor = through;
      hash.add(varifocal_loss_and_grad(x, targets, out_view, varifocal, sequential));
      hash.add(out);
    }
    varifocal_loss_unreduced(x, targets, out_view, varifocal, sequential);
    hash.add(out);
  }
  hash.add(bce_loss_and_grad(x, targets, out_view, {}, sequential));
  hash.add(out);
  bce_loss_unreduced(x, targets, out_view, {}, sequential);
  hash.add(out);
  for (const double sum :
       {quality_focal_loss(x, targets, {}, sequential), varifocal_loss(x, targets, {}, sequential),
        bce_loss(x, targets, {}, sequential)})
    hash.add(sum);
  hash.print(set, std::string("soft_target_loss/") + dtype_name<T>());
}

template <class T>
void focal_loss(isa set) {
  const index_t rows = 41, cols = 91;
  const auto logits = finite_logits<T>(rows * cols, 1);
  const matrix_view<const T> x(logits.data(), rows, cols);
  const auto labels = random_labels(rows, cols, 2);
  random_generator generator(3);
  std::vector<T> targets(logits.size());
  for (T& t : targets) t = to<T>(generator.chance(0.01) ? generator.uniform() : 0.0);
  std::vector<T> out(logits.size());
  const matrix_view<T> out_view(out.data(), rows, cols);
  for (const double gamma : {2.0, 1.0, 0.0, 1.5}) {
    digest hash;
    focal_loss_params params;
    params.gamma = gamma;
    const auto add_all = [&](const focal_targets<T>& truth) {
      hash.add(sigmoid_focal_loss_and_grad(x, truth, out_view, params, execution::sequential));
      hash.add(out);
      sigmoid_focal_loss_unreduced(x, truth, out_view, params, execution::sequential);
      hash.add(out);
    };
    add_all(labels);
    add_all(matrix_view<const T>(targets.data(), rows, cols));
    hash.print(set,
               std::string("focal_loss/") + dtype_name<T>() + "/gamma " + std::to_string(gamma));
  }
}

/// Boxes of every kind: ordinary ones and, between them, special ones.
template <class T>
struct scene {
  static constexpr index_t count = 333;
  std::vector<T> a_values, b_values, scores;
  std::vector<index_t> classes, labels;
  std::vector<float> weights;
  boxes_view<const T> a, b;

  std::string name;  ///< of its type and kind

  explicit scene(bool with_special)
      : a_values(random_boxes<T>(count, 1)),
        b_values(random_boxes<T>(count, 2)),
        labels(random_labels(count, 5, 3)),
        name(std::string(dtype_name<T>()) + (with_special ? "/special" : "")) {
    if (with_special) {
      const auto special = special_boxes_as<T>();
      std::copy(special.begin(), special.end(), a_values.begin() + 4 * 50);
      std::copy(special.begin(), special.end(), b_values.begin() + 4 * 51);
      std::copy(special.begin(), special.end(), b_values.begin() + 4 * 200);
    }
    a = boxes_view<const T>(a_values);
    b = boxes_view<const T>(b_values);
    random_generator generator(4);
    for (index_t i = 0; i < count; ++i) {
      scores.push_back(to<T>(generator.uniform()));
      classes.push_back(static_cast<index_t>(generator.uniform(0, 5)));
      weights.push_back(static_cast<float>(generator.uniform()));
    }
  }
};

template <class T>
boxes_soa_view<const T> planes(const std::vector<T>& values, index_t count) {
  return {values.data(), values.data() + count, values.data() + 2 * count,
          values.data() + 3 * count, count};
}

template <class T>
void box_coding(isa set, const scene<T>& s) {
  digest hash;
  std::vector<T> out(s.a_values.size()), deltas(s.a_values.size());
  const boxes_view<T> view(out);
  const boxes_view<const T> d(deltas);
  const image_size image = image_size::height_width(400, 500);
  const auto add = [&](const auto& call) {
    call();
    hash.add(out);
  };
  for (const box_format format : {box_format::xyxy, box_format::cxcywh}) {
    coder_params params;
    params.anchors = format;
    params.weight_w = 5;
    distance_params by_size{true, format}, pixels{false, format};
    add([&] { encode_boxes(s.a, s.b, view, params, sequential); });
    deltas = out;
    add([&] { decode_boxes(d, s.b, view, params, sequential); });
    add([&] { decode_boxes(d, s.b, image, view, params, sequential); });
    for (const distance_params& distances : {by_size, pixels}) {
      add([&] { encode_distances(s.a, s.b, view, distances, sequential); });
      add([&] { decode_distances(s.a, s.b, image, view, distances, sequential); });
    }
  }
  const index_t count = s.count;
  const boxes_soa_view<T> soa(out.data(), out.data() + count, out.data() + 2 * count,
                              out.data() + 3 * count, count);
  const auto a = planes(s.a_values, count), b = planes(s.b_values, count);
  add([&] { encode_boxes(a, b, soa, {}, sequential); });
  add([&] { decode_boxes(a, b, image, soa, {}, sequential); });
  const box_format formats[] = {box_format::xyxy, box_format::xywh, box_format::cxcywh};
  for (const box_format from : formats)
    for (const box_format to : formats)
      add([&] { convert_boxes(s.a, from, to, view, sequential); });
  add([&] { clip_boxes(s.a, image, view, sequential); });
  std::vector<T> areas(static_cast<std::size_t>(count));
  box_areas(s.a, areas, sequential);
  hash.add(areas);
  std::vector<std::uint8_t> mask(areas.size());
  large_box_mask(s.a, 100, mask, sequential);
  hash.add(mask);
  hash.print(set, "box_coding/" + s.name);
}

template <class T>
void box_losses(isa set, const scene<T>& s) {
  digest hash;
  std::vector<T> grad(s.a_values.size()), deltas = random_deltas<T>(s.count, 8, 0.4);
  const boxes_view<T> view(grad);
  const std::vector<std::int32_t> narrow(s.labels.begin(), s.labels.end());
  for (const box_selection& selection :
       {box_selection::all(), box_selection(s.labels), box_selection(narrow)}) {
    hash.add(smooth_l1_loss_and_grad(s.a, s.b, selection, view, {}, sequential));
    hash.add(grad);
    for (const box_loss loss :
         {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou}) {
      regression_loss_params params;
      params.loss = loss;
      params.box_weights = s.weights;
      hash.add(regression_loss_and_grad(boxes_view<const T>(deltas), s.b, s.a, selection, view,
                                        params, sequential));
      hash.add(grad);
    }
  }
  hash.add(iou_loss_and_grad(s.a, s.b, view, iou_kind::giou, {}, sequential));
  hash.add(grad);
  hash.add(iou_loss_and_grad(s.a, s.b, view, iou_kind::diou, {}, sequential));
  hash.add(grad);
  hash.add(iou_loss_and_grad(s.a, s.b, view, iou_kind::ciou, {}, sequential));
  hash.add(grad);
  hash.print(set, "box_losses/" + s.name);
}

template <class T>
void iou(isa set, const scene<T>& s) {
  digest hash;
  std::vector<T> pairs(static_cast<std::size_t>(s.count) * 40), each(s.scores.size());
  for (const auto kind : {iou_kind::iou, iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
    for (const empty_iou rule : {empty_iou::nan, empty_iou::zero}) {
      const iou_params params{kind, rule};
      pairwise_iou(s.a, boxes_view<const T>(s.b_values.data(), 40),
                   matrix_view<T>(pairs.data(), s.count, 40), params, sequential);
      hash.add(pairs);
      elementwise_iou(s.a, s.b, each, params, sequential);
      hash.add(each);
    }
  }
  elementwise_iou(planes(s.a_values, s.count), planes(s.b_values, s.count), each, {}, sequential);
  hash.add(each);
  hash.print(set, "iou/" + s.name);
}

template <class T>
void suppression(isa set, const scene<T>& s) {
  digest hash;
  const vector_view<const T> scores(s.scores);
  nms_groups groups;
  groups.classes = s.classes;
  for (const nms_params& params :
       {nms_params::torchvision(0.5), nms_params::onnx(0.5, 20), nms_params::opencv(0.5, 0.1),
        nms_params::mmcv(0.5, true), nms_params::ipex(0.5)}) {
    hash.add(nms(s.a, scores, params, sequential));
    hash.add(batched_nms(s.a, scores, groups, params, sequential));
  }
  const auto add = [&](soft_nms_method method) {
    soft_nms_params params;
    params.method = method;
    soft_nms_workspace<compute_type<T>> workspace;
    const auto kept = soft_nms(s.a, scores, groups, params, workspace, sequential);
    hash.add(kept.kept.data(), static_cast<std::size_t>(kept.kept.size()));
    hash.add(kept.scores.data(), static_cast<std::size_t>(kept.scores.size()));
  };
  add(soft_nms_method::linear);
  add(soft_nms_method::gaussian);
  hash.print(set, "nms/" + s.name);
}

/// A head of three levels for two images.
template <class T>
void detections(isa set) {
  digest hash;
  const std::vector<index_t> levels{150, 40, 11};
  const index_t anchors = 201, images = 2, classes = 21;
  const auto logits = finite_logits<T>(images * anchors * classes, 5);
  const auto centerness = finite_logits<T>(images * anchors, 6);
  std::vector<T> deltas = random_deltas<T>(images * anchors, 8, 0.4);
  for (T& d : deltas) d = to<T>(std::abs(static_cast<double>(d)));  // distances are positive
  const auto boxes = random_boxes<float>(anchors, 7, 300);
  const std::vector<image_size> sizes{image_size::height_width(300, 300),
                                      image_size::height_width(280, 250)};
  filter_topk_workspace search;
  const auto top = filter_topk(matrix_view<const T>(logits.data(), images * anchors, classes), 0.05,
                               700, search, sequential);
  hash.add(top.logits.data(), static_cast<std::size_t>(top.logits.size()));
  hash.add(top.elements.data(), static_cast<std::size_t>(top.elements.size()));
  for (const auto& params : {postprocess_params::retinanet(), postprocess_params::fcos(),
                             postprocess_params::ssd(), postprocess_params::rpn()}) {
    postprocess_workspace workspace;
    const index_t cols = params.detector == dense_detector::rpn ? 1 : classes;
    head_outputs<T> outputs{{logits.data(), images * anchors, cols}, deltas, {}};
    if (params.detector == dense_detector::fcos) outputs.centerness = centerness;
    const auto found =
        postprocess(outputs, boxes_view<const float>(boxes), vector_view<const index_t>(levels),
                    vector_view<const image_size>(sizes), params, workspace, sequential);
    const auto size = static_cast<std::size_t>(found.scores.size());
    hash.add(found.boxes.data(), 4 * size);
    hash.add(found.scores.data(), size);
    hash.add(found.labels.data(), size);
  }
  const auto of_head = random_deltas<T>(anchors * classes, 8, 0.4);
  const std::vector<index_t> offsets{0, 120, anchors};
  postprocess_workspace workspace;
  const auto found =
      postprocess_box_head(box_head_outputs<T>{{logits.data(), anchors, classes}, of_head},
                           boxes_view<const float>(boxes), offsets,
                           vector_view<const image_size>(sizes), {}, workspace, sequential);
  hash.add(found.boxes.data(), static_cast<std::size_t>(4 * found.boxes.size()));
  hash.add(found.scores.data(), static_cast<std::size_t>(found.scores.size()));
  hash.print(set, std::string("detections/") + dtype_name<T>());
}

template <class T>
void roi_align_of_a_pyramid(isa set) {
  digest hash;
  const index_t images = 2, channels = 37, boxes = 30, side = 40;
  const std::vector<double> scales{0.25, 0.125};
  std::vector<T> fine = finite_logits<T>(images * channels * side * side, 1);
  std::vector<T> coarse = finite_logits<T>(images * channels * side * side / 4, 2);
  roi_boxes<compute_type<T>> all;
  const auto corners = random_boxes<compute_type<T>>(boxes, 3, 8 * side);
  std::vector<int> image;
  for (index_t i = 0; i < boxes; ++i) image.push_back(static_cast<int>(i % images));
  all.boxes = boxes_view<const compute_type<T>>(corners);
  all.images = image;
  roi_align_workspace workspace;
  for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc})
    for (const index_t sampling : {0, 2}) {
      multiscale_roi_align_params params;
      params.scales = scales;
      params.sampling_ratio = sampling;
      params.aligned = sampling == 0;
      params.canonical_size = 40;
      params.canonical_level = 2;
      std::vector<T> bins(static_cast<std::size_t>(boxes * channels * 7 * 7));
      const feature_view<T> out(bins.data(), boxes, channels, 7, 7, layout);
      const std::vector<feature_view<const T>> maps{
          {fine.data(), images, channels, side, side, layout},
          {coarse.data(), images, channels, side / 2, side / 2, layout}};
      multiscale_roi_align(vector_view<const feature_view<const T>>(maps), all, out, params,
                           workspace, sequential);
      hash.add(bins);
      std::vector<T> fine_grad(fine.size()), coarse_grad(coarse.size());
      const std::vector<feature_view<T>> grads{
          {fine_grad.data(), images, channels, side, side, layout},
          {coarse_grad.data(), images, channels, side / 2, side / 2, layout}};
      multiscale_roi_align_grad(out, all, vector_view<const feature_view<T>>(grads), params,
                                workspace, sequential);
      hash.add(fine_grad);
      hash.add(coarse_grad);
    }
  hash.print(set, std::string("roi_align/") + dtype_name<T>());
}

void sampling(isa set) {
  const auto labels = random_labels(5000, 20, 7, 0.1);
  const std::vector<index_t> offsets{0, 2000, 5000};
  balanced_sample_params params;
  params.seed = 5;
  balanced_sample_workspace workspace;
  const auto sample = sample_balanced(labels, offsets, params, workspace, sequential);
  digest hash;
  hash.add(sample.indices.data(), static_cast<std::size_t>(sample.indices.size()));
  hash.print(set, "balanced_sample");
}

/// Anchors, and their matches with ground truth on a grid, full of ties.
void matching(isa set, bool with_special) {
  digest hash;
  std::vector<grid_size> features;
  for (index_t stride = 8; stride <= 128; stride *= 2)
    features.push_back({(200 + stride - 1) / stride, (160 + stride - 1) / stride});
  const auto shapes = anchor_shapes::retinanet();
  std::vector<float> anchors(static_cast<std::size_t>(4 * count_anchors(shapes, features)));
  make_anchors(shapes, {200, 160}, features, anchors);
  auto boxes = random_boxes<float>(60, 11, 160, 4);
  if (with_special) {
    const auto special = special_boxes_as<float>();
    boxes.insert(boxes.end(), special.begin(), special.end());
    anchors.insert(anchors.end(), special.begin(), special.end());
  }
  hash.add(anchors);
  const auto regions = random_boxes<float>(2, 12, 160);
  const std::vector<index_t> offsets{0, 10, static_cast<index_t>(boxes.size() / 4)};
  const std::vector<index_t> region_offsets{0, 2, 2};
  ground_truth truth;
  truth.boxes = boxes;
  truth.image_offsets = offsets;
  truth.regions = regions;
  truth.region_offsets = region_offsets;
  std::vector<index_t> matches(anchors.size() / 2), labels(matches.size());
  std::vector<float> ious(matches.size()), deltas(4 * matches.size());
  match_results results;
  results.matches = matches;
  results.labels = labels;
  results.best_ious = ious;
  results.deltas = deltas;
  match_workspace workspace;
  for (matcher_params params : {matcher_params::retinanet(), matcher_params::rpn(),
                                matcher_params::roi(), matcher_params::ssd()}) {
    params.ignore_matched = params.force_best;
    match_anchors(anchor_index(anchors, sequential), truth, results, params, workspace, sequential);
    hash.add(matches);
    hash.add(labels);
    hash.add(ious);
    hash.add(deltas);
  }
  hash.print(set, with_special ? "matching/special" : "matching/regular");
}

/// bfloat16 deltas of boxes in float.
void mixed_types(isa set) {
  digest hash;
  const scene<float> s(true);
  const auto deltas = random_deltas<bfloat16>(s.count, 8, 0.4);
  std::vector<float> out(s.a_values.size());
  std::vector<bfloat16> grad(s.a_values.size());
  const boxes_view<const bfloat16> d(deltas);
  decode_boxes(d, s.a, out, {}, sequential);
  hash.add(out);
  decode_distances(d, s.a, out, {}, sequential);
  hash.add(out);
  regression_loss_params params;
  for (const box_loss loss : {box_loss::smooth_l1, box_loss::ciou}) {
    params.loss = loss;
    hash.add(
        regression_loss_and_grad(d, s.b, s.a, box_selection(s.labels), grad, params, sequential));
    hash.add(grad);
  }
  hash.print(set, "mixed_types");
}

void softmax_losses(isa set) {
  for (const index_t cols : {3, 17, 21, 150}) {
    const index_t rows = 84;
    const auto logits = finite_logits<float>(rows * cols, 5);
    const matrix_view<const float> x(logits.data(), rows, cols);
    std::vector<float> out(logits.size()), each(static_cast<std::size_t>(rows)), targets, points;
    std::vector<index_t> labels;
    for (index_t i = 0; i < rows; ++i) {
      targets.push_back(0.3125f * static_cast<float>(i % (3 * cols)));
      points.push_back(static_cast<float>(i));
      labels.push_back(i % 9 == 4 ? -2 : i % 5 == 1 ? i % cols : 0);
    }
    const matrix_view<float> grad(out.data(), rows, cols);
    digest hash;
    hash.add(distribution_focal_loss_and_grad(x, targets, grad, {}, sequential));
    hash.add(out);
    distribution_focal_loss_unreduced(x, targets, each, {}, sequential);
    hash.add(each);
    decode_distributions(x, each, sequential);
    hash.add(each);
    decode_distribution_boxes(x, {points.data(), rows / 4, 2}, {targets.data(), rows / 4}, each,
                              sequential);
    hash.add(each);
    hash.add(softmax_cross_entropy_loss_and_grad(x, labels, grad, {}, sequential));
    hash.add(out);
    softmax_cross_entropy_loss_unreduced(x, labels, each, {}, sequential);
    hash.add(each);
    hard_negative_mining mining;
    mining.images = 2;
    softmax_cross_entropy_workspace workspace;
    hash.add(
        softmax_cross_entropy_loss_and_grad(x, labels, mining, grad, {}, workspace, sequential));
    hash.add(out);
    hash.print(set, "softmax_losses/" + std::to_string(cols));
  }
}

void assigners(isa set) {
  std::vector<float> points, anchors;
  for (index_t y = 0; y < 20; ++y)
    for (index_t x = 0; x < 30; ++x) {
      const float px = 32 * static_cast<float>(x) + 16, py = 32 * static_cast<float>(y) + 16;
      points.insert(points.end(), {px, py});
      anchors.insert(anchors.end(), {px - 96, py - 96, px + 96, py + 96});
    }
  const std::vector<grid_size> levels{{20, 30}};
  const index_t count = 600;
  const auto boxes = random_boxes<float>(100, 1), predicted = random_boxes<float>(2 * count, 2);
  const auto scores = finite_logits<float>(2 * count * 5, 3);
  const std::vector<index_t> classes(100, 3), offsets{0, 40, 100};
  ground_truth truth;
  truth.boxes = boxes_view<const float>(boxes);
  truth.classes = classes;
  truth.image_offsets = offsets;
  std::vector<index_t> matches(static_cast<std::size_t>(2 * count));
  std::vector<float> targets(matches.size());
  assigner_workspace workspace;
  digest hash;
  assign_atss(boxes_view<const float>(anchors), levels, truth, matches, {}, workspace, sequential);
  hash.add(matches);
  task_aligned_predictions said;
  said.scores = {scores.data(), 2 * count, 5};
  said.boxes = boxes_view<const float>(predicted);
  assign_task_aligned(said, {points.data(), count, 2}, levels, truth, matches, targets, {},
                      workspace, sequential);
  hash.add(matches);
  hash.add(targets);
  hash.print(set, "assigners");
}

template <class T>
void all_functions(isa set) {
  focal_loss<T>(set);
  soft_target_loss<T>(set);
  roi_align_of_a_pyramid<T>(set);
  for (const bool with_special : {false, true}) {
    const scene<T> s(with_special);
    box_coding(set, s);
    iou(set, s);
    suppression(set, s);
    box_losses(set, s);
  }
  if constexpr (!std::is_same<T, double>::value) detections<T>(set);
}

}  // namespace

int main() {
  std::printf("detected %s\n", isa_name(detected_isa()));
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    set_isa(set);
    all_functions<float>(set);
    all_functions<bfloat16>(set);
    all_functions<double>(set);
    mixed_types(set);
    for (const bool with_special : {false, true}) matching(set, with_special);
    softmax_losses(set);
    assigners(set);
    detectors(set);
    sampling(set);
  }
}

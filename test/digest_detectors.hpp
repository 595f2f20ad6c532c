// SPDX-License-Identifier: Apache-2.0
// digest.cpp's levels of heads, whole losses and anchors.
#pragma once

#include "support/digest.hpp"
#include "support/head_tensor.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <string>
#include <vector>

namespace vecdet {
namespace test {

/// A head of three levels of an image of 96 x 128 pixels, with numbers from low to high.
template <class T>
head_tensor<T> seeded_head(head_layout layout, index_t anchors, index_t columns, index_t others,
                           std::uint64_t seed, double low, double high) {
  head_tensor<T> head(layout, 2, anchors, columns, {{12, 16}, {6, 8}, {3, 4}}, others);
  random_generator generator(seed);
  head.for_each([&](T& x, index_t, index_t) { x = to<T>(generator.uniform(low, high)); });
  return head;
}

struct seeded_truth {
  std::vector<float> boxes;
  std::vector<index_t> classes, offsets{0, 7, 12};
  ground_truth truth;

  explicit seeded_truth(index_t first_class) {
    random_generator generator(2);
    for (index_t i = 0; i < 12; ++i) {
      const double x = generator.uniform(0, 100), y = generator.uniform(0, 70);
      for (const double corner : {x, y, x + generator.uniform(8, 60), y + generator.uniform(8, 60)})
        boxes.push_back(static_cast<float>(corner));
      classes.push_back(first_class + i % 5);
    }
    truth.boxes = boxes;
    truth.classes = classes;
    truth.image_offsets = offsets;
  }
};

template <class T>
void add_head(digest& hash, const head_tensor<T>& head) {
  for (const std::vector<T>& level : head.data) hash.add(level);
}

template <class T>
void levels(isa set, head_layout layout, index_t others) {
  const execution sequential = execution::sequential;
  const auto logits = seeded_head<T>(layout, 3, 7, others, 1, -6, 3);
  const auto deltas = seeded_head<T>(layout, 3, 4, others, 2, -0.3, 0.3);
  const auto centers = seeded_head<T>(layout, 3, 1, others, 3, -1, 3);
  auto logits_grad = logits, deltas_grad = deltas;
  const auto rows = static_cast<index_t>(logits.rows());
  const auto labels = random_labels(rows, 7, 4, 0.1);
  const std::vector<float> scores(static_cast<std::size_t>(rows), 0.375f), scales{0.5f, 0.25f};
  const scored_labels scored{labels, scores};
  digest hash;
  hash.add(sigmoid_focal_loss_and_grad(logits.const_view(), labels, logits_grad.view(), scales, {},
                                       sequential));
  add_head(hash, logits_grad);
  hash.add(varifocal_loss_and_grad(logits.const_view(), scored, logits_grad.view(), scales, {},
                                   sequential));
  add_head(hash, logits_grad);
  filter_topk_workspace topk;
  const auto found = filter_topk(logits.const_view(), 0.5, 100, topk, sequential);
  hash.add(found.elements.data(), static_cast<std::size_t>(found.elements.size()));
  const auto anchors = random_boxes<float>(logits.anchors_per_image(), 5);
  const auto truth = random_boxes<float>(rows, 6);
  for (const box_loss loss : {box_loss::smooth_l1, box_loss::ciou}) {
    regression_loss_params params;
    params.loss = loss;
    hash.add(regression_loss_and_grad(deltas.const_view(), anchors, truth, labels,
                                      deltas_grad.view(), scales, params, sequential));
    add_head(hash, deltas_grad);
  }
  const auto targets = random_boxes<T>(rows, 7);
  hash.add(smooth_l1_loss_and_grad(deltas.const_view(), targets, labels, deltas_grad.view(), scales,
                                   {}, sequential));
  add_head(hash, deltas_grad);
  hash.add(iou_loss_and_grad(deltas.const_view(), targets, labels, deltas_grad.view(),
                             iou_kind::diou, scales, {}, sequential));
  add_head(hash, deltas_grad);
  const std::vector<image_size> sizes(2, image_size::height_width(96, 128));
  std::vector<float> boxes(truth.size());
  decode_boxes(deltas.const_view(), anchors, sizes, boxes, {}, sequential);
  hash.add(boxes);
  decode_distances(deltas.const_view(), anchors, sizes, boxes, {}, sequential);
  hash.add(boxes);
  head_level_outputs<T> outputs;
  outputs.logits = logits.const_view();
  outputs.deltas = deltas.const_view();
  for (const auto& params : {postprocess_params::retinanet(), postprocess_params::fcos()}) {
    if (params.detector == dense_detector::fcos) outputs.centerness = centers.const_view();
    postprocess_workspace workspace;
    const auto kept = postprocess(outputs, anchors, sizes, params, workspace, sequential);
    hash.add(kept.boxes.data(), static_cast<std::size_t>(4 * kept.boxes.size()));
    hash.add(kept.scores.data(), static_cast<std::size_t>(kept.scores.size()));
  }
  hash.print(set, std::string("levels/") + dtype_name<T>() +
                      (layout == head_layout::nhwc ? "/nhwc/" : "/nchw/") + std::to_string(others));
}

template <class T>
void whole_losses(isa set, head_layout layout) {
  const execution sequential = execution::sequential;
  digest hash;
  const std::vector<grid_size> features{{12, 16}, {6, 8}, {3, 4}};
  {
    auto shapes = anchor_shapes::retinanet();
    shapes.resize(3);
    std::vector<float> anchors(static_cast<std::size_t>(4 * count_anchors(shapes, features)));
    make_anchors(shapes, {96, 128}, features, anchors);
    hash.add(anchors);
    const auto logits = seeded_head<T>(layout, 9, 5, 0, 1, -6, 3);
    const auto deltas = seeded_head<T>(layout, 9, 4, 0, 2, -1, 1);
    auto logits_grad = logits, deltas_grad = deltas;
    const seeded_truth known(0);
    retinanet_loss_workspace workspace;
    const retinanet_losses losses = retinanet_loss_and_grad<T>(
        {logits.const_view(), deltas.const_view(), logits_grad.view(), deltas_grad.view()},
        anchor_index(boxes_view<const float>(anchors), sequential), known.truth, {}, workspace,
        sequential);
    hash.add(losses.classification);
    hash.add(losses.regression);
    add_head(hash, logits_grad);
    add_head(hash, deltas_grad);
  }
  auto shapes = anchor_shapes::fcos();
  shapes.resize(3);
  std::vector<float> anchors(static_cast<std::size_t>(4 * count_anchors(shapes, features)));
  make_anchors(shapes, {96, 128}, features, anchors);
  hash.add(anchors);
  const auto logits = seeded_head<T>(layout, 1, 5, 1, 1, -6, 3);
  const auto distances = seeded_head<T>(layout, 1, 4, 1, 2, 0.2, 3);
  const auto centers = seeded_head<T>(layout, 1, 1, 1, 3, -2, 2);
  auto logits_grad = logits, distances_grad = distances, centers_grad = centers;
  const seeded_truth known(0);
  fcos_loss_workspace workspace;
  const fcos_losses losses =
      fcos_loss_and_grad<T>({logits.const_view(), distances.const_view(), centers.const_view(),
                             logits_grad.view(), distances_grad.view(), centers_grad.view()},
                            anchors, known.truth, {}, workspace, sequential);
  hash.add(losses.classification);
  hash.add(losses.regression);
  hash.add(losses.centerness);
  add_head(hash, logits_grad);
  add_head(hash, distances_grad);
  add_head(hash, centers_grad);
  hash.print(set, std::string("whole_losses/") + dtype_name<T>() +
                      (layout == head_layout::nhwc ? "/nhwc" : "/nchw"));
}

inline void ssd_loss(isa set) {
  digest hash;
  const std::vector<grid_size> features{{38, 38}, {19, 19}, {10, 10}, {5, 5}, {3, 3}, {1, 1}};
  const index_t count = count_anchors(ssd_shapes(), features), rows = 2 * count, classes = 6;
  std::vector<float> anchors(static_cast<std::size_t>(4 * count));
  make_anchors(ssd_shapes(), {300, 300}, features, anchors);
  hash.add(anchors);
  std::vector<float> points(static_cast<std::size_t>(2 * 38 * 38));
  make_points(features[0], 8, points);
  hash.add(points);
  const auto logits = finite_logits<float>(rows * classes, 1);
  const auto deltas = finite_logits<float>(rows * 4, 2);
  std::vector<float> logits_grad(logits.size()), deltas_grad(deltas.size());
  const seeded_truth known(1);
  ssd_loss_workspace workspace;
  const ssd_losses losses =
      ssd_loss_and_grad({{logits.data(), rows, classes},
                         {deltas.data(), rows},
                         {logits_grad.data(), rows, classes},
                         {deltas_grad.data(), rows}},
                        anchor_index(boxes_view<const float>(anchors), execution::sequential),
                        known.truth, {}, workspace, execution::sequential);
  hash.add(losses.classification);
  hash.add(losses.regression);
  hash.add(logits_grad);
  hash.add(deltas_grad);
  hash.print(set, "ssd_loss");
}

inline void detectors(isa set) {
  for (const head_layout layout : all_layouts) {
    for (const index_t others : {0, 3}) {
      levels<float>(set, layout, others);
      levels<bfloat16>(set, layout, others);
    }
    whole_losses<float>(set, layout);
    whole_losses<bfloat16>(set, layout);
  }
  ssd_loss(set);
}

}  // namespace test
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// test_memory.cpp for levels of heads, whole losses and anchors.
#include "support/placements.hpp"
#include "support/random.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr execution sequential = execution::sequential;
constexpr index_t images = 2;

/// Two levels of tensors, each an array of its own: 1 x length and 2 x 3 locations.
template <class T>
struct placed_head {
  head_layout layout;
  index_t anchors, columns, channels, length;
  std::vector<T*> data;
  std::vector<head_level<const T>> inputs;
  std::vector<head_level<T>> outputs;

  placed_head(placed_memory& memory, head_layout how, index_t a, index_t c, index_t others,
              index_t width, std::uint64_t seed, double low, double high)
      : layout(how), anchors(a), columns(c), channels(c + others), length(width) {
    random_generator generator(seed);
    add(memory, 1, length, generator, low, high);
    add(memory, 2, 3, generator, low, high);
  }

  head_view<const T> in() const { return {inputs, images, anchors, columns, layout, channels}; }
  head_view<T> out() const { return {outputs, images, anchors, columns, layout, channels}; }
  void add_to(result_bytes& results) const {
    for (std::size_t l = 0; l < data.size(); ++l)
      results.add(data[l], images * anchors * channels * inputs[l].height * inputs[l].width);
  }

 private:
  void add(placed_memory& memory, index_t height, index_t width, random_generator& generator,
           double low, double high) {
    std::vector<T> values;
    for (index_t i = 0; i < images * anchors * channels * height * width; ++i)
      values.push_back(to<T>(generator.uniform(low, high)));
    // The last channels are none that count.
    data.push_back(memory.copy(values));
    inputs.push_back({data.back(), height, width});
    outputs.push_back({data.back(), height, width});
  }
};

/// Corners of 8 x 8 about a grid's points.
std::vector<float> grid_anchors(index_t anchors, index_t length) {
  std::vector<float> corners;
  const auto add = [&](index_t width, index_t cells, float stride) {
    for (index_t i = 0; i < anchors * cells; ++i) {
      const float x = static_cast<float>(i / anchors % width) * stride;
      const float y = static_cast<float>(i / anchors / width) * stride;
      const float half = 4 + static_cast<float>(i % anchors) * 3;
      corners.insert(corners.end(), {x - half, y - half, x + half, y + half});
    }
  };
  add(length, length, 8);
  add(3, 6, 16);
  return corners;
}

template <class T>
void levels_call(placed_memory& memory, result_bytes& results, index_t length, head_layout layout,
                 index_t others) {
  constexpr index_t anchors = 2, classes = 3;
  const placed_head<T> logits(memory, layout, anchors, classes, others, length, 1, -4, 4);
  const placed_head<T> grad(memory, layout, anchors, classes, others, length, 1, -4, 4);
  const placed_head<T> boxes(memory, layout, anchors, 4, others, length, 2, -0.5, 0.5);
  const placed_head<T> boxes_grad(memory, layout, anchors, 4, others, length, 2, -0.5, 0.5);
  const index_t count = logits.in().anchors_per_image(), rows = images * count;
  const labels_view labels(memory.copy(random_labels(rows, classes, 3, 0.3)), rows);
  std::vector<float> numbers(static_cast<std::size_t>(rows), 0.25f);
  const scored_labels scored{labels, {memory.copy(numbers), rows}};
  const vector_view<const float> scales(memory.copy(std::vector<float>(images, 0.5f)), images);
  results.add(sigmoid_focal_loss_and_grad(logits.in(), labels, grad.out(), scales, {}, sequential));
  grad.add_to(results);
  results.add(quality_focal_loss_and_grad(logits.in(), scored, grad.out(), scales, {}, sequential));
  grad.add_to(results);
  filter_topk_workspace topk;
  const auto found = filter_topk(logits.in(), 0.5, 40, topk, sequential);
  results.add(found.elements.data(), found.elements.size());
  results.add(found.logits.data(), found.logits.size());

  const boxes_view<const float> a(memory.copy(grid_anchors(anchors, length)), count);
  const boxes_view<const float> truth(memory.copy(random_boxes<float>(rows, 4)), rows);
  results.add(regression_loss_and_grad(boxes.in(), a, truth, labels, boxes_grad.out(), scales, {},
                                       sequential));
  boxes_grad.add_to(results);
  const boxes_view<const T> targets(memory.copy(random_boxes<T>(rows, 5)), rows);
  results.add(
      smooth_l1_loss_and_grad(boxes.in(), targets, labels, boxes_grad.out(), {}, {}, sequential));
  boxes_grad.add_to(results);
  results.add(iou_loss_and_grad(boxes.in(), targets, box_selection::all(), boxes_grad.out(),
                                iou_kind::giou, {}, {}, sequential));
  boxes_grad.add_to(results);
  const std::vector<image_size> sizes(images, image_size::height_width(50, 40));
  const vector_view<const image_size> per_image(memory.copy(sizes), images);
  const boxes_view<float> decoded(memory.make<float>(4 * rows), rows);
  decode_boxes(boxes.in(), a, per_image, decoded, {}, sequential);
  results.add(decoded.data(), 4 * rows);
  decode_distances(boxes.in(), a, {}, decoded, {}, sequential);
  results.add(decoded.data(), 4 * rows);

  head_level_outputs<T> outputs;
  outputs.logits = logits.in();
  outputs.deltas = boxes.in();
  const placed_head<T> centerness(memory, layout, anchors, 1, others, length, 6, -1, 3);
  for (postprocess_params params : {postprocess_params::retinanet(), postprocess_params::fcos()}) {
    params.max_candidates = 30;
    if (params.detector == dense_detector::fcos) outputs.centerness = centerness.in();
    postprocess_workspace workspace;
    const detections_view kept = postprocess(outputs, a, per_image, params, workspace, sequential);
    results.add(kept.boxes.data(), 4 * kept.boxes.size());
    results.add(kept.scores.data(), kept.scores.size());
  }
}

ground_truth placed_truth(placed_memory& memory, const std::vector<index_t>& classes) {
  const auto count = static_cast<index_t>(classes.size());
  random_generator generator(8);
  std::vector<float> boxes;
  for (index_t i = 0; i < count; ++i) {
    const double x = generator.uniform(0, 60), side = generator.uniform(8, 30);
    for (const double corner : {x, -4.0, x + side, side})
      boxes.push_back(static_cast<float>(corner));
  }
  ground_truth truth;
  truth.boxes = boxes_view<const float>(memory.copy(boxes), count);
  truth.classes = labels_view(memory.copy(classes), count);
  const std::vector<index_t> offsets{0, count / 2, count};
  truth.image_offsets = vector_view<const index_t>(memory.copy(offsets), 3);
  return truth;
}

template <class T>
void whole_loss_call(placed_memory& memory, result_bytes& results, index_t length,
                     head_layout layout, index_t others) {
  const ground_truth truth = placed_truth(memory, {0, 1, 2, 1, 0, 2, 1});
  const auto add_losses = [&](const auto& losses) {
    results.add(losses.classification);
    results.add(losses.regression);
    results.add(losses.foreground);
  };
  {
    constexpr index_t anchors = 2;
    const placed_head<T> logits(memory, layout, anchors, 3, others, length, 1, -4, 4);
    const placed_head<T> logits_grad(memory, layout, anchors, 3, others, length, 1, -4, 4);
    const placed_head<T> deltas(memory, layout, anchors, 4, others, length, 2, -1, 1);
    const placed_head<T> deltas_grad(memory, layout, anchors, 4, others, length, 2, -1, 1);
    const index_t count = logits.in().anchors_per_image();
    const anchor_index index(
        boxes_view<const float>(memory.copy(grid_anchors(anchors, length)), count));
    retinanet_loss_workspace workspace;
    add_losses(
        retinanet_loss_and_grad<T>({logits.in(), deltas.in(), logits_grad.out(), deltas_grad.out()},
                                   index, truth, {}, workspace, sequential));
    logits_grad.add_to(results);
    deltas_grad.add_to(results);
  }
  const placed_head<T> logits(memory, layout, 1, 3, others, length, 1, -4, 4);
  const placed_head<T> logits_grad(memory, layout, 1, 3, others, length, 1, -4, 4);
  const placed_head<T> distances(memory, layout, 1, 4, others, length, 2, 0.5, 3);
  const placed_head<T> distances_grad(memory, layout, 1, 4, others, length, 2, 0.5, 3);
  const placed_head<T> centers(memory, layout, 1, 1, others, length, 3, -2, 2);
  const placed_head<T> centers_grad(memory, layout, 1, 1, others, length, 3, -2, 2);
  const index_t count = logits.in().anchors_per_image();
  const boxes_view<const float> anchors(memory.copy(grid_anchors(1, length)), count);
  fcos_loss_workspace workspace;
  const fcos_losses losses =
      fcos_loss_and_grad<T>({logits.in(), distances.in(), centers.in(), logits_grad.out(),
                             distances_grad.out(), centers_grad.out()},
                            anchors, truth, {}, workspace, sequential);
  add_losses(losses);
  results.add(losses.centerness);
  logits_grad.add_to(results);
  distances_grad.add_to(results);
  centers_grad.add_to(results);
}

void ssd_loss_call(placed_memory& memory, result_bytes& results, index_t length) {
  const index_t count = length + 6, rows = images * count, classes = 4;
  random_generator generator(4);
  std::vector<float> x, d;
  for (index_t i = 0; i < rows * classes; ++i)
    x.push_back(static_cast<float>(generator.uniform(-4, 4)));
  for (index_t i = 0; i < 4 * rows; ++i) d.push_back(static_cast<float>(generator.uniform(-1, 1)));
  const ground_truth truth = placed_truth(memory, {3, 1, 2, 1, 3, 2, 1});
  const ssd_head head{{memory.copy(x), rows, classes},
                      {memory.copy(d), rows},
                      {memory.make<float>(rows * classes), rows, classes},
                      {memory.make<float>(4 * rows), rows}};
  const anchor_index index(boxes_view<const float>(memory.copy(grid_anchors(1, length)), count));
  ssd_loss_workspace workspace;
  const ssd_losses losses = ssd_loss_and_grad(head, index, truth, {}, workspace, sequential);
  results.add(losses.classification);
  results.add(losses.regression);
  results.add(head.logits_grad.data(), rows * classes);
  results.add(head.deltas_grad.data(), 4 * rows);
}

void anchors_call(placed_memory& memory, result_bytes& results, index_t length) {
  const std::vector<grid_size> features{{1, length}, {2, 3}};
  const vector_view<const grid_size> levels(memory.copy(features), 2);
  const std::vector<anchor_shapes> shapes{{{8, 10}, {0.5, 1, 2}}, {{30}, {1, 3}}};
  const index_t count = count_anchors(shapes, levels);
  const boxes_view<float> anchors(memory.make<float>(4 * count), count);
  make_anchors(shapes, {40, 8 * length}, levels, anchors);
  results.add(anchors.data(), 4 * count);
  ssd_shapes ssd;
  ssd.ratios = {{2}, {2, 3}};
  ssd.scales = {0.1, 0.3, 0.5};
  ssd.steps = {8, 16};
  const index_t boxes = count_anchors(ssd, levels);
  const boxes_view<float> defaults(memory.make<float>(4 * boxes), boxes);
  make_anchors(ssd, {300, 300}, levels, defaults);
  results.add(defaults.data(), 4 * boxes);
  const index_t locations = length + 6;
  const std::vector<double> strides{8, 16};
  const vector_view<float> points(memory.make<float>(2 * locations), 2 * locations);
  make_points(levels, vector_view<const double>(memory.copy(strides), 2), points);
  results.add(points.data(), 2 * locations);
  const ground_truth truth = placed_truth(memory, {0, 1, 2, 1});
  const boxes_view<const float> about(memory.copy(grid_anchors(1, length)), locations);
  const vector_view<index_t> matches(memory.make<index_t>(2 * locations), 2 * locations);
  assigner_workspace workspace;
  assign_fcos(about, levels, truth, matches, {}, workspace, sequential);
  results.add(matches.data(), 2 * locations);
}

template <class T>
void sweep_levels(void (*call)(placed_memory&, result_bytes&, index_t, head_layout, index_t)) {
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    sweep_memory<T>([&](placed_memory& memory, result_bytes& results, index_t length) {
      call(memory, results, length, layout, 0);
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE("memory: levels of a head", T, float, bfloat16) {
  sweep_levels<T>(levels_call<T>);
}
TEST_CASE_TEMPLATE("memory: whole losses of levels", T, float, bfloat16) {
  sweep_levels<T>(whole_loss_call<T>);
}
TEST_CASE("memory: levels that are channels of a tensor") {
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    for (const index_t length : {1, 5, 16, 33, 130}) {
      check_placements([&](placed_memory& memory, result_bytes& results) {
        levels_call<float>(memory, results, length, layout, 2);
        whole_loss_call<bfloat16>(memory, results, length, layout, 2);
      });
    }
  }
}
TEST_CASE("memory: SSD's loss") { sweep_memory<float>(ssd_loss_call); }
TEST_CASE("memory: anchors and FCOS's assigner") { sweep_memory<float>(anchors_call); }

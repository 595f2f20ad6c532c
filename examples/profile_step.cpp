// SPDX-License-Identifier: Apache-2.0
// A detector's training step under the profiler: matching, focal loss, box loss, box quality and
// postprocessing on RetinaNet's 120,087 anchors of an 800 x 800 image. The backbone is left out;
// its scope stands for the user's own code. Writes profile_step.html to read, profile_step.json for
// vecdet-profile and profile_step.trace.json for Perfetto. examples/profile_step.md explains them.
//
//   profile_step [--reference-matching] [--boxes=1000] [steps] [COCO annotation file]
//
// --reference-matching matches anchors by a plain scalar loop, as in a trainer without
// match_anchors. --boxes generates a scene with that many boxes instead of using a picture.
#include "../bench/support/coco_scene.hpp"
#include "../bench/support/scene.hpp"
#include <vecdet/profile.hpp>
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace vecdet;

constexpr index_t classes = 91;

struct head {
  std::vector<float> logits, logits_grad, deltas, deltas_grad;
};

/// Stands for the user's own network: moves the head's outputs against their gradients.
void backbone(head& h) {
  VECDET_PROFILE_SCOPE("backbone");
  const auto update = [](std::vector<float>& values, const std::vector<float>& grad, float rate) {
    VECDET_PROFILE_WORK("sgd", static_cast<index_t>(values.size()) * 12,
                        static_cast<index_t>(values.size()) * 2, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= rate * grad[i];
  };
  update(h.logits, h.logits_grad, 20.0f);
  update(h.deltas, h.deltas_grad, 2.0f);
}

/// The mean IoU of the foreground's boxes with their ground-truth boxes.
double box_quality(const std::vector<float>& anchors, const bench::picture& truth,
                   const bench::assignment& labels, const head& h, std::vector<float>& boxes,
                   std::vector<float>& overlaps) {
  VECDET_PROFILE_SCOPE("box_quality");
  const std::vector<float> targets = bench::matched_boxes(labels.matches, truth.boxes);
  boxes.resize(h.deltas.size());
  overlaps.resize(labels.matches.size());
  decode_boxes(boxes_view<const float>(h.deltas), anchors, image_size::height_width(800, 800),
               boxes);
  elementwise_iou(boxes_view<const float>(boxes), targets, overlaps);
  double sum = 0;
  for (std::size_t i = 0; i < overlaps.size(); ++i)
    if (labels.matches[i] >= 0) sum += static_cast<double>(overlaps[i]);
  return sum / static_cast<double>(std::max<index_t>(1, labels.foreground));
}

struct options {
  bool reference_matching = false;
  index_t boxes = 0;  ///< 0: use a picture's boxes
  int steps = 20;
  const char* coco_file = nullptr;
};

/// Like bench::assign, which calls the scalar reference.
void match(const anchor_index& anchors, const bench::picture& truth,
           const std::vector<index_t>& box_classes, bench::assignment& labels,
           match_workspace& workspace) {
  const ground_truth boxes{truth.boxes, box_classes};
  match_results results;
  labels.matches.resize(static_cast<std::size_t>(anchors.size()));
  labels.labels.resize(labels.matches.size());
  results.matches = labels.matches;
  results.labels = labels.labels;
  labels.foreground = match_anchors(anchors, boxes, results, {}, workspace);
}

int run(const options& asked) {
  const int steps = asked.steps;
  profile::enable();
  profile::keep_events(1 << 16);
  if (asked.coco_file != nullptr) bench::scene() = bench::typical_picture(asked.coco_file);
  if (asked.boxes > 0) bench::scene() = bench::built_in_picture(asked.boxes);
  const bench::picture& truth = bench::scene();
  std::vector<index_t> box_classes;
  for (const index_t id : truth.classes) box_classes.push_back(id % classes);
  const std::vector<float> anchors = bench::retinanet_anchors();
  const auto count = static_cast<index_t>(anchors.size() / 4);

  head h;
  {
    const bench::assignment labels = bench::assign(anchors, truth, classes);
    h.logits = bench::head_logits<float>(labels.labels, classes);
    h.deltas = bench::head_deltas<float>(count);
  }
  h.logits_grad.assign(h.logits.size(), 0.0f);
  h.deltas_grad.assign(h.deltas.size(), 0.0f);
  const std::vector<index_t> level_sizes = bench::retinanet_level_sizes();
  const std::vector<image_size> image_sizes{image_size::height_width(800, 800)};
  const matrix_view<const float> logits(h.logits.data(), count, classes);
  const head_outputs<float> outputs{logits, boxes_view<const float>(h.deltas), {}};
  const anchor_index index(anchors);
  match_workspace matching;
  bench::assignment labels;
  postprocess_workspace workspace;
  std::vector<float> boxes, overlaps;

  for (int i = 0; i < steps; ++i) {
    VECDET_PROFILE_SCOPE("step");
    backbone(h);
    if (asked.reference_matching) {
      VECDET_PROFILE_WORK("reference matching", 0, 0, count, truth.classes.size());
      labels = bench::assign(anchors, truth, classes);
    } else {
      match(index, truth, box_classes, labels, matching);
    }
    focal_loss_params class_params;
    regression_loss_params box_params;
    class_params.scale = box_params.scale =
        1.0 / static_cast<double>(std::max<index_t>(1, labels.foreground));
    const double focal = sigmoid_focal_loss_and_grad(
        logits, labels.labels, {h.logits_grad.data(), count, classes}, class_params);
    const double regression =
        regression_loss_and_grad(boxes_view<const float>(h.deltas), anchors,
                                 regression_targets<float>(truth.boxes, labels.matches),
                                 labels.labels, h.deltas_grad, box_params);
    const double quality = box_quality(anchors, truth, labels, h, boxes, overlaps);
    const detections_view found = postprocess(
        outputs, boxes_view<const float>(anchors), vector_view<const index_t>(level_sizes),
        vector_view<const image_size>(image_sizes), postprocess_params::retinanet(), workspace);
    std::cout << "step " << i + 1 << " of " << steps << ": focal loss " << focal << ", box loss "
              << regression << ", IoU " << quality << ", " << found.scores.size() << " detections"
              << std::endl;
  }

  profile::disable();
  const profile::report r = profile::full_snapshot();
  profile::write_table(std::cout, r);
  for (const char* file : {"profile_step.html", "profile_step.json", "profile_step.trace.json"}) {
    profile::write_file(file, r);
    std::cout << "wrote " << file << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  options asked;
  std::vector<std::string> plain;
  bool is_usage = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--reference-matching") {
      asked.reference_matching = true;
    } else if (argument.compare(0, 8, "--boxes=") == 0) {
      asked.boxes = std::atoi(argument.c_str() + 8);
      is_usage = is_usage || asked.boxes < 1;
    } else {
      plain.push_back(argument);
    }
  }
  if (!plain.empty()) asked.steps = std::atoi(plain[0].c_str());
  if (plain.size() > 1) asked.coco_file = plain[1].c_str();
  if (is_usage || asked.steps < 1 || plain.size() > 2) {
    std::cerr << "usage: profile_step [--reference-matching] [--boxes=1000] [steps, 20 by default] "
                 "[COCO annotation file]\n";
    return 2;
  }
  try {
    return run(asked);
  } catch (const std::exception& error) {
    std::cerr << "profile_step: " << error.what() << '\n';
    return 1;
  }
}

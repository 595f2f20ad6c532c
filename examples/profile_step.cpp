// SPDX-License-Identifier: Apache-2.0
// A detector's training step under the profiler: matching, box coding, focal loss, box loss and
// postprocessing on RetinaNet's 120,087 anchors of an 800 x 800 image. The backbone is left out;
// its scope stands for the user's own code. Writes profile_step.html to read, profile_step.json for
// vecdet-profile and profile_step.trace.json for Perfetto. examples/profile_step.md reads them.
//
//   profile_step [steps] [COCO annotation file]
#include "../bench/support/coco_scene.hpp"
#include "../bench/support/scene.hpp"
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/nms.hpp>
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <numeric>
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
  const auto update = [](std::vector<float>& values, const std::vector<float>& grad) {
    VECDET_PROFILE_WORK("sgd", static_cast<index_t>(values.size()) * 12,
                        static_cast<index_t>(values.size()) * 2, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 20.0f * grad[i];
  };
  update(h.logits, h.logits_grad);
  update(h.deltas, h.deltas_grad);
}

/// Smooth-L1 of the foreground's deltas, with its gradient.
double box_loss(const std::vector<float>& anchors, const bench::picture& truth,
                const bench::assignment& labels, head& h) {
  VECDET_PROFILE_SCOPE("box_loss");
  const boxes_view<const float> anchor_boxes(anchors), truth_boxes(truth.boxes);
  const double scale = 1.0 / static_cast<double>(std::max<index_t>(1, labels.foreground));
  double loss = 0;
  std::fill(h.deltas_grad.begin(), h.deltas_grad.end(), 0.0f);
  for (std::size_t i = 0; i < labels.matches.size(); ++i) {
    if (labels.matches[i] < 0) continue;
    const auto target =
        reference::encode_box(reference::load_box(truth_boxes, labels.matches[i]),
                              reference::load_box(anchor_boxes, static_cast<index_t>(i)));
    const double wanted[] = {target.x1, target.y1, target.x2, target.y2};
    for (std::size_t k = 0; k < 4; ++k) {
      const double d = static_cast<double>(h.deltas[4 * i + k]) - wanted[k];
      loss += scale * reference::smooth_l1_loss(d, 1.0 / 9);
      h.deltas_grad[4 * i + k] =
          static_cast<float>(0.01 * scale * reference::smooth_l1_loss_grad(d, 1.0 / 9));
    }
  }
  return loss;
}

/// The thousand best scores of each class' boxes, then NMS.
std::size_t postprocess(const std::vector<float>& anchors, const head& h) {
  VECDET_PROFILE_SCOPE("postprocess");
  std::vector<index_t> best(static_cast<std::size_t>(anchors.size() / 4));
  std::vector<float> scores(best.size());
  {
    VECDET_PROFILE_SCOPE("top_k");
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const float* row = h.logits.data() + i * classes;
      scores[i] = *std::max_element(row, row + classes);
    }
    std::iota(best.begin(), best.end(), 0);
    std::partial_sort(best.begin(), best.begin() + 1000, best.end(), [&](index_t a, index_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    best.resize(1000);
  }
  std::vector<float> boxes, kept_scores;
  {
    VECDET_PROFILE_SCOPE("decode");
    const boxes_view<const float> anchor_boxes(anchors), deltas(h.deltas);
    for (const index_t i : best) {
      const auto b = reference::decode_box(reference::load_box(deltas, i),
                                           reference::load_box(anchor_boxes, i));
      for (const double x : {b.x1, b.y1, b.x2, b.y2}) boxes.push_back(static_cast<float>(x));
      kept_scores.push_back(scores[static_cast<std::size_t>(i)]);
    }
  }
  VECDET_PROFILE_SCOPE("nms");
  return reference::nms(boxes_view<const float>(boxes), vector_view<const float>(kept_scores), {})
      .size();
}

int run(int steps, const char* coco_file) {
  profile::enable();
  profile::keep_events(1 << 16);
  if (coco_file != nullptr) bench::scene() = bench::typical_picture(coco_file);
  const bench::picture& truth = bench::scene();
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

  for (int i = 0; i < steps; ++i) {
    VECDET_PROFILE_SCOPE("step");
    backbone(h);
    bench::assignment labels;
    {
      VECDET_PROFILE_WORK("match_anchors", 0, 0, count, truth.classes.size());
      labels = bench::assign(anchors, truth, classes);
    }
    focal_loss_params params;
    params.scale = 1.0 / static_cast<double>(std::max<index_t>(1, labels.foreground));
    const double focal = sigmoid_focal_loss_and_grad(
        matrix_view<const float>(h.logits.data(), count, classes), labels.labels,
        matrix_view<float>(h.logits_grad.data(), count, classes), params);
    const double boxes = box_loss(anchors, truth, labels, h);
    const std::size_t found = postprocess(anchors, h);
    std::cout << "step " << i + 1 << " of " << steps << ": focal loss " << focal << ", box loss "
              << boxes << ", " << found << " boxes after NMS" << std::endl;
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
  const int steps = argc > 1 ? std::atoi(argv[1]) : 20;
  if (steps < 1 || argc > 3) {
    std::cerr << "usage: profile_step [steps, 20 by default] [COCO annotation file]\n";
    return 2;
  }
  try {
    return run(steps, argc > 2 ? argv[2] : nullptr);
  } catch (const std::exception& error) {
    std::cerr << "profile_step: " << error.what() << '\n';
    return 1;
  }
}

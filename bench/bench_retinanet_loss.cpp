// SPDX-License-Identifier: Apache-2.0
// RetinaNet's whole loss at 800 x 800 on a head with five levels, channels last: matching, both
// losses and both gradients, compared with the plain loops of its parts.
#include "plain/focal_loss.hpp"
#include "plain/matching.hpp"
#include "plain/regression_loss.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/retinanet_loss.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t anchor_count = 120087, class_count = 91, anchors_at_location = 9;

struct retinanet {
  const picture objects = built_in_picture();
  std::vector<float> anchors = retinanet_anchors(), logits, deltas, logits_grad, deltas_grad, ious;
  std::vector<index_t> matches, labels;
  std::vector<head_level<const float>> logit_levels, delta_levels;
  std::vector<head_level<float>> logit_grad_levels, delta_grad_levels;
  anchor_index index{anchors, threading::sequential};
  retinanet_loss_workspace workspace;
  plain_match_memory plain_memory;

  retinanet()
      : logits(head_logits<float>(std::vector<index_t>(anchor_count, -1), class_count)),
        deltas(head_deltas<float>(anchor_count)),
        logits_grad(logits.size()),
        deltas_grad(deltas.size()),
        ious(anchor_count),
        matches(anchor_count),
        labels(anchor_count) {
    // In channels last, the levels of one image are parts of one matrix.
    index_t first = 0;
    for (const index_t side : {100, 50, 25, 13, 7}) {
      logit_levels.push_back({logits.data() + first * class_count, side, side});
      delta_levels.push_back({deltas.data() + 4 * first, side, side});
      logit_grad_levels.push_back({logits_grad.data() + first * class_count, side, side});
      delta_grad_levels.push_back({deltas_grad.data() + 4 * first, side, side});
      first += side * side * anchors_at_location;
    }
  }

  double run(threading policy) {
    const index_t a = anchors_at_location;
    const retinanet_head<float> head{{logit_levels, 1, a, class_count, head_layout::nhwc},
                                     {delta_levels, 1, a, 4, head_layout::nhwc},
                                     {logit_grad_levels, 1, a, class_count, head_layout::nhwc},
                                     {delta_grad_levels, 1, a, 4, head_layout::nhwc}};
    const ground_truth truth{objects.boxes, objects.classes};
    const retinanet_losses losses =
        retinanet_loss_and_grad(head, index, truth, {}, workspace, policy);
    return losses.classification + losses.regression;
  }

  double run_plain() {
    VECDET_PLAIN(plain_match_anchors)
    (anchors.data(), anchor_count, objects.boxes.data(), objects.classes.data(), objects.size(),
     matches.data(), labels.data(), ious.data(), plain_memory);
    double loss = VECDET_PLAIN(plain_focal_loss_labels)(
        logits.data(), labels.data(), logits_grad.data(), anchor_count, class_count);
    loss += VECDET_PLAIN(plain_regression_loss_matches<plain_loss::smooth_l1, plain_output::grad>)(
        deltas.data(), anchors.data(), objects.boxes.data(), matches.data(), labels.data(),
        deltas_grad.data(), anchor_count, 0.0f);
    const auto foreground =
        std::count_if(labels.begin(), labels.end(), [](index_t label) { return label >= 0; });
    const float scale = 1.0f / static_cast<float>(std::max<std::ptrdiff_t>(1, foreground));
    for (float& g : logits_grad) g *= scale;
    for (float& g : deltas_grad) g *= scale;
    return loss * scale;
  }
};

const bool registered = [] {
  // An element is a logit; logits, deltas and their gradients are read and written once.
  constexpr double elements = 1.0 * anchor_count * class_count;
  register_with_plain(
      "retinanet_loss_and_grad/smooth_l1/f32/120087x91",
      work{elements, 8.0 * (elements + 4.0 * anchor_count)},
      [] { return std::make_shared<retinanet>(); },
      [](retinanet& data, threading policy) { return data.run(policy); },
      [](retinanet& data) { return data.run_plain(); }, &retinanet::logits_grad);
  show_in_figures("retinanet_loss_and_grad/smooth_l1/f32/120087x91");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench

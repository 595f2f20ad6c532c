// SPDX-License-Identifier: Apache-2.0
// RetinaNet's losses in a trainer of your own: anchors of the image, matching with ground-truth
// boxes, both losses with their gradients, and one descent step. Your network would produce
// `logits` and `deltas`; here they are numbers that the gradients change directly, so both losses
// must fall.
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  using vecdet::index_t;
  constexpr index_t classes = 80, images = 2;
  // The data loader's output: boxes of all images, x1 y1 x2 y2 in pixels, and where each image's
  // boxes end.
  const std::vector<float> boxes{30, 40, 130, 160, 200, 60, 250, 200, 10, 10, 240, 240};
  const std::vector<std::int64_t> box_classes{17, 2, 56};
  const std::vector<index_t> box_offsets{0, 2, 3};
  const vecdet::ground_truth truth{boxes, box_classes, box_offsets};

  // Anchors depend only on the image's shape: the cache creates them, and their index, once per
  // shape.
  vecdet::anchor_cache cache(vecdet::anchor_shapes::retinanet());
  const std::vector<vecdet::grid_size> features{{32, 32}, {16, 16}, {8, 8}, {4, 4}, {2, 2}};
  const vecdet::cached_anchors& anchors = cache.anchors({256, 256}, features);
  const index_t count = images * anchors.boxes().size();

  std::vector<float> logits(static_cast<std::size_t>(count * classes), -4.6f);  // a prior of 0.01
  std::vector<float> deltas(static_cast<std::size_t>(count * 4));
  std::vector<float> logits_grad(logits.size()), deltas_grad(deltas.size());

  // Reused by every step: workspaces grow in the first one; afterwards, nothing is allocated.
  vecdet::match_workspace workspace;
  std::vector<index_t> matches(static_cast<std::size_t>(count)), labels(matches.size());
  std::vector<float> targets(deltas.size());  // the deltas that matched anchors should predict
  vecdet::match_results results;
  results.matches = matches;
  results.labels = labels;
  results.deltas = targets;

  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const index_t foreground = vecdet::match_anchors(
        anchors.index(), truth, results, vecdet::matcher_params::retinanet(), workspace);
    const double scale = 1.0 / static_cast<double>(std::max<index_t>(1, foreground));

    vecdet::focal_loss_params focal;
    focal.scale = scale;
    const double classification = vecdet::sigmoid_focal_loss_and_grad(
        vecdet::matrix_view<const float>(logits.data(), count, classes), labels,
        {logits_grad.data(), count, classes}, focal);

    vecdet::smooth_l1_params smooth;
    smooth.scale = scale;
    const double regression = vecdet::smooth_l1_loss_and_grad(
        vecdet::boxes_view<const float>(deltas), targets, labels, deltas_grad, smooth);

    // The optimizer step: plain gradient descent.
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] -= 40 * logits_grad[i];
    for (std::size_t i = 0; i < deltas.size(); ++i) deltas[i] -= 10 * deltas_grad[i];

    last = classification + regression;
    if (step == 0) first = last;
    if (step % 5 == 0) {
      std::cout << "step " << step << ": " << foreground << " anchors, classification "
                << classification << ", regression " << regression << "\n";
    }
  }
  std::cout << "the loss fell from " << first << " to " << last << "\n";
  return last < 0.5 * first ? 0 : 1;
}

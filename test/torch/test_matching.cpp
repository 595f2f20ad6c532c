// SPDX-License-Identifier: Apache-2.0
// Matching and assigners on tensors, against their definitions in torch's own operators.
#include "support.hpp"

#include <cstdint>
#include <tuple>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace {

using namespace torch_test;

/// torchvision's Matcher on the matrix of IoUs.
Tensor match_by_matrix(const Tensor& ious, double high, double low, bool allow_low_quality,
                       bool force_best) {
  const auto [best, box] = ious.max(0);
  Tensor matches = at::where(best >= high, box, at::where(best >= low, -2, -1).to(at::kLong));
  if (allow_low_quality) {
    const Tensor is_best_of_a_box = (ious == std::get<0>(ious.max(1, true))).any(0);
    matches = at::where(is_best_of_a_box, box, matches);
  }
  if (force_best) {
    const Tensor best_anchors = std::get<1>(ious.max(1));
    for (std::int64_t k = 0; k < best_anchors.size(0); ++k) matches[best_anchors[k]] = k;
  }
  return matches;
}

}  // namespace

TEST_CASE("Matching equals torchvision's, index for index") {
  at::manual_seed(27);
  const Tensor anchors = some_boxes(700), boxes = some_boxes(9), classes = at::arange(9) + 3;
  for (const bool low_quality : {true, false}) {
    for (const bool force_best : {true, false}) {
      const Tensor ious = ops::pairwise_iou(boxes, anchors);
      const auto [matches, labels, best] =
          ops::match_anchors(anchors, boxes, classes, {}, 0.3, 0.2, low_quality, force_best);
      const Tensor expected = match_by_matrix(ious, 0.3, 0.2, low_quality, force_best);
      REQUIRE((expected >= 0).any().item<bool>());
      REQUIRE((expected == -2).any().item<bool>());
      CHECK(at::equal(matches, expected));
      CHECK(at::equal(best, std::get<0>(ious.max(0))));
      CHECK(at::equal(labels, at::where(expected >= 0,
                                        classes.index_select(0, expected.clamp_min(0)), expected)));
    }
  }
  // A batch: indices into all boxes; one image has none.
  const auto [matches, labels, best] = ops::match_anchors(anchors, boxes, classes, {4, 0, 5});
  const Tensor first =
      match_by_matrix(ops::pairwise_iou(boxes.slice(0, 0, 4), anchors), 0.5, 0.4, true, false);
  const Tensor last =
      match_by_matrix(ops::pairwise_iou(boxes.slice(0, 4), anchors), 0.5, 0.4, true, false);
  CHECK(at::equal(matches[0], first));
  CHECK((matches[1] == -1).all().item<bool>());
  CHECK((best[1] == 0).all().item<bool>());
  CHECK(at::equal(matches[2], at::where(last >= 0, last + 4, last)));
  CHECK((labels[1] == -1).all().item<bool>());
  // Crowds: nothing in them is background.
  const Tensor everywhere = at::tensor({-1000.f, -1000.f, 1000.f, 1000.f}).view({1, 4});
  const Tensor crowded = std::get<0>(ops::match_anchors(anchors, boxes, classes, {}, 0.5, 0.4, true,
                                                        false, false, false, everywhere));
  CHECK(!(crowded == -1).any().item<bool>());
  CHECK(at::equal(crowded >= 0,
                  match_by_matrix(ops::pairwise_iou(boxes, anchors), 0.5, 0.4, true, false) >= 0));
  const std::int64_t counts[] = {1};
  CHECK_THROWS_WITH(ops::match_anchors(anchors, boxes, classes, {}, 0.5, 0.4, true, false, false,
                                       false, {}, counts),
                    doctest::Contains("region_counts.size() is 1, expected 0 without regions"));
}

TEST_CASE("Assigners") {
  // Points of a grid of 8 x 8, every 10 pixels, with anchors of 30 x 30 around them.
  const Tensor ticks = at::arange(8).to(at::kFloat) * 10 + 5;
  const Tensor points = at::stack({ticks.repeat({8}), ticks.repeat_interleave(8)}, 1);
  const Tensor anchors = at::cat({points - 15, points + 15}, 1);
  const Tensor boxes = at::tensor({20.f, 20.f, 50.f, 50.f, 38.f, 38.f, 72.f, 72.f}).view({2, 4});
  const std::int64_t size[] = {8, 8};

  // ATSS by its definition, on all anchors whose neighbours do not outnumber the candidates.
  const auto atss = [&](const Tensor& truth) {
    const Tensor ious = ops::pairwise_iou(truth, anchors);
    const Tensor centre = (truth.slice(1, 0, 2) + truth.slice(1, 2, 4)) / 2;
    const Tensor distance = (centre.unsqueeze(1) - points).square().sum(-1);
    const Tensor nearest = std::get<1>(distance.sort(/*stable=*/true, 1, false)).slice(1, 0, 9);
    const Tensor nearest_ious = ious.gather(1, nearest);
    const Tensor threshold = nearest_ious.mean(1, true) + nearest_ious.std(1, true, true);
    const Tensor inside = at::minimum(points - truth.slice(1, 0, 2).unsqueeze(1),
                                      truth.slice(1, 2, 4).unsqueeze(1) - points)
                              .amin(-1) > 0.01;
    const Tensor is_candidate = at::zeros_like(ious).scatter(1, nearest, 1) > 0;
    const Tensor positive = is_candidate.logical_and(ious >= threshold).logical_and(inside);
    const auto [best, box] = at::where(positive, ious, -1).max(0);
    return at::where(best >= 0, box, -1);
  };
  const Tensor matches = ops::assign_atss(anchors, size, boxes);
  REQUIRE((matches == 0).any().item<bool>());
  REQUIRE((matches == 1).any().item<bool>());
  CHECK(at::equal(matches, atss(boxes)));
  const Tensor batch = ops::assign_atss(anchors, size, boxes, {1, 1});
  CHECK(at::equal(batch[0], atss(boxes.slice(0, 0, 1))));
  const Tensor second = atss(boxes.slice(0, 1));
  CHECK(at::equal(batch[1], at::where(second >= 0, second + 1, second)));

  // Task-aligned, for one box: the points with the greatest metrics, and the resulting targets.
  at::manual_seed(28);
  const Tensor scores = at::rand({64, 3}), predicted = anchors + at::rand({64, 4});
  const Tensor box = boxes.slice(0, 0, 1), box_class = at::full({1}, 2, at::kLong);
  const auto [aligned, targets] =
      ops::assign_task_aligned(scores, predicted, points, size, box, box_class, {}, 5);
  const Tensor overlap = ops::pairwise_iou(box, predicted, vecdet::iou_kind::ciou)[0].clamp_min(0);
  const Tensor inside =
      at::minimum(points - box.slice(1, 0, 2), box.slice(1, 2, 4) - points).amin(-1) > 1e-9;
  const Tensor metric = at::where(inside, scores.select(1, 2).sqrt() * overlap.pow(6), 0.);
  const auto [greatest, chosen] = metric.topk(5);
  CHECK(at::equal(aligned, at::full({64}, -1, at::kLong).scatter(0, chosen, 0)));
  const Tensor expected = at::zeros({64}).scatter(
      0, chosen,
      (greatest * overlap.index_select(0, chosen).max() / (greatest.max() + 1e-9)).to(at::kFloat));
  CHECK((targets - expected).abs().max().item<double>() < 1e-4);
}

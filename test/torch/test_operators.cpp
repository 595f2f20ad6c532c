// SPDX-License-Identifier: Apache-2.0
// vecdet/torch.hpp against the formulas in torch's own operators, which autograd differentiates.
#include "support.hpp"

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/autograd/autograd.h>

namespace {

using namespace torch_test;

Tensor focal_formula(const Tensor& x, const Tensor& t, double alpha, double gamma) {
  const Tensor p = x.sigmoid();
  const Tensor ce = at::binary_cross_entropy_with_logits(x, t, {}, {}, none);
  const Tensor p_t = p * t + (1 - p) * (1 - t);
  const Tensor loss = ce * (1 - p_t).pow(gamma);
  return alpha < 0 ? loss : loss * (alpha * t + (1 - alpha) * (1 - t));
}

Tensor iou_formula(const Tensor& a, const Tensor& b, vecdet::iou_kind kind, double eps) {
  const Tensor low = at::maximum(a, b).slice(-1, 0, 2), high = at::minimum(a, b).slice(-1, 2, 4);
  const Tensor side = (high - low).clamp_min(0), inter = side.prod(-1);
  const auto area = [](const Tensor& box) {
    return (box.slice(-1, 2, 4) - box.slice(-1, 0, 2)).prod(-1);
  };
  const Tensor joint = area(a) + area(b) - inter, iou = inter / (joint + eps);
  const Tensor around = at::maximum(a, b).slice(-1, 2, 4) - at::minimum(a, b).slice(-1, 0, 2);
  if (kind == vecdet::iou_kind::giou) {
    const Tensor hull = around.prod(-1);
    return iou - (hull - joint) / (hull + eps);
  }
  const auto centre = [](const Tensor& box) {
    return (box.slice(-1, 2, 4) + box.slice(-1, 0, 2)) / 2;
  };
  const Tensor diou =
      iou - (centre(a) - centre(b)).square().sum(-1) / (around.square().sum(-1) + eps);
  if (kind == vecdet::iou_kind::diou) return diou;
  const auto angle = [](const Tensor& box) {
    return at::atan((box.select(-1, 2) - box.select(-1, 0)) /
                    (box.select(-1, 3) - box.select(-1, 1)));
  };
  const double pi = std::acos(-1.0);
  const Tensor v = (angle(a) - angle(b)).square() * (4 / (pi * pi));
  const Tensor alpha = (v / (1 - iou + v + eps)).detach();
  return diou - alpha * v;
}

}  // namespace

TEST_CASE("sigmoid_focal_loss: labels and dense targets") {
  at::manual_seed(1);
  const Tensor labels = at::randint(-2, 7, {53}, at::kLong);
  const Tensor counted = (labels != -2).to(at::kDouble).unsqueeze(-1);
  for (const at::ScalarType type : types) {
    const Tensor x = (at::randn({53, 7}) * 3).to(type), soft = at::rand({53, 7}).to(type);
    for (const std::int64_t reduction : reductions) {
      for (const double gamma : {2.0, 1.5}) {
        compare(
            [&](const Tensor& z) {
              return ops::sigmoid_focal_loss(z, labels, 0.25, gamma, reduction);
            },
            [&](const Tensor& z) {
              return reduced(focal_formula(z, hot_rows(labels, 7), 0.25, gamma) * counted,
                             reduction);
            },
            x);
        compare(
            [&](const Tensor& z) { return ops::sigmoid_focal_loss(z, soft, -1, gamma, reduction); },
            [&](const Tensor& z) {
              return reduced(focal_formula(z, soft.to(at::kDouble), -1, gamma), reduction);
            },
            x);
      }
    }
  }
}

TEST_CASE("sigmoid_focal_loss: scale, row weights, other labels and shapes") {
  at::manual_seed(2);
  const Tensor x = at::randn({2, 9, 5}, at::kDouble), weights = at::rand({2, 9});
  const Tensor labels = at::randint(0, 6, {2, 9}, at::kInt);  // 5 is background
  compare(
      [&](const Tensor& z) {
        return ops::sigmoid_focal_loss(z, labels, 0.25, 2, sum, 0.5, weights, 5, 99);
      },
      [&](const Tensor& z) {
        const Tensor t = hot_rows(labels.flatten(), 5).view({2, 9, 5});
        return (focal_formula(z, t, 0.25, 2) * weights.to(at::kDouble).unsqueeze(-1)).sum() * 0.5;
      },
      x);
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, {13}, {3, 1, 4, 2}, {0, 5}, {4, 0}}) {
    const Tensor z = at::randn(shape, at::kDouble), t = at::rand(shape, at::kDouble);
    compare([&](const Tensor& y) { return ops::sigmoid_focal_loss(y, t); },
            [&](const Tensor& y) { return focal_formula(y, t, 0.25, 2); }, z);
  }
  CHECK(std::isnan(
      ops::sigmoid_focal_loss(at::empty({0, 5}), at::empty({0, 5}), 0.25, 2, mean).item<double>()));
  // A sum beyond float16's range is infinite.
  CHECK(std::isinf(ops::sigmoid_focal_loss(at::full({4000, 9}, 50, at::kHalf),
                                           at::full({4000}, -1, at::kLong), 0.25, 2, sum)
                       .item<float>()));
}

TEST_CASE("smooth_l1_loss") {
  at::manual_seed(3);
  const Tensor labels = at::randint(-2, 3, {41}, at::kLong);
  for (const at::ScalarType type : types) {
    const Tensor x = at::randn({41, 4}).to(type), t = at::randn({41, 4}).to(type);
    for (const std::int64_t reduction : reductions) {
      compare(
          [&](const Tensor& z) { return ops::smooth_l1_loss(z, t, 0.5, reduction); },
          [&](const Tensor& z) { return at::smooth_l1_loss(z, t.to(at::kDouble), reduction, 0.5); },
          x);
      compare([&](const Tensor& z) { return ops::smooth_l1_loss(z, t, 0.5, reduction, labels); },
              [&](const Tensor& z) {
                const Tensor chosen = (labels >= 0).to(at::kDouble).unsqueeze(-1);
                const Tensor losses = at::smooth_l1_loss(z, t.to(at::kDouble), none, 0.5) * chosen;
                return reduction == mean ? losses.sum() / (4 * chosen.sum())
                                         : reduced(losses, reduction);
              },
              x);
    }
  }
  CHECK(std::isnan(
      ops::smooth_l1_loss(at::rand({3, 4}), at::rand({3, 4}), 1, mean, at::full({3}, -1, at::kLong))
          .item<double>()));
}

TEST_CASE("IoU losses") {
  at::manual_seed(4);
  using vecdet::iou_kind;
  for (const iou_kind kind : {iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const Tensor b = some_boxes(37).to(type), a = b + at::randn({37, 4}).to(type);
      const Tensor weights = at::rand({37});
      for (const std::int64_t reduction : reductions) {
        compare(
            [&](const Tensor& z) { return ops::iou_loss(z, b, kind, reduction, 1e-7, 2, weights); },
            [&](const Tensor& z) {
              return reduced((1 - iou_formula(z, b.to(at::kDouble), kind, 1e-7)) * 2 * weights,
                             reduction);
            },
            a);
      }
    }
    const Tensor boxes = some_boxes(6).view({2, 3, 4});
    CHECK(ops::iou_loss(boxes, boxes, kind).sizes() == at::IntArrayRef({2, 3}));
    CHECK(ops::iou_loss(at::empty({0, 4}), at::empty({0, 4}), kind, mean).item<double>() == 0);
  }
}

TEST_CASE("regression_loss") {
  at::manual_seed(5);
  const Tensor anchors = some_boxes(60).to(at::kDouble);
  const Tensor truth = some_boxes(7).to(at::kDouble);
  const Tensor matches = at::randint(-2, 7, {60}, at::kLong);
  const Tensor chosen = (matches >= 0).nonzero().squeeze(1);
  const Tensor own = truth.index_select(0, matches.index_select(0, chosen));
  const Tensor at_anchors = anchors.index_select(0, chosen);
  const Tensor deltas = at::randn({60, 4}, at::kDouble) * 0.3;
  compare(
      [&](const Tensor& z) {
        return ops::regression_loss(z, anchors, truth, matches, {}, ops::regression::smooth_l1,
                                    0.1);
      },
      [&](const Tensor& z) {
        return at::smooth_l1_loss(z.index_select(0, chosen), ops::encode_boxes(own, at_anchors),
                                  sum, 0.1);
      },
      deltas);
  compare(
      [&](const Tensor& z) {
        return ops::regression_loss(z, anchors, truth, matches, {}, ops::regression::giou);
      },
      [&](const Tensor& z) {
        const Tensor d = z.index_select(0, chosen);
        const Tensor size = at_anchors.slice(1, 2, 4) - at_anchors.slice(1, 0, 2);
        const Tensor centre = at_anchors.slice(1, 0, 2) + size / 2 + d.slice(1, 0, 2) * size;
        const Tensor half = size * d.slice(1, 2, 4).exp() / 2;
        const Tensor boxes = at::cat({centre - half, centre + half}, 1);
        return (1 - iou_formula(boxes, own, vecdet::iou_kind::giou, 1e-7)).sum();
      },
      deltas);
  // One box per anchor and labels give the same.
  const Tensor one_each = truth.index_select(0, matches.clamp_min(0));
  const double loss = ops::regression_loss(deltas, anchors, truth, matches).item<double>();
  CHECK(ops::regression_loss(deltas, anchors, one_each, {}, matches).item<double>() == loss);
  // Deltas of bfloat16 on anchors of float.
  const Tensor narrow = ops::regression_loss(deltas.to(at::kBFloat16), anchors.to(at::kFloat),
                                             truth.to(at::kFloat), matches);
  CHECK((narrow.scalar_type() == at::kBFloat16));
  CHECK(narrow.item<double>() == doctest::Approx(loss).epsilon(0.02));
}

TEST_CASE("Box coding") {
  at::manual_seed(6);
  const Tensor anchors = some_boxes(33), boxes = some_boxes(33);
  const double weights[] = {10, 10, 5, 5};
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensor a = anchors.to(type), b = boxes.to(type);
    const Tensor deltas = ops::encode_boxes(b, a, weights);
    CHECK((deltas.scalar_type() == type));
    CHECK(near(ops::decode_boxes(deltas, a, weights), b));
    CHECK(near(ops::decode_distances(ops::encode_distances(b, a), a), b));
    CHECK(near(ops::decode_distances(ops::encode_distances(b, a, false), a, false), b));
    const double image[] = {30, 50};  // height, width
    const Tensor clipped = ops::decode_boxes(deltas, a, weights, image);
    CHECK(clipped.select(1, 2).max().item<double>() == 50);
    CHECK(clipped.select(1, 3).max().item<double>() == 30);
  }
  // Only an infinite limit leaves sizes unbounded.
  const Tensor wide = at::tensor({0.f, 0.f, 6.f, 0.f}).view({1, 4});
  const Tensor unit = at::tensor({0.f, 0.f, 1.f, 1.f}).view({1, 4});
  const auto width = [&](double limit) {
    const Tensor box = ops::decode_boxes(wide, unit, {}, {}, limit);
    return (box.select(1, 2) - box.select(1, 0)).item<double>();
  };
  CHECK(width(std::log(1000.0 / 16)) == doctest::Approx(62.5));
  CHECK(width(std::numeric_limits<double>::infinity()) == doctest::Approx(std::exp(6.0)));
  CHECK((ops::decode_boxes(wide.to(at::kBFloat16), unit).scalar_type() == at::kFloat));
  CHECK((ops::decode_boxes(wide.to(at::kHalf), unit.to(at::kHalf)).scalar_type() == at::kHalf));
}

TEST_CASE("IoU") {
  at::manual_seed(7);
  using vecdet::iou_kind;
  const Tensor a = some_boxes(19).to(at::kDouble), b = some_boxes(23).to(at::kDouble);
  for (const iou_kind kind : {iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
    const Tensor wide_a = a.unsqueeze(1).expand({19, 23, 4});
    const Tensor wide_b = b.unsqueeze(0).expand({19, 23, 4});
    const Tensor exact = iou_formula(wide_a, wide_b, kind, 0);
    CHECK((ops::pairwise_iou(a, b, kind) - exact).abs().max().item<double>() < 1e-6);
    CHECK((ops::elementwise_iou(wide_a, wide_b, kind) - exact).abs().max().item<double>() < 1e-6);
  }
  CHECK(ops::pairwise_iou(a, at::empty({0, 4})).sizes() == at::IntArrayRef({19, 0}));
}

TEST_CASE("NMS and related functions") {
  const Tensor boxes =
      at::tensor({0.f, 0.f, 10.f, 10.f, 1.f, 1.f, 11.f, 11.f, 50.f, 50.f, 60.f, 60.f}).view({3, 4});
  const Tensor scores = at::tensor({0.5f, 0.9f, 0.7f});
  CHECK(at::equal(ops::nms(boxes, scores, 0.5), at::tensor({1, 2}, at::kLong)));
  CHECK(at::equal(ops::batched_nms(boxes, scores, at::tensor({3, 8, 3}), 0.5),
                  at::tensor({1, 2, 0}, at::kLong)));
  for (const at::ScalarType type : types)
    CHECK(at::equal(ops::nms(boxes.to(type), scores.to(type), 0.5), at::tensor({1, 2}, at::kLong)));
  CHECK(ops::nms(at::empty({0, 4}), at::empty({0}), 0.5).numel() == 0);
  const auto [kept, left] = ops::soft_nms(boxes, scores);
  CHECK(at::equal(kept, at::tensor({1, 2, 0}, at::kLong)));
  CHECK(left[2].item<float>() == doctest::Approx(0.5 * (1 - 81.0 / 119)));
  const auto [logits, elements] = ops::filter_topk(at::tensor({-9.f, 2.f, 3.f, -1.f}), 0.5, 5);
  CHECK(at::equal(elements, at::tensor({2, 1}, at::kLong)));
  CHECK(at::equal(logits, at::tensor({3.f, 2.f})));
}

TEST_CASE("postprocess") {
  at::manual_seed(8);
  const Tensor anchors = some_boxes(50), logits = at::randn({2, 50, 3}) - 1;
  const Tensor deltas = at::randn({2, 50, 4}) * 0.1;
  const double sizes[] = {90, 100, 80, 70};
  const std::int64_t levels[] = {30, 20};
  const auto [boxes, scores, labels, offsets] =
      ops::postprocess(logits, deltas, anchors, sizes, levels, ops::detector::retinanet, 0.05, 20);
  REQUIRE(offsets.numel() == 3);
  const double heights[] = {90, 80}, widths[] = {100, 70};
  for (std::int64_t image = 0; image < 2; ++image) {
    std::vector<Tensor> found_boxes, found_scores, found_labels;
    for (std::int64_t first : {0, 30}) {
      const std::int64_t end = first == 0 ? 30 : 50;
      const auto [best, elements] = ops::filter_topk(logits[image].slice(0, first, end), 0.05, 20);
      const Tensor row = at::floor_divide(elements, 3) + first;
      const double size[] = {heights[image], widths[image]};
      found_boxes.push_back(ops::decode_boxes(deltas[image].index_select(0, row),
                                              anchors.index_select(0, row), {}, size));
      found_scores.push_back(best.sigmoid());
      found_labels.push_back(elements.remainder(3));
    }
    const Tensor b = at::cat(found_boxes), s = at::cat(found_scores), l = at::cat(found_labels);
    const Tensor kept = ops::batched_nms(b, s, l, 0.5);
    const auto begin = offsets[image].item<std::int64_t>();
    const auto end = offsets[image + 1].item<std::int64_t>();
    CHECK(near(boxes.slice(0, begin, end), b.index_select(0, kept)));
    CHECK(near(scores.slice(0, begin, end), s.index_select(0, kept)));
    CHECK(at::equal(labels.slice(0, begin, end), l.index_select(0, kept)));
  }
}

TEST_CASE("postprocess: wanted classes, thresholds and groups of classes") {
  at::manual_seed(8);
  const Tensor anchors = some_boxes(50), logits = at::randn({1, 50, 3}) - 1;
  const Tensor deltas = at::randn({1, 50, 4}) * 0.1;
  const double sizes[] = {90, 100}, thresholds[] = {0.3, 0.05, 0.2};
  const std::int64_t wanted[] = {2, 0}, groups[] = {4, -4, 4};
  const auto run = [&](double iou_threshold, at::IntArrayRef classes,
                       at::ArrayRef<double> class_thresholds, at::IntArrayRef class_groups) {
    return ops::postprocess(logits, deltas, anchors, sizes, {}, ops::detector::retinanet, 0.05,
                            1000, iou_threshold, 300, {}, {}, 4, 0, classes, class_thresholds,
                            class_groups);
  };
  const auto [boxes, scores, labels, offsets] = run(0.5, {}, {}, {});
  const Tensor chosen =
      labels.eq(0).logical_and(scores.gt(0.3)).logical_or(labels.eq(2).logical_and(scores.gt(0.2)));
  const auto [own_boxes, own_scores, own_labels, own_offsets] = run(0.5, wanted, thresholds, {});
  CHECK((own_labels.numel() > 0 && own_labels.numel() < labels.numel()));
  CHECK(at::equal(own_boxes, boxes.index({chosen})));
  CHECK(at::equal(own_labels, labels.index({chosen})));
  const auto [all_boxes, all_scores, all_labels, all_offsets] = run(1, {}, {}, {});
  const auto [joint_boxes, joint_scores, joint_labels, joint_offsets] = run(0.5, {}, {}, groups);
  const Tensor kept = ops::batched_nms(all_boxes, all_scores, all_labels.eq(1), 0.5);
  CHECK(at::equal(joint_boxes, all_boxes.index_select(0, kept)));
  const std::int64_t none_such[] = {3};
  CHECK_THROWS_WITH(run(0.5, none_such, {}, {}), doctest::Contains("classes[0] is 3"));
}

TEST_CASE("Strides: what kernels read in place, and what is copied") {
  at::manual_seed(9);
  const Tensor labels = at::randint(-1, 6, {4, 10}, at::kLong);
  const Tensor wide = at::randn({4, 10, 9});
  const struct {
    const char* name;
    Tensor logits;
    int copies;
  } cases[] = {{"contiguous", at::randn({4, 10, 6}), 0},
               {"columns of wider rows", wide.slice(2, 1, 7), 0},
               {"every other row", at::randn({4, 20, 6}).slice(1, 0, 20, 2), 0},
               {"rows of some images", at::randn({4, 12, 6}).slice(1, 0, 10), 1},
               {"transposed", at::randn({4, 6, 10}).transpose(1, 2), 1},
               {"expanded", at::randn({1, 10, 6}).expand({4, 10, 6}), 1}};
  for (const auto& c : cases) {
    INFO(std::string(c.name));
    Tensor loss, expected;
    CHECK(copies([&] { loss = ops::sigmoid_focal_loss(c.logits, labels); }) == c.copies);
    CHECK(copies([&] { expected = ops::sigmoid_focal_loss(c.logits.contiguous(), labels); }) == 0);
    CHECK(at::equal(loss, expected));
    const Tensor input = c.logits.detach().requires_grad_();
    const Tensor grad =
        gradient(ops::sigmoid_focal_loss(input, labels, 0.25, 2, sum), input, at::ones({}));
    const Tensor plain = c.logits.contiguous().detach().requires_grad_();
    CHECK(at::equal(
        grad, gradient(ops::sigmoid_focal_loss(plain, labels, 0.25, 2, sum), plain, at::ones({}))));
  }
  const Tensor rows = at::randn({20, 6}), boxes = rows.slice(1, 0, 4);
  CHECK(copies([&] { ops::pairwise_iou(boxes, some_boxes(3)); }) == 1);
}

TEST_CASE("backward: twice with a retained graph, in place without, and never of a gradient") {
  at::manual_seed(10);
  const Tensor labels = at::randint(-1, 4, {30}, at::kLong);
  const Tensor x = at::randn({30, 4}).requires_grad_();
  const Tensor loss = ops::sigmoid_focal_loss(x, labels, 0.25, 2, sum) * 3;
  const Tensor first = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true)[0];
  const Tensor second = torch::autograd::grad({loss}, {x})[0];
  CHECK(at::equal(first, second));
  CHECK(error_of([&] { torch::autograd::grad({loss}, {x}); }).find("second time") !=
        std::string::npos);

  const Tensor again = ops::sigmoid_focal_loss(x, labels, 0.25, 2, sum) * 3;
  const Tensor grad =
      torch::autograd::grad({again}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  CHECK(at::equal(grad.detach(), first));
  CHECK(error_of([&] {
          torch::autograd::grad({(grad * grad).sum() + x.sum()}, {x});
        }).find("cannot be differentiated again") != std::string::npos);

  // A gradient that the caller keeps is not overwritten by the next one.
  const Tensor plain = ops::sigmoid_focal_loss(x, labels, 0.25, 2, sum);
  plain.backward({}, /*retain_graph=*/true);
  const Tensor kept = x.grad().clone();
  plain.backward();
  CHECK(near(x.grad(), kept * 2));
}

TEST_CASE("Inputs that are modified or need no gradient") {
  at::manual_seed(11);
  const Tensor labels = at::randint(-1, 4, {30}, at::kLong);
  const Tensor leaf = at::randn({30, 4}).requires_grad_();
  // The gradient is known before the logits are overwritten.
  const Tensor x = leaf * 1;
  const Tensor loss = ops::sigmoid_focal_loss(x, labels, 0.25, 2, sum);
  const Tensor expected = torch::autograd::grad({loss}, {x}, {}, true)[0];
  x.mul_(2);
  CHECK(at::equal(torch::autograd::grad({loss}, {leaf})[0], expected));

  const c10::InferenceMode inference;
  CHECK(!ops::sigmoid_focal_loss(at::randn({30, 4}), labels).requires_grad());
}

TEST_CASE("Errors have the library's text") {
  const Tensor x = at::randn({5, 3}), labels = at::zeros({5}, at::kLong), boxes = some_boxes(5);
  const Tensor tracked = at::rand({5, 3}).requires_grad_();
  const struct {
    std::function<void()> call;
    const char* text;
  } cases[] = {
      {[&] { ops::sigmoid_focal_loss(x, labels + 7); },
       "vecdet::sigmoid_focal_loss_unreduced: labels[0] is 7, expected 0 to "},
      {[&] { ops::sigmoid_focal_loss(x, labels, 0.25, -1); }, "params.gamma is -1, expected"},
      {[&] { ops::sigmoid_focal_loss(x, labels, 0.25, 2, 7); },
       "vecdet::sigmoid_focal_loss: reduction is 7, expected 0 (none), 1 (mean) or 2 (sum)"},
      {[&] {
         ops::sigmoid_focal_loss(x, at::rand({3, 5}));
       },
       "vecdet::sigmoid_focal_loss: targets.shape is [3, 5], expected the logits' shape"},
      {[&] { ops::sigmoid_focal_loss(x.to(at::kInt), labels); },
       "vecdet::sigmoid_focal_loss: logits.dtype is Int, expected float32"},
      {[&] { ops::sigmoid_focal_loss(x, labels, 0.25, 2, 0, 1, at::rand({2})); },
       "params.row_weights.size() is 2, expected 0 or "},
      {[&] { ops::sigmoid_focal_loss(x, labels, 0.25, 2, 0, 1, at::ones({5}, at::kComplexFloat)); },
       "row_weights.dtype is ComplexFloat, expected real numbers"},
      // Also if the scale of the mean, which is smaller, is a float.
      {[&] { ops::smooth_l1_loss(boxes, boxes, 0.1, at::Reduction::Mean, {}, 0x1p129); },
       "params.scale is 6.8056473384187693e+38, expected a finite float"},
      {[&] {
         ops::iou_loss(boxes, boxes, vecdet::iou_kind::giou, at::Reduction::Mean, 1e-7, 0x1p129);
       },
       "params.scale is 6.8056473384187693e+38, expected a finite float"},
      {[&] { ops::softmax_cross_entropy_loss(x, labels, at::Reduction::Mean, 0x1p129); },
       "params.scale is 6.8056473384187693e+38, expected a finite float"},
      {[&] { ops::sigmoid_focal_loss(x, tracked); },
       "vecdet::sigmoid_focal_loss: targets requires a gradient, expected a tensor without"},
      {[&] { ops::iou_loss(x, x, vecdet::iou_kind::giou); },
       "vecdet::iou_loss: predicted.shape is [5, 3], expected"},
      {[&] { ops::iou_loss(boxes, boxes.slice(0, 1), vecdet::iou_kind::giou); },
       "vecdet::iou_loss: targets.shape is [4, 4], expected the shape of the predicted boxes"},
      {[&] { ops::nms(boxes, at::rand({5}), 1.5); }, "params.iou_threshold is 1.5, expected"},
      {[&] { ops::nms(boxes, at::rand({4}), 0.5); },
       "vecdet::nms: scores.shape is [4], expected [N], one per box"},
      {[&] { ops::batched_nms(boxes, at::rand({5}), at::rand({4}), 0.5); },
       "vecdet::batched_nms: classes.shape is [4], expected one number per box"},
      {[&] { ops::clip_boxes(boxes, 7.0); },
       "vecdet::clip_boxes: image_size.size() is 1, expected"},
      {[&] { ops::box_areas(boxes.unsqueeze(0)); },
       "vecdet::box_areas: boxes.shape is [1, 5, 4], expected [N, 4]"},
      {[&] { ops::large_boxes(boxes, -1); }, "min_size is -1, expected"},
      {[&] { ops::convert_boxes(boxes, vecdet::box_format::xyxy, vecdet::box_format(5)); },
       "vecdet::convert_boxes: to is 5, expected 0 (xyxy)"},
      {[&] {
         ops::decode_boxes(boxes, boxes, {1.0, 2.0});
       },
       "vecdet::decode_boxes: weights.size() is 2, expected 4"},
      {[&] { ops::filter_topk(x.to(at::kDouble), 0.5, 3); },
       "vecdet::filter_topk: logits.dtype is Double, expected float32"},
      {[&] { ops::iou_loss(boxes.to_sparse(), boxes, vecdet::iou_kind::giou); },
       "vecdet::_iou_loss"},
      {[&] { ops::iou_loss(boxes, boxes, vecdet::iou_kind::iou); },
       "vecdet::iou_loss: kind is 0, expected 1 (GIoU), 2 (DIoU) or 3 (CIoU)"},
      {[&] { ops::pairwise_iou(boxes.detach().requires_grad_(), boxes).sum().backward(); },
       "vecdet::pairwise_iou is not implemented"},
  };
  for (const auto& c : cases) {
    const std::string text = error_of(c.call);
    INFO(text);
    CHECK(text.find(std::string(c.text)) != std::string::npos);
  }
}

TEST_CASE("Results are bit-identical on any number of threads, and called from several at a time") {
  at::manual_seed(12);
  const Tensor x = at::randn({20000, 8}), boxes = some_boxes(20000), scores = at::rand({20000});
  const Tensor labels = at::randint(-1, 8, {20000}, at::kLong);
  const auto results = [&] {
    const Tensor input = x.detach().requires_grad_();
    const Tensor loss = ops::sigmoid_focal_loss(input, labels, 0.25, 2, sum);
    return std::vector<Tensor>{loss.detach(), torch::autograd::grad({loss}, {input})[0],
                               ops::batched_nms(boxes, scores, labels, 0.5)};
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<Tensor> expected = results();
  for (const int count : {2, 3, 7}) {
    at::set_num_threads(count);
    const std::vector<Tensor> found = results();
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(found[i], expected[i]));
  }
  at::set_num_threads(2);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int repetition = 0; repetition < 3; ++repetition) {
        const std::vector<Tensor> found = results();
        for (std::size_t i = 0; i < expected.size(); ++i)
          wrong += !at::equal(found[i], expected[i]);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
  // Inside one of ATen's parallel loops.
  at::parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      wrong += !at::equal(ops::batched_nms(boxes, scores, labels, 0.5), expected[2]);
  });
  CHECK(wrong == 0);
  at::set_num_threads(threads);
}

TEST_CASE("Autocast computes in float32") {
  const Tensor x = at::randn({30, 4}).to(at::kBFloat16).requires_grad_();
  const Tensor labels = at::randint(-1, 4, {30}, at::kLong);
  CHECK((ops::sigmoid_focal_loss(x, labels).scalar_type() == at::kBFloat16));
  const autocast enabled;
  const Tensor loss = ops::sigmoid_focal_loss(x, labels, 0.25, 2, sum);
  CHECK((loss.scalar_type() == at::kFloat));
  CHECK((torch::autograd::grad({loss}, {x})[0].scalar_type() == at::kBFloat16));
  CHECK((ops::nms(some_boxes(3).to(at::kBFloat16), at::rand({3}), 0.5).scalar_type() == at::kLong));
}

TEST_CASE("Tensors without data have results of the same shapes and types") {
  const Tensor x = at::randn({7, 3}), labels = at::zeros({7}, at::kLong), boxes = some_boxes(7);
  const Tensor m_x = without_data(x), m_labels = without_data(labels);
  const Tensor m_boxes = without_data(boxes);
  for (const std::int64_t reduction : reductions) {
    check_same_shape(ops::sigmoid_focal_loss(m_x, m_labels, 0.25, 2, reduction),
                     ops::sigmoid_focal_loss(x, labels, 0.25, 2, reduction));
    check_same_shape(ops::smooth_l1_loss(m_boxes, m_boxes, 0.1, reduction),
                     ops::smooth_l1_loss(boxes, boxes, 0.1, reduction));
    check_same_shape(ops::iou_loss(m_boxes, m_boxes, vecdet::iou_kind::ciou, reduction),
                     ops::iou_loss(boxes, boxes, vecdet::iou_kind::ciou, reduction));
  }
  check_same_shape(ops::regression_loss(m_boxes, m_boxes, m_boxes),
                   ops::regression_loss(boxes, boxes, boxes));
  check_same_shape(ops::decode_boxes(m_boxes.to(at::kBFloat16), m_boxes),
                   ops::decode_boxes(boxes.to(at::kBFloat16), boxes));
  check_same_shape(ops::encode_boxes(m_boxes, m_boxes), ops::encode_boxes(boxes, boxes));
  check_same_shape(ops::pairwise_iou(m_boxes, m_boxes), ops::pairwise_iou(boxes, boxes));
  check_same_shape(ops::elementwise_iou(m_boxes, m_boxes), ops::elementwise_iou(boxes, boxes));
  using vecdet::box_format;
  check_same_shape(ops::convert_boxes(m_boxes, box_format::xywh, box_format::xyxy),
                   ops::convert_boxes(boxes, box_format::xywh, box_format::xyxy));
  check_same_shape(ops::clip_boxes(m_boxes, {50.0, 60.0}), ops::clip_boxes(boxes, {50.0, 60.0}));
  for (const at::ScalarType type : types)
    check_same_shape(ops::box_areas(m_boxes.to(type)), ops::box_areas(boxes.to(type)));
}

// SPDX-License-Identifier: Apache-2.0
// The reference IoU and IoU losses against golden vectors, finite differences, and properties.
#include "support/data.hpp"
#include "support/values.hpp"
#include <vecdet/reference/iou.hpp>
#include <vecdet/reference/iou_loss.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using reference::box;
using reference::box_of;
using reference::iou_kind;

namespace {

const iou_kind all_kinds[] = {iou_kind::iou, iou_kind::giou, iou_kind::diou, iou_kind::ciou};

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

box random_box(test::random_generator& generator) {
  const double x = generator.uniform(-50, 150);
  const double y = generator.uniform(-50, 150);
  return {x, y, x + generator.uniform(5, 150), y + generator.uniform(5, 150)};
}

box shifted(const box& b, double x, double y) { return {b.x1 + x, b.y1 + y, b.x2 + x, b.y2 + y}; }

double& coordinate(box& b, int k) { return k == 0 ? b.x1 : k == 1 ? b.y1 : k == 2 ? b.x2 : b.y2; }

}  // namespace

TEST_CASE("reference IoU: floats bit-identical to torchvision's") {
  if (!test::has_data("golden/iou.npy", "reference IoU: floats bit-identical to torchvision's"))
    return;
  const auto a = test::golden<float>("iou_a").values;
  const auto b = test::golden<float>("iou_b").values;
  const auto expected = test::golden<float>("iou");
  index_t nan_count = 0;
  for (index_t i = 0; i < expected.shape[0]; ++i) {
    for (index_t j = 0; j < expected.shape[1]; ++j) {
      const auto p = reference::load_box<float>(boxes_view<const float>(a), i);
      const auto q = reference::load_box<float>(boxes_view<const float>(b), j);
      const float golden = expected.matrix()(i, j);
      CHECK(same_bits(reference::iou(p, q), golden));
      nan_count += std::isnan(golden);
      if (std::isnan(golden)) CHECK(reference::iou(p, q, reference::empty_union::zero) == 0);
    }
  }
  MESSAGE("0/0 in the golden vectors: " << nan_count);
}

TEST_CASE("reference IoU: worked examples") {
  const box a = {0, 0, 10, 10};
  const box inner = {0, 0, 10, 3};
  CHECK(reference::iou(a, inner) == 0.3);
  CHECK(reference::iou(a, a) == 1);
  CHECK(reference::iou(a, {10, 0, 20, 10}) == 0);
  CHECK(reference::giou(a, {10, 0, 20, 10}) == 0);
  CHECK(reference::giou(a, {20, 0, 30, 10}) == doctest::Approx(-1.0 / 3));
  CHECK(reference::diou(a, {10, 0, 20, 10}) == doctest::Approx(-100.0 / 500));
  CHECK(reference::ciou(a, {10, 0, 20, 10}) == doctest::Approx(-100.0 / 500));
  // 0.3 as a float is above 0.3: suppressed by a threshold in double, kept by one in float.
  const float third = reference::iou(box_of<float>{0, 0, 10, 10}, box_of<float>{0, 0, 10, 3});
  CHECK(static_cast<double>(third) > 0.3);
  CHECK(!(third > 0.3f));
}

TEST_CASE("reference IoU: properties") {
  test::random_generator generator(31);
  for (int i = 0; i < 2000; ++i) {
    const box a = random_box(generator);
    const box b = random_box(generator);
    for (const iou_kind kind : all_kinds) {
      const double value = reference::iou_of_kind(kind, a, b);
      const double scale = generator.uniform(0.5, 4);
      const auto scaled = [&](const box& c) {
        return box{scale * c.x1, scale * c.y1, scale * c.x2, scale * c.y2};
      };
      CHECK(value == doctest::Approx(reference::iou_of_kind(kind, b, a)).epsilon(1e-12));
      CHECK(value ==
            doctest::Approx(reference::iou_of_kind(kind, shifted(a, 7, -90), shifted(b, 7, -90)))
                .epsilon(1e-9));
      CHECK(value ==
            doctest::Approx(reference::iou_of_kind(kind, scaled(a), scaled(b))).epsilon(1e-8));
      CHECK(value <= 1);
      CHECK(value <= reference::iou(a, b) + 1e-15);
      CHECK(value >= -2);
    }
  }
}

TEST_CASE("reference IoU: degenerate boxes") {
  const box point = {4, 4, 4, 4};
  CHECK(std::isnan(reference::iou(point, point)));
  CHECK(reference::iou(point, point, reference::empty_union::zero) == 0);
  CHECK(reference::iou(point, {0, 0, 10, 10}) == 0);
  CHECK(std::isnan(reference::iou(box{NAN, 0, 1, 1}, box{0, 0, 1, 1})));
  for (const auto& first : test::special_boxes())
    for (const auto& second : test::special_boxes())
      for (const iou_kind kind : all_kinds) {
        const box a = {first[0], first[1], first[2], first[3]};
        const box b = {second[0], second[1], second[2], second[3]};
        const double value = reference::iou_of_kind(kind, a, b);
        const double swapped = reference::iou_of_kind(kind, b, a);
        CHECK((value == swapped || (std::isnan(value) && std::isnan(swapped)) ||
               std::abs(value - swapped) < 1e-12));
      }
}

TEST_CASE("reference IoU losses: golden vectors") {
  if (!test::has_data("golden/pair_pred.npy", "reference IoU losses: golden vectors")) return;
  const auto predicted = test::golden<float>("pair_pred").values;
  const auto target = test::golden<float>("pair_target").values;
  const char* names[] = {"giou", "diou", "ciou"};
  for (int k = 0; k < 3; ++k) {
    CAPTURE(names[k]);
    const auto loss = test::golden<double>(std::string("pair_") + names[k] + "_loss").values;
    const auto grad = test::golden<double>(std::string("pair_") + names[k] + "_grad").values;
    double worst_loss = 0;
    double worst_grad = 0;
    for (index_t i = 0; i < static_cast<index_t>(loss.size()); ++i) {
      reference::box_loss mine = reference::iou_loss(
          all_kinds[k + 1], reference::load_box(boxes_view<const float>(predicted), i),
          reference::load_box(boxes_view<const float>(target), i));
      worst_loss = std::fmax(worst_loss, std::abs(mine.loss - loss[static_cast<std::size_t>(i)]));
      const box expected = reference::load_box(boxes_view<const double>(grad), i);
      const double largest = std::fmax(std::fmax(std::abs(expected.x1), std::abs(expected.y1)),
                                       std::fmax(std::abs(expected.x2), std::abs(expected.y2)));
      for (int c = 0; c < 4; ++c) {
        box e = expected;
        worst_grad = std::fmax(worst_grad, std::abs(coordinate(mine.grad, c) - coordinate(e, c)) /
                                               std::fmax(largest, 1e-6));
      }
    }
    CHECK(worst_loss < 1e-13);
    CHECK(worst_grad < 1e-11);
  }
}

TEST_CASE("reference IoU losses: the gradient is the loss's slope") {
  test::random_generator generator(32);
  const double h = 1e-5;
  for (int i = 0; i < 500; ++i) {
    const box predicted = random_box(generator);
    const box target = random_box(generator);
    // CIoU is left out: its alpha is constant in the gradient, but not in the loss.
    for (const iou_kind kind : {iou_kind::iou, iou_kind::giou, iou_kind::diou}) {
      box grad = reference::iou_loss(kind, predicted, target).grad;
      for (int k = 0; k < 4; ++k) {
        box up = predicted;
        box down = predicted;
        coordinate(up, k) += h;
        coordinate(down, k) -= h;
        const double slope = (reference::iou_loss(kind, up, target).loss -
                              reference::iou_loss(kind, down, target).loss) /
                             (2 * h);
        CHECK(std::abs(coordinate(grad, k) - slope) < 1e-8);
      }
    }
    // CIoU by its parts: the gradient of alpha v at constant alpha is alpha times the gradient of
    // v.
    const double alpha_v = reference::iou_loss(iou_kind::ciou, predicted, target).loss -
                           reference::iou_loss(iou_kind::diou, predicted, target).loss;
    const double v = reference::aspect_difference(predicted, target);
    box ciou_grad = reference::iou_loss(iou_kind::ciou, predicted, target).grad;
    box diou_grad = reference::iou_loss(iou_kind::diou, predicted, target).grad;
    for (int k = 0; k < 4; ++k) {
      box up = predicted;
      box down = predicted;
      coordinate(up, k) += h;
      coordinate(down, k) -= h;
      const double slope =
          alpha_v / v *
          (reference::aspect_difference(up, target) - reference::aspect_difference(down, target)) /
          (2 * h);
      CHECK(std::abs(coordinate(ciou_grad, k) - coordinate(diou_grad, k) - slope) < 1e-7);
    }
  }
}

TEST_CASE("reference IoU losses: gradient with respect to the deltas") {
  test::random_generator generator(33);
  const reference::coder_weights weights = {10, 10, 5, 5};
  const double h = 1e-5;
  for (int i = 0; i < 300; ++i) {
    const box anchor = random_box(generator);
    const box target = random_box(generator);
    const box deltas = {generator.uniform(-5, 5), generator.uniform(-5, 5),
                        generator.uniform(-3, 3), generator.uniform(-3, 3)};
    for (const iou_kind kind : {iou_kind::giou, iou_kind::diou}) {
      const auto loss = [&](const box& d) {
        return reference::iou_loss_of_deltas(kind, d, anchor, target, weights).loss;
      };
      box grad = reference::iou_loss_of_deltas(kind, deltas, anchor, target, weights).grad;
      for (int k = 0; k < 4; ++k) {
        box up = deltas;
        box down = deltas;
        coordinate(up, k) += h;
        coordinate(down, k) -= h;
        CHECK(std::abs(coordinate(grad, k) - (loss(up) - loss(down)) / (2 * h)) < 1e-8);
      }
    }
  }
  // Beyond the clamp, the size has no influence.
  const box grad =
      reference::iou_loss_of_deltas(iou_kind::giou, {0, 0, 9, 0}, {0, 0, 8, 8}, {0, 0, 9, 9}).grad;
  CHECK(grad.x2 == 0);
  CHECK(grad.y2 != 0);
}

TEST_CASE("reference IoU losses: equal sides share the gradient") {
  const box same = {0, 0, 10, 10};
  const auto giou = reference::iou_loss(iou_kind::giou, same, same);
  CHECK(std::abs(giou.loss) < 1e-8);
  // Everything cancels, because union, intersection and hull all grow at half the width's rate.
  CHECK(std::abs(giou.grad.x1) < 1e-9);
  CHECK(std::abs(giou.grad.x2) < 1e-9);
  // The shared right side adds 5 per pixel to the intersection and 10 to the area, so 5 to the
  // union.
  const auto plain = reference::iou_loss(iou_kind::iou, same, {0, 0, 10, 20}, 0);
  CHECK(plain.grad.x2 == doctest::Approx(-(5.0 / 200 - 100.0 / 200 * 5 / 200)));
}

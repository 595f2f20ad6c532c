// SPDX-License-Identifier: Apache-2.0
// The ProbIoU loss and its gradient: golden vectors, the reference and finite differences, on every
// instruction set; every convention of angles, weights, scale, degenerate boxes, bad arguments.
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/rotated_rows.hpp"
#include "support/values.hpp"
#include <vecdet/prob_iou.hpp>
#include <vecdet/prob_iou_loss.hpp>
#include <vecdet/reference/prob_iou.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto ultralytics = angle_convention::ultralytics;

/// Predicted boxes and targets near them.
template <class T>
struct pairs {
  std::vector<T> predicted, targets;

  pairs(index_t count, std::uint64_t seed, double ratio, double turn) {
    random_generator generator(seed);
    for (index_t i = 0; i < count; ++i) {
      const double side = generator.uniform(20, 100), other = side / generator.uniform(1, ratio);
      const bool is_wide = generator.chance(0.5);
      const double box[] = {generator.uniform(0, 500), generator.uniform(0, 500),
                            is_wide ? side : other, is_wide ? other : side,
                            generator.uniform(-turn, turn)};
      const double noise = std::pow(10, generator.uniform(-6, -0.5));
      for (int k = 0; k < 5; ++k) {
        predicted.push_back(static_cast<T>(box[k]));
        const double size = k == 4 ? turn : k < 2 ? std::min(side, other) : box[k];
        targets.push_back(static_cast<T>(box[k] + noise * size * generator.uniform(-1, 1)));
      }
    }
  }
};

/// Compares loss and gradient of all pairs with the reference.
template <class T>
void check_against_reference(const pairs<T>& p, angle_convention angles) {
  const index_t count = rows_of(p.predicted).rows();
  std::vector<T> grad(p.predicted.size()), each(static_cast<std::size_t>(count));
  const double sum =
      prob_iou_loss_and_grad(rows_of(p.predicted), rows_of(p.targets), angles, rows_of(grad));
  prob_iou_loss_unreduced(rows_of(p.predicted), rows_of(p.targets), angles, vector_view<T>(each));
  CHECK(prob_iou_loss(rows_of(p.predicted), rows_of(p.targets), angles) == sum);
  const bool is_degrees = static_cast<int>(angles) < 3;
  const bool is_clockwise = angles == angle_convention::opencv || angles == ultralytics ||
                            angles == angle_convention::mmcv;
  const double per_angle =
      (is_degrees ? 3.14159265358979323846 / 180 : 1) * (is_clockwise ? 1 : -1);
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  double total = 0;
  for (index_t i = 0; i < count; ++i) {
    const auto box = reference::load_rotated_box(rows_of(p.predicted), i, angles);
    const auto exact = reference::prob_iou_loss_of(
        box, reference::load_rotated_box(rows_of(p.targets), i, angles));
    total += exact.loss;
    const double loss = static_cast<double>(each[static_cast<std::size_t>(i)]);
    const double sizes[] = {std::max(box.w, box.h), std::max(box.w, box.h), box.w, box.h, 1};
    double largest = 0;
    for (int k = 0; k < 5; ++k) largest = std::max(largest, std::abs(exact.grad[k] * sizes[k]));
    bool is_near = std::abs(loss - exact.loss) <= 1e-12 + epsilon * exact.loss;
    for (int k = 0; k < 5; ++k) {
      const double g = static_cast<double>(grad[static_cast<std::size_t>(5 * i + k)]);
      const double wanted = exact.grad[k] * (k == 4 ? per_angle : 1);
      const double unit = k == 4 ? std::abs(per_angle) : 1;
      is_near = is_near && std::abs(g - wanted) <=
                               epsilon * std::abs(wanted) + 1e-9 * largest * unit / sizes[k];
    }
    if (is_near) continue;
    FAIL_CHECK("pair " << i << ": loss " << loss << ", exact " << exact.loss);
    return;
  }
  CHECK(std::abs(sum - total) <= 1e-12 * static_cast<double>(count + 1));
}

}  // namespace

TEST_CASE_TEMPLATE("ProbIoU loss: golden vectors", T, float, double) {
  if (!has_data("golden_rotated/prob_loss.npy", "golden vectors of the ProbIoU loss")) return;
  const auto predicted = golden_rotated<T, float>("prob_loss_a");
  const auto targets = golden_rotated<T, float>("prob_loss_b");
  const auto losses = golden_rotated<double>("prob_loss");
  const auto grads = golden_rotated<double>("prob_loss_grad");
  for_each_isa([&](isa) {
    std::vector<T> grad(predicted.size()), each(losses.size());
    prob_iou_loss_and_grad(rows_of(predicted), rows_of(targets), ultralytics, rows_of(grad));
    prob_iou_loss_unreduced(rows_of(predicted), rows_of(targets), ultralytics,
                            vector_view<T>(each));
    const double within = std::is_same<T, float>::value ? 1e-7 : 1e-10;
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(std::abs(static_cast<double>(each[i]) - losses[i]) <= within);
    for (std::size_t i = 0; i < grads.size(); ++i)
      CHECK(std::abs(static_cast<double>(grad[i]) - grads[i]) <= within * (1 + std::abs(grads[i])));
  });
}

TEST_CASE_TEMPLATE("ProbIoU loss: random pairs", T, float, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (int convention = 0; convention < 6; ++convention)
      for (const index_t count : {0, 1, 7, 8, 15, 16, 17, 31, 33, 600})
        for (const double ratio : {1.0, 3.0, 40.0})
          check_against_reference(pairs<T>(count, ++seed, ratio, convention < 3 ? 180 : 3.2),
                                  static_cast<angle_convention>(convention));
  });
}

TEST_CASE("ProbIoU loss: finite differences") {
  pairs<double> p(40, 3, 5, 3);
  std::vector<double> grad(p.predicted.size());
  prob_iou_loss_and_grad(rows_of(p.predicted), rows_of(p.targets), ultralytics, rows_of(grad));
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const double at = p.predicted[i], step = 1e-6;
    const auto loss = [&](double x) {
      p.predicted[i] = x;
      return prob_iou_loss(matrix_view<const double>(&p.predicted[i / 5 * 5], 1, 5),
                           matrix_view<const double>(&p.targets[i / 5 * 5], 1, 5), ultralytics);
    };
    const double slope = (loss(at + step) - loss(at - step)) / (2 * step);
    p.predicted[i] = at;
    // Very near the target, the loss bends within the step.
    const double here = loss(at);
    if (here > 0.05) CHECK(grad[i] == doctest::Approx(slope).epsilon(1e-4).scale(0.01));
  }
}

TEST_CASE_TEMPLATE("ProbIoU loss: weights, scale, memory of the prediction", T, float, double) {
  for_each_isa([](isa) {
    const pairs<T> p(21, 5, 5, 3);
    std::vector<float> weights(21, 1.0f);
    weights[0] = 0, weights[1] = 2.5f, weights[2] = -1, weights[20] = 0.5f;
    std::vector<T> plain(p.predicted.size()), each(21), weighted(plain), grad(plain);
    prob_iou_loss_and_grad(rows_of(p.predicted), rows_of(p.targets), ultralytics, rows_of(plain));
    prob_iou_loss_unreduced(rows_of(p.predicted), rows_of(p.targets), ultralytics,
                            vector_view<T>(each));
    prob_iou_loss_params params;
    params.scale = 0.25;
    params.box_weights = weights;
    const double sum = prob_iou_loss_and_grad(rows_of(p.predicted), rows_of(p.targets), ultralytics,
                                              rows_of(weighted), params);
    double expected = 0;
    for (std::size_t i = 0; i < 21; ++i)
      expected += 0.25 * static_cast<double>(weights[i]) * static_cast<double>(each[i]);
    CHECK(sum == doctest::Approx(expected).epsilon(1e-6));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const double factor = 0.25 * static_cast<double>(weights[i / 5]);
      CHECK(static_cast<double>(weighted[i]) ==
            doctest::Approx(factor * static_cast<double>(plain[i])).epsilon(1e-6));
    }
    std::vector<T> shared = p.predicted;
    prob_iou_loss_and_grad(rows_of(shared), rows_of(p.targets), ultralytics, rows_of(shared),
                           params);
    CHECK(same_bits(shared, weighted));
    params.scale = 0;
    CHECK(prob_iou_loss_and_grad(rows_of(p.predicted), rows_of(p.targets), ultralytics,
                                 rows_of(grad), params) == 0);
    CHECK(std::all_of(grad.begin(), grad.end(), [](T g) { return g == 0; }));
  });
}

TEST_CASE_TEMPLATE("ProbIoU loss: equal boxes, far boxes, no area, NaN", T, float, double) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for_each_isa([&](isa) {
    const std::vector<std::vector<T>> boxes{{10, 10, 8, 4, 1}, {1000, 10, 8, 4, 1},
                                            {10, 10, 8, 0, 1}, {10, 10, 0, 0, 0},
                                            {12, 11, 0, 6, 2}, {10, 10, 4, 8, 1}};
    for (const auto& a : boxes)
      for (const auto& b : boxes) {
        std::vector<T> grad(5, nan);
        const double loss =
            prob_iou_loss_and_grad(rows_of(a), rows_of(b), ultralytics, rows_of(grad));
        T iou;
        elementwise_prob_iou(rows_of(a), rows_of(b), ultralytics, vector_view<T>(&iou, 1));
        CHECK(std::abs(1 - loss - static_cast<double>(iou)) <= 1e-5);
        CHECK(std::all_of(grad.begin(), grad.end(), [](T g) { return std::isfinite(g); }));
        if (a == b) CHECK(std::all_of(grad.begin(), grad.end(), [](T g) { return g == 0; }));
      }
    // Long sides without area.
    for (const T side : {T(1e6), T(1e10), T(1e15)}) {
      const std::vector<T> a{0, 0, side, 0, 0}, b{side, side, side, T(1e-3), 0},
          c{0, 0, side, side, 1};
      for (const auto& x : {a, b, c})
        for (const auto& y : {a, b, c}) {
          std::vector<T> grad(5, nan);
          CHECK(std::isfinite(
              prob_iou_loss_and_grad(rows_of(x), rows_of(y), ultralytics, rows_of(grad))));
          CHECK(std::all_of(grad.begin(), grad.end(), [](T g) { return std::isfinite(g); }));
        }
    }
    for (std::size_t k = 0; k < 5; ++k) {
      auto bad = boxes[0];
      bad[k] = nan;
      std::vector<T> grad(5);
      CHECK(std::isnan(
          prob_iou_loss_and_grad(rows_of(bad), rows_of(boxes[0]), ultralytics, rows_of(grad))));
      CHECK(std::all_of(grad.begin(), grad.end(), [](T g) { return std::isnan(g); }));
      CHECK(std::isnan(prob_iou_loss(rows_of(boxes[0]), rows_of(bad), ultralytics)));
    }
  });
}

TEST_CASE("ProbIoU loss: bad arguments throw errors that name them and write nothing") {
  std::vector<float> out(20, 5);
  const auto fails = refusals(out);
  const std::vector<float> boxes(20, 1), weights(3, 1.0f);
  const auto view = rows_of(boxes);
  const auto result = rows_of(out);
  const matrix_view<const float> narrow(boxes.data(), 5, 4), few(boxes.data(), 3, 5);
  fails("prob_iou_loss: predicted.cols() is 4, expected 5, the numbers of a rotated box",
        [&] { prob_iou_loss(narrow, view, ultralytics); });
  fails("prob_iou_loss: targets.rows() is 3, expected 4, the number of predicted boxes",
        [&] { prob_iou_loss(view, few, ultralytics); });
  fails("prob_iou_loss_and_grad: grad.rows() is 3", [&] {
    prob_iou_loss_and_grad(view, view, ultralytics, matrix_view<float>(out.data(), 3, 5));
  });
  fails("prob_iou_loss_unreduced: loss.size() is 20, expected 4",
        [&] { prob_iou_loss_unreduced(view, view, ultralytics, vector_view<float>(out)); });
  fails("prob_iou_loss: angles is 6",
        [&] { prob_iou_loss(view, view, static_cast<angle_convention>(6)); });
  prob_iou_loss_params params;
  params.box_weights = weights;
  fails("prob_iou_loss_and_grad: params.box_weights.size() is 3, expected 0 or 4",
        [&] { prob_iou_loss_and_grad(view, view, ultralytics, result, params); });
  params = {};
  params.scale = std::numeric_limits<double>::infinity();
  fails("prob_iou_loss_and_grad: params.scale is inf, expected a finite float",
        [&] { prob_iou_loss_and_grad(view, view, ultralytics, result, params); });
  CHECK_THROWS_WITH_AS(
      prob_iou_loss_and_grad(view, matrix_view<const float>(result), ultralytics, result),
      doctest::Contains("grad is in the memory of targets"), std::invalid_argument);
}

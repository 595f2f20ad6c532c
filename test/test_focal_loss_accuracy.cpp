// SPDX-License-Identifier: Apache-2.0
// The focal loss's documented accuracy: of elements, for logits over the range of float, and of
// sums.
#include "support/focal_problem.hpp"
#include "support/sanitizer.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

TEST_CASE("focal loss: float logits are within 8 ulp") {
  // Tests every 331st float where exp and log change, and fewer of the others, nearly all of which
  // are close to 0 or infinite. Sanitizers find nothing more with more numbers, but take many times
  // as long.
  constexpr std::uint32_t step = under_sanitizer ? 331 * 61 : 331;
  std::vector<float> logits;
  for (std::uint64_t bits = 0; bits < 0xffffffffu;) {
    const auto word = static_cast<std::uint32_t>(bits);
    float x;
    std::memcpy(&x, &word, sizeof x);
    if (!std::isnan(x)) logits.push_back(x);
    bits += std::abs(x) >= 0x1p-12f && std::abs(x) < 128 ? step : 331 * 61;
  }
  const auto count = static_cast<index_t>(logits.size());
  const matrix_view<const float> view(logits.data(), count, 1);
  std::vector<index_t> labels(logits.size(), -1);
  for (std::size_t i = 0; i < labels.size(); i += 2) labels[i] = 0;
  std::vector<float> grad(logits.size()), loss(logits.size());
  const matrix_view<float> grad_view(grad.data(), count, 1), loss_view(loss.data(), count, 1);
  focal_loss_params params;
  std::vector<double> exact_grad(logits.size()), exact_loss(logits.size());
  for (const double gamma : {2.0, 1.0, 0.0}) {
    params.gamma = gamma;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const bool positive = labels[i] == 0;
      exact_grad[i] = reference::hard_focal_loss_grad(logits[i], positive, params.alpha, gamma);
      exact_loss[i] = reference::hard_focal_loss(logits[i], positive, params.alpha, gamma);
    }
    for_each_isa([&](isa) {
      for (const double scale : {1.0 / 37, 1.3, 0.7}) {  // weights that are not exact in float
        params.scale = scale;
        sigmoid_focal_loss_and_grad(view, labels, grad_view, params);
        sigmoid_focal_loss_unreduced(view, labels, loss_view, params);
        double worst_grad = 0, worst_loss = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
          const double wanted_grad = scale * exact_grad[i], wanted_loss = scale * exact_loss[i];
          if (std::abs(wanted_grad) > 1e-30)
            worst_grad = std::max(worst_grad, ulp_distance(grad[i], wanted_grad));
          if (wanted_loss > 1e-30)
            worst_loss = std::max(worst_loss, ulp_distance(loss[i], wanted_loss));
        }
        MESSAGE("gamma " << gamma << " scale " << scale << ": loss within " << worst_loss
                         << " ulp, gradient within " << worst_grad);
        CHECK(worst_grad <= 8);
        CHECK(worst_loss <= 8);
      }
    });
  }
}

TEST_CASE_TEMPLATE("focal loss: sums of 11 million elements are within 1e-7", T, float, bfloat16) {
  const index_t rows = 120087, cols = 91;
  problem<T> p(rows, cols, false);
  random_generator generator(5);
  p.logits.fill([&](index_t) { return to<T>(-4.6 + 1.5 * generator.normal()); });
  p.labels.assign(static_cast<std::size_t>(rows), -1);
  p.targets.fill([](index_t) { return to<T>(0); });
  for (index_t i = 0; i < 100; ++i) {
    p.labels[static_cast<std::size_t>(i * 1000)] = i % cols;
    p.targets.view()(i * 1000, i % cols) = to<T>(1);
  }
  tensor<T> grad(rows, cols);
  const matrix_view<const T> x = p.logits.view(), targets = p.targets.view();
  const double exact = reference::sigmoid_focal_loss(x, p.labels, {});
  for_each_isa([&](isa) {
    for (const focal_targets<T>& truth : {focal_targets<T>(p.labels), focal_targets<T>(targets)}) {
      for (const double sum :
           {sigmoid_focal_loss(x, truth), sigmoid_focal_loss_and_grad(x, truth, grad.view())}) {
        INFO("labels ", truth.are_labels(), " relative error ", sum / exact - 1);
        CHECK(std::abs(sum / exact - 1) <= 1e-7);
      }
    }
  });
}

TEST_CASE("focal loss: sums of huge logits") {
  // Losses of 1.9e37 each: 0.75 of the logit. The sum of 16 of them still fits a float.
  for_each_isa([](isa) {
    const index_t rows = 64, cols = 32;
    const std::vector<float> logits(static_cast<std::size_t>(rows * cols), 2e37f);
    const std::vector<index_t> labels(static_cast<std::size_t>(rows), -1);
    std::vector<float> loss(logits.size());
    const matrix_view<const float> x(logits.data(), rows, cols);
    const double exact = 0.75 * static_cast<double>(logits[0]) * static_cast<double>(rows * cols);
    CHECK(sigmoid_focal_loss(x, labels) == doctest::Approx(exact).epsilon(1e-7));
    sigmoid_focal_loss_unreduced(x, labels, matrix_view<float>(loss.data(), rows, cols));
    CHECK(loss[5] == doctest::Approx(0.75 * static_cast<double>(logits[0])).epsilon(1e-6));
  });
}

TEST_CASE(
    "focal loss: soft targets in float are within 9 ulp of the larger term, 11 on the baseline") {
  random_generator generator(17);
  const index_t count = under_sanitizer ? 5000 : 100000;
  std::vector<float> logits, targets;
  for (index_t i = 0; i < count; ++i) {
    logits.push_back(
        static_cast<float>(generator.uniform(-1, 1) * (generator.chance(0.5) ? 8 : 100)));
    const double t = generator.uniform();
    targets.push_back(static_cast<float>(generator.chance(0.1)   ? t * 1e-6
                                         : generator.chance(0.1) ? 1 - t * 1e-6
                                                                 : t));
  }
  const matrix_view<const float> x(logits.data(), count, 1), t(targets.data(), count, 1);
  std::vector<float> grad(logits.size()), loss(logits.size());
  focal_loss_params params;
  params.scale = 1.0 / 37;
  for (const double alpha : {0.25, 0.9, 0.1, 0.001}) {
    for (const double gamma : {2.0, 1.0, 0.0}) {
      params.alpha = alpha;
      params.gamma = gamma;
      for_each_isa([&](isa set) {
        const double allowed = set == isa::baseline ? 11 : 9;
        sigmoid_focal_loss_and_grad(x, t, matrix_view<float>(grad.data(), count, 1), params);
        sigmoid_focal_loss_unreduced(x, t, matrix_view<float>(loss.data(), count, 1), params);
        double worst_grad = 0, worst_loss = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
          const double exact = params.scale * reference::soft_focal_loss_grad(logits[i], targets[i],
                                                                              params.alpha, gamma);
          const double terms =
              std::max(std::abs(exact), terms_of_gradient(logits[i], targets[i], params));
          if (terms > 1e-30)
            worst_grad = std::max(worst_grad, std::abs(grad[i] - exact) / ulp_of<float>(terms));
          const double exact_loss =
              params.scale * reference::soft_focal_loss(logits[i], targets[i], params.alpha, gamma);
          if (exact_loss > 1e-30)
            worst_loss = std::max(worst_loss, ulp_distance(loss[i], exact_loss));
        }
        MESSAGE("alpha " << alpha << " gamma " << gamma << ": loss within " << worst_loss
                         << " ulp, gradient within " << worst_grad);
        CHECK(worst_grad <= allowed);
        CHECK(worst_loss <= allowed);
      });
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
// The reference smooth L1 loss against golden vectors, finite differences, and its special cases.
#include "support/data.hpp"
#include "support/random.hpp"
#include <vecdet/reference/smooth_l1.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("reference smooth L1: golden vectors") {
  if (!test::has_data("golden/sl1_pred.npy", "reference smooth L1: golden vectors")) return;
  const auto predictions = test::golden<float>("sl1_pred");
  const auto targets = test::golden<float>("sl1_target");
  const double betas[] = {1.0 / 9, 1, 0, 0.5};
  for (int k = 0; k < 4; ++k) {
    CAPTURE(betas[k]);
    const auto loss = test::golden<double>("sl1_loss_" + std::to_string(k));
    const auto grad = test::golden<double>("sl1_grad_" + std::to_string(k));
    std::vector<double> my_loss(predictions.values.size());
    std::vector<double> my_grad(predictions.values.size());
    const index_t rows = predictions.shape[0];
    const double sum = reference::smooth_l1_loss(predictions.matrix(), targets.matrix(), betas[k],
                                                 1, matrix_view<double>(my_grad.data(), rows, 4),
                                                 matrix_view<double>(my_loss.data(), rows, 4));
    double expected = 0;
    for (std::size_t i = 0; i < my_loss.size(); ++i) {
      CHECK(my_loss[i] == doctest::Approx(loss.values[i]).epsilon(1e-15));
      CHECK(my_grad[i] == doctest::Approx(grad.values[i]).epsilon(1e-15));
      expected += loss.values[i];
    }
    CHECK(sum == doctest::Approx(expected).epsilon(1e-13));
  }
}

TEST_CASE("reference smooth L1: the gradient is the loss's slope") {
  test::random_generator generator(3);
  for (int i = 0; i < 1000; ++i) {
    const double beta = i % 5 == 0 ? 0 : generator.uniform(0.01, 3);
    const double d = generator.uniform(-5, 5);
    if (std::abs(std::abs(d) - beta) < 1e-4) continue;
    const double h = 1e-5;
    const double slope =
        (reference::smooth_l1_loss(d + h, beta) - reference::smooth_l1_loss(d - h, beta)) / (2 * h);
    CHECK(reference::smooth_l1_loss_grad(d, beta) == doctest::Approx(slope).epsilon(1e-8));
  }
}

TEST_CASE("reference smooth L1: special differences") {
  for (const double beta : {0.0, 1.0 / 9, 1.0}) {
    CAPTURE(beta);
    CHECK(reference::smooth_l1_loss(0, beta) == 0);
    CHECK(reference::smooth_l1_loss_grad(0, beta) == 0);
    CHECK(reference::smooth_l1_loss_grad(beta + 1, beta) == 1);
    CHECK(reference::smooth_l1_loss_grad(-beta - 1, beta) == -1);
    CHECK(reference::smooth_l1_loss(-infinity, beta) == infinity);
    CHECK(reference::smooth_l1_loss_grad(-infinity, beta) == -1);
    CHECK(std::isnan(reference::smooth_l1_loss(quiet_nan, beta)));
    CHECK(std::isnan(reference::smooth_l1_loss_grad(quiet_nan, beta)));
  }
  CHECK(reference::smooth_l1_loss(0.5, 0.5) == 0.25);
  CHECK(reference::smooth_l1_loss_grad(0.5, 0.5) == 1);
  CHECK(reference::huber_loss(1, 2) == 0.5);
  CHECK(reference::huber_loss(-5, 2) == 8);
}

TEST_CASE("reference smooth L1: only the foreground is read") {
  const double nan = quiet_nan;
  const std::vector<double> predictions = {1, 2, nan, nan, 3, 5, nan, nan};
  const std::vector<double> targets = {0, 0, nan, nan, 3, 3, nan, nan};
  const std::vector<index_t> labels = {0, -1, 7, -2};
  const std::vector<double> weights = {1, 1, 0.5, 1};
  std::vector<double> grad(8, 9.0);
  std::vector<double> loss(8, 9.0);
  const double sum = reference::smooth_l1_loss_foreground(
      matrix_view<const double>(predictions.data(), 4, 2),
      matrix_view<const double>(targets.data(), 4, 2), labels, 1, 10,
      matrix_view<double>(grad.data(), 4, 2), matrix_view<double>(loss.data(), 4, 2), weights);
  CHECK(sum == 27.5);
  CHECK(grad == std::vector<double>{10, 10, 0, 0, 0, 5, 0, 0});
  CHECK(loss == std::vector<double>{5, 15, 0, 0, 0, 7.5, 0, 0});
}

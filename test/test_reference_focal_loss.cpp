// SPDX-License-Identifier: Apache-2.0
// The reference focal loss against golden vectors, an independent evaluation in long double, finite
// differences, and its limits.
#include "support/data.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/reference/focal_loss.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

struct long_pair {
  long double loss;
  long double grad;
  long double grad_terms;  // the largest of the three terms that make up the gradient
};

/// The definition of the dense loss, without the reference's rearrangements. Terms cancel, but long
/// double is accurate enough.
long_pair focal_loss_in_long_double(double logit, double target, double alpha, double gamma) {
  const long double x = logit;
  const long double t = target;
  const long double p = 1 / (1 + std::exp(-x));
  const long double q = 1 / (1 + std::exp(x));
  const long double ce = t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x));
  const long double weight = alpha < 0 ? 1 : alpha * t + (1 - alpha) * (1 - t);
  const long double miss = p * (1 - t) + q * t;
  const long double modulation = std::pow(miss, static_cast<long double>(gamma));
  const long double up = weight * modulation * p * (1 - t);
  const long double down = weight * modulation * q * t;
  const long double focusing =
      gamma == 0 ? 0 : weight * gamma * modulation / miss * p * q * (1 - 2 * t) * ce;
  return {weight * modulation * ce, up - down + focusing,
          std::fmax(std::fmax(up, down), std::abs(focusing))};
}

double relative_error(double actual, long double exact, long double magnitude) {
  if (magnitude < 1e-290L) return std::abs(actual) < 1e-280 ? 0 : infinity;
  return static_cast<double>(std::abs(actual - exact) / magnitude);
}

std::vector<double> one_hot(const std::vector<index_t>& labels, index_t classes) {
  std::vector<double> targets(labels.size() * static_cast<std::size_t>(classes), 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= 0)
      targets[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(labels[i])] = 1;
  return targets;
}

/// The largest difference, relative to the larger of the expected number and `floor`.
double largest_error(const std::vector<double>& actual, const std::vector<double>& expected,
                     double floor) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    worst = std::fmax(worst,
                      std::abs(actual[i] - expected[i]) / std::fmax(std::abs(expected[i]), floor));
  return worst;
}

}  // namespace

TEST_CASE("reference focal loss: golden vectors") {
  if (!test::has_data("golden/focal_params.npy", "reference focal loss: golden vectors")) return;
  const auto logits = test::golden<float>("focal_logits");
  const auto labels = test::golden<std::int64_t>("focal_labels");
  const auto targets = test::golden<float>("focal_soft_targets");
  const auto params = test::golden<double>("focal_params");
  const index_t rows = logits.shape[0];
  const index_t classes = logits.shape[1];
  std::vector<double> loss(logits.values.size());
  std::vector<double> grad(logits.values.size());
  const matrix_view<double> loss_view(loss.data(), rows, classes);
  const matrix_view<double> grad_view(grad.data(), rows, classes);

  for (index_t k = 0; k < params.shape[0]; ++k) {
    reference::focal_loss_params param;
    param.alpha = params.matrix()(k, 0);
    param.gamma = params.matrix()(k, 1);
    CAPTURE(param.alpha);
    CAPTURE(param.gamma);
    const std::string suffix = std::to_string(k);

    // If p is near 1, torch uses 1 - p, which has the absolute rounding error of p, 1e-16.
    double sum =
        reference::sigmoid_focal_loss(logits.matrix(), labels.values, param, grad_view, loss_view);
    const auto labels_loss = test::golden<double>("focal_labels_loss_" + suffix).values;
    CHECK(largest_error(loss, labels_loss, 1e-2) < 1e-12);
    CHECK(largest_error(grad, test::golden<double>("focal_labels_grad_" + suffix).values, 1e-2) <
          1e-12);
    reference::compensated_sum expected;
    for (const double element : labels_loss) expected.add(element);
    CHECK(sum == doctest::Approx(expected.value()).epsilon(1e-13));

    sum = reference::sigmoid_focal_loss(logits.matrix(), targets.matrix(), param, grad_view,
                                        loss_view);
    CHECK(largest_error(loss, test::golden<double>("focal_soft_loss_" + suffix).values, 1e-2) <
          1e-12);
    CHECK(largest_error(grad, test::golden<double>("focal_soft_grad_" + suffix).values, 1e-2) <
          1e-12);
  }
}

TEST_CASE("reference focal loss: long double evaluation") {
  test::random_generator generator(11);
  const double gammas[] = {0, 0.3, 0.5, 1, 1.5, 2, 2.7, 5};
  const double alphas[] = {-1, 0.25, 0.5, 0.9};
  double worst_loss = 0;
  double worst_grad = 0;
  for (int i = 0; i < 200000; ++i) {
    const double span = i % 4 == 0 ? 600 : i % 4 == 1 ? 40 : 6;
    const double x = generator.uniform(-span, span);
    const double t = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : generator.uniform();
    const double gamma = gammas[generator.below(8)];
    const double alpha = alphas[generator.below(4)];
    const long_pair exact = focal_loss_in_long_double(x, t, alpha, gamma);

    const double loss = reference::soft_focal_loss(x, t, alpha, gamma);
    const double grad = reference::soft_focal_loss_grad(x, t, alpha, gamma);
    worst_loss = std::fmax(worst_loss, relative_error(loss, exact.loss, std::abs(exact.loss)));
    worst_grad = std::fmax(worst_grad, relative_error(grad, exact.grad, exact.grad_terms));
    if (t == 0 || t == 1) {
      const double hard_loss = reference::hard_focal_loss(x, t == 1, alpha, gamma);
      const double hard_grad = reference::hard_focal_loss_grad(x, t == 1, alpha, gamma);
      worst_loss = std::fmax(worst_loss, relative_error(hard_loss, exact.loss, exact.loss));
      worst_grad = std::fmax(worst_grad, relative_error(hard_grad, exact.grad, exact.grad_terms));
    }
  }
  CHECK(worst_loss < 3e-15);
  CHECK(worst_grad < 3e-15);
}

TEST_CASE("reference focal loss: the gradient is the loss's slope") {
  test::random_generator generator(12);
  for (int i = 0; i < 2000; ++i) {
    const double x = generator.uniform(-12, 12);
    const double t = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : generator.uniform();
    const double gamma = generator.uniform(0, 5);
    const double alpha = generator.uniform(-0.5, 1);
    const double h = 1e-5;
    const double slope = (reference::soft_focal_loss(x + h, t, alpha, gamma) -
                          reference::soft_focal_loss(x - h, t, alpha, gamma)) /
                         (2 * h);
    CHECK(reference::soft_focal_loss_grad(x, t, alpha, gamma) ==
          doctest::Approx(slope).epsilon(1e-7));
  }
}

TEST_CASE("reference focal loss: limits") {
  for (const double gamma : {0.0, 0.5, 1.0, 2.0, 3.3}) {
    CAPTURE(gamma);
    CHECK(reference::hard_focal_loss(infinity, true, 0.25, gamma) == 0);
    CHECK(reference::hard_focal_loss_grad(infinity, true, 0.25, gamma) == 0);
    CHECK(reference::hard_focal_loss(-infinity, true, 0.25, gamma) == infinity);
    CHECK(reference::hard_focal_loss_grad(-infinity, true, 0.25, gamma) == -0.25);
    CHECK(reference::hard_focal_loss(infinity, false, 0.25, gamma) == infinity);
    CHECK(reference::hard_focal_loss_grad(infinity, false, 0.25, gamma) == 0.75);
    CHECK(reference::hard_focal_loss(-infinity, false, 0.25, gamma) == 0);
    CHECK(reference::hard_focal_loss_grad(-infinity, false, 0.25, gamma) == 0);
    CHECK(reference::hard_focal_loss(-infinity, true, 0, gamma) == 0);
    CHECK(reference::hard_focal_loss(infinity, false, 1, gamma) == 0);
    for (const bool positive : {false, true}) {
      CHECK(std::isnan(reference::hard_focal_loss(quiet_nan, positive, 0.25, gamma)));
      CHECK(std::isnan(reference::hard_focal_loss_grad(quiet_nan, positive, 0.25, gamma)));
      for (const double x : {-infinity, infinity}) {
        const double t = positive ? 1 : 0;
        CHECK(reference::soft_focal_loss(x, t, 0.25, gamma) ==
              reference::hard_focal_loss(x, positive, 0.25, gamma));
        CHECK(reference::soft_focal_loss_grad(x, t, 0.25, gamma) ==
              reference::hard_focal_loss_grad(x, positive, 0.25, gamma));
      }
    }
    CHECK(reference::soft_focal_loss(infinity, 0.25, -1, gamma) == infinity);
    CHECK(reference::soft_focal_loss_grad(infinity, 0.25, -1, gamma) ==
          doctest::Approx(std::pow(0.75, gamma + 1)));
    CHECK(reference::soft_focal_loss_grad(-infinity, 0.25, -1, gamma) ==
          doctest::Approx(-std::pow(0.25, gamma + 1)));
    CHECK(std::isnan(reference::soft_focal_loss(quiet_nan, 0.5, 0.25, gamma)));
    CHECK(std::isnan(reference::soft_focal_loss_grad(quiet_nan, 0.5, 0.25, gamma)));
  }
  // For large logits, a negative's loss is the logit itself; it is continuous.
  CHECK(reference::hard_focal_loss(1e4, false, -1, 2) == 1e4);
  CHECK(reference::hard_focal_loss(3e38, false, -1, 0.5) == 3e38);
  for (double x = 10; x < 120; x += 0.25)
    CHECK(reference::hard_focal_loss(x + 0.25, false, -1, 2) >
          reference::hard_focal_loss(x, false, -1, 2));
}

TEST_CASE("reference focal loss: whole tensors") {
  const index_t rows = 57;
  const index_t classes = 11;
  const index_t stride = 13;
  auto logits = test::random_logits<float>(rows * stride, 5);
  for (float& logit : logits)
    if (!std::isfinite(logit)) logit = 0;
  const auto labels = test::random_labels(rows, classes, 6);
  const matrix_view<const float> view(logits.data(), rows, classes, stride);
  std::vector<double> grad(static_cast<std::size_t>(rows * classes), 7.0);
  std::vector<double> loss(grad.size(), 7.0);
  std::vector<double> weights;
  for (index_t i = 0; i < rows; ++i) weights.push_back(0.5 * static_cast<double>(i % 4));

  reference::focal_loss_params params;
  params.scale = 0.125;
  const double sum = reference::sigmoid_focal_loss(
      view, labels, params, matrix_view<double>(grad.data(), rows, classes),
      matrix_view<double>(loss.data(), rows, classes), weights);
  const auto targets = one_hot(labels, classes);
  const matrix_view<const double> target_view(targets.data(), rows, classes);
  double expected = 0;
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < classes; ++j) {
      const double scale =
          labels[static_cast<std::size_t>(i)] == -2 ? 0 : weights[static_cast<std::size_t>(i)] / 8;
      const double x = static_cast<double>(view(i, j));
      const auto at = static_cast<std::size_t>(i * classes + j);
      const double element = scale * reference::soft_focal_loss(x, target_view(i, j), 0.25, 2);
      expected += element;
      CHECK(loss[at] == doctest::Approx(element).epsilon(1e-14));
      CHECK(grad[at] ==
            doctest::Approx(scale * reference::soft_focal_loss_grad(x, target_view(i, j), 0.25, 2))
                .epsilon(1e-14));
    }
  }
  CHECK(sum == doctest::Approx(expected).epsilon(1e-13));

  // A background label inside the range of classes, and one that equals the number of classes.
  const std::vector<float> zeros(6, 0.0f);
  const matrix_view<const float> two_rows(zeros.data(), 2, 3);
  params = {};
  params.alpha = -1;
  params.gamma = 0;
  params.background = 0;
  CHECK(reference::sigmoid_focal_loss(two_rows, std::vector<index_t>{0, 1}, params) ==
        doctest::Approx(6 * std::log(2.0)));
  params.background = 3;
  params.ignore = -1;
  CHECK(reference::sigmoid_focal_loss(two_rows, std::vector<index_t>{3, -1}, params) ==
        doctest::Approx(3 * std::log(2.0)));
  CHECK(reference::sigmoid_focal_loss(matrix_view<const float>(), std::vector<index_t>{}) == 0);
}

TEST_CASE("reference focal loss: ignored rows are never read") {
  const std::vector<float> logits(4, std::numeric_limits<float>::quiet_NaN());
  std::vector<double> grad(4, 7.0);
  CHECK(reference::sigmoid_focal_loss(matrix_view<const float>(logits.data(), 2, 2),
                                      std::vector<index_t>{-2, -2}, {},
                                      matrix_view<double>(grad.data(), 2, 2)) == 0);
  CHECK(grad == std::vector<double>(4, 0.0));
}

TEST_CASE("compensated sum") {
  reference::compensated_sum sum;
  for (const double term : {1e100, 1.0, -1e100, 1e-10}) sum.add(term);
  CHECK(sum.value() == doctest::Approx(1 + 1e-10).epsilon(1e-15));
  sum.add(infinity);
  CHECK(sum.value() == infinity);
  sum.add(-infinity);
  CHECK(std::isnan(sum.value()));
}

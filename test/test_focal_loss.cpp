// SPDX-License-Identifier: Apache-2.0
// The focal loss kernels against the reference: every instruction set, element type, kind of
// target, gamma and output, at lengths around the vector and block widths, at misaligned starts,
// with strides, and at special values; label conventions and every documented error.
#include "support/data.hpp"
#include "support/focal_problem.hpp"
#include "support/refusals.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

TEST_CASE_TEMPLATE("focal loss: shapes", T, float, bfloat16, double) {
  for_each_isa([&](isa) {
    std::uint64_t seed = 0;
    for (index_t cols = 1; cols <= 52; ++cols) {
      for (const bool dense : {false, true}) {
        auto p = random_problem<T>(1 + cols % 5, cols, dense, cols % 3 == 0, ++seed, cols % 4,
                                   cols % 2 == 0 ? 0 : cols % 7);
        p.check();
      }
    }
    for (const index_t cols : {91, 127, 128, 129, 255, 300}) {
      for (const bool dense : {false, true}) {
        random_problem<T>(7, cols, dense, false, ++seed).check();
        random_problem<T>(7, cols, dense, true, ++seed, 1, 2).check();
      }
    }
  });
}
TEST_CASE_TEMPLATE("focal loss: parameters", T, float, bfloat16, double) {
  for_each_isa([&](isa) {
    std::uint64_t seed = 100;
    for (const double gamma : {0.0, 1.0, 2.0, 0.5, 1.5, 3.0, 5.25}) {
      for (const double alpha : {0.25, -1.0, 0.0, 1.0, 0.9}) {
        for (const bool dense : {false, true}) {
          ++seed;
          auto p = random_problem<T>(9, 91, dense, seed % 2 == 0, seed);
          p.params.gamma = gamma;
          p.params.alpha = alpha;
          p.params.scale = 1.0 / 37;
          p.check();
          p.row_weights = {1, 0.5f, 2, 0, 1, 3, 0.125f, 1, 7};
          p.check();
        }
      }
    }
  });
}
TEST_CASE_TEMPLATE("focal loss: special values", T, float, bfloat16, double) {
  // Every special logit in three rows, as the labelled class and the others, as background and
  // ignored; and under targets 0, 1 and between.
  const auto logits = special_logits<T>();
  const auto count = static_cast<index_t>(logits.size());
  for_each_isa([&](isa) {
    for (const double gamma : {2.0, 1.0, 0.0, 0.5, 3.5}) {
      for (const double alpha : {0.25, -1.0, 0.0, 1.0}) {
        problem<T> labelled(3 * count, 3, false);
        labelled.logits.fill([&](index_t k) { return logits[static_cast<std::size_t>(k / 9)]; });
        for (index_t i = 0; i < count; ++i)
          labelled.labels.insert(labelled.labels.end(), {i % 3, -1, -2});
        labelled.params.gamma = gamma;
        labelled.params.alpha = alpha;
        labelled.check();

        problem<T> dense(count, 4, true);
        dense.logits.fill([&](index_t k) { return logits[static_cast<std::size_t>(k / 4)]; });
        dense.params = labelled.params;
        dense.targets.fill([](index_t k) { return to<T>(static_cast<double>(k % 2)); });
        dense.check();
        dense.targets.fill([](index_t k) { return to<T>(static_cast<double>(k % 4) / 4); });
        dense.check();
      }
    }
  });
}

TEST_CASE("focal loss: golden vectors") {
  // test_reference_focal_loss compares the reference with torchvision's results.
  if (!has_data("golden/focal_logits.npy", "focal loss of golden vectors")) return;
  const auto logits = golden<float>("focal_logits"), soft = golden<float>("focal_soft_targets");
  const auto all_params = golden<double>("focal_params");
  for (const bool dense : {false, true}) {
    problem<float> p(logits.shape[0], logits.shape[1], dense);
    p.logits.fill([&](index_t k) { return logits.values[static_cast<std::size_t>(k)]; });
    p.targets.fill([&](index_t k) { return soft.values[static_cast<std::size_t>(k)]; });
    p.labels = golden<std::int64_t>("focal_labels").values;
    for_each_isa([&](isa) {
      for (index_t k = 0; k < all_params.shape[0]; ++k) {
        p.params.alpha = all_params.matrix()(k, 0);
        p.params.gamma = all_params.matrix()(k, 1);
        p.check();
      }
    });
  }
}

TEST_CASE("focal loss: label conventions") {
  auto p = random_problem<float>(50, 7, false, false, 31);
  const matrix_view<const float> x = p.logits.view();
  double loss;
  const auto grad = gradient(p, threading::sequential, &loss);
  const auto same = [&](const auto& labels, const focal_loss_params& params) {
    std::vector<float> other(grad.size());
    const double other_loss = sigmoid_focal_loss_and_grad(x, labels, {other.data(), 50, 7}, params);
    CHECK(std::memcmp(&loss, &other_loss, sizeof loss) == 0);
    CHECK(same_bits(grad, other));
  };
  std::vector<std::int32_t> narrow(p.labels.begin(), p.labels.end());
  same(narrow, p.params);
  std::vector<long long> long_long(p.labels.begin(), p.labels.end());
  same(long_long, p.params);

  focal_loss_params classes_is_background;
  classes_is_background.background = 7;
  for (auto& label : narrow) label = label == -1 ? 7 : label;
  same(narrow, classes_is_background);

  CHECK(count_foreground(p.labels) + count_foreground(narrow, 7) > 0);
  CHECK(count_foreground(p.labels) == count_foreground(narrow, 7));
  CHECK(count_foreground(std::vector<index_t>{}) == 0);
  CHECK(count_foreground(std::vector<int>{3, -1, -2, 0}) == 2);
}

TEST_CASE_TEMPLATE("focal loss: ignored rows may hold any numbers", T, float, bfloat16, double) {
  const index_t rows = 400, cols = 30;
  auto p = random_problem<T>(rows, cols, false, false, 41);
  for (std::size_t i = 0; i < p.labels.size(); ++i) {
    p.labels[i] = i % 9 == 2 || (i > 150 && i < 250) ? -2 : i % 17 == 1 ? 3 : -1;
  }
  const auto is_ignored = [&](index_t k) {
    return p.labels[static_cast<std::size_t>(k / cols)] == -2;
  };
  const double nan = std::nan("");
  for_each_isa([&](isa) {
    for (const double gamma : {2.0, 0.0, 1.5}) {
      p.params.gamma = gamma;
      p.logits.fill([&](index_t k) {
        return to<T>(is_ignored(k) ? 0.5 : -0.01 * static_cast<double>(k % 500));
      });
      double loss_of_numbers, loss_of_nans;
      const auto numbers = gradient(p, threading::parallel, &loss_of_numbers);
      p.logits.fill([&](index_t k) {
        return to<T>(is_ignored(k) ? nan : -0.01 * static_cast<double>(k % 500));
      });
      const auto nans = gradient(p, threading::parallel, &loss_of_nans);
      CHECK(loss_of_numbers > 0);
      CHECK(std::memcmp(&loss_of_numbers, &loss_of_nans, sizeof loss_of_nans) == 0);
      CHECK(same_bits(numbers, nans));
      for (index_t k = 0; k < rows * cols; ++k) {
        if (is_ignored(k)) REQUIRE(static_cast<double>(nans[static_cast<std::size_t>(k)]) == 0);
      }
    }
  });
}

TEST_CASE("focal loss: empty tensors") {
  const std::vector<int> none;
  const matrix_view<const float> rows_only(nullptr, 0, 91), cols_only(nullptr, 3, 0);
  focal_loss_params mean;
  mean.reduction = reduction::mean;
  CHECK(sigmoid_focal_loss(rows_only, none) == 0);
  CHECK(std::isnan(sigmoid_focal_loss(rows_only, none, mean)));
  CHECK(sigmoid_focal_loss(cols_only, std::vector<int>{-1, -1, -2}) == 0);
  CHECK(sigmoid_focal_loss_and_grad(rows_only, rows_only, {nullptr, 0, 91}) == 0);
}

TEST_CASE("focal loss: bad arguments throw errors that name them and write nothing") {
  tensor<float> logits(4, 5), grad(4, 5);
  logits.fill([](index_t) { return 0.5f; });
  const matrix_view<const float> x = logits.view();
  std::vector<index_t> labels{0, 4, -1, -2};
  focal_loss_params params;
  const auto refused = refusals(grad);
  const auto fails = [&](const char* message) {
    refused(message, [&] { sigmoid_focal_loss_and_grad(x, labels, grad.view(), params); });
  };
  const auto with_param = [&](auto member, auto value, const char* message) {
    const auto before = params.*member;
    params.*member = value;
    fails(message);
    params.*member = before;
  };
  with_param(&focal_loss_params::gamma, -1.0, "sigmoid_focal_loss_and_grad: params.gamma is -1");
  with_param(&focal_loss_params::gamma, std::nan(""), "params.gamma is nan");
  with_param(&focal_loss_params::gamma, infinity, "params.gamma is inf");
  with_param(&focal_loss_params::gamma, 1e39, "params.gamma is 9.99");
  with_param(&focal_loss_params::alpha, 1.5, "params.alpha is 1.5");
  with_param(&focal_loss_params::alpha, -infinity, "params.alpha is -inf");
  with_param(&focal_loss_params::alpha, -1e39, "params.alpha is -9.99");
  with_param(&focal_loss_params::scale, infinity, "params.scale is inf");
  with_param(&focal_loss_params::ignore, index_t{-1}, "params.ignore is -1");
  const std::vector<float> three(3);
  with_param(&focal_loss_params::row_weights, vector_view<const float>(three),
             "params.row_weights.size() is 3");

  labels[3] = 5;
  fails("labels[3] is 5");
  labels[3] = -3;
  fails("labels[3] is -3");
  const auto fails_anywhere = [](auto zero) {
    const index_t rows = 300;
    const std::vector<float> many(static_cast<std::size_t>(rows));
    for (const bool among_others : {false, true}) {
      std::vector<decltype(zero)> mixed(many.size(), -1);
      for (std::size_t i = 0; among_others && i < mixed.size(); i += 3) mixed[i] = i % 2 ? 0 : -2;
      for (std::size_t i = 0; i < mixed.size(); ++i) {
        const auto before = mixed[i];
        for (const int wrong : {1, -3}) {
          mixed[i] = wrong;
          const std::string message =
              "labels[" + std::to_string(i) + "] is " + std::to_string(wrong);
          REQUIRE_THROWS_WITH_AS(
              sigmoid_focal_loss(matrix_view<const float>(many.data(), rows, 1), mixed),
              doctest::Contains(message.c_str()), std::invalid_argument);
        }
        mixed[i] = before;
      }
    }
  };
  for_each_isa([&](isa) {
    fails_anywhere(std::int64_t{0});
    fails_anywhere(std::int32_t{0});
  });
  labels.pop_back();
  fails("labels.size() is 3, expected 4, the rows of logits");
  labels.push_back(0);

  refused("grad.cols() is 4", [&] {
    sigmoid_focal_loss_and_grad(x, labels, {grad.view().data(), 4, 4});
  });
  refused("loss.rows() is 2", [&] {
    sigmoid_focal_loss_unreduced(x, labels, {grad.view().data(), 2, 5});
  });
  refused("targets.rows() is 3",
          [&] { sigmoid_focal_loss(x, matrix_view<const float>(x.data(), 3, 5)); });
  refused("upstream is nan",
          [&] { sigmoid_focal_loss_grad(x, labels, std::nan(""), grad.view()); });
  refused("upstream.cols() is 2", [&] {
    sigmoid_focal_loss_grad(x, labels, matrix_view<const float>(x.data(), 4, 2), grad.view());
  });
  refused("matrix_view: data is null", [&] { matrix_view<float>(nullptr, 1, 1); });
  refused("rows is -1", [&] { matrix_view<float>(grad.view().data(), -1, 1); });
  refused("stride is 3", [&] { matrix_view<float>(grad.view().data(), 1, 4, 3); });
}

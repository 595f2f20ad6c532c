// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels against the reference and torch's results: every instruction set,
// element type and output, at lengths around the vector and block widths, with strides, special
// values and row weights; and every documented error.
#include "support/data.hpp"
#include "support/focal_problem.hpp"
#include "support/refusals.hpp"
#include "support/soft_loss.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// Rows with labels and scores; a few scores are 0 or 1.
template <class T>
struct scored_problem {
  tensor<T> logits;
  std::vector<index_t> labels;
  std::vector<float> scores;

  scored_problem(index_t rows, index_t cols, std::uint64_t seed, index_t offset = 0,
                 index_t padding = 0)
      : logits(rows, cols, offset, padding), labels(random_labels(rows, cols, seed + 1)) {
    const auto values = random_logits<T>(rows * cols, seed);
    logits.fill([&](index_t k) { return values[static_cast<std::size_t>(k)]; });
    random_generator generator(seed + 2);
    for (index_t i = 0; i < rows; ++i) {
      scores.push_back(static_cast<float>(generator.chance(0.1)   ? 0
                                          : generator.chance(0.1) ? 1
                                                                  : generator.uniform()));
    }
  }
  scored_labels targets() const { return {labels, scores}; }

  void check(const soft_loss& loss) const {
    const matrix_view<const T> x = logits.view();
    const index_t rows = x.rows(), cols = x.cols();
    std::vector<double> exact_loss, exact_grad, terms;
    double exact_sum = 0;
    for (index_t i = 0; i < rows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const double weight = loss.scale * (loss.row_weights.empty() ? 1 : loss.row_weights[i]);
      for (index_t j = 0; j < cols; ++j) {
        soft_loss::element e{0, 0, 0};
        if (labels[row] != -2)
          e = loss.exact(static_cast<double>(x(i, j)), labels[row] == j, scores[row]);
        exact_loss.push_back(reference::vanishing_product(weight, e.loss));
        exact_grad.push_back(weight * e.grad);
        terms.push_back(std::abs(weight) * e.terms);
        exact_sum += exact_loss.back();
      }
    }
    INFO("rows ", rows, " cols ", cols, " kind ", static_cast<int>(loss.of), " alpha ", loss.alpha,
         " gamma ", loss.gamma, " ", std::string(dtype_name<T>()));
    tensor<T> out(rows, cols, 1, 3);
    const double sum = loss.sum(x, targets(), threading::parallel);
    const double sum_with_grad = loss.sum_and_grad(x, targets(), out.view());
    check_elements<T>(out.view(), {exact_grad.data(), rows, cols}, x, "gradient", 0,
                      {terms.data(), rows, cols});
    CHECK(out.padding_untouched());
    for (const double actual : {sum, sum_with_grad}) {
      CHECK((actual == exact_sum || (std::isnan(actual) && std::isnan(exact_sum)) ||
             std::abs(actual - exact_sum) <= 5e-7 * std::abs(exact_sum) + 1e-30));
    }
    loss.unreduced(x, targets(), out.view());
    check_elements<T>(out.view(), {exact_loss.data(), rows, cols}, x, "loss");
  }
};

}  // namespace

TEST_CASE_TEMPLATE("soft targets: shapes", T, float, bfloat16, double) {
  for_each_isa([&](isa) {
    std::uint64_t seed = 0;
    for (const soft_kind of : all_soft_losses) {
      for (const index_t cols : {1, 2, 3, 7, 15, 16, 17, 33, 80, 91, 127, 128, 129, 300}) {
        const scored_problem<T> problem(1 + cols % 40, cols, ++seed, cols % 4,
                                        cols % 2 == 0 ? 0 : cols % 7);
        problem.check(soft_loss(of));
      }
    }
  });
}

TEST_CASE_TEMPLATE("soft targets: parameters", T, float, bfloat16, double) {
  const std::vector<float> weights{1, 0.5f, 2, 0, 1, 3, 0.125f, 1, 7};
  for_each_isa([&](isa) {
    std::uint64_t seed = 100;
    for (const soft_kind of : all_soft_losses) {
      for (const double gamma : {0.0, 1.0, 2.0, 1.5, 3.0}) {
        for (const double alpha : {0.75, 1.0, 0.0}) {
          const scored_problem<T> problem(9, 91, ++seed);
          soft_loss loss(of, alpha, gamma, 1.0 / 37);
          problem.check(loss);
          loss.row_weights = weights;
          problem.check(loss);
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("soft targets: special values", T, float, bfloat16, double) {
  const auto logits = special_logits<T>();
  const auto count = static_cast<index_t>(logits.size());
  for_each_isa([&](isa) {
    for (const soft_kind of : all_soft_losses) {
      for (const double gamma : {2.0, 1.0, 0.0, 3.5}) {
        scored_problem<T> problem(3 * count, 3, 7);
        problem.logits.fill([&](index_t k) { return logits[static_cast<std::size_t>(k / 9)]; });
        for (std::size_t i = 0; i < problem.labels.size(); ++i) {
          problem.labels[i] = static_cast<index_t>(i % 3);
          problem.scores[i] = static_cast<float>(i / 3 % 5) / 4;
        }
        problem.check(soft_loss(of, 0.75, gamma));
      }
    }
  });
}

TEST_CASE("soft targets: scores of 1 are labels, and labels without a class need no score") {
  scored_problem<float> problem(60, 91, 3);
  const matrix_view<const float> x = problem.logits.view();
  problem.scores.assign(60, 1.0f);
  for (std::size_t i = 0; i < 60; ++i)
    if (problem.labels[i] < 0) problem.scores[i] = std::nanf("");
  std::vector<float> scored(60 * 91), hard(scored.size());
  for_each_isa([&](isa) {
    sigmoid_focal_loss_and_grad(x, problem.targets(), {scored.data(), 60, 91});
    sigmoid_focal_loss_and_grad(x, problem.labels, {hard.data(), 60, 91});
    for (std::size_t k = 0; k < hard.size(); ++k)
      REQUIRE(close_enough(scored[k], static_cast<double>(hard[k])));
  });
}

TEST_CASE("soft targets: golden vectors of torch") {
  if (!has_data("golden_step/soft_logits.npy", "soft targets against torch")) return;
  const auto load = [](const std::string& name, auto zero) {
    return load_npy<decltype(zero)>(data_path("golden_step/" + name + ".npy"));
  };
  const auto logits = load("soft_logits", 0.0f);
  const auto labels = load("soft_labels", std::int64_t{0});
  const auto scores = load("soft_scores", 0.0f);
  const index_t rows = logits.shape[0], cols = logits.shape[1];
  const matrix_view<const float> x(logits.values.data(), rows, cols);
  const scored_labels targets{labels.values, scores.values};
  std::vector<float> out(logits.values.size());
  const matrix_view<float> out_view(out.data(), rows, cols);
  const std::vector<double> ones(out.size(), 1.0);
  for_each_isa([&](isa) {
    const auto check = [&](const std::string& name, const soft_loss& loss,
                           const std::string& loss_file) {
      INFO(name);
      const auto exact_loss = load(loss_file, 0.0), exact_grad = load(name + "_grad", 0.0);
      double exact = 0;
      for (const double l : exact_loss.values) exact += l;
      CHECK(loss.sum_and_grad(x, targets, out_view) == doctest::Approx(exact).epsilon(1e-7));
      check_elements<float>(out_view, exact_grad.matrix(), x, "gradient", 1e-14,
                            {ones.data(), rows, cols});
      loss.unreduced(x, targets, out_view);
      check_elements<float>(out_view, exact_loss.matrix(), x, "loss", 1e-14);
    };
    check("qfl", soft_loss(soft_kind::quality), "qfl_loss");
    check("vfl", soft_loss(soft_kind::varifocal), "vfl_loss");
    check("vfl_detached", soft_loss(soft_kind::varifocal_constant), "vfl_detached_loss");
    check("bce", soft_loss(soft_kind::bce), "bce_loss");
  });
}

TEST_CASE("soft targets: an element's bits depend only on that element") {
  const index_t rows = 300, cols = 21;
  const scored_problem<float> problem(rows, cols, 23);
  const matrix_view<const float> x = problem.logits.view();
  std::vector<float> whole(static_cast<std::size_t>(rows * cols));
  for_each_isa([&](isa) {
    for (const soft_kind of : all_soft_losses) {
      const soft_loss loss(of);
      loss.sum_and_grad(x, problem.targets(), matrix_view<float>(whole.data(), rows, cols));
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < cols; ++j) {
          const auto row = static_cast<std::size_t>(i);
          const index_t label = problem.labels[row];
          const index_t own[] = {label < 0 ? label : label == j ? 0 : -1};
          float alone;
          loss.sum_and_grad(matrix_view<const float>(&x(i, j), 1, 1),
                            {labels_view(own, 1), {&problem.scores[row], 1}},
                            matrix_view<float>(&alone, 1, 1));
          const float among = whole[static_cast<std::size_t>(i * cols + j)];
          REQUIRE((std::memcmp(&alone, &among, sizeof alone) == 0 ||
                   (std::isnan(alone) && std::isnan(among))));
        }
      }
    }
  });
}

TEST_CASE("soft targets: reductions and empty tensors") {
  const scored_problem<float> problem(30, 7, 5);
  tensor<float> plain(30, 7);
  plain.fill([](index_t k) { return static_cast<float>(k % 9) - 5; });
  const matrix_view<const float> x = plain.view();
  for (const soft_kind of : all_soft_losses) {
    soft_loss loss(of);
    const double sum = loss.sum(x, problem.targets(), threading::sequential);
    loss.reduction = reduction::mean;
    CHECK(loss.sum(x, problem.targets(), threading::sequential) ==
          doctest::Approx(sum / 210).epsilon(1e-12));
    const matrix_view<const float> none(nullptr, 0, 7);
    CHECK(std::isnan(loss.sum(none, {}, threading::sequential)));
    loss.reduction = reduction::sum;
    CHECK(loss.sum(none, {}, threading::sequential) == 0);
  }
}

TEST_CASE("soft targets: bad arguments throw errors that name them and write nothing") {
  tensor<float> logits(4, 5), grad(4, 5);
  logits.fill([](index_t) { return 0.5f; });
  const matrix_view<const float> x = logits.view();
  std::vector<index_t> labels{0, 4, -1, -2};
  std::vector<float> scores{0.5f, 1, 0, 0};
  const auto fails = refusals(grad);
  const auto targets = [&]() -> scored_labels { return {labels, scores}; };
  quality_focal_params quality;
  quality.beta = -1;
  fails("quality_focal_loss_and_grad: params.beta is -1",
        [&] { quality_focal_loss_and_grad(x, targets(), grad.view(), quality); });
  quality.beta = 1e39;
  fails("params.beta is 9.99",
        [&] { quality_focal_loss_and_grad(x, targets(), grad.view(), quality); });
  varifocal_params varifocal;
  varifocal.alpha = -0.5;
  fails("varifocal_loss_and_grad: params.alpha is -0.5",
        [&] { varifocal_loss_and_grad(x, targets(), grad.view(), varifocal); });
  varifocal.alpha = 0.75;
  varifocal.gamma = infinity;
  fails("params.gamma is inf",
        [&] { varifocal_loss_and_grad(x, targets(), grad.view(), varifocal); });
  bce_params bce;
  bce.scale = std::nan("");
  fails("bce_loss_and_grad: params.scale is nan",
        [&] { bce_loss_and_grad(x, targets(), grad.view(), bce); });
  bce.scale = 1;
  bce.ignore = -1;
  fails("bce_loss: params.ignore is -1", [&] { bce_loss(x, targets(), bce); });
  labels[1] = 5;
  fails("labels[1] is 5", [&] { bce_loss_and_grad(x, targets(), grad.view()); });
  labels[1] = 4;
  scores.pop_back();
  fails("scores.size() is 3", [&] { quality_focal_loss_and_grad(x, targets(), grad.view()); });
  fails("scores.size() is 3", [&] { sigmoid_focal_loss_and_grad(x, targets(), grad.view()); });
  scores.push_back(0);
  fails("varifocal_loss_unreduced: loss.rows() is 2", [&] {
    varifocal_loss_unreduced(x, targets(), {grad.view().data(), 2, 5});
  });
}

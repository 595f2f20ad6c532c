// SPDX-License-Identifier: Apache-2.0
// The focal loss with extreme numbers: weights of any magnitude, infinite and NaN weights, logits
// of -inf and NaN.
#include "support/focal_problem.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

TEST_CASE_TEMPLATE("focal loss: logits of -inf add nothing", T, float, bfloat16, double) {
  const index_t rows = 5, cols = 130;
  tensor<T> x(rows, cols), t(rows, cols), out(rows, cols);
  x.fill([](index_t) { return to<T>(-infinity); });
  t.fill([](index_t) { return to<T>(0); });
  const std::vector<index_t> background(static_cast<std::size_t>(rows), -1);
  const std::vector<float> infinite(background.size(), static_cast<float>(infinity));
  for_each_isa([&](isa) {
    for (const double gamma : {0.0, 1.0, 2.0, 1.5}) {
      for (const double scale : {1.0, 1e26, 3e38}) {
        for (const bool weighted : {false, true}) {
          INFO("gamma ", gamma, " scale ", scale, " weighted ", weighted);
          focal_loss_params params;
          params.gamma = gamma;
          params.scale = scale;
          if (weighted) params.row_weights = infinite;
          for (const focal_targets<T>& truth :
               {focal_targets<T>(background), focal_targets<T>(t.view())}) {
            const auto all_zero = [&] {
              for (index_t i = 0; i < rows; ++i)
                for (index_t j = 0; j < cols; ++j)
                  if (static_cast<double>(out.view()(i, j)) != 0) return false;
              return true;
            };
            CHECK(sigmoid_focal_loss(x.view(), truth, params) == 0);
            CHECK(sigmoid_focal_loss_and_grad(x.view(), truth, out.view(), params) == 0);
            CHECK(all_zero());
            sigmoid_focal_loss_unreduced(x.view(), truth, out.view(), params);
            CHECK(all_zero());
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: weights of any magnitude", T, float, bfloat16, double) {
  for_each_isa([&](isa) {
    std::uint64_t seed = 300;
    for (const double gamma : {2.0, 1.0, 0.0, 1.5}) {
      for (const bool dense : {false, true}) {
        for (const double scale : {1.0, 1e-20, 3e38, -3e38}) {
          auto p = random_problem<T>(12, 91, dense, seed % 2 == 0, seed + 1);
          ++seed;
          p.params.gamma = gamma;
          p.params.scale = scale;
          p.row_weights = {1,    1e-20f, 1e20f, 3e38f, 1e-38f, 1e-42f,
                           1e8f, 1e26f,  1e30f, 2,     0,      1e10f};
          const matrix_view<T> x = p.logits.view();
          for (index_t i = 0; i < x.rows(); ++i) {
            for (index_t j = 0; j < x.cols(); ++j) {
              // Sums of floats overflow earlier than the reference's, and large weights may amplify
              // numbers that are too small even for double.
              if (!(std::abs(static_cast<double>(x(i, j))) < 200)) x(i, j) = to<T>(-1);
            }
          }
          p.check();
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: infinite row weights give the limit of growing weights", T, float,
                   bfloat16, double) {
  const index_t rows = 4, cols = 91;
  const float inf = static_cast<float>(infinity);
  const std::vector<float> ones{1, -1, 1, 0}, infinite{inf, -inf, 1, 0};
  for_each_isa([&](isa) {
    std::uint64_t seed = 400;
    for (const double gamma : {2.0, 1.0, 0.0, 1.5}) {
      for (const double alpha : {0.25, 0.0, 1.0, -1.0}) {
        for (const bool dense : {false, true}) {
          auto p = random_problem<T>(rows, cols, dense, true, ++seed);
          p.labels = {3, -1, -2, 5};
          p.params.gamma = gamma;
          p.params.alpha = alpha;
          INFO("gamma ", gamma, " alpha ", alpha, " dense ", dense);
          const auto run = [&](const std::vector<float>& weights, bool grad, std::vector<T>& out) {
            p.params.row_weights = weights;
            out.resize(static_cast<std::size_t>(rows * cols));
            const matrix_view<T> view(out.data(), rows, cols);
            if (grad) {
              sigmoid_focal_loss_and_grad(p.logits.view(), p.truth(), view, p.params);
            } else {
              sigmoid_focal_loss_unreduced(p.logits.view(), p.truth(), view, p.params);
            }
          };
          for (const bool grad : {false, true}) {
            std::vector<T> unweighted, weighted;
            run(ones, grad, unweighted);
            run(infinite, grad, weighted);
            for (std::size_t k = 0; k < unweighted.size(); ++k) {
              const auto one = static_cast<double>(unweighted[k]);
              const bool is_infinite = std::isinf(infinite[k / static_cast<std::size_t>(cols)]);
              const double expected = is_infinite && one != 0 ? one * infinity : one;
              const auto actual = static_cast<double>(weighted[k]);
              INFO("element ", k, " grad ", grad, ": ", one, " becomes ", actual);
              REQUIRE((actual == expected || (std::isnan(actual) && std::isnan(expected))));
            }
          }
        }
      }
    }
    // Sums: an infinite weight of a loss of 0 adds 0; otherwise infinities keep their sign.
    const std::vector<T> two{to<T>(-infinity), to<T>(0.5)};
    const matrix_view<const T> x(two.data(), 2, 1);
    const std::vector<index_t> background{-1, -1};
    const auto sum = [&](float first, float second) {
      const std::vector<float> weights{first, second};
      focal_loss_params params;
      params.row_weights = weights;
      return sigmoid_focal_loss(x, background, params);
    };
    CHECK(sum(inf, 0) == 0);
    CHECK(sum(-inf, -inf) == -infinity);
    CHECK(sum(inf, 1) == sum(0, 1));
    CHECK(sum(1, inf) == infinity);
    // The same for the product with an upstream gradient.
    const std::vector<T> upstream{to<T>(0.0), to<T>(-2.0)}, logits{to<T>(1.0), to<T>(1.0)};
    std::vector<T> grad(2);
    const std::vector<float> weights{inf, inf};
    focal_loss_params params;
    params.row_weights = weights;
    sigmoid_focal_loss_grad(matrix_view<const T>(logits.data(), 2, 1), background,
                            matrix_view<const T>(upstream.data(), 2, 1),
                            matrix_view<T>(grad.data(), 2, 1), params);
    CHECK(static_cast<double>(grad[0]) == 0);
    CHECK(static_cast<double>(grad[1]) == -infinity);
  });
}

TEST_CASE("focal loss: the product of scale and upstream does not overflow") {
  for_each_isa([&](isa) {
    const std::vector<float> logits{-static_cast<float>(infinity), -150, -60, -3, 0.5f};
    const matrix_view<const float> x(logits.data(), 5, 1);
    const std::vector<index_t> labels(5, -1);
    std::vector<float> grad(5);
    focal_loss_params params;
    params.scale = 3e38;
    for (const double gamma : {2.0, 1.0, 0.0, 1.5}) {
      params.gamma = gamma;
      sigmoid_focal_loss_grad(x, labels, -3e38, {grad.data(), 5, 1}, params);
      CHECK(grad[0] == 0);
      for (std::size_t i = 1; i < grad.size(); ++i) {
        const double exact =
            -9e76 * reference::hard_focal_loss_grad(logits[i], false, params.alpha, gamma);
        INFO("gamma ", gamma, " logit ", logits[i], ": ", grad[i], ", exact ", exact);
        CHECK(close_enough(grad[i], exact));
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: NaN of any bits stays NaN", T, float, bfloat16, double) {
  // When rounded to bfloat16, a NaN with all bits set must not carry into its sign.
  const index_t rows = 4, cols = 300;
  tensor<T> x(rows, cols), out(rows, cols), targets(rows, cols);
  std::vector<float> weights(static_cast<std::size_t>(rows));
  constexpr std::uint32_t payloads[] = {0x7fffffff, 0xffffffff, 0x7f800001, 0xffc00000};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    std::memcpy(&weights[i], &payloads[i], sizeof(float));
  }
  const std::vector<index_t> labels{-1, 2, -1, 299};
  const auto check = [&](const focal_loss_params& params) {
    const auto all_nan = [&] {
      for (index_t i = 0; i < rows; ++i)
        for (index_t j = 0; j < cols; ++j)
          if (!std::isnan(static_cast<double>(out.view()(i, j)))) return false;
      return true;
    };
    for (const double target : {0.0, 0.25}) {
      targets.fill([&](index_t k) { return to<T>(k % 7 == 0 ? target : 0.0); });
      for (const focal_targets<T>& truth :
           {focal_targets<T>(labels), focal_targets<T>(targets.view())}) {
        CHECK(std::isnan(sigmoid_focal_loss_and_grad(x.view(), truth, out.view(), params)));
        CHECK(all_nan());
        sigmoid_focal_loss_unreduced(x.view(), truth, out.view(), params);
        CHECK(all_nan());
      }
    }
  };
  for_each_isa([&](isa) {
    for (const double gamma : {0.0, 1.0, 1.5, 2.0}) {
      INFO("gamma ", gamma);
      focal_loss_params params;
      params.gamma = gamma;
      // Logits that are bfloat16's NaN with all bits set.
      const std::uint32_t all_ones[] = {0x7fff0000, 0xffff0000};
      x.fill([&](index_t k) {
        float nan;
        std::memcpy(&nan, &all_ones[k % 2], sizeof nan);
        return T(nan);
      });
      check(params);
      x.fill([](index_t k) { return to<T>(static_cast<double>(k % 13) - 9); });
      params.row_weights = weights;
      check(params);
    }
  });
}

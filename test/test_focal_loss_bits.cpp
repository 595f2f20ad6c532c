// SPDX-License-Identifier: Apache-2.0
// The bits of the focal loss: an element's bits depend only on that element, and not on threads,
// policy or instruction set.
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

TEST_CASE("focal loss: an element's bits do not depend on its neighbours") {
  const index_t count = 1024;  // some blocks
  std::vector<float> logits(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = -0.03f * static_cast<float>(i);
  std::vector<float> mixed = logits;
  for (std::size_t i = 0; i < mixed.size(); i += 64) mixed[i] = 1;
  const std::vector<index_t> labels(logits.size(), -1);
  const std::vector<float> targets(logits.size(), 0.0f);
  for_each_isa([&](isa) {
    for (const double gamma : {2.0, 1.0, 0.0}) {
      focal_loss_params params;
      params.gamma = gamma;
      const auto results = [&](const std::vector<float>& x, bool dense) {
        std::vector<float> grad(x.size()), loss(x.size());
        const matrix_view<const float> view(x.data(), count, 1), t(targets.data(), count, 1);
        const matrix_view<float> g(grad.data(), count, 1), l(loss.data(), count, 1);
        if (dense) {
          sigmoid_focal_loss_and_grad(view, t, g, params);
          sigmoid_focal_loss_unreduced(view, t, l, params);
        } else {
          sigmoid_focal_loss_and_grad(view, labels, g, params);
          sigmoid_focal_loss_unreduced(view, labels, l, params);
        }
        grad.insert(grad.end(), loss.begin(), loss.end());
        return grad;
      };
      for (const bool dense : {false, true}) {
        const std::vector<float> alone = results(logits, dense), among = results(mixed, dense);
        for (std::size_t i = 0; i < alone.size(); ++i) {
          if (i % 64 == 0) continue;  // the logits that differ
          INFO("element ", i, " gamma ", gamma, " dense ", dense);
          REQUIRE(std::memcmp(&alone[i], &among[i], sizeof(float)) == 0);
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: an element's bits do not depend on its block", T, float, bfloat16,
                   double) {
  enum class output { loss, grad, upstream_times_grad };
  // Groups of four blocks, single and partial blocks; over 128 positives at the end.
  const index_t rows = 3000;
  auto logits = random_logits<T>(rows, 51);
  for (T& x : logits)
    if (std::isnan(static_cast<double>(x))) x = to<T>(0);  // the bits of NaN may be any
  std::vector<index_t> labels(static_cast<std::size_t>(rows), -1);
  for (index_t i = 0; i < rows; ++i) {
    index_t& label = labels[static_cast<std::size_t>(i)];
    if (i % 700 == 3 || (i > 2500 && i % 2 == 0)) label = 0;
    if (i % 311 == 7 || (i > 1100 && i < 1900) || i % 997 == 0) label = -2;
  }
  std::vector<T> targets, upstream;
  for (index_t i = 0; i < rows; ++i) {
    const index_t label = labels[static_cast<std::size_t>(i)];
    targets.push_back(to<T>(label == 0 ? 1 : 0));
    upstream.push_back(label == -2 ? to<T>(infinity) : to<T>(static_cast<double>(i % 3) - 1.5));
  }
  for_each_isa([&](isa) {
    for (const double gamma : {2.0, 1.0, 1.5}) {
      for (const bool dense : {false, true}) {
        INFO("gamma ", gamma, " dense ", dense);
        focal_loss_params params;
        params.gamma = gamma;
        const auto run = [&](output written, index_t first, index_t count, const T* x, T* out) {
          const matrix_view<const T> view(x, count, 1);
          const matrix_view<T> to_view(out, count, 1);
          const focal_targets<T> truth =
              dense ? focal_targets<T>(matrix_view<const T>(targets.data() + first, count, 1))
                    : focal_targets<T>(labels_view(labels.data() + first, count));
          const auto sequential = threading::sequential;
          if (written == output::grad) {
            sigmoid_focal_loss_and_grad(view, truth, to_view, params, sequential);
          } else if (written == output::loss) {
            sigmoid_focal_loss_unreduced(view, truth, to_view, params, sequential);
          } else {
            const matrix_view<const T> arrived(upstream.data() + first, count, 1);
            sigmoid_focal_loss_grad(view, truth, arrived, to_view, params, sequential);
          }
        };
        std::vector<T> whole(logits.size()), alone(logits.size());
        for (const output written : {output::loss, output::upstream_times_grad, output::grad}) {
          run(written, 0, rows, logits.data(), whole.data());
          alone = whole;
          for (index_t i = 0; i < rows; i += under_sanitizer ? 19 : 1)
            run(written, i, 1, logits.data() + i, alone.data() + i);
          CHECK(same_bits(whole, alone));
          if (dense) continue;
          for (std::size_t i = 0; i < labels.size(); ++i) {
            const auto result = static_cast<double>(whole[i]);
            if (labels[i] == -2) CHECK((result == 0 && !std::signbit(result)));
          }
        }
        std::vector<T> both = logits;  // the gradient overwrites the logits
        run(output::grad, 0, rows, both.data(), both.data());
        CHECK(same_bits(whole, both));
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: an element's bits depend only on that element", T, float, bfloat16,
                   double) {
  enum class output { loss, grad, upstream_times_grad };
  const auto same = [](T a, T b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0 ||
           (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b)));
  };
  const auto any_of = [](random_generator& generator, const std::vector<double>& values) {
    return values[static_cast<std::size_t>(generator.below(static_cast<index_t>(values.size())))];
  };
  for_each_isa([&](isa) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      random_generator generator(seed);
      const index_t rows = 1 + generator.below(5);
      const index_t cols = 1 + generator.below(generator.chance(0.3) ? 600 : 40);
      const bool contiguous = generator.chance(0.4);
      const auto padding = [&] { return contiguous ? 0 : generator.below(4); };
      tensor<T> x(rows, cols, generator.below(3), padding());
      tensor<T> t(rows, cols, generator.below(3), padding());
      tensor<T> upstream(rows, cols, generator.below(3), padding());
      tensor<T> out(rows, cols, generator.below(3), padding());
      const auto logits = random_logits<T>(rows * cols, seed + 1000);
      x.fill([&](index_t k) {
        // From 86.64 on, exp(-|x|) has its smallest value.
        return generator.chance(0.02) ? to<T>(any_of(generator, {-86.6395, -86.65, -90, -infinity}))
                                      : logits[static_cast<std::size_t>(k)];
      });
      const double soft = any_of(generator, {0, 0.01, 0.5, 1});
      t.fill([&](index_t) {
        return to<T>(generator.chance(soft)   ? generator.uniform()
                     : generator.chance(0.02) ? -0.0
                                              : generator.chance(0.1));
      });
      upstream.fill([&](index_t) { return to<T>(generator.normal()); });
      const auto labels = random_labels(rows, cols, seed + 2000);

      focal_loss_params params;
      params.gamma = any_of(generator, {0, 1, 2, 2, 0.5, 3.5});
      params.alpha = any_of(generator, {0.25, 0.25, -1, 0, 1});
      params.scale = any_of(generator, {1, 1.0 / 37, -2, 0, 1e-44, 1e8, 3e38});
      const double arriving = any_of(generator, {1, -1, 3e38});
      std::vector<float> weights;
      for (index_t i = 0; i < rows; ++i) {
        weights.push_back(static_cast<float>(any_of(
            generator, {1, 1, 0.3, 0, -2, 1e-42, 1e30, 3e38, infinity, -infinity, std::nan("")})));
      }
      const bool weighted = generator.chance(0.6);
      if (weighted) params.row_weights = weights;

      const auto run = [&](output written, matrix_view<const T> logit,
                           const focal_targets<T>& truth, matrix_view<const T> arrived,
                           matrix_view<T> to_view, const focal_loss_params& p) {
        if (written == output::loss) {
          sigmoid_focal_loss_unreduced(logit, truth, to_view, p, threading::sequential);
        } else if (written == output::grad) {
          sigmoid_focal_loss_grad(logit, truth, arriving, to_view, p, threading::sequential);
        } else {
          sigmoid_focal_loss_grad(logit, truth, arrived, to_view, p, threading::sequential);
        }
      };
      for (const bool dense : {false, true}) {
        for (const output written : {output::loss, output::grad, output::upstream_times_grad}) {
          run(written, x.view(), dense ? focal_targets<T>(t.view()) : focal_targets<T>(labels),
              upstream.view(), out.view(), params);
          CHECK(out.padding_untouched());
          for (index_t i = 0; i < rows; ++i) {
            const index_t label = labels[static_cast<std::size_t>(i)];
            const float weight = weights[static_cast<std::size_t>(i)];
            for (index_t j = 0; j < cols; ++j) {
              const auto one = [](matrix_view<T> view) { return matrix_view<const T>(view); };
              const auto at = [&](tensor<T>& of) {
                return one(matrix_view<T>(&of.view()(i, j), 1, 1));
              };
              const index_t own_label[] = {label < 0 ? label : label == j ? 0 : -1};
              focal_loss_params own = params;
              if (weighted) own.row_weights = vector_view<const float>(&weight, 1);
              T alone;
              run(written, at(x),
                  dense ? focal_targets<T>(at(t)) : focal_targets<T>(labels_view(own_label, 1)),
                  at(upstream), matrix_view<T>(&alone, 1, 1), own);
              INFO("seed ", seed, " at ", i, ", ", j, " dense ", dense, " output ",
                   static_cast<int>(written), " gamma ", params.gamma, " alpha ", params.alpha,
                   " scale ", params.scale, " upstream ", arriving, " weight ",
                   weighted ? weight : 1.0f, " logit ", static_cast<double>(x.view()(i, j)),
                   " target ", static_cast<double>(t.view()(i, j)), ": ",
                   static_cast<double>(out.view()(i, j)), ", alone ", static_cast<double>(alone));
              REQUIRE(same(out.view()(i, j), alone));
              // With any weights, NaN comes only from NaN.
              const bool from_nan = std::isnan(static_cast<double>(x.view()(i, j))) ||
                                    (weighted && std::isnan(weight));
              REQUIRE(std::isnan(static_cast<double>(alone)) ==
                      (from_nan && (dense || label != -2)));
            }
          }
        }
      }
    }
  });
}

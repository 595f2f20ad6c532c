// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss and its decoding on any numbers, strides and weights, against the
// reference.
#include "fuzz_input.hpp"
#include <vecdet/reference/distribution_focal_loss.hpp>

using namespace vecdet;

void fuzz::target(input& in) {
  const index_t rows = in.integer(0, 70);
  const index_t bins = in.flag() ? in.integer(1, 40) : in.integer(120, 300);
  const index_t stride = bins + in.one_of<index_t>({0, 0, 1, 5});
  distribution_focal_loss_params params;
  params.scale = in.one_of({1.0, 1.0 / 37, -2.0, 0.0});
  const auto weights = some_weights(in, rows);
  params.row_weights = weights;
  const auto logits = in.numbers<float>(rows == 0 ? 0 : (rows - 1) * stride + bins);
  const auto targets = in.numbers<float>(rows);
  const matrix_view<const float> x(logits.data(), rows, bins, stride);
  const tensor<float> out(logits.size()), each(rows);
  const matrix_view<float> grad(out.data(), rows, bins, stride);
  on_every_isa(
      "distribution focal loss",
      [&](results& results) {
        std::fill(out.begin(), out.end(), -12345.0f);
        const double sum =
            distribution_focal_loss_and_grad(x, targets, grad, params, threading::parallel);
        for (index_t i = 0; i < rows; ++i)
          for (index_t c = 0; c < bins; ++c) results.add(static_cast<double>(grad(i, c)));
        for (index_t i = 0; i + 1 < rows; ++i)
          for (index_t c = bins; c < stride; ++c)
            if (grad.row(i)[c] != -12345) fail("the gradient is written between rows");
        distribution_focal_loss_unreduced(x, targets, each, params, threading::sequential);
        results.add(each);
        decode_distributions(x, each, threading::sequential);
        results.add(each);
        if (!same_number(sum, distribution_focal_loss(x, targets, params, threading::sequential)))
          fail("the loss alone differs from the loss with gradient");
        results.add(sum);
      },
      [&](const char* set, const std::vector<double>& values) {
        std::vector<double> exact(static_cast<std::size_t>(bins));
        const auto at = [&](index_t i) { return values[static_cast<std::size_t>(i)]; };
        for (index_t i = 0; i < rows; ++i) {
          const vector_view<const float> row(x.row(i), bins);
          const double weight = weight_of(weights, i), factor = params.scale * weight;
          const double loss = reference::distribution_focal_loss(
              row, static_cast<double>(targets[static_cast<std::size_t>(i)]), exact);
          const double extent = test::extent_of(row);
          const auto of = [&](const char* what) {
            return [=] { return std::string(what) + " on " + set; };
          };
          if (weight == 0) {
            if (at(rows * bins + i) != 0) fail("a row of weight 0 has a loss");
          } else if (!(extent > 1e37) && std::isfinite(loss)) {
            expect_near(of("distribution focal loss"), at(rows * bins + i), factor * loss, 1e-6,
                        1e-6 * extent * std::abs(factor));
          }
          for (index_t c = 0; c < bins; ++c) {
            const double bin_grad = weight == 0 ? 0 : factor * exact[static_cast<std::size_t>(c)];
            expect_near(of("its gradient"), at(i * bins + c), bin_grad, 1e-6,
                        1e-6 * std::abs(factor) + 1e-36);
          }
          expect_near(of("its expectation"), at(rows * (bins + 1) + i),
                      reference::distribution_expectation(row), 1e-6,
                      1e-6 * static_cast<double>(bins));
        }
      });
}

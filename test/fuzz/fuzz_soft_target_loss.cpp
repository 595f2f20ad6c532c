// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels on any shape, stride, logits, labels, scores and parameters.
#include "fuzz_input.hpp"
#include "support/soft_loss.hpp"

using namespace vecdet;

namespace {

template <class T>
void soft_target_loss(fuzz::input& in) {
  const index_t rows = in.integer(0, 9), cols = in.integer(0, 300);
  const index_t stride = cols + in.one_of<index_t>({0, 0, 1, 5});
  const index_t extent = rows == 0 ? 0 : (rows - 1) * stride + cols;
  using kind = test::soft_kind;
  const kind of = in.one_of({kind::quality, kind::varifocal, kind::bce});
  const auto weights = fuzz::some_weights(in, rows);
  const double scale = in.one_of({1.0, 1.0, 1.0 / 37, -2.0, 0.0});
  const double gamma = in.one_of({2.0, 2.0, 1.0, 0.0, 1.5, -1.0});
  const double alpha = in.one_of({0.75, 0.0, 1.0, 3.0, -0.5});
  const bool is_constant = !in.flag() && of == kind::varifocal;
  test::soft_loss loss(is_constant ? kind::varifocal_constant : of, alpha, gamma, scale);
  loss.row_weights = weights;
  std::vector<index_t> label_values;
  std::vector<float> score_values;
  for (index_t i = 0; i < rows; ++i) {
    label_values.push_back(in.integer(-2, cols + (in.byte() < 8 ? 1 : -1)));
    score_values.push_back(in.flag() ? static_cast<float>(in.tame(0, 1)) : in.one_of({0.0f, 1.0f}));
  }
  const fuzz::tensor<index_t> labels(label_values);
  const fuzz::tensor<float> scores(score_values);
  const fuzz::tensor<T> logits = in.numbers<T>(extent);
  const matrix_view<const T> x(logits.data(), rows, cols, stride);
  const scored_labels targets{labels, scores};

  const fuzz::tensor<T> out(extent);
  fuzz::on_every_isa(
      std::string("soft target loss ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        std::fill(out.begin(), out.end(), test::to<T>(-12345));
        const matrix_view<T> view(out.data(), rows, cols, stride);
        const auto policy = threading::sequential;
        const auto add = [&] {
          for (index_t i = 0; i < rows; ++i)
            for (index_t j = 0; j < cols; ++j) results.add(static_cast<double>(view(i, j)));
        };
        loss.unreduced(x, targets, view, policy);
        add();
        const double sum = loss.sum_and_grad(x, targets, view, policy);
        add();
        if (!fuzz::same_number(sum, loss.sum(x, targets, threading::parallel)))
          fuzz::fail("the loss alone differs from the loss with gradient");
      },
      [&](const char* set, const std::vector<double>& values) {
        if (x.empty()) return;
        for (std::size_t k = 0; k < values.size(); ++k) {
          const auto index = static_cast<index_t>(k) % (rows * cols);
          const index_t i = index / cols, j = index % cols;
          const auto row = static_cast<std::size_t>(i);
          const double logit = static_cast<double>(x(i, j));
          const double weight = weights.size() == 0 ? 1 : weights.data()[i];
          test::soft_loss::element e{0, 0, 0};
          if (label_values[row] != -2)
            e = loss.exact(logit, label_values[row] == j, score_values[row]);
          const bool is_grad = static_cast<index_t>(k) >= rows * cols;
          const double expected =
              reference::vanishing_product(scale * weight, is_grad ? e.grad : e.loss);
          fuzz::expect_near(
              [&] {
                return std::string(set) + (is_grad ? " gradient" : " loss") + " of logit " +
                       std::to_string(logit);
              },
              values[k], expected, fuzz::tolerance<T>(),
              1e-30 + 1e-12 * std::abs(scale * weight) * (1 + std::abs(logit)));
        }
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { soft_target_loss<decltype(zero)>(in); });
}

// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels on any shape, stride, logits, labels, scores and parameters.
#include "fuzz_input.hpp"
#include <vecdet/reference/focal_loss.hpp>

using namespace vecdet;

namespace {

enum class kind { quality, varifocal, bce };

struct any_params {
  quality_focal_params quality;
  varifocal_params varifocal;
  bce_params bce;
};

struct element {
  double loss, grad;
};

/// Exact loss and gradient of one logit.
element exact(kind of, const any_params& params, double x, bool labelled, double t) {
  using namespace reference;
  const double gamma = of == kind::quality     ? params.quality.beta
                       : of == kind::varifocal ? params.varifocal.gamma
                                               : 0;
  if (!labelled) {
    const double weight = of == kind::varifocal ? params.varifocal.alpha : 1;
    const bool constant = of == kind::varifocal && !params.varifocal.grad_through_factor;
    return {vanishing_product(weight, focal_cross_entropy(-x, gamma)),
            weight *
                (constant ? constant_factor_grad(x, gamma) : -focal_cross_entropy_grad(-x, gamma))};
  }
  if (of == kind::quality)
    return {quality_focal_loss(x, t, gamma), quality_focal_loss_grad(x, t, gamma)};
  if (of == kind::varifocal) return {varifocal_loss(x, t), varifocal_loss_grad(x, t)};
  return {soft_focal_loss(x, t, -1, 0), soft_focal_loss_grad(x, t, -1, 0)};
}

template <class T>
void soft_target_loss(fuzz::input& in) {
  const index_t rows = in.integer(0, 9), cols = in.integer(0, 300);
  const index_t stride = cols + in.one_of<index_t>({0, 0, 1, 5});
  const index_t extent = rows == 0 ? 0 : (rows - 1) * stride + cols;
  const kind of = in.one_of({kind::quality, kind::varifocal, kind::bce});
  const auto weights = fuzz::some_weights(in, rows);
  const double scale = in.one_of({1.0, 1.0, 1.0 / 37, -2.0, 0.0});
  any_params params;
  params.quality.beta = params.varifocal.gamma = in.one_of({2.0, 2.0, 1.0, 0.0, 1.5, -1.0});
  params.varifocal.alpha = in.one_of({0.75, 0.0, 1.0, 3.0, -0.5});
  params.varifocal.grad_through_factor = in.flag();
  params.quality.scale = params.varifocal.scale = params.bce.scale = scale;
  params.quality.row_weights = weights;
  params.varifocal.row_weights = weights;
  params.bce.row_weights = weights;
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
        double sum = 0, sum_alone = 0;
        if (of == kind::quality) {
          quality_focal_loss_unreduced(x, targets, view, params.quality, policy);
          add();
          sum = quality_focal_loss_and_grad(x, targets, view, params.quality, policy);
          sum_alone = quality_focal_loss(x, targets, params.quality);
        } else if (of == kind::varifocal) {
          varifocal_loss_unreduced(x, targets, view, params.varifocal, policy);
          add();
          sum = varifocal_loss_and_grad(x, targets, view, params.varifocal, policy);
          sum_alone = varifocal_loss(x, targets, params.varifocal);
        } else {
          bce_loss_unreduced(x, targets, view, params.bce, policy);
          add();
          sum = bce_loss_and_grad(x, targets, view, params.bce, policy);
          sum_alone = bce_loss(x, targets, params.bce);
        }
        add();
        if (!fuzz::same_number(sum, sum_alone))
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
          element e{0, 0};
          if (label_values[row] != -2)
            e = exact(of, params, logit, label_values[row] == j, score_values[row]);
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

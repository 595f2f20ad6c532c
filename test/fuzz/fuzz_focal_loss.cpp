// SPDX-License-Identifier: Apache-2.0
// The focal loss functions on any shape, stride, logits, labels and parameters.
#include "fuzz_input.hpp"
#include <vecdet/reference/focal_loss.hpp>

using namespace vecdet;

namespace {

template <class T>
void focal_loss(fuzz::input& in) {
  const index_t rows = in.integer(0, 9), cols = in.integer(0, 300);
  const index_t stride = cols + in.one_of<index_t>({0, 0, 1, 5});
  const index_t extent = rows == 0 ? 0 : (rows - 1) * stride + cols;
  const bool dense = in.flag();

  focal_loss_params params;
  params.alpha = in.one_of({0.25, -1.0, 0.0, 1.0, 0.5, in.tame(0, 1)});
  params.gamma = in.one_of({2.0, 2.0, 1.0, 0.0, 0.5, in.tame(0, 6), -1.0});
  params.scale = in.one_of({1.0, 1.0, 1.0 / 37, -2.0, 0.0});
  params.reduction = in.flag() ? reduction::sum : reduction::mean;
  const auto weights = fuzz::some_weights(in, rows);
  params.row_weights = weights;
  std::vector<index_t> label_values;
  for (index_t i = 0; i < rows; ++i)
    label_values.push_back(in.integer(-2, cols + (in.byte() < 8 ? 1 : -1)));
  const fuzz::tensor<index_t> labels(label_values);
  // The same said otherwise: in 32 bits, with other values of background and ignore.
  const fuzz::tensor<std::int32_t> renamed = fuzz::renamed(label_values);
  const fuzz::tensor<T> targets(extent);
  for (T& t : targets) {
    const std::uint8_t kind = dense ? in.byte() : std::uint8_t{0};
    t = test::to<T>(kind < 128 ? 0.0 : kind < 192 ? 1.0 : in.tame(0, 1));
  }
  const fuzz::tensor<T> logits = in.numbers<T>(extent);

  const matrix_view<const T> x(logits.data(), rows, cols, stride);
  const matrix_view<const T> t(targets.data(), rows, cols, stride);
  const focal_targets<T> truth = dense ? focal_targets<T>(t) : focal_targets<T>(labels);

  // The reference knows neither bad arguments nor empty tensors.
  bool checked = !x.empty() && params.gamma >= 0;
  for (const index_t label : labels) checked = checked && (dense || label < cols);
  std::vector<double> exact(static_cast<std::size_t>(2 * rows * cols));
  double exact_sum = 0;
  if (checked) {
    reference::focal_loss_params p;
    p.alpha = params.alpha;
    p.gamma = params.gamma;
    p.scale = params.scale;
    const std::vector<double> w(weights.begin(), weights.end());
    matrix_view<double> loss(exact.data(), rows, cols), grad(loss.data() + rows * cols, rows, cols);
    exact_sum = dense ? reference::sigmoid_focal_loss(x, t, p, grad, loss, w)
                      : reference::sigmoid_focal_loss(x, label_values, p, grad, loss, w);
  }
  const double mean = params.reduction == reduction::mean ? static_cast<double>(rows * cols) : 1;

  const fuzz::tensor<T> out(extent);
  fuzz::on_every_isa(
      std::string("focal loss ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        for (T& element : out) element = test::to<T>(-12345);
        const matrix_view<T> out_view(out.data(), rows, cols, stride);
        const auto add = [&] {
          for (index_t i = 0; i < rows; ++i) {
            for (index_t j = 0; j < stride && i * stride + j < extent; ++j) {
              const double value = static_cast<double>(out_view.data()[i * stride + j]);
              if (j < cols) results.add(value);
              if (j >= cols && value != static_cast<double>(test::to<T>(-12345)))
                fuzz::fail("padding was written");
            }
          }
        };
        sigmoid_focal_loss_unreduced(x, truth, out_view, params, execution::sequential);
        add();
        const double sum =
            sigmoid_focal_loss_and_grad(x, truth, out_view, params, execution::sequential);
        add();
        results.add(sum);
        const std::vector<T> grad(out.begin(), out.end());
        const fuzz::tensor<T> grad_over_logits(std::vector<T>(logits.begin(), logits.end()));
        for (index_t i = 0; i < rows; ++i)
          for (index_t j = 0; j < cols; ++j)
            grad_over_logits.data()[i * stride + j] = out_view(i, j);
        fuzz::expect_same_in_place("sigmoid_focal_loss_and_grad", logits, grad_over_logits,
                                   [&](const fuzz::tensor<T>& both) {
                                     const matrix_view<T> view(both.data(), rows, cols, stride);
                                     sigmoid_focal_loss_and_grad(view, truth, view, params,
                                                                 execution::sequential);
                                   });
        sigmoid_focal_loss_grad(x, truth, 1.0, out_view, params, execution::sequential);
        for (std::size_t k = 0; k < grad.size(); ++k)
          if (!fuzz::same_number(static_cast<double>(grad[k]), static_cast<double>(out[k])))
            fuzz::fail("the gradient alone differs from the gradient with loss");
        if (!fuzz::same_number(sum, sigmoid_focal_loss(x, truth, params, execution::parallel)))
          fuzz::fail("the loss alone differs from the loss with gradient");
        focal_loss_params otherwise = params;
        otherwise.background = fuzz::other_background;
        otherwise.ignore = fuzz::other_ignore;
        if (!dense &&
            !fuzz::same_number(sum, sigmoid_focal_loss(x, focal_targets<T>(renamed), otherwise)))
          fuzz::fail("the loss depends on how labels are said");
      },
      [&](const char* set, const std::vector<double>& values) {
        if (!checked) return;
        const double relative = fuzz::tolerance<T>();
        for (std::size_t k = 0; k + 1 < values.size(); ++k) {
          const bool is_grad = k >= static_cast<std::size_t>(rows * cols);
          const std::size_t element = is_grad ? k - static_cast<std::size_t>(rows * cols) : k;
          const auto i = static_cast<index_t>(element) / cols,
                     j = static_cast<index_t>(element) % cols;
          const double logit = static_cast<double>(x(i, j));
          // Gradients of soft targets cancel.
          const double absolute = 1e-30 + (dense ? 1e-13 * (1 + std::abs(logit)) : 0);
          fuzz::expect_near(
              [&] {
                return std::string(set) + (is_grad ? " gradient" : " loss") + " of logit " +
                       std::to_string(logit) + " gamma " + std::to_string(params.gamma);
              },
              values[k], is_grad ? exact[k] / mean : exact[k], relative, absolute);
        }
        // Losses of a block are added in float before they are weighted: near its largest number
        // they overflow.
        for (index_t i = 0; i < rows; ++i)
          for (index_t j = 0; j < cols; ++j)
            if (std::abs(static_cast<double>(x(i, j))) > 1e36) return;
        fuzz::expect_near([&] { return std::string(set) + " sum"; }, values.back(),
                          exact_sum / mean, 1e-5, 1e-30);
      });

  const fuzz::tensor<T> arriving = in.numbers<T>(extent);
  const matrix_view<const T> upstream(arriving.data(), rows, cols, stride);
  fuzz::on_every_isa(
      std::string("focal loss upstream ") + dtype_name<T>(), [&](fuzz::results& results) {
        sigmoid_focal_loss_grad(x, truth, upstream, matrix_view<T>(out.data(), rows, cols, stride),
                                params, execution::parallel);
        results.add(out);
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { focal_loss<decltype(zero)>(in); });
}

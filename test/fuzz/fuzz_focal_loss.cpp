// SPDX-License-Identifier: Apache-2.0
// The focal loss functions on any shape, stride, logits, labels and parameters. Every element must
// be independent of the strides of inputs and outputs, and memory between rows must not be touched.
#include "fuzz_input.hpp"
#include <vecdet/reference/focal_loss.hpp>

using namespace vecdet;

namespace {

template <class T>
T mark() {
  return test::to<T>(-12345);
}

/// A copy with rows `stride` apart and marks between them.
template <class T>
fuzz::tensor<T> with_stride(matrix_view<const T> from, index_t stride) {
  const index_t rows = from.rows(), cols = from.cols();
  const fuzz::tensor<T> copy(rows == 0 ? 0 : (rows - 1) * stride + cols);
  std::fill(copy.begin(), copy.end(), mark<T>());
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j) copy.data()[i * stride + j] = from(i, j);
  return copy;
}

/// Adds the elements of a matrix; fails if a mark between its rows has changed.
template <class T>
void add_elements(fuzz::results& to, const fuzz::tensor<T>& memory, index_t cols, index_t stride) {
  for (index_t k = 0; k < memory.size(); ++k) {
    const T value = memory.data()[k], untouched = mark<T>();
    if (k % stride < cols) {
      to.add(static_cast<double>(value));
    } else if (std::memcmp(&value, &untouched, sizeof(T)) != 0) {
      fuzz::fail("padding was written");
    }
  }
}

/// Losses and gradients with any strides must be bit-identical to those of rows without gaps, even
/// with weights that are infinite, huge or 0. Only NaN may give NaN.
template <class T>
void strided(fuzz::input& in, matrix_view<const T> x, matrix_view<const T> t,
             matrix_view<const T> upstream, const fuzz::tensor<index_t>& labels, bool dense,
             focal_loss_params params) {
  const index_t rows = x.rows(), cols = x.cols();
  const auto stride = [&] { return cols + in.one_of<index_t>({0, 1, 3, 16, 100}); };
  const index_t x_stride = stride(), t_stride = stride(), upstream_stride = stride(),
                out_stride = stride();
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> weights;
  if (in.flag())
    for (index_t i = 0; i < rows; ++i)
      weights.push_back(in.one_of({1.0f, 0.0f, inf, -inf, 3e38f, 1e-42f, 1e10f, -0.3f}));
  const fuzz::tensor<float> special(weights);
  if (!weights.empty()) params.row_weights = special;
  params.scale = in.one_of({params.scale, params.scale, 3e38, 1e-40});
  const double arriving = in.one_of({1.0, -3e38, 1e-30});

  const auto run = [&](bool gaps) {
    const auto row_stride = [&](index_t own) { return gaps ? own : cols; };
    const auto xs = with_stride(x, row_stride(x_stride)), ts = with_stride(t, row_stride(t_stride));
    const auto us = with_stride(upstream, row_stride(upstream_stride));
    const matrix_view<const T> logits(xs.data(), rows, cols, row_stride(x_stride));
    const matrix_view<const T> targets(ts.data(), rows, cols, row_stride(t_stride));
    const matrix_view<const T> upstreams(us.data(), rows, cols, row_stride(upstream_stride));
    const auto truth = dense ? focal_targets<T>(targets) : focal_targets<T>(labels);
    const fuzz::tensor<T> out(rows == 0 ? 0 : (rows - 1) * row_stride(out_stride) + cols);
    std::fill(out.begin(), out.end(), mark<T>());
    const matrix_view<T> view(out.data(), rows, cols, row_stride(out_stride));
    fuzz::results results;
    const auto add = [&] { add_elements(results, out, cols, row_stride(out_stride)); };
    const threading policy = gaps ? threading::parallel : threading::sequential;
    sigmoid_focal_loss_unreduced(logits, truth, view, params, policy);
    add();
    sigmoid_focal_loss_grad(logits, truth, arriving, view, params, policy);
    add();
    for (index_t k = 0; k < static_cast<index_t>(results.values().size()); ++k) {
      const index_t i = k % (rows * cols) / cols, j = k % cols;
      const double target = dense ? static_cast<double>(t(i, j)) : 0;
      if (std::isnan(results.values()[static_cast<std::size_t>(k)]) &&
          !std::isnan(static_cast<double>(x(i, j))) && target >= 0 && target <= 1)
        fuzz::fail("NaN of numbers");
    }
    sigmoid_focal_loss_grad(logits, truth, upstreams, view, params, policy);
    add();
    return results;
  };
  fuzz::on_every_isa(std::string("focal loss strides ") + dtype_name<T>(),
                     [&](fuzz::results& results) {
                       results = run(false);
                       fuzz::expect_same("the focal loss depends on strides", results, run(true));
                     });
}

/// The maximum of the terms of an element's gradient.
double terms_of_gradient(double x, double t, const focal_loss_params& params) {
  if (std::isnan(x)) return 0;
  const reference::soft_focal_terms terms(x, t, params.alpha);
  const double slope = reference::sigmoid(x) * reference::sigmoid(-x) / terms.miss;
  return std::abs(terms.weight) * std::pow(terms.miss, params.gamma) *
         (1 + params.gamma * reference::vanishing_product(slope, terms.cross_entropy));
}

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
  // The same labels in 32 bits, with other values of background and ignore.
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

  // The reference does not handle bad arguments and empty tensors.
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
        std::fill(out.begin(), out.end(), mark<T>());
        const matrix_view<T> out_view(out.data(), rows, cols, stride);
        const auto add = [&] { add_elements(results, out, cols, stride); };
        sigmoid_focal_loss_unreduced(x, truth, out_view, params, threading::sequential);
        add();
        const double sum =
            sigmoid_focal_loss_and_grad(x, truth, out_view, params, threading::sequential);
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
                                                                 threading::sequential);
                                   });
        sigmoid_focal_loss_grad(x, truth, 1.0, out_view, params, threading::sequential);
        for (std::size_t k = 0; k < grad.size(); ++k)
          if (!fuzz::same_number(static_cast<double>(grad[k]), static_cast<double>(out[k])))
            fuzz::fail("the gradient alone differs from the gradient with loss");
        if (!fuzz::same_number(sum, sigmoid_focal_loss(x, truth, params, threading::parallel)))
          fuzz::fail("the loss alone differs from the loss with gradient");
        focal_loss_params otherwise = params;
        otherwise.background = fuzz::other_background;
        otherwise.ignore = fuzz::other_ignore;
        if (!dense &&
            !fuzz::same_number(sum, sigmoid_focal_loss(x, focal_targets<T>(renamed), otherwise)))
          fuzz::fail("the loss depends on the representation of labels");
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
          // The terms of soft targets' gradients may cancel.
          double absolute = 1e-30 + (dense ? 1e-13 * (1 + std::abs(logit)) : 0);
          if (dense && is_grad) {
            const double weight = weights.size() == 0 ? 1 : weights.data()[i];
            absolute += relative * std::abs(params.scale * weight) / mean *
                        terms_of_gradient(logit, static_cast<double>(t(i, j)), params);
          }
          fuzz::expect_near(
              [&] {
                return std::string(set) + (is_grad ? " gradient" : " loss") + " of logit " +
                       std::to_string(logit) + " gamma " + std::to_string(params.gamma);
              },
              values[k], is_grad ? exact[k] / mean : exact[k], relative, absolute);
        }
        // The losses of a block are added in float before they are weighted; near float's largest
        // number, they overflow.
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
                                params, threading::parallel);
        results.add(out);
      });
  strided(in, x, t, upstream, labels, dense, params);
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { focal_loss<decltype(zero)>(in); });
}

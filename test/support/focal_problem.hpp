// SPDX-License-Identifier: Apache-2.0
// Focal loss problems and their comparison with the reference.
#pragma once

#include "isa.hpp"
#include "soft_loss.hpp"
#include "ulp.hpp"
#include "values.hpp"
#include <vecdet/focal_loss.hpp>
#include <vecdet/reference/focal_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace vecdet::test {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A tensor in memory that starts `offset` elements after an aligned address, with `padding`
/// elements after each row, which hold a mark that must not change.
template <class T>
class tensor {
 public:
  tensor(index_t rows, index_t cols, index_t offset = 0, index_t padding = 0)
      : rows_(rows),
        cols_(cols),
        offset_(offset),
        stride_(cols + padding),
        memory_(static_cast<std::size_t>(offset + rows * (cols + padding) + 1), mark()) {}

  matrix_view<T> view() { return {memory_.data() + offset_, rows_, cols_, stride_}; }
  matrix_view<const T> view() const { return {memory_.data() + offset_, rows_, cols_, stride_}; }

  bool padding_untouched() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const index_t at = static_cast<index_t>(i) - offset_;
      const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
      if (!inside && std::memcmp(&memory_[i], &mark_, sizeof(T)) != 0) return false;
    }
    return true;
  }
  /// Whether all memory is the same, padding too.
  bool operator==(const tensor& other) const { return same_bits(memory_, other.memory_); }

  template <class Source>
  void fill(const Source& source) {
    index_t k = 0;
    for (index_t i = 0; i < rows_; ++i)
      for (index_t j = 0; j < cols_; ++j) view()(i, j) = source(k++);
  }

 private:
  static T mark() { return to<T>(-12345); }

  index_t rows_, cols_, offset_, stride_;
  T mark_ = mark();
  std::vector<T> memory_;
};

/// Whether `actual` is within 8 ulp of `exact` in float; a bfloat16 must be the rounding of such a
/// float. If one is below 1e-30, the other only needs to be as small. In double, 1024 ulp are
/// allowed, because terms cancel in the gradients of soft targets. `terms` is the largest of the
/// terms that may cancel; 11 ulp of it are allowed in addition.
inline bool close_enough(float actual, double exact, double terms = 0) {
  if (std::abs(static_cast<double>(actual) - exact) <= 11 * terms * 0x1p-23) return true;
  if (std::abs(exact) <= 1e-30) return std::abs(actual) <= 1.0001e-30f;
  if (std::isinf(actual)) return exact * static_cast<double>(actual) > 3.4028e38;
  return ulp_distance(actual, exact) <= 8;
}
inline bool close_enough(double actual, double exact, double terms = 0) {
  if (std::abs(actual - exact) <= 1024 * terms * 0x1p-52) return true;
  if (std::abs(exact) <= 1e-290) return std::abs(actual) <= 1.0001e-290;
  return ulp_distance(actual, exact) <= 1024;
}
inline bool close_enough(bfloat16 actual, double exact, double terms = 0) {
  if (std::abs(exact) <= 1e-30) return std::abs(static_cast<float>(actual)) <= 1.01e-30f;
  if (!std::isfinite(exact)) return ulp_distance(actual, exact) == 0;
  const double slack = 8 * ulp_of<float>(exact) + 11 * terms * 0x1p-23;
  const float low = bfloat16(static_cast<float>(exact - slack));
  const float high = bfloat16(static_cast<float>(exact + slack));
  return low <= static_cast<float>(actual) && static_cast<float>(actual) <= high;
}

/// `exact` itself may have an error of `exact_within`; if that is not 0, it may also be NaN.
/// `terms` may be empty.
template <class T>
void check_elements(matrix_view<const T> actual, matrix_view<const double> exact,
                    matrix_view<const T> logits, const char* what, double exact_within = 0,
                    matrix_view<const double> terms = {}) {
  for (index_t i = 0; i < actual.rows(); ++i) {
    for (index_t j = 0; j < actual.cols(); ++j) {
      if (close_enough(actual(i, j), exact(i, j), terms.empty() ? 0 : terms(i, j))) continue;
      if (std::abs(static_cast<double>(actual(i, j)) - exact(i, j)) <= exact_within) continue;
      if (exact_within > 0 && std::isnan(exact(i, j))) continue;
      FAIL_CHECK(std::string(what)
                 << " of logit " << static_cast<double>(logits(i, j)) << " is "
                 << static_cast<double>(actual(i, j)) << ", exact " << exact(i, j) << ": "
                 << ulp_distance(actual(i, j), exact(i, j)) << " ulp, at " << i << ", " << j);
      return;
    }
  }
}

/// One problem, and checks of all functions on it.
template <class T>
struct problem {
  tensor<T> logits;
  std::vector<index_t> labels;
  tensor<T> targets;
  bool dense;
  focal_loss_params params;
  std::vector<float> row_weights;

  problem(index_t rows, index_t cols, bool is_dense, index_t offset = 0, index_t padding = 0)
      : logits(rows, cols, offset, padding),
        targets(rows, cols, offset, padding),
        dense(is_dense) {}

  focal_targets<T> truth() const {
    if (dense) return targets.view();
    return labels;
  }

  void check() {
    const index_t rows = logits.view().rows(), cols = logits.view().cols();
    params.row_weights = row_weights;
    std::vector<double> grad(static_cast<std::size_t>(rows * cols)), loss(grad.size());
    matrix_view<double> exact_grad(grad.data(), rows, cols), exact_loss(loss.data(), rows, cols);
    const std::vector<double> weights(row_weights.begin(), row_weights.end());
    reference::focal_loss_params p;
    p.alpha = params.alpha;
    p.gamma = params.gamma;
    p.scale = params.scale;
    p.background = params.background;
    p.ignore = params.ignore;
    const matrix_view<const T> x = logits.view();
    const double exact =
        dense ? reference::sigmoid_focal_loss(x, targets.view(), p, exact_grad, exact_loss, weights)
              : reference::sigmoid_focal_loss(x, labels, p, exact_grad, exact_loss, weights);
    std::vector<double> terms(grad.size());
    for (index_t i = 0; dense && i < rows; ++i) {
      const auto weight = weights.empty() ? 1 : std::abs(weights[static_cast<std::size_t>(i)]);
      for (index_t j = 0; j < cols; ++j) {
        terms[static_cast<std::size_t>(i * cols + j)] =
            weight * terms_of_gradient(static_cast<double>(x(i, j)),
                                       static_cast<double>(targets.view()(i, j)), params);
      }
    }
    const auto check_grad = [&](matrix_view<const T> actual, const char* what) {
      check_elements<T>(actual, exact_grad, x, what, 0, {terms.data(), rows, cols});
    };
    INFO("rows ", rows, " cols ", cols, " alpha ", params.alpha, " gamma ", params.gamma,
         std::string(dense ? " dense " : " labels "), std::string(dtype_name<T>()));

    tensor<T> out(rows, cols, 1, 3);
    const double sum = sigmoid_focal_loss(x, truth(), params);
    const double sum_with_grad = sigmoid_focal_loss_and_grad(x, truth(), out.view(), params);
    check_grad(out.view(), "gradient");
    CHECK(out.padding_untouched());
    // For few elements, a sum is no more accurate than its elements.
    for (const double actual : {sum, sum_with_grad}) {
      CHECK((actual == exact || (std::isnan(actual) && std::isnan(exact)) ||
             std::abs(actual - exact) <= 5e-7 * std::abs(exact) + 1e-30));
    }

    sigmoid_focal_loss_unreduced(x, truth(), out.view(), params);
    check_elements<T>(out.view(), exact_loss, x, "loss");

    // An upstream gradient that is a power of two scales exactly.
    sigmoid_focal_loss_grad(x, truth(), -2.0, out.view(), params);
    for (double& g : grad) g *= -2;
    for (double& t : terms) t *= 2;
    check_grad(out.view(), "gradient times -2");
    tensor<T> upstream(rows, cols, 2, 1);
    upstream.fill([](index_t k) { return to<T>(k % 2 == 0 ? -0.5 : 4); });
    for (std::size_t k = 0; k < grad.size(); ++k) {
      grad[k] *= k % 2 == 0 ? 0.25 : -2;
      terms[k] *= k % 2 == 0 ? 0.25 : 2;
    }
    sigmoid_focal_loss_grad(x, truth(), matrix_view<const T>(upstream.view()), out.view(), params);
    check_grad(out.view(), "gradient times upstream tensor");
  }
};

template <class T>
problem<T> random_problem(index_t rows, index_t cols, bool dense, bool soft, std::uint64_t seed,
                          index_t offset = 0, index_t padding = 0) {
  problem<T> p(rows, cols, dense, offset, padding);
  const auto logits = random_logits<T>(rows * cols, seed);
  p.logits.fill([&](index_t k) { return logits[static_cast<std::size_t>(k)]; });
  p.labels = random_labels(rows, cols, seed + 1);
  random_generator generator(seed + 2);
  p.targets.fill([&](index_t) {
    return to<T>(soft && generator.chance(0.3) ? generator.uniform() : generator.chance(0.1));
  });
  return p;
}

template <class T>
std::vector<T> gradient(const problem<T>& p, threading policy, double* loss) {
  const matrix_view<const T> x = p.logits.view();
  std::vector<T> grad(static_cast<std::size_t>(x.size()));
  *loss = sigmoid_focal_loss_and_grad(x, p.truth(), {grad.data(), x.rows(), x.cols()}, p.params,
                                      policy);
  return grad;
}

}  // namespace vecdet::test

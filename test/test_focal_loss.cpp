// SPDX-License-Identifier: Apache-2.0
// The focal loss kernels against the reference: every instruction set, element type, kind of
// target, gamma and output, at lengths around the vector and block widths, at misaligned starts,
// with strides, and at special values; sums, determinism and every documented error.
#include "support/allocations.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/sanitizer.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/focal_loss.hpp>
#include <vecdet/reference/focal_loss.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A tensor in memory that starts `offset` elements after an aligned address, with rows that are
/// `padding` elements further apart than they are long. Padding holds a mark that must survive.
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
  bool untouched() const {
    for (const T& element : memory_)
      if (std::memcmp(&element, &mark_, sizeof(T)) != 0) return false;
    return true;
  }

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

/// Whether `actual` is within 8 ulp of `exact` in float, or its rounding in bfloat16; below 1e-30
/// only that both are that small. In double 1024 ulp: soft targets' gradients cancel.
bool close_enough(float actual, double exact) {
  if (std::abs(exact) <= 1e-30) return std::abs(actual) <= 1.0001e-30f;
  if (std::isinf(actual)) return exact * static_cast<double>(actual) > 3.4028e38;
  return ulp_distance(actual, exact) <= 8;
}
bool close_enough(double actual, double exact) {
  if (std::abs(exact) <= 1e-290) return std::abs(actual) <= 1.0001e-290;
  return ulp_distance(actual, exact) <= 1024;
}
bool close_enough(bfloat16 actual, double exact) {
  if (std::abs(exact) <= 1e-30) return std::abs(static_cast<float>(actual)) <= 1.01e-30f;
  if (!std::isfinite(exact)) return ulp_distance(actual, exact) == 0;
  const double slack = 8 * ulp_of<float>(exact);
  const float low = bfloat16(static_cast<float>(exact - slack));
  const float high = bfloat16(static_cast<float>(exact + slack));
  return low <= static_cast<float>(actual) && static_cast<float>(actual) <= high;
}

/// `exact` itself may be off by `exact_within`, and NaN where that is not 0.
template <class T>
void check_elements(matrix_view<const T> actual, matrix_view<const double> exact,
                    matrix_view<const T> logits, const char* what, double exact_within = 0) {
  for (index_t i = 0; i < actual.rows(); ++i) {
    for (index_t j = 0; j < actual.cols(); ++j) {
      if (close_enough(actual(i, j), exact(i, j))) continue;
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

/// One problem, in every output form.
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
    INFO("rows ", rows, " cols ", cols, " alpha ", params.alpha, " gamma ", params.gamma,
         std::string(dense ? " dense " : " labels "), std::string(dtype_name<T>()));

    tensor<T> out(rows, cols, 1, 3);
    const double sum = sigmoid_focal_loss(x, truth(), params);
    const double sum_with_grad = sigmoid_focal_loss_and_grad(x, truth(), out.view(), params);
    check_elements<T>(out.view(), exact_grad, x, "gradient");
    CHECK(out.padding_untouched());
    // Of few elements, a sum is no better than they are.
    for (const double actual : {sum, sum_with_grad}) {
      CHECK((actual == exact || (std::isnan(actual) && std::isnan(exact)) ||
             std::abs(actual - exact) <= 5e-7 * std::abs(exact) + 1e-30));
    }

    sigmoid_focal_loss_unreduced(x, truth(), out.view(), params);
    check_elements<T>(out.view(), exact_loss, x, "loss");

    // An upstream gradient that is a power of two scales exactly.
    sigmoid_focal_loss_grad(x, truth(), -2.0, out.view(), params);
    for (double& g : grad) g *= -2;
    check_elements<T>(out.view(), exact_grad, x, "gradient times -2");
    tensor<T> upstream(rows, cols, 2, 1);
    upstream.fill([](index_t k) { return to<T>(k % 2 == 0 ? -0.5 : 4); });
    for (std::size_t k = 0; k < grad.size(); ++k) grad[k] *= k % 2 == 0 ? 0.25 : -2;
    sigmoid_focal_loss_grad(x, truth(), matrix_view<const T>(upstream.view()), out.view(), params);
    check_elements<T>(out.view(), exact_grad, x, "gradient times upstream tensor");
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
void sweep_shapes() {
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

template <class T>
void sweep_parameters() {
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

template <class T>
void sweep_special_values() {
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

template <class T>
std::vector<T> gradient(const problem<T>& p, execution policy, double* loss) {
  const matrix_view<const T> x = p.logits.view();
  std::vector<T> grad(static_cast<std::size_t>(x.size()));
  *loss = sigmoid_focal_loss_and_grad(x, p.truth(), {grad.data(), x.rows(), x.cols()}, p.params,
                                      policy);
  return grad;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace

TEST_CASE("focal loss: shapes, float") { sweep_shapes<float>(); }
TEST_CASE("focal loss: shapes, bfloat16") { sweep_shapes<bfloat16>(); }
TEST_CASE("focal loss: shapes, double") { sweep_shapes<double>(); }
TEST_CASE("focal loss: parameters, float") { sweep_parameters<float>(); }
TEST_CASE("focal loss: parameters, bfloat16") { sweep_parameters<bfloat16>(); }
TEST_CASE("focal loss: parameters, double") { sweep_parameters<double>(); }
TEST_CASE("focal loss: special values, float") { sweep_special_values<float>(); }
TEST_CASE("focal loss: special values, bfloat16") { sweep_special_values<bfloat16>(); }
TEST_CASE("focal loss: special values, double") { sweep_special_values<double>(); }

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

TEST_CASE("focal loss: every 331st float logit is within 8 ulp") {
  // Sanitizers find nothing more in more numbers, but take many times as long.
  constexpr std::uint32_t step = under_sanitizer ? 331 * 61 : 331;
  std::vector<float> logits;
  for (std::uint64_t bits = 0; bits < 0xffffffffu; bits += step) {
    const auto word = static_cast<std::uint32_t>(bits);
    float x;
    std::memcpy(&x, &word, sizeof x);
    if (!std::isnan(x)) logits.push_back(x);
  }
  const auto count = static_cast<index_t>(logits.size());
  const matrix_view<const float> view(logits.data(), count, 1);
  std::vector<index_t> labels(logits.size(), -1);
  for (std::size_t i = 0; i < labels.size(); i += 2) labels[i] = 0;
  std::vector<float> grad(logits.size()), loss(logits.size());
  const matrix_view<float> grad_view(grad.data(), count, 1), loss_view(loss.data(), count, 1);
  focal_loss_params params;
  std::vector<double> exact_grad(logits.size()), exact_loss(logits.size());
  for (const double gamma : {2.0, 1.0, 0.0}) {
    params.gamma = gamma;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const bool positive = labels[i] == 0;
      exact_grad[i] = reference::hard_focal_loss_grad(logits[i], positive, params.alpha, gamma);
      exact_loss[i] = reference::hard_focal_loss(logits[i], positive, params.alpha, gamma);
    }
    for_each_isa([&](isa) {
      for (const double scale : {1.0 / 37, 1.3, 0.7}) {  // weights that are no floats
        params.scale = scale;
        sigmoid_focal_loss_and_grad(view, labels, grad_view, params);
        sigmoid_focal_loss_unreduced(view, labels, loss_view, params);
        double worst_grad = 0, worst_loss = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
          const double of_grad = scale * exact_grad[i], of_loss = scale * exact_loss[i];
          if (std::abs(of_grad) > 1e-30)
            worst_grad = std::max(worst_grad, ulp_distance(grad[i], of_grad));
          if (of_loss > 1e-30) worst_loss = std::max(worst_loss, ulp_distance(loss[i], of_loss));
        }
        MESSAGE("gamma " << gamma << " scale " << scale << ": loss within " << worst_loss
                         << " ulp, gradient within " << worst_grad);
        CHECK(worst_grad <= 8);
        CHECK(worst_loss <= 8);
      }
    });
  }
}

TEST_CASE("focal loss: golden vectors of torchvision") {
  if (!has_data("golden/focal_logits.npy", "focal loss against torchvision")) return;
  const auto logits = golden<float>("focal_logits");
  const auto labels = golden<std::int64_t>("focal_labels");
  const auto soft = golden<float>("focal_soft_targets");
  const auto golden_params = golden<double>("focal_params");
  const index_t rows = logits.shape[0], cols = logits.shape[1];
  const matrix_view<const float> x(logits.values.data(), rows, cols);
  const matrix_view<const float> targets(soft.values.data(), rows, cols);
  std::vector<float> out(logits.values.size());
  const matrix_view<float> out_view(out.data(), rows, cols);
  for_each_isa([&](isa) {
    for (index_t k = 0; k < golden_params.shape[0]; ++k) {
      focal_loss_params params;
      params.alpha = golden_params.values[static_cast<std::size_t>(2 * k)];
      params.gamma = golden_params.values[static_cast<std::size_t>(2 * k + 1)];
      INFO("alpha ", params.alpha, " gamma ", params.gamma);
      const auto check = [&](const std::string& kind, const focal_targets<float>& truth) {
        const auto loss = golden<double>("focal_" + kind + "_loss_" + std::to_string(k));
        const auto grad = golden<double>("focal_" + kind + "_grad_" + std::to_string(k));
        double exact_sum = 0;
        for (const double l : loss.values) exact_sum += l;
        CHECK(sigmoid_focal_loss_and_grad(x, truth, out_view, params) ==
              doctest::Approx(exact_sum).epsilon(1e-7));
        // PyTorch's 1 - p_t loses what is below double's epsilon; where that is 0, its gradient for
        // gamma < 1 is NaN.
        check_elements<float>(out_view, grad.matrix(), x, "gradient", 1e-14);
        sigmoid_focal_loss_unreduced(x, truth, out_view, params);
        check_elements<float>(out_view, loss.matrix(), x, "loss", 1e-14);
        params.reduction = reduction::mean;
        CHECK(sigmoid_focal_loss(x, truth, params) ==
              doctest::Approx(exact_sum / static_cast<double>(rows * cols)).epsilon(1e-7));
        params.reduction = reduction::sum;
      };
      check("labels", labels.values);
      check("soft", targets);
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: sums of 11 million elements are within 1e-7", T, float, bfloat16) {
  const index_t rows = 120087, cols = 91;
  problem<T> p(rows, cols, false);
  random_generator generator(5);
  p.logits.fill([&](index_t) { return to<T>(-4.6 + 1.5 * generator.normal()); });
  p.labels.assign(static_cast<std::size_t>(rows), -1);
  p.targets.fill([](index_t) { return to<T>(0); });
  for (index_t i = 0; i < 100; ++i) {
    p.labels[static_cast<std::size_t>(i * 1000)] = i % cols;
    p.targets.view()(i * 1000, i % cols) = to<T>(1);
  }
  tensor<T> grad(rows, cols);
  const matrix_view<const T> x = p.logits.view(), targets = p.targets.view();
  const double exact = reference::sigmoid_focal_loss(x, p.labels, {});
  for_each_isa([&](isa) {
    for (const focal_targets<T>& truth : {focal_targets<T>(p.labels), focal_targets<T>(targets)}) {
      for (const double sum :
           {sigmoid_focal_loss(x, truth), sigmoid_focal_loss_and_grad(x, truth, grad.view())}) {
        INFO("labels ", truth.are_labels(), " relative error ", sum / exact - 1);
        CHECK(std::abs(sum / exact - 1) <= 1e-7);
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: an element's bits do not depend on its block", T, float, bfloat16,
                   double) {
  enum class output { loss, grad, upstream_times_grad };
  const index_t rows = 3000;  // blocks by fours, ones and parts; more than 128 positives at the end
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
          const auto sequential = execution::sequential;
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
          for (index_t i = 0; i < rows; ++i)
            run(written, i, 1, logits.data() + i, alone.data() + i);
          CHECK(same_bits(whole, alone));
          if (dense) continue;
          for (std::size_t i = 0; i < labels.size(); ++i) {
            const auto result = static_cast<double>(whole[i]);
            if (labels[i] == -2) CHECK((result == 0 && !std::signbit(result)));
          }
        }
        std::vector<T> both = logits;  // the gradient in the logits' place
        run(output::grad, 0, rows, both.data(), both.data());
        CHECK(same_bits(whole, both));
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: an element's bits depend on that element alone", T, float, bfloat16,
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
        // The least number that exp(-|x|) gives begins at 86.64.
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
          sigmoid_focal_loss_unreduced(logit, truth, to_view, p, execution::sequential);
        } else if (written == output::grad) {
          sigmoid_focal_loss_grad(logit, truth, arriving, to_view, p, execution::sequential);
        } else {
          sigmoid_focal_loss_grad(logit, truth, arrived, to_view, p, execution::sequential);
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
              // Whatever the weights: NaN comes from NaN only.
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

TEST_CASE_TEMPLATE("focal loss: weights of any size", T, float, bfloat16, double) {
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
              // Sums of floats overflow before those of the reference, and weights lift what is too
              // small for double as well.
              if (!(std::abs(static_cast<double>(x(i, j))) < 200)) x(i, j) = to<T>(-1);
            }
          }
          p.check();
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: infinite row weights are the limit of growing ones", T, float,
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
            std::vector<T> of_one, of_infinite;
            run(ones, grad, of_one);
            run(infinite, grad, of_infinite);
            for (std::size_t k = 0; k < of_one.size(); ++k) {
              const auto one = static_cast<double>(of_one[k]);
              const bool is_infinite = std::isinf(infinite[k / static_cast<std::size_t>(cols)]);
              const double expected = is_infinite && one != 0 ? one * infinity : one;
              const auto actual = static_cast<double>(of_infinite[k]);
              INFO("element ", k, " grad ", grad, ": ", one, " becomes ", actual);
              REQUIRE((actual == expected || (std::isnan(actual) && std::isnan(expected))));
            }
          }
        }
      }
    }
    // Sums: inf with its sign, 0 of nothing, NaN of both signs.
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
  });
}

TEST_CASE("focal loss: scale and upstream multiply without overflow") {
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

TEST_CASE("focal loss: sums of huge logits") {
  // Losses of 1.9e37 each: 0.75 of the logit. 16 of them still make a float.
  for_each_isa([](isa) {
    const index_t rows = 64, cols = 32;
    const std::vector<float> logits(static_cast<std::size_t>(rows * cols), 2e37f);
    const std::vector<index_t> labels(static_cast<std::size_t>(rows), -1);
    std::vector<float> loss(logits.size());
    const matrix_view<const float> x(logits.data(), rows, cols);
    const double exact = 0.75 * static_cast<double>(logits[0]) * static_cast<double>(rows * cols);
    CHECK(sigmoid_focal_loss(x, labels) == doctest::Approx(exact).epsilon(1e-7));
    sigmoid_focal_loss_unreduced(x, labels, matrix_view<float>(loss.data(), rows, cols));
    CHECK(loss[5] == doctest::Approx(0.75 * static_cast<double>(logits[0])).epsilon(1e-6));
  });
}

TEST_CASE("focal loss: the same bits for any thread count, policy and on AVX2 and AVX-512") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    for (const bool dense : {false, true}) {
      const auto p = random_problem<T>(5000, 91, dense, true, 11);
      double loss = 0;
      std::vector<T> grad;
      const isa before = active_isa();
      for (const isa set : {isa::avx512, isa::avx2}) {
        if (!isa_available(set)) continue;
        set_isa(set);
        INFO(std::string(dtype_name<T>()), std::string(dense ? " targets on " : " labels on "),
             std::string(isa_name(set)));
        double this_loss;
        const auto this_grad = gradient(p, execution::sequential, &this_loss);
        if (grad.empty()) {
          grad = this_grad;
          loss = this_loss;
        }
        CHECK(same_bits(grad, this_grad));
        CHECK(std::memcmp(&loss, &this_loss, sizeof loss) == 0);
        for (const int threads : {1, 2, 3, 8}) {
          tbb::task_arena arena(threads);
          arena.execute([&] {
            double parallel_loss;
            CHECK(same_bits(grad, gradient(p, execution::parallel, &parallel_loss)));
            CHECK(std::memcmp(&loss, &parallel_loss, sizeof loss) == 0);
          });
        }
      }
      set_isa(before);
    }
  };
  check(0.0f);
  check(bfloat16(0.0f));
  check(0.0);
}

TEST_CASE("focal loss: the gradient may overwrite the logits") {
  for_each_isa([&](isa) {
    for (const bool dense : {false, true}) {
      auto p = random_problem<float>(300, 91, dense, false, 21);
      double loss;
      const auto grad = gradient(p, execution::parallel, &loss);
      const double in_place =
          sigmoid_focal_loss_and_grad(p.logits.view(), p.truth(), p.logits.view());
      CHECK(std::memcmp(&loss, &in_place, sizeof loss) == 0);
      CHECK(std::memcmp(grad.data(), p.logits.view().data(), grad.size() * sizeof(float)) == 0);
    }
  });
}

TEST_CASE("focal loss: label conventions") {
  auto p = random_problem<float>(50, 7, false, false, 31);
  const matrix_view<const float> x = p.logits.view();
  double loss;
  const auto grad = gradient(p, execution::sequential, &loss);
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

TEST_CASE_TEMPLATE("focal loss: rows are ignored whatever they hold", T, float, bfloat16, double) {
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
      double of_numbers, of_nans;
      const auto numbers = gradient(p, execution::parallel, &of_numbers);
      p.logits.fill([&](index_t k) {
        return to<T>(is_ignored(k) ? nan : -0.01 * static_cast<double>(k % 500));
      });
      const auto nans = gradient(p, execution::parallel, &of_nans);
      CHECK(of_numbers > 0);
      CHECK(std::memcmp(&of_numbers, &of_nans, sizeof of_nans) == 0);
      CHECK(same_bits(numbers, nans));
      for (index_t k = 0; k < rows * cols; ++k) {
        if (is_ignored(k)) REQUIRE(static_cast<double>(nans[static_cast<std::size_t>(k)]) == 0);
      }
    }
  });
}

TEST_CASE_TEMPLATE("focal loss: NaN of any bits stays NaN", T, float, bfloat16, double) {
  // Rounded to bfloat16, a NaN of all ones must not carry into its sign.
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
      // Logits: bfloat16's own NaN of all ones.
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

TEST_CASE("focal loss: nothing is allocated") {
  auto p = random_problem<float>(2000, 91, false, false, 41);
  std::vector<float> grad(2000 * 91);
  const auto call = [&](execution policy) {
    sigmoid_focal_loss_and_grad(p.logits.view(), p.labels, {grad.data(), 2000, 91}, p.params,
                                policy);
  };
  for (const execution policy : {execution::sequential, execution::parallel}) {
    call(policy);  // oneTBB starts its threads at the first call
    const allocation_count allocations;
    for (int i = 0; i < 20; ++i) call(policy);
    CHECK(allocations.since() == 0);
  }
}

TEST_CASE("focal loss: bad arguments are named and nothing is written") {
  tensor<float> logits(4, 5), grad(4, 5);
  logits.fill([](index_t) { return 0.5f; });
  const matrix_view<const float> x = logits.view();
  std::vector<index_t> labels{0, 4, -1, -2};
  focal_loss_params params;
  const auto fails = [&](const char* message) {
    INFO(std::string(message));
    CHECK_THROWS_WITH_AS(sigmoid_focal_loss_and_grad(x, labels, grad.view(), params),
                         doctest::Contains(message), std::invalid_argument);
    CHECK(grad.untouched());
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
  with_param(&focal_loss_params::alpha, 1.5, "params.alpha is 1.5");
  with_param(&focal_loss_params::alpha, -infinity, "params.alpha is -inf");
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
  fails("labels.size() is 3");
  labels.push_back(0);

  const auto throws = [&](const auto& call, const char* message) {
    INFO(std::string(message));
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), std::invalid_argument);
    CHECK(grad.untouched());
  };
  throws(
      [&] {
        sigmoid_focal_loss_and_grad(x, labels, {grad.view().data(), 4, 4});
      },
      "grad.cols() is 4");
  throws(
      [&] {
        sigmoid_focal_loss_unreduced(x, labels, {grad.view().data(), 2, 5});
      },
      "loss.rows() is 2");
  throws([&] { sigmoid_focal_loss(x, matrix_view<const float>(x.data(), 3, 5)); },
         "targets.rows() is 3");
  throws([&] { sigmoid_focal_loss_grad(x, labels, std::nan(""), grad.view()); }, "upstream is nan");
  throws(
      [&] {
        sigmoid_focal_loss_grad(x, labels, matrix_view<const float>(x.data(), 4, 2), grad.view());
      },
      "upstream.cols() is 2");
  throws([&] { matrix_view<float>(nullptr, 1, 1); }, "matrix_view: data is null");
  throws([&] { matrix_view<float>(grad.view().data(), -1, 1); }, "rows is -1");
  throws([&] { matrix_view<float>(grad.view().data(), 1, 4, 3); }, "stride is 3");
}

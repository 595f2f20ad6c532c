// SPDX-License-Identifier: Apache-2.0
// The smooth L1 kernels against the reference and torch's golden vectors: every instruction set,
// element type, output and selection, at lengths around a group of boxes, at misaligned starts and
// at special values; and every documented error.
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/smooth_l1.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

/// `count` numbers from tiny to large, dense around 0.
template <class T>
std::vector<T> random_numbers(index_t count, std::uint64_t seed) {
  random_generator generator(seed);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& number : numbers) {
    const double kind = generator.uniform();
    number = to<T>(kind < 0.1   ? 1e-6 * generator.normal()
                   : kind < 0.2 ? 1e4 * generator.normal()
                                : 0.3 * generator.normal());
  }
  return numbers;
}

template <class T>
struct problem {
  marked<T> predictions, targets;
  std::vector<index_t> labels;   ///< empty: all boxes
  std::vector<index_t> indices;  ///< the same selection
  smooth_l1_params params;
  std::vector<float> weights;

  problem(index_t boxes, std::uint64_t seed, index_t offset = 0)
      : predictions(random_numbers<T>(4 * boxes, seed), offset),
        targets(random_numbers<T>(4 * boxes, seed + 1), offset / 2) {}

  index_t boxes() const { return predictions.size() / 4; }

  void select(std::uint64_t seed, double foreground) {
    labels = random_labels(boxes(), 80, seed, foreground);
    for (index_t i = 0; i < boxes(); ++i)
      if (labels[static_cast<std::size_t>(i)] >= 0) indices.push_back(i);
  }

  void check() {
    params.box_weights = weights;
    const index_t n = boxes();
    std::vector<double> exact_grad(static_cast<std::size_t>(4 * n)), exact_loss(exact_grad.size());
    const matrix_view<const T> x(predictions.data(), n, 4), t(targets.data(), n, 4);
    const matrix_view<double> g(exact_grad.data(), n, 4), l(exact_loss.data(), n, 4);
    const std::vector<double> w(weights.begin(), weights.end());
    const double exact = labels.empty()
                             ? reference::smooth_l1_loss(x, t, params.beta, params.scale, g, l, w)
                             : reference::smooth_l1_loss_foreground(x, t, labels, params.beta,
                                                                    params.scale, g, l, w);
    INFO("boxes ", n, " beta ", params.beta, " scale ", params.scale, " ",
         std::string(dtype_name<T>()), " selected ", indices.size());
    if (labels.empty()) {
      check_selection(box_selection::all(), exact, exact_grad, exact_loss);
    } else {
      check_selection(labels, exact, exact_grad, exact_loss);
      const std::vector<int> narrow(labels.begin(), labels.end());
      check_selection(narrow, exact, exact_grad, exact_loss);
      check_selection(box_selection::list(indices), exact, exact_grad, exact_loss);
    }
  }

  void check_selection(const box_selection& selection, double exact,
                       const std::vector<double>& exact_grad,
                       const std::vector<double>& exact_loss) {
    const boxes_view<const T> x = predictions.boxes(), t = targets.boxes();
    marked<T> out(4 * boxes(), 1);
    const double sum = smooth_l1_loss(x, t, selection, params);
    const double sum_with_grad = smooth_l1_loss_and_grad(x, t, selection, out.boxes(), params);
    check_elements(out, exact_grad, "gradient");
    const double within = std::is_same<T, double>::value ? 1e-12 : 4e-7;
    for (const double actual : {sum, sum_with_grad}) {
      CHECK((actual == exact || (std::isnan(actual) && std::isnan(exact)) ||
             std::abs(actual - exact) <= within * std::abs(exact)));
    }
    smooth_l1_loss_unreduced(x, t, selection, out.boxes(), params);
    check_elements(out, exact_loss, "loss");
    CHECK(out.marks_untouched());
  }

  void check_elements(const marked<T>& actual, const std::vector<double>& exact, const char* what) {
    for (index_t i = 0; i < actual.size(); ++i) {
      const double e = exact[static_cast<std::size_t>(i)];
      // The loss of a difference below 1e-19 is denormal or 0.
      if (is_close(actual[i], e, 4)) continue;
      // A difference may overflow that does not in the reference, in double.
      if (std::isinf(static_cast<double>(actual[i])) && std::abs(e) > 3.4e38) continue;
      if (std::abs(e) < 1e-37 && std::abs(static_cast<double>(actual[i])) < 1e-37) continue;
      FAIL_CHECK(std::string(what)
                 << " " << i << " of " << static_cast<double>(predictions[i]) << " and "
                 << static_cast<double>(targets[i]) << " is " << static_cast<double>(actual[i])
                 << ", exact " << e << ": " << ulp_distance(actual[i], e) << " ulp");
      return;
    }
  }
};

}  // namespace

TEST_CASE("smooth L1: all boxes are selected unless a selection is given") {
  const std::vector<float> a{0, 0, 3, 4, 1, 1, 1, 2}, b{0, 1, 3, 4, 1, 1, 1, 1};
  CHECK(smooth_l1_loss(a, b) == smooth_l1_loss(a, b, box_selection::all()));
  CHECK(smooth_l1_loss(a, b) > smooth_l1_loss(a, b, std::vector<int>{0, -1}));
  std::vector<float> all(a.size()), some(a.size());
  smooth_l1_params params;
  params.beta = 0.5;
  smooth_l1_loss_unreduced(a, b, all, params);
  smooth_l1_loss_unreduced(a, b, box_selection::all(), some, params);
  CHECK(all == some);
  CHECK(all[1] == 0.75f);
  CHECK(smooth_l1_loss_and_grad(a, b, all, params) ==
        smooth_l1_loss_and_grad(a, b, box_selection::all(), some, params));
  CHECK(all == some);
}

TEST_CASE_TEMPLATE("smooth L1", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (index_t boxes = 0; boxes <= 50; ++boxes) {
      problem<T> all(boxes, ++seed, boxes % 5);
      all.check();
      problem<T> some(boxes, ++seed, boxes % 3);
      some.select(seed, 0.3);
      if (boxes > 0) some.check();
    }
    for (const double beta : {0.0, 1.0 / 9, 1.0, 0.37, 100.0, 1e-300}) {
      for (const double scale : {1.0, 1.0 / 37, -3.0, 0.0}) {
        problem<T> p(203, ++seed);
        p.params.beta = beta;
        p.params.scale = scale;
        p.check();
        random_generator generator(seed);
        for (index_t i = 0; i < p.boxes(); ++i)
          p.weights.push_back(static_cast<float>(generator.uniform(0, 3)));
        p.check();
        p.select(seed, 0.2);
        p.check();
      }
    }
  });
}
TEST_CASE_TEMPLATE("smooth L1: special values", T, float, bfloat16, double) {
  const std::vector<T> numbers = special_logits<T>();
  std::vector<T> x, t;
  for (const T a : numbers)
    for (const T b : numbers) {
      x.push_back(a);
      t.push_back(b);
    }
  while (x.size() % 4 != 0) {
    x.push_back(to<T>(0));
    t.push_back(to<T>(0));
  }
  for_each_isa([&](isa) {
    for (const double beta : {0.0, 1.0 / 9, 1.0, 1e30}) {
      problem<T> p(0, 1);
      p.predictions = marked<T>(x, 0);
      p.targets = marked<T>(t, 0);
      p.params.beta = beta;
      p.check();
    }
  });
}

TEST_CASE_TEMPLATE("smooth L1: 0 times infinity is 0 for weights", T, float, bfloat16, double) {
  const index_t boxes = 45;
  std::vector<T> x = random_numbers<T>(4 * boxes, 1), t = x;
  const double differences[] = {0, 3, 0, -3, infinity, 0.01, -infinity, 0, quiet_nan, 1e-30, 5};
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = to<T>(differences[i % 11]);
    t[i] = to<T>(i % 11 == 4 ? 1.0 : 0.0);
  }
  const auto part = [](const std::vector<T>& of, index_t first, index_t count) {
    return boxes_view<const T>(of.data() + 4 * first, count);
  };
  for_each_isa([&](isa) {
    for (const bool is_grad : {false, true}) {
      check_special_weights<T>(
          boxes, 4, [&](index_t first, const std::vector<float>& weights, double scale) {
            const auto count = static_cast<index_t>(weights.size());
            smooth_l1_params params;
            params.scale = scale;
            params.box_weights = weights;
            std::vector<T> out(4 * weights.size());
            const auto p = part(x, first, count), y = part(t, first, count);
            if (is_grad) {
              smooth_l1_loss_and_grad(p, y, box_selection::all(), boxes_view<T>(out), params);
            } else {
              smooth_l1_loss_unreduced(p, y, box_selection::all(), boxes_view<T>(out), params);
            }
            return out;
          });
    }
    // Sums, including those of a whole group of boxes, and a scale of 0 without weights.
    for (const std::size_t count : {std::size_t{1}, std::size_t{16}}) {
      const auto sum = [&](double difference, float weight, double scale) {
        const std::vector<T> d(4 * count, to<T>(difference)), zero(4 * count, to<T>(0));
        const std::vector<float> weights(count, weight);
        smooth_l1_params params;
        params.scale = scale;
        if (weight != 1) params.box_weights = weights;
        return smooth_l1_loss(boxes_view<const T>(d), boxes_view<const T>(zero),
                              box_selection::all(), params);
      };
      const float inf = static_cast<float>(infinity);
      CHECK(sum(0, inf, 1) == 0);
      CHECK(sum(3, inf, -1) == -infinity);
      CHECK(sum(3, inf, 0) == 0);
      CHECK(sum(infinity, 0, 1) == 0);
      CHECK(sum(infinity, 1, 0) == 0);
      CHECK(sum(0, 3e38f, 3e38) == 0);
      CHECK(sum(infinity, -0.0f, 1) == 0);
      CHECK(std::isnan(sum(1, std::numeric_limits<float>::quiet_NaN(), 1)));
    }
  });
}

TEST_CASE("smooth L1: golden vectors") {
  // test_reference_smooth_l1 compares the reference with torch's results.
  if (!has_data("golden/sl1_pred.npy", "smooth L1 of golden vectors")) return;
  problem<float> p(0, 1);
  p.predictions = marked<float>(golden<float>("sl1_pred").values, 0);
  p.targets = marked<float>(golden<float>("sl1_target").values, 0);
  for_each_isa([&](isa) {
    for (const double beta : {1.0 / 9, 1.0, 0.0, 0.5}) {
      p.params.beta = beta;
      p.check();
    }
  });
}

TEST_CASE("smooth L1: Huber") {
  const std::vector<float> x{0.5f, -3, 0, 2}, zero(4);
  std::vector<float> out(4);
  smooth_l1_loss_unreduced(boxes_view<const float>(x), zero, box_selection::all(), out,
                           smooth_l1_params::huber(2));
  for (std::size_t i = 0; i < 4; ++i) CHECK(out[i] == reference::huber_loss(x[i], 2));
}

TEST_CASE("smooth L1: boxes that are left out are not read") {
  std::vector<float> x(8, NAN), t(8, NAN), grad(8, -1);
  for (std::size_t i = 0; i < 4; ++i) x[i] = t[i] = 1;
  const boxes_view<const float> p(x);
  CHECK(smooth_l1_loss_and_grad(p, t, std::vector<int>{3, -1}, grad) == 0);
  for (const float g : grad) CHECK(g == 0);
  CHECK(smooth_l1_loss(p, t, std::vector<int>{3, -2}) == 0);
  // Another convention: classes from 1, background 0.
  CHECK(smooth_l1_loss(p, t, box_selection(std::vector<int>{3, 0}, 0, -1)) == 0);
  CHECK(std::isnan(smooth_l1_loss(p, t, box_selection(std::vector<int>{3, -1}, 0, -2))));
  // A background value that does not fit into 32-bit labels matches none.
  CHECK(std::isnan(
      smooth_l1_loss(p, t, box_selection(std::vector<int>{-1, 0}, (index_t{1} << 32), -1))));
  // Neither do two such values, for any number of labels.
  const std::vector<float> zeros(4 * 200), ones(4 * 200, 1);
  smooth_l1_params l1;
  l1.beta = 0;
  for (const index_t size : {3, 64, 200}) {
    const std::vector<int> labels(static_cast<std::size_t>(size), 5);
    CHECK(smooth_l1_loss(boxes_view<const float>(zeros.data(), size), {ones.data(), size},
                         box_selection(labels, (index_t{1} << 32) + 5, (index_t{1} << 33) + 5),
                         l1) == 4 * static_cast<double>(size));
  }
}

TEST_CASE("smooth L1: all bits of labels are compared, at every position") {
  const index_t size = 2 * 64 + 5, high = index_t{1} << 32;
  const std::vector<float> zeros(4 * size), ones(4 * size, 1);
  const boxes_view<const float> x(zeros);
  std::vector<float> grad(zeros.size());
  smooth_l1_params l1;
  l1.beta = 0;
  for_each_isa([&](isa) {
    for (index_t at = 0; at < size; ++at) {
      CAPTURE(at);
      const auto only_this_counts = [&](const box_selection& selection) {
        grad.assign(grad.size(), 7);
        CHECK(smooth_l1_loss_and_grad(x, ones, selection, grad, l1) == 4);
        for (index_t k = 0; k < 4 * size; ++k)
          if (grad[static_cast<std::size_t>(k)] != (k / 4 == at ? -1.0f : 0.0f))
            FAIL_CHECK("gradient " << k);
      };
      // -1 in the lower half alone, and in the upper half alone.
      for (const index_t label : {high - 1, -1 - high, index_t{-3}, index_t{0}}) {
        std::vector<index_t> wide(static_cast<std::size_t>(size), -1);
        wide[static_cast<std::size_t>(at)] = label;
        only_this_counts(wide);
      }
      // One of the two values does not fit 32 bits: truncated to the label 6, it would match.
      std::vector<std::int32_t> narrow(static_cast<std::size_t>(size), 5);
      narrow[static_cast<std::size_t>(at)] = 6;
      only_this_counts(box_selection(narrow, high + 6, 5));
      only_this_counts(box_selection(narrow, 5, high + 6));
    }
  });
}

TEST_CASE("smooth L1: bad arguments throw errors that name them and write nothing") {
  marked<float> x(16, 0), t(16, 0), grad(16, 0), small(12, 0);
  smooth_l1_params params;
  const boxes_view<const float> p = std::as_const(x).boxes();
  const auto fails = refusals(grad, small);
  const auto with_params = [&](const char* message) {
    fails(message, [&] {
      smooth_l1_loss_and_grad(p, t.boxes(), box_selection::all(), grad.boxes(), params);
    });
    params = {};
  };
  params.beta = -1;
  with_params("smooth_l1_loss_and_grad: params.beta is -1, expected a finite float, 0 or more");
  params.beta = quiet_nan;
  with_params("params.beta is nan");
  params.beta = infinity;
  with_params("params.beta is inf");
  params.scale = quiet_nan;
  with_params("params.scale is nan");
  const std::vector<float> three(3);
  params.box_weights = three;
  with_params("params.box_weights.size() is 3");
  fails("smooth_l1_loss: targets.size() is 3",
        [&] { smooth_l1_loss(p, small.boxes(), box_selection::all()); });
  fails("grad.size() is 3",
        [&] { smooth_l1_loss_and_grad(p, t.boxes(), box_selection::all(), small.boxes()); });
  fails("smooth_l1_loss_unreduced: loss.size() is 3",
        [&] { smooth_l1_loss_unreduced(p, t.boxes(), box_selection::all(), small.boxes()); });
  fails("labels.size() is 2", [&] {
    smooth_l1_loss_and_grad(p, t.boxes(), std::vector<int>{1, 2}, grad.boxes());
  });
  const std::vector<index_t> indices{0, 4};
  fails("indices[1] is 4",
        [&] { smooth_l1_loss_and_grad(p, t.boxes(), box_selection::list(indices), grad.boxes()); });
}

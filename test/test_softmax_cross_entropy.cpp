// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy and SSD's mining: the reference against torch's golden vectors; the kernels
// against the reference on every instruction set, with numbers of rows around a group and of
// classes around four and around a panel, with strides, ignored rows and special values; the rows
// that are mined if losses tie; and every documented error.
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/reference/softmax_cross_entropy.hpp>
#include <vecdet/softmax_cross_entropy.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

struct problem {
  index_t rows, classes, stride;
  marked<float> logits;
  std::vector<index_t> labels;
  softmax_cross_entropy_params params;

  problem(index_t row_count, index_t class_count, std::uint64_t seed, index_t padding = 0)
      : rows(row_count),
        classes(class_count),
        stride(class_count + padding),
        logits(random_logits<float>(rows * stride, seed), padding) {
    random_generator generator(seed + 1);
    for (index_t i = 0; i < rows; ++i)
      labels.push_back(generator.chance(0.1)   ? params.ignore
                       : generator.chance(0.8) ? 0
                                               : generator.below(classes));
  }
  matrix_view<const float> x() const { return {logits.data(), rows, classes, stride}; }
  vector_view<const float> row(index_t i) const { return {x().row(i), classes}; }
  void check() const {
    INFO("rows ", rows, " classes ", classes, " stride ", stride);
    marked<float> grad(rows * stride, 3), loss(rows, 1);
    const matrix_view<float> g(grad.data(), rows, classes, stride);
    const double sum = softmax_cross_entropy_loss_and_grad(x(), labels, g, params);
    softmax_cross_entropy_loss_unreduced(x(), labels, loss.each(), params);
    const double alone = softmax_cross_entropy_loss(x(), labels, params);
    CHECK((sum == alone || (std::isnan(sum) && std::isnan(alone))));
    double exact = 0, size_of_sum = 0;
    std::vector<double> exact_grad(static_cast<std::size_t>(classes));
    for (index_t i = 0; i < rows; ++i) {
      INFO("row ", i);
      const index_t label = labels[static_cast<std::size_t>(i)];
      double row_loss = 0;
      std::fill(exact_grad.begin(), exact_grad.end(), 0.0);
      if (label != params.ignore)
        row_loss = reference::softmax_cross_entropy(row(i), label, exact_grad);
      check_number(loss[i], row_loss * params.scale, extent_of(row(i)) * std::abs(params.scale));
      for (index_t c = 0; c < classes; ++c)
        check_number(g(i, c), exact_grad[static_cast<std::size_t>(c)] * params.scale,
                     std::abs(params.scale));
      exact += row_loss * params.scale;
      size_of_sum += extent_of(row(i)) * std::abs(params.scale);
    }
    check_number(static_cast<float>(sum), exact, size_of_sum);
    CHECK(loss.marks_untouched());
    for (index_t i = 0; i < rows; ++i)
      for (index_t c = classes; c < stride; ++c) CHECK(grad[i * stride + c] == -12345);
  }

  /// Compares the mined rows with those that the reference selects from vecdet's losses of all
  /// rows.
  void check_mined(const hard_negative_mining& mining) const {
    INFO("rows ", rows, " classes ", classes, " images ", mining.images, " negatives ",
         mining.negatives_per_foreground);
    std::vector<float> each(static_cast<std::size_t>(rows));
    std::vector<float> all(static_cast<std::size_t>(rows * classes));
    softmax_cross_entropy_params unscaled = params;
    unscaled.scale = 1;
    softmax_cross_entropy_loss_unreduced(x(), labels, each, unscaled);
    softmax_cross_entropy_loss_and_grad(x(), labels, {all.data(), rows, classes}, params);
    const index_t per_image = rows / mining.images;
    std::vector<bool> counts(static_cast<std::size_t>(rows));
    double exact = 0;
    for (index_t image = 0; image < mining.images; ++image) {
      const index_t first = image * per_image;
      const std::vector<double> losses(each.begin() + first, each.begin() + first + per_image);
      for (const index_t i :
           reference::mined_rows(losses, {labels.data() + first, per_image}, mining.background,
                                 params.ignore, mining.negatives_per_foreground)) {
        counts[static_cast<std::size_t>(first + i)] = true;
        exact += losses[static_cast<std::size_t>(i)] * params.scale;
      }
    }
    marked<float> grad(rows * stride, 5);
    const matrix_view<float> g(grad.data(), rows, classes, stride);
    softmax_cross_entropy_workspace workspace;
    const double sum =
        softmax_cross_entropy_loss_and_grad(x(), labels, mining, g, params, workspace);
    CHECK(((std::isnan(sum) && std::isnan(exact)) || std::isinf(exact) ||
           sum == doctest::Approx(exact).epsilon(1e-6)));
    for (index_t i = 0; i < rows; ++i)
      for (index_t c = 0; c < classes; ++c) {
        const float expected = counts[static_cast<std::size_t>(i)]
                                   ? all[static_cast<std::size_t>(i * classes + c)]
                                   : 0.0f;
        if (!(g(i, c) == expected || (std::isnan(g(i, c)) && std::isnan(expected))))
          FAIL_CHECK("row " << i << " class " << c << " is " << g(i, c) << ", expected "
                            << expected);
      }
  }
};

}  // namespace

TEST_CASE("softmax cross entropy: golden vectors of torch, mined as in SSD") {
  if (!has_data("golden_step/ssd_logits.npy", "softmax cross entropy against torch")) return;
  const auto logits = golden_step<float>("ssd_logits");
  const auto labels = golden_step<std::int64_t>("ssd_labels").values;
  const auto loss = golden_step<double>("ssd_loss").values;
  const auto grad = golden_step<double>("ssd_grad").values;
  const index_t images = 2, per_image = 400, classes = 21, rows = images * per_image;
  const matrix_view<const float> x(logits.values.data(), rows, classes);
  const double scale =
      1.0 / static_cast<double>(std::max(index_t{1}, count_foreground(labels, 0, -2)));

  double exact = 0;
  std::vector<double> row_grad(static_cast<std::size_t>(classes));
  for (index_t image = 0; image < images; ++image) {
    const index_t first = image * per_image;
    std::vector<double> losses;
    for (index_t i = first; i < first + per_image; ++i)
      losses.push_back(reference::softmax_cross_entropy({x.row(i), classes},
                                                        labels[static_cast<std::size_t>(i)]));
    const auto mined = reference::mined_rows(losses, {labels.data() + first, per_image}, 0, -2, 3);
    for (index_t i = 0; i < per_image; ++i) {
      std::fill(row_grad.begin(), row_grad.end(), 0.0);
      if (std::binary_search(mined.begin(), mined.end(), i)) {
        exact += scale * losses[static_cast<std::size_t>(i)];
        reference::softmax_cross_entropy({x.row(first + i), classes},
                                         labels[static_cast<std::size_t>(first + i)], row_grad);
      }
      for (std::size_t c = 0; c < row_grad.size(); ++c)
        CHECK(std::abs(scale * row_grad[c] -
                       grad[static_cast<std::size_t>((first + i) * classes) + c]) < 1e-14);
    }
  }
  CHECK(exact == doctest::Approx(loss[0]).epsilon(1e-13));

  softmax_cross_entropy_params params;
  params.scale = scale;
  hard_negative_mining mining;
  mining.images = images;
  softmax_cross_entropy_workspace workspace;
  for_each_isa([&](isa) {
    std::vector<float> out(grad.size(), -1.0f);
    const double sum = softmax_cross_entropy_loss_and_grad(
        x, labels, mining, {out.data(), rows, classes}, params, workspace);
    CHECK(sum == doctest::Approx(loss[0]).epsilon(1e-7));
    for (std::size_t i = 0; i < out.size(); ++i) {
      CHECK(std::abs(static_cast<double>(out[i]) - grad[i]) < 4e-7 * scale);
      CHECK((out[i] == 0) == (grad[i] == 0));
    }
  });
}

TEST_CASE("softmax cross entropy: rows, classes, strides and special values") {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (index_t rows = 0; rows <= 50; ++rows) problem(rows, 21, ++seed, rows % 5).check();
    for (const index_t classes : {1, 2, 3, 4, 5, 7, 8, 81, 91, 127, 128, 129, 131, 260, 1203})
      for (const index_t rows : {1, 16, 37}) problem(rows, classes, ++seed, classes % 2).check();
    for (const double scale : {1.0 / 37, -2.0, 0.0}) {
      problem p(60, 21, ++seed);
      // 0 times an infinite loss is 0; the reference's product would be NaN.
      for (index_t k = 0; k < p.logits.size(); ++k)
        if (!(std::abs(p.logits[k]) < 1e30f)) p.logits.data()[k] = 1;
      p.params.scale = scale;
      p.check();
    }
  });
}

TEST_CASE("softmax cross entropy: rows of the least finite number, torch's usual mask") {
  for_each_isa([](isa) {
    for (const index_t classes : {1, 2, 21, 200}) {
      const std::vector<float> logits(static_cast<std::size_t>(20 * classes),
                                      std::numeric_limits<float>::lowest());
      const std::vector<int> labels(20, 0);
      std::vector<float> loss(20);
      softmax_cross_entropy_loss_unreduced(matrix_view<const float>(logits.data(), 20, classes),
                                           labels, loss);
      for (const float each : loss)
        CHECK(each == doctest::Approx(std::log(static_cast<double>(classes))).epsilon(1e-6));
    }
  });
}

TEST_CASE("softmax cross entropy: labels of any width, unsigned, and torch's ignored value") {
  problem p(40, 5, 3);
  for (float* x = p.logits.data(); x != p.logits.data() + p.logits.size(); ++x)
    if (!(std::abs(*x) < 100)) *x = 1;
  const double expected = softmax_cross_entropy_loss(p.x(), p.labels);
  const std::vector<std::int32_t> narrow(p.labels.begin(), p.labels.end());
  CHECK(softmax_cross_entropy_loss(p.x(), narrow) == expected);
  std::vector<std::uint32_t> natural;
  for (const index_t label : p.labels)
    natural.push_back(label < 0 ? 100u : static_cast<std::uint32_t>(label));
  softmax_cross_entropy_params params;
  params.ignore = 100;
  CHECK(softmax_cross_entropy_loss(p.x(), natural, params) == expected);
  std::vector<index_t> torch = p.labels;
  std::replace(torch.begin(), torch.end(), index_t{-2}, index_t{-100});
  params.ignore = -100;
  CHECK(softmax_cross_entropy_loss(p.x(), torch, params) == expected);
}

TEST_CASE("softmax cross entropy: mined rows with random and with tied losses") {
  for_each_isa([](isa) {
    std::uint64_t seed = 100;
    for (const index_t images : {1, 2, 5})
      for (const index_t per_image : {0, 1, 2, 15, 16, 17, 100, 333})
        for (const index_t ratio : {0, 1, 3, 1000}) {
          problem p(images * per_image, 6, ++seed, per_image % 3);
          hard_negative_mining mining;
          mining.images = images;
          mining.negatives_per_foreground = ratio;
          p.check_mined(mining);
          // Few different rows: many losses tie.
          for (index_t i = 0; i < p.rows; ++i)
            for (index_t c = 0; c < p.stride; ++c)
              p.logits.data()[i * p.stride + c] = c == (i * 7 + 3) % 4 ? 2.0f : 0.0f;
          mining.background = static_cast<index_t>(seed % 2);
          p.check_mined(mining);
        }
  });
}

TEST_CASE("softmax cross entropy: NaN is mined first among negatives") {
  for_each_isa([](isa) {
    problem p(40, 3, 3);
    for (index_t k = 0; k < p.logits.size(); ++k) p.logits.data()[k] = static_cast<float>(k % 7);
    p.labels.assign(40, 0);
    p.labels[5] = 2;
    p.logits.data()[3 * 30] = quiet_nan;
    p.logits.data()[3 * 31 + 1] = infinity;
    p.logits.data()[3 * 32] = -infinity;
    p.check_mined({});
  });
}

TEST_CASE("softmax cross entropy: errors name function, argument, value and expectation") {
  const std::vector<float> x(4 * 5);
  const matrix_view<const float> logits(x.data(), 4, 5);
  std::vector<index_t> labels(4);
  marked<float> grad(20), small(3);
  softmax_cross_entropy_workspace workspace;
  const auto fails = refusals(grad, small);
  const matrix_view<float> g(grad.data(), 4, 5);
  softmax_cross_entropy_params params;
  hard_negative_mining mining;
  const auto mined_fails = [&](const char* message) {
    fails(message, [&] {
      softmax_cross_entropy_loss_and_grad(logits, labels, mining, g, params, workspace);
    });
    mining = {};
  };
  const auto both_fail = [&](const char* message) {
    mined_fails(message);
    fails(message, [&] { softmax_cross_entropy_loss_and_grad(logits, labels, g, params); });
    labels.assign(4, 0);
    params = {};
  };
  fails("vecdet::softmax_cross_entropy_loss: logits.cols() is 0, expected 1 class or more", [&] {
    softmax_cross_entropy_loss({x.data(), 4, 0}, labels);
  });
  labels[2] = 5;
  both_fail(
      "softmax_cross_entropy_loss_and_grad: labels[2] is 5, expected 0 to 4 (5 classes) or -2");
  labels[3] = -1;
  both_fail("labels[3] is -1");
  labels.pop_back();
  both_fail("labels.size() is 3");
  params.scale = static_cast<double>(quiet_nan);
  both_fail("params.scale is nan");
  const std::vector<std::uint32_t> natural{0, 4294967294u, 0, 0};
  fails("labels[1] is 4294967294", [&] { softmax_cross_entropy_loss(logits, natural); });
  const std::vector<std::uint64_t> huge{0, 0, ~std::uint64_t{0}, 0};
  fails("labels[2] is 18446744073709551615", [&] { softmax_cross_entropy_loss(logits, huge); });
  mining.images = 3;
  mined_fails("mining.images is 3, expected a divisor of 4, the number of rows");
  mining.images = 0;
  mined_fails("mining.images is 0");
  mining.negatives_per_foreground = -1;
  mined_fails("mining.negatives_per_foreground is -1");
  mining.background = 5;
  mined_fails("mining.background is 5, expected 0 to 4 (5 classes)");
  fails("grad.rows() is 3", [&] {
    softmax_cross_entropy_loss_and_grad(logits, labels, {grad.data(), 3, 5});
  });
  fails("grad.cols() is 4", [&] {
    softmax_cross_entropy_loss_and_grad(logits, labels, {grad.data(), 4, 4});
  });
  fails("softmax_cross_entropy_loss_unreduced: loss.size() is 3",
        [&] { softmax_cross_entropy_loss_unreduced(logits, labels, small.each()); });
}

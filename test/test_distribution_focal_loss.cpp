// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss and its decoding: the reference against torch's golden vectors and the
// loss's slope; the kernels against the reference on every instruction set, at rows around a group
// and bins around four and around a panel, with strides, misalignment, weights and special values;
// and every documented error.
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/reference/distribution_focal_loss.hpp>

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

std::vector<float> targets_of(index_t rows, index_t bins, std::uint64_t seed) {
  random_generator generator(seed);
  const auto last = static_cast<double>(bins - 1);
  std::vector<float> targets(static_cast<std::size_t>(rows));
  for (float& y : targets) {
    const double kind = generator.uniform();
    y = kind < 0.1   ? static_cast<float>(generator.below(bins))
        : kind < 0.2 ? to<float>(generator.uniform(-3, last + 3))
                     : to<float>(generator.uniform(0, last));
  }
  return targets;
}

struct problem {
  index_t rows, bins, stride;
  marked<float> logits;
  std::vector<float> targets, weights;
  distribution_focal_loss_params params;

  problem(index_t row_count, index_t bin_count, std::uint64_t seed, index_t padding = 0,
          bool special = true)
      : rows(row_count),
        bins(bin_count),
        stride(bin_count + padding),
        logits(special ? random_logits<float>(rows * stride, seed)
                       : random_deltas(rows * stride, seed),
               padding),
        targets(targets_of(rows, bins, seed + 1)) {}

  static std::vector<float> random_deltas(index_t size, std::uint64_t seed) {
    random_generator generator(seed);
    std::vector<float> x(static_cast<std::size_t>(size));
    for (float& number : x) number = to<float>(2 * generator.normal());
    return x;
  }
  matrix_view<const float> x() const { return {logits.data(), rows, bins, stride}; }

  void check() {
    params.row_weights = weights;
    INFO("rows ", rows, " bins ", bins, " stride ", stride);
    marked<float> grad(rows * stride, 3), loss(rows, 1), distances(rows, 2);
    const matrix_view<float> g(grad.data(), rows, bins, stride);
    const double sum = distribution_focal_loss_and_grad(x(), targets, g, params);
    distribution_focal_loss_unreduced(x(), targets, loss.each(), params);
    decode_distributions(x(), distances.each());
    const double alone = distribution_focal_loss(x(), targets, params);
    CHECK((sum == alone || (std::isnan(sum) && std::isnan(alone))));

    double exact = 0, size_of_sum = 0;
    std::vector<double> exact_grad(static_cast<std::size_t>(bins));
    for (index_t i = 0; i < rows; ++i) {
      const vector_view<const float> row(x().row(i), bins);
      const float weight = weights.empty() ? 1.0f : weights[static_cast<std::size_t>(i)];
      const double factor = params.scale * static_cast<double>(weight);
      double row_loss = reference::distribution_focal_loss(
          row, static_cast<double>(targets[static_cast<std::size_t>(i)]), exact_grad);
      if (weight == 0) row_loss = 0;
      exact += row_loss * factor;
      const double extent = extent_of(row);
      size_of_sum += extent * std::abs(factor);
      INFO("row ", i, " target ", targets[static_cast<std::size_t>(i)]);
      check_number(loss[i], weight == 0 ? 0 : row_loss * factor, extent * std::abs(factor));
      for (index_t c = 0; c < bins; ++c) {
        const double bin_grad = weight == 0 ? 0 : exact_grad[static_cast<std::size_t>(c)] * factor;
        check_number(g(i, c), bin_grad, std::abs(factor));
      }
      check_number(distances[i], reference::distribution_expectation(row),
                   static_cast<double>(bins));
    }
    check_number(static_cast<float>(sum), exact, size_of_sum);
    CHECK(loss.marks_untouched());
    CHECK(distances.marks_untouched());
    for (index_t i = 0; i < rows; ++i)
      for (index_t c = bins; c < stride; ++c) CHECK(grad[i * stride + c] == -12345);
  }
};

}  // namespace

TEST_CASE("distribution focal loss: golden vectors of torch") {
  if (!has_data("golden_step/dfl_logits.npy", "distribution focal loss against torch")) return;
  const auto logits = golden_step<float>("dfl_logits"), targets = golden_step<float>("dfl_targets");
  const auto loss = golden_step<double>("dfl_loss"), grad = golden_step<double>("dfl_grad");
  const auto expectation = golden_step<double>("dfl_expectation");
  const index_t bins = 17, rows = static_cast<index_t>(targets.values.size());
  const matrix_view<const float> x(logits.values.data(), rows, bins);
  std::vector<double> row_grad(static_cast<std::size_t>(bins));
  for (index_t i = 0; i < rows; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const vector_view<const float> row(x.row(i), bins);
    CHECK(
        reference::distribution_focal_loss(row, static_cast<double>(targets.values[k]), row_grad) ==
        doctest::Approx(loss.values[k]).epsilon(1e-14));
    CHECK(reference::distribution_expectation(row) ==
          doctest::Approx(expectation.values[k]).epsilon(1e-14));
    for (std::size_t c = 0; c < row_grad.size(); ++c)
      CHECK(std::abs(row_grad[c] - grad.values[k * row_grad.size() + c]) < 1e-14);
  }
  for_each_isa([&](isa) {
    std::vector<float> out(logits.values.size()), each(targets.values.size());
    distribution_focal_loss_and_grad(x, targets.values, {out.data(), rows, bins});
    for (std::size_t i = 0; i < out.size(); ++i)
      CHECK(std::abs(static_cast<double>(out[i]) - grad.values[i]) < 4e-7);
    distribution_focal_loss_unreduced(x, targets.values, each);
    for (std::size_t i = 0; i < each.size(); ++i)
      CHECK(static_cast<double>(each[i]) == doctest::Approx(loss.values[i]).epsilon(1e-6));
    decode_distributions(x, each);
    for (std::size_t i = 0; i < each.size(); ++i)
      CHECK(static_cast<double>(each[i]) == doctest::Approx(expectation.values[i]).epsilon(1e-6));
  });
}

TEST_CASE("distribution focal loss: the reference's gradient is the loss's slope") {
  std::vector<float> x{0.5f, -1, 2, 0.25f, 1};
  std::vector<double> grad(5);
  const double y = 2.625;
  reference::distribution_focal_loss(x, y, grad);
  for (std::size_t c = 0; c < x.size(); ++c) {
    const float before = x[c], h = 0x1p-10f;
    x[c] = before + h;
    const double above = reference::distribution_focal_loss(x, y);
    x[c] = before - h;
    const double below = reference::distribution_focal_loss(x, y);
    x[c] = before;
    CHECK((above - below) / (2 * static_cast<double>(h)) == doctest::Approx(grad[c]).epsilon(1e-5));
  }
}

TEST_CASE("distribution focal loss: rows, bins, strides and misalignment") {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (index_t rows = 0; rows <= 50; ++rows) problem(rows, 17, ++seed, rows % 5).check();
    for (const index_t bins : {2, 3, 4, 5, 6, 7, 8, 15, 16, 33, 64, 127, 128, 129, 131, 132, 300})
      for (const index_t rows : {1, 15, 16, 37}) {
        problem(rows, bins, ++seed).check();
        problem(rows, bins, ++seed, 3, false).check();
      }
  });
}

TEST_CASE("distribution focal loss: weights and scale; a weight of 0 hides its row") {
  for_each_isa([](isa) {
    for (const double scale : {1.0, -2.5, 1.0 / 37, 0.0}) {
      problem p(53, 17, 5, 0, false);
      p.params.scale = scale;
      p.check();
      random_generator generator(7);
      for (index_t i = 0; i < p.rows; ++i)
        p.weights.push_back(i % 3 == 1 ? 0.0f : to<float>(generator.uniform(0, 3)));
      p.check();
    }
    problem p(20, 5, 6, 0, false);
    p.weights.assign(20, 1.0f);
    p.weights[3] = p.weights[17] = 0;
    for (const index_t c : {15, 16, 85}) p.logits.data()[c] = c == 16 ? infinity : quiet_nan;
    p.targets[17] = quiet_nan;
    p.check();
    CHECK_FALSE(std::isnan(distribution_focal_loss(p.x(), p.targets, p.params)));
  });
}

TEST_CASE("distribution focal loss: NaN and infinities") {
  for_each_isa([](isa) {
    problem p(40, 17, 9, 0, false);
    float* const x = p.logits.data();
    x[3 * 17 + 16] = quiet_nan;
    x[4 * 17] = infinity;
    x[5 * 17 + 2] = -infinity;  // next to the target
    p.targets[5] = 7.5f;
    x[6 * 17 + 2] = -infinity;  // the target's
    p.targets[6] = 2.25f;
    for (int c = 0; c < 17; ++c) x[7 * 17 + c] = -infinity;
    p.targets[8] = quiet_nan;
    p.targets[9] = infinity;
    p.targets[10] = -infinity;
    p.check();
  });
}

TEST_CASE("distribution focal loss: boxes are points minus and plus distances times strides") {
  for_each_isa([](isa) {
    for (index_t boxes = 0; boxes <= 21; ++boxes) {
      problem p(4 * boxes, 16, 11, boxes % 2, false);
      std::vector<float> points, strides, distances(static_cast<std::size_t>(4 * boxes));
      for (index_t i = 0; i < boxes; ++i) {
        points.push_back(static_cast<float>(8 * i + 4));
        points.push_back(static_cast<float>(100 - i));
        strides.push_back(i % 2 == 0 ? 8.0f : 32.0f);
      }
      decode_distributions(p.x(), distances);
      marked<float> out(4 * boxes, 1);
      decode_distribution_boxes(p.x(), {points.data(), boxes, 2}, strides, out.boxes());
      CHECK(out.marks_untouched());
      for (index_t i = 0; i < 4 * boxes; ++i) {
        const index_t box = i / 4, side = i % 4;
        const double step = static_cast<double>(strides[static_cast<std::size_t>(box)]) *
                            static_cast<double>(distances[static_cast<std::size_t>(i)]);
        const double point =
            static_cast<double>(points[static_cast<std::size_t>(2 * box + side % 2)]);
        CHECK(is_close(out[i], side < 2 ? point - step : point + step, 1, 512));
      }
    }
  });
}

TEST_CASE("distribution focal loss: errors name function, argument, value and expectation") {
  const std::vector<float> x(4 * 5), y(4), points(2), strides(1);
  const matrix_view<const float> logits(x.data(), 4, 5);
  marked<float> grad(20), small(3), boxes(4);
  distribution_focal_loss_params params;
  const auto fails = refusals(grad, small, boxes);
  const matrix_view<float> g(grad.data(), 4, 5);
  const std::vector<float> three(3);
  fails("vecdet::distribution_focal_loss: logits.cols() is 1, expected 2 to 2^24 bins", [&] {
    distribution_focal_loss({x.data(), 4, 1}, y);
  });
  fails("distribution_focal_loss_and_grad: targets.size() is 3",
        [&] { distribution_focal_loss_and_grad(logits, three, g); });
  fails("grad.rows() is 3", [&] {
    distribution_focal_loss_and_grad(logits, y, {grad.data(), 3, 5});
  });
  fails("grad.cols() is 4", [&] {
    distribution_focal_loss_and_grad(logits, y, {grad.data(), 4, 4});
  });
  fails("distribution_focal_loss_unreduced: loss.size() is 3",
        [&] { distribution_focal_loss_unreduced(logits, y, small.each()); });
  params.scale = static_cast<double>(infinity);
  fails("params.scale is inf", [&] { distribution_focal_loss_and_grad(logits, y, g, params); });
  params = {};
  params.row_weights = three;
  fails("params.row_weights.size() is 3",
        [&] { distribution_focal_loss_and_grad(logits, y, g, params); });
  fails("decode_distributions: distances.size() is 3",
        [&] { decode_distributions(logits, small.each()); });
  fails("decode_distribution_boxes: logits.rows() is 3", [&] {
    decode_distribution_boxes({x.data(), 3, 5}, {points.data(), 1, 2}, strides, boxes.boxes());
  });
  fails("points.rows() is 0", [&] {
    decode_distribution_boxes(logits, {points.data(), 0, 2}, strides, boxes.boxes());
  });
  fails("points.stride() is 1", [&] {
    decode_distribution_boxes(logits, {points.data(), 1, 1}, strides, boxes.boxes());
  });
  fails("strides.size() is 3", [&] {
    decode_distribution_boxes(logits, {points.data(), 1, 2}, three, boxes.boxes());
  });
  fails("boxes.size() is 0", [&] {
    decode_distribution_boxes(logits, {points.data(), 1, 2}, strides, boxes_view<float>());
  });
}

// SPDX-License-Identifier: Apache-2.0
// The focal loss of a head's levels in place, and the losses of scored labels: gradients are
// bit-identical to those of the same logits as one matrix, in both layouts, also if the head's
// channels are a part of a wider tensor. Scales of images, ignored anchors, and every documented
// error.
#include "support/focal_problem.hpp"
#include "support/head_tensor.hpp"
#include "support/refusals.hpp"
#include <vecdet/soft_target_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// A head in one of the layouts, its gradient, and the other inputs of a loss.
template <class T>
struct head {
  head_tensor<T> logits, grad;
  std::vector<index_t> labels;
  std::vector<float> scores, scales;

  head(head_layout layout, index_t images, index_t anchors, index_t classes,
       const std::vector<typename head_tensor<T>::size>& sizes, std::uint64_t seed,
       double foreground = 0.02, index_t other_channels = 0)
      : logits(layout, images, anchors, classes, sizes, other_channels),
        grad(layout, images, anchors, classes, sizes, other_channels, mark()) {
    random_generator generator(seed);
    for (std::vector<T>& level : logits.data) {
      const auto numbers = random_logits<T>(static_cast<index_t>(level.size()), ++seed);
      std::copy(numbers.begin(), numbers.end(), level.begin());
    }
    labels = random_labels(logits.rows(), classes, seed + 1, foreground);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      scores.push_back(static_cast<float>(generator.uniform()));
      // Ignored anchors are few, except for this stretch.
      if (i % 1000 > 700 && i % 1000 < 760) labels[i] = -2;
    }
    for (index_t i = 0; i < images; ++i)
      scales.push_back(static_cast<float>(generator.uniform() + 0.1));
  }

  void check(const focal_loss_params& params, bool scored) {
    const auto truth = [&] {
      return scored ? focal_targets<T>(scored_labels{labels, scores}) : focal_targets<T>(labels);
    };
    INFO("gamma ", params.gamma, " scored ", scored);
    check(params, [&](const auto& x, const auto& out, const auto&... more) {
      return sigmoid_focal_loss_and_grad(x, truth(), out, more...);
    });
  }

  /// Compares any loss on levels with that on a matrix.
  template <class Params, class Loss>
  void check(const Params& params, const Loss& loss) {
    const index_t rows = logits.rows(), classes = logits.columns;
    const std::vector<T> matrix = logits.flat();
    std::vector<T> expected(matrix.size());
    // A row's weight is its image's scale.
    std::vector<float> weights;
    for (index_t i = 0; i < rows; ++i)
      weights.push_back(scales[static_cast<std::size_t>(i / logits.anchors_per_image())]);
    Params weighted = params;
    weighted.row_weights = weights;
    const double sum = loss(matrix_view<const T>(matrix.data(), rows, classes),
                            matrix_view<T>(expected.data(), rows, classes), weighted);
    const double levels_loss = loss(logits.const_view(), grad.view(), scales, params);
    INFO("classes ", classes, " anchors ", logits.anchors, " channels ", logits.channels, " ",
         std::string(dtype_name<T>()));
    CHECK((levels_loss == doctest::Approx(sum).epsilon(1e-6) || std::isnan(sum)));
    CHECK(std::isnan(levels_loss) == std::isnan(sum));
    const std::vector<T> actual = grad.flat();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      wrong += std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0 &&
               !(std::isnan(static_cast<double>(actual[i])) &&
                 std::isnan(static_cast<double>(expected[i])));
    }
    CHECK(wrong == 0);
    // Other channels must not change.
    std::size_t untouched = 0, all = 0;
    for (const std::vector<T>& level : grad.data) {
      all += level.size();
      untouched += static_cast<std::size_t>(std::count(level.begin(), level.end(), mark()));
    }
    CHECK(untouched == all - actual.size());
  }

 private:
  static T mark() { return to<T>(-12345); }
};

}  // namespace

TEST_CASE_TEMPLATE("focal loss of levels: bit-identical to a matrix", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const head_layout layout : all_layouts) {
      for (const bool scored : {false, true}) {
        for (const double gamma : {2.0, 0.0, 1.5}) {
          focal_loss_params params;
          params.gamma = gamma;
          head<T>(layout, 2, 3, 7, {{9, 13}, {5, 7}, {3, 4}, {1, 1}}, ++seed).check(params, scored);
        }
        focal_loss_params params;
        params.reduction = reduction::mean;
        head<T>(layout, 1, 1, 3, {{150, 120}, {0, 5}, {16, 8}}, ++seed).check(params, scored);
        // NCHW planes divided by anchors, by classes and, if huge, by locations.
        head<T>(layout, 1, 3, 4, {{150, 120}}, ++seed).check(params, scored);
        head<T>(layout, 1, 1, 7, {{150, 120}}, ++seed, 0.1).check(params, scored);
        head<T>(layout, 1, 1, 2, {{260, 257}}, ++seed, 0.1).check(params, scored);
        head<T>(layout, 2, 70, 1, {{3, 2}}, ++seed).check(params, scored);
        head<T>(layout, 3, 9, 1, {{17, 16}}, ++seed, 0.5).check(params, scored);
        head<T>(layout, 1, 2, 80, {{13, 9}}, ++seed).check(params, scored);
        head<T>(layout, 2, 3, 8, {{9, 13}, {5, 7}}, ++seed, 0.02, 5).check(params, scored);
      }
    }
  });
}

TEST_CASE_TEMPLATE("soft target losses of levels: bit-identical to a matrix", T, float, bfloat16) {
  for (const head_layout layout : all_layouts) {
    for (const index_t others : {0, 4}) {
      head<T> h(layout, 2, 3, 7, {{9, 13}, {5, 7}}, 3, 0.1, others);
      const scored_labels truth{h.labels, h.scores};
      h.check(quality_focal_params(), [&](const auto& x, const auto& grad, const auto&... more) {
        return quality_focal_loss_and_grad(x, truth, grad, more...);
      });
      h.check(varifocal_params(), [&](const auto& x, const auto& grad, const auto&... more) {
        return varifocal_loss_and_grad(x, truth, grad, more...);
      });
      h.check(bce_params(), [&](const auto& x, const auto& grad, const auto&... more) {
        return bce_loss_and_grad(x, truth, grad, more...);
      });
    }
  }
}

TEST_CASE("focal loss of levels: ignored rows may hold any numbers") {
  for (const head_layout layout : all_layouts) {
    head<float> h(layout, 1, 2, 5, {{40, 30}}, 9);
    const auto is_ignored = [&](index_t row) {
      return h.labels[static_cast<std::size_t>(row)] == -2;
    };
    h.logits.for_each(
        [&](float& x, index_t row, index_t) { x = is_ignored(row) ? std::nanf("") : -2.0f; });
    CHECK(sigmoid_focal_loss_and_grad(h.logits.const_view(), h.labels, h.grad.view()) > 0);
    h.grad.for_each([&](float& x, index_t row, index_t) {
      if (is_ignored(row)) REQUIRE(x == 0);
    });
  }
}

TEST_CASE("focal loss of levels: bad arguments throw errors that name them and write nothing") {
  head<float> h(head_layout::nchw, 2, 3, 4, {{5, 6}, {2, 3}}, 1);
  const auto before = h.grad.data;
  const auto fails = refusals(h.grad.data);
  const auto with_grad = [&](const head_view<float>& grad) {
    return [&h, grad] { sigmoid_focal_loss_and_grad(h.logits.const_view(), h.labels, grad); };
  };
  fails("grad.layout() is nhwc, expected nchw",
        with_grad({h.grad.levels, 2, 3, 4, head_layout::nhwc}));
  fails("grad.images() is 1", with_grad({h.grad.levels, 1, 3, 4, head_layout::nchw}));
  fails("grad.anchors() is 2", with_grad({h.grad.levels, 2, 2, 4, head_layout::nchw}));
  fails("grad.classes() is 5", with_grad({h.grad.levels, 2, 3, 5, head_layout::nchw}));
  fails("grad.levels().size() is 1",
        with_grad({{h.grad.levels.data(), 1}, 2, 3, 4, head_layout::nchw}));
  auto narrower = h.grad.levels;
  narrower[1].width = 2;
  fails("grad.levels()[1] is 2 x 2", with_grad({narrower, 2, 3, 4, head_layout::nchw}));
  const std::vector<float> three(3, 1.0f);
  fails("image_scales.size() is 3", [&] {
    sigmoid_focal_loss_and_grad(h.logits.const_view(), h.labels, h.grad.view(), three);
  });
  const std::vector<float> infinite(2, static_cast<float>(infinity));
  fails("image_scales[0] is inf", [&] {
    sigmoid_focal_loss_and_grad(h.logits.const_view(), h.labels, h.grad.view(), infinite);
  });
  focal_loss_params weighted;
  weighted.row_weights = three;
  fails("params.row_weights.size() is 3", [&] {
    sigmoid_focal_loss_and_grad(h.logits.const_view(), h.labels, h.grad.view(), {}, weighted);
  });
  auto labels = h.labels;
  labels[7] = 4;
  fails("labels[7] is 4",
        [&] { sigmoid_focal_loss_and_grad(h.logits.const_view(), labels, h.grad.view()); });
  labels.pop_back();
  fails("labels.size()",
        [&] { sigmoid_focal_loss_and_grad(h.logits.const_view(), labels, h.grad.view()); });
  const matrix_view<const float> dense(h.logits.data[0].data(), 1, 1);
  fails("targets is a matrix",
        [&] { sigmoid_focal_loss_and_grad(h.logits.const_view(), dense, h.grad.view()); });
  fails("head_view: images is -1",
        [&] { head_view<float>(head_level<float>{}, -1, 1, 1, head_layout::nchw); });
  fails("channels is 2",
        [&] { head_view<float>(head_level<float>{}, 1, 1, 3, head_layout::nchw, 2); });
  std::vector<head_level<float>> levels{{nullptr, 1, 1}};
  fails("levels[0] is null", [&] { head_view<float>(levels, 1, 1, 1, head_layout::nchw); });
  levels[0].height = index_t{1} << 40;
  levels[0].width = index_t{1} << 40;
  fails("levels[0] is 1099511627776",
        [&] { head_view<float>(levels, 1, 1, 1, head_layout::nchw); });
}

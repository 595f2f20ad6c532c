// SPDX-License-Identifier: Apache-2.0
// The focal loss of a head's levels as they lie in memory: the bits of every gradient are those of
// the same logits as one matrix, in both layouts, also where they are channels among others; the
// losses of scored labels likewise; scales of images, ignored anchors, in place, threads, and every
// documented error.
#include "support/allocations.hpp"
#include "support/focal_problem.hpp"
#include <vecdet/soft_target_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

struct size {
  index_t height, width;
};

/// A head in one of the layouts, and the same as a matrix of all anchors.
template <class T>
struct head {
  head_layout layout;
  index_t images, anchors, classes, channels, before;  ///< channels before those that count
  std::vector<size> sizes;
  std::vector<std::vector<T>> logits, grads;
  std::vector<head_level<const T>> logit_levels;
  std::vector<head_level<T>> grad_levels;
  std::vector<index_t> labels;
  std::vector<float> scores, scales;

  head(head_layout how, index_t n, index_t a, index_t c, const std::vector<size>& of_levels,
       std::uint64_t seed, double foreground = 0.02, index_t other_channels = 0)
      : layout(how),
        images(n),
        anchors(a),
        classes(c),
        channels(c + other_channels),
        before(other_channels / 2),
        sizes(of_levels) {
    random_generator generator(seed);
    for (const size& s : sizes) {
      const index_t plane = s.height * s.width;
      logits.push_back(random_logits<T>(n * a * channels * plane, ++seed));
      grads.emplace_back(logits.back().size(), to<T>(-12345));
      const index_t first = before * (layout == head_layout::nhwc ? 1 : plane);
      logit_levels.push_back({logits.back().data() + first, s.height, s.width});
      grad_levels.push_back({grads.back().data() + first, s.height, s.width});
    }
    labels = random_labels(n * view().anchors_of_image(), c, seed + 1, foreground);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      scores.push_back(static_cast<float>(generator.uniform()));
      // Elsewhere ignored anchors are few: here a stretch of them as well.
      if (i % 1000 > 700 && i % 1000 < 760) labels[i] = -2;
    }
    for (index_t i = 0; i < n; ++i) scales.push_back(static_cast<float>(generator.uniform() + 0.1));
  }

  head_view<const T> view() const {
    return {logit_levels, images, anchors, classes, layout, channels};
  }
  head_view<T> grad_view() const {
    return {grad_levels, images, anchors, classes, layout, channels};
  }

  /// each(level, element of it, row of the matrix, class)
  template <class Each>
  void for_each(const Each& each) const {
    index_t row = 0;
    for (index_t n = 0; n < images; ++n) {
      for (std::size_t l = 0; l < sizes.size(); ++l) {
        const index_t plane = sizes[l].height * sizes[l].width;
        for (index_t p = 0; p < plane; ++p) {
          for (index_t a = 0; a < anchors; ++a, ++row) {
            for (index_t c = 0; c < classes; ++c) {
              const index_t at = layout == head_layout::nhwc
                                     ? ((n * plane + p) * anchors + a) * channels + before + c
                                     : ((n * anchors + a) * channels + before + c) * plane + p;
              each(l, static_cast<std::size_t>(at), row, c);
            }
          }
        }
      }
    }
  }

  void check(const focal_loss_params& params, bool scored) {
    const auto truth = [&] {
      return scored ? focal_targets<T>(scored_labels{labels, scores}) : focal_targets<T>(labels);
    };
    INFO("gamma ", params.gamma, " scored ", scored);
    check(params, [&](const auto& x, const auto& grad, const auto&... more) {
      return sigmoid_focal_loss_and_grad(x, truth(), grad, more...);
    });
  }

  /// Of any loss: on levels and on a matrix.
  template <class Params, class Loss>
  void check(const Params& params, const Loss& loss) {
    const auto rows = static_cast<index_t>(labels.size());
    std::vector<T> matrix(static_cast<std::size_t>(rows * classes)), expected(matrix.size());
    for_each([&](std::size_t l, std::size_t at, index_t row, index_t c) {
      matrix[static_cast<std::size_t>(row * classes + c)] = logits[l][at];
    });
    // A row's weight is its image's scale.
    std::vector<float> weights;
    for (index_t i = 0; i < rows; ++i)
      weights.push_back(scales[static_cast<std::size_t>(i / (rows / images))]);
    Params weighted = params;
    weighted.row_weights = weights;
    const double sum = loss(matrix_view<const T>(matrix.data(), rows, classes),
                            matrix_view<T>(expected.data(), rows, classes), weighted);
    const double of_levels = loss(view(), grad_view(), scales, params);
    INFO("classes ", classes, " anchors ", anchors, " channels ", channels, " ",
         std::string(dtype_name<T>()));
    CHECK((of_levels == doctest::Approx(sum).epsilon(1e-6) || std::isnan(sum)));
    CHECK(std::isnan(of_levels) == std::isnan(sum));
    index_t wrong = 0;
    for_each([&](std::size_t l, std::size_t at, index_t row, index_t c) {
      const T actual = grads[l][at], exact = expected[static_cast<std::size_t>(row * classes + c)];
      wrong += std::memcmp(&actual, &exact, sizeof(T)) != 0 &&
               !(std::isnan(static_cast<double>(actual)) && std::isnan(static_cast<double>(exact)));
    });
    CHECK(wrong == 0);
    // Other channels are not touched.
    std::size_t untouched = 0, others = 0;
    for (const std::vector<T>& level : grads) {
      others += level.size() / static_cast<std::size_t>(channels) *
                static_cast<std::size_t>(channels - classes);
      untouched += static_cast<std::size_t>(std::count_if(
          level.begin(), level.end(), [](T x) { return static_cast<double>(x) == sentinel(); }));
    }
    CHECK(untouched == others);
  }

 private:
  static double sentinel() { return static_cast<double>(to<T>(-12345)); }
};

constexpr head_layout layouts[] = {head_layout::nhwc, head_layout::nchw};

}  // namespace

TEST_CASE_TEMPLATE("focal loss of levels: the bits of a matrix", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const head_layout layout : layouts) {
      for (const bool scored : {false, true}) {
        for (const double gamma : {2.0, 0.0, 1.5}) {
          focal_loss_params params;
          params.gamma = gamma;
          head<T>(layout, 2, 3, 7, {{9, 13}, {5, 7}, {3, 4}, {1, 1}}, ++seed).check(params, scored);
        }
        focal_loss_params params;
        params.reduction = reduction::mean;
        head<T>(layout, 1, 1, 3, {{150, 120}, {0, 5}, {16, 8}}, ++seed).check(params, scored);
        head<T>(layout, 3, 9, 1, {{17, 16}}, ++seed, 0.5).check(params, scored);
        head<T>(layout, 1, 2, 80, {{13, 9}}, ++seed).check(params, scored);
        head<T>(layout, 2, 3, 8, {{9, 13}, {5, 7}}, ++seed, 0.02, 5).check(params, scored);
      }
    }
  });
}

TEST_CASE_TEMPLATE("soft target losses of levels: the bits of a matrix", T, float, bfloat16) {
  for (const head_layout layout : layouts) {
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

TEST_CASE("focal loss of levels: any threads, in place, nothing allocated") {
  for (const head_layout layout : layouts) {
    head<float> h(layout, 2, 3, 20, {{60, 50}, {20, 30}}, 5);
    const double sum = sigmoid_focal_loss_and_grad(h.view(), h.labels, h.grad_view(), h.scales, {},
                                                   execution::sequential);
    const auto expected = h.grads;
    for (const int threads : {1, 2, 5}) {
      tbb::task_arena(threads).execute([&] {
        const double parallel =
            sigmoid_focal_loss_and_grad(h.view(), h.labels, h.grad_view(), h.scales);
        CHECK(std::memcmp(&sum, &parallel, sizeof sum) == 0);
      });
      for (std::size_t l = 0; l < expected.size(); ++l) CHECK(same_bits(expected[l], h.grads[l]));
    }
    for (std::size_t l = 0; l < expected.size(); ++l) h.grads[l] = h.logits[l];
    const allocation_count allocations;
    const double in_place = sigmoid_focal_loss_and_grad(h.grad_view(), h.labels, h.grad_view(),
                                                        h.scales, {}, execution::sequential);
    CHECK(allocations.since() == 0);
    CHECK(std::memcmp(&sum, &in_place, sizeof sum) == 0);
    for (std::size_t l = 0; l < expected.size(); ++l) CHECK(same_bits(expected[l], h.grads[l]));
  }
}

TEST_CASE("focal loss of levels: rows are ignored whatever they hold") {
  for (const head_layout layout : layouts) {
    head<float> h(layout, 1, 2, 5, {{40, 30}}, 9);
    std::vector<float>& x = h.logits[0];
    h.for_each([&](std::size_t, std::size_t at, index_t row, index_t) {
      x[at] = h.labels[static_cast<std::size_t>(row)] == -2 ? std::nanf("") : -2.0f;
    });
    CHECK(sigmoid_focal_loss_and_grad(h.view(), h.labels, h.grad_view()) > 0);
    h.for_each([&](std::size_t, std::size_t at, index_t row, index_t) {
      if (h.labels[static_cast<std::size_t>(row)] == -2) REQUIRE(h.grads[0][at] == 0);
    });
  }
}

TEST_CASE("focal loss of levels: bad arguments are named and nothing is written") {
  head<float> h(head_layout::nchw, 2, 3, 4, {{5, 6}, {2, 3}}, 1);
  const auto before = h.grads;
  const auto throws = [&](const auto& call, const char* message) {
    INFO(std::string(message));
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), std::invalid_argument);
    CHECK(same_bits(before[0], h.grads[0]));
  };
  const auto with_grad = [&](const head_view<float>& grad) {
    return [&h, grad] { sigmoid_focal_loss_and_grad(h.view(), h.labels, grad); };
  };
  throws(with_grad({h.grad_levels, 2, 3, 4, head_layout::nhwc}),
         "grad.layout() is nhwc, expected nchw");
  throws(with_grad({h.grad_levels, 1, 3, 4, head_layout::nchw}), "grad.images() is 1");
  throws(with_grad({h.grad_levels, 2, 2, 4, head_layout::nchw}), "grad.anchors() is 2");
  throws(with_grad({h.grad_levels, 2, 3, 5, head_layout::nchw}), "grad.classes() is 5");
  throws(with_grad({{h.grad_levels.data(), 1}, 2, 3, 4, head_layout::nchw}),
         "grad.levels().size() is 1");
  auto narrower = h.grad_levels;
  narrower[1].width = 2;
  throws(with_grad({narrower, 2, 3, 4, head_layout::nchw}), "grad.levels()[1] is 2 x 2");
  const std::vector<float> three(3, 1.0f);
  throws([&] { sigmoid_focal_loss_and_grad(h.view(), h.labels, h.grad_view(), three); },
         "image_scales.size() is 3");
  const std::vector<float> infinite(2, static_cast<float>(infinity));
  throws([&] { sigmoid_focal_loss_and_grad(h.view(), h.labels, h.grad_view(), infinite); },
         "image_scales[0] is inf");
  focal_loss_params weighted;
  weighted.row_weights = three;
  throws([&] { sigmoid_focal_loss_and_grad(h.view(), h.labels, h.grad_view(), {}, weighted); },
         "params.row_weights.size() is 3");
  auto labels = h.labels;
  labels[7] = 4;
  throws([&] { sigmoid_focal_loss_and_grad(h.view(), labels, h.grad_view()); }, "labels[7] is 4");
  labels.pop_back();
  throws([&] { sigmoid_focal_loss_and_grad(h.view(), labels, h.grad_view()); }, "labels.size()");
  const matrix_view<const float> dense(h.logits[0].data(), 1, 1);
  throws([&] { sigmoid_focal_loss_and_grad(h.view(), dense, h.grad_view()); },
         "targets is a matrix");
  throws([&] { head_view<float>({}, -1, 1, 1, head_layout::nchw); }, "head_view: images is -1");
  throws([&] { head_view<float>({}, 1, 1, 3, head_layout::nchw, 2); }, "channels is 2");
  const auto with_levels = [&](std::vector<head_level<float>> grad) {
    return [&h, grad] {
      sigmoid_focal_loss_and_grad(h.view(), h.labels, {grad, 2, 3, 4, head_layout::nchw});
    };
  };
  auto shared = h.grad_levels;
  shared[1].data = shared[0].data + 700;
  throws(with_levels(shared), "grad.levels()[1] is grad.levels()[0], expected memory apart");
  shared = h.grad_levels;
  shared[1].data = h.logits[0].data() + 5;
  throws(with_levels(shared), "grad.levels()[1] is logits.levels()[0], expected memory apart");
  shared[1].data = h.logits[1].data() + 1;
  throws(with_levels(shared), "grad.levels()[1] is logits.levels()[1], expected memory apart");
  const vector_view<const float> in_grad(h.grads[1].data(), 2);
  throws([&] { sigmoid_focal_loss_and_grad(h.view(), h.labels, h.grad_view(), in_grad); },
         "grad.levels()[1] is image_scales");
  std::vector<head_level<float>> levels{{nullptr, 1, 1}};
  throws([&] { head_view<float>(levels, 1, 1, 1, head_layout::nchw); }, "levels[0] is null");
  levels[0].height = index_t{1} << 40;
  levels[0].width = index_t{1} << 40;
  throws([&] { head_view<float>(levels, 1, 1, 1, head_layout::nchw); },
         "levels[0] is 1099511627776");
}

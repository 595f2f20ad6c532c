// SPDX-License-Identifier: Apache-2.0
// The fused regression losses against the reference and against the functions that they join: every
// instruction set, element type, loss and selection; targets one per anchor and by matches; and
// every documented error.
#include "support/box_tensor.hpp"
#include "support/exact_box_losses.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"
#include <vecdet/regression_loss.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

const box_loss all_losses[] = {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou};

/// Anchors, ground-truth boxes near some of them, and a head's predictions.
template <class T>
struct problem {
  std::vector<T> anchors, truth, deltas;
  std::vector<index_t> matches, indices;
  std::vector<T> targets;  ///< truth gathered
  std::vector<float> weights;
  regression_loss_params params;

  problem(index_t boxes, std::uint64_t seed, double foreground = 0.3)
      : anchors(random_boxes<T>(boxes, seed, 400)), truth(random_boxes<T>(9, seed + 1, 400)) {
    random_generator generator(seed + 2);
    for (index_t i = 0; i < 4 * boxes; ++i) deltas.push_back(to<T>(0.4 * generator.normal()));
    for (index_t i = 0; i < boxes; ++i) {
      matches.push_back(generator.chance(foreground) ? generator.below(9)
                        : generator.chance(0.2)      ? -2
                                                     : -1);
      const index_t match = matches.back();
      if (match >= 0) indices.push_back(i);
      for (index_t k = 0; k < 4; ++k)
        targets.push_back(match >= 0 ? truth[static_cast<std::size_t>(4 * match + k)]
                                     : to<T>(std::nan("")));
    }
  }

  index_t boxes() const { return static_cast<index_t>(matches.size()); }

  /// For box i, decoded in `decoded`.
  exact_regression exact(index_t i, const std::vector<compute_type<T>>& decoded) const {
    return exact_regression_loss<T>(params, box(deltas, i), box(anchors, i), box(targets, i),
                                    box(decoded, i));
  }

  /// Whether rounding has reduced a side of box i to 0: its gradient then has no scale.
  bool has_lost_a_side(index_t i, const std::vector<compute_type<T>>& decoded) const {
    for (const reference::box& b : {box(anchors, i), box(targets, i), box(decoded, i)})
      if (!(b.width() > 0 && b.height() > 0)) return true;
    return false;
  }

  template <class Number>
  static reference::box box(const std::vector<Number>& boxes, index_t i) {
    return reference::load_box(boxes_view<const Number>(boxes), i);
  }

  void check() {
    params.box_weights = weights;
    INFO("boxes ", boxes(), " loss ", std::string(detail::box_loss_name(params.loss)), " ",
         std::string(dtype_name<T>()), " foreground ", indices.size());
    const boxes_view<const T> d(deltas);
    const regression_targets<T> each(targets), by_match(truth, matches);
    marked<T> grad(4 * boxes(), 1);
    const double loss = regression_loss_and_grad(d, anchors, each, matches, grad.boxes(), params);
    CHECK(grad.marks_untouched());
    const auto decoded = decoded_boxes(d, boxes_view<const T>(anchors), params.coder);
    double exact_loss = 0, size = 1e-9;
    for (index_t i = 0; i < boxes(); ++i) {
      const bool counts = matches[static_cast<std::size_t>(i)] >= 0;
      const double factor =
          params.scale * (weights.empty() ? 1.0 : weights[static_cast<std::size_t>(i)]);
      const exact_regression e =
          counts ? exact(i, decoded) : exact_regression{0, {0, 0, 0, 0}, {0, 0, 0, 0}};
      exact_loss += factor * e.loss;
      size += std::abs(factor) * (1 + std::abs(e.loss));
      for (index_t k = 0; k < 4; ++k) {
        const auto c = static_cast<std::size_t>(k);
        const double g = factor * numbers(e.grad)[c];
        const double scale = std::abs(factor) * numbers(e.scale)[c];
        REQUIRE((std::isfinite(scale) || has_lost_a_side(i, decoded)));
        // Twice the tolerance of test_iou_loss, because two corners contribute.
        if (is_close(grad[4 * i + k], g, 32, scale)) continue;
        FAIL_CHECK("gradient " << k << " of box " << i << " is "
                               << static_cast<double>(grad[4 * i + k]) << ", exact " << g
                               << ", scale " << scale);
        return;
      }
    }
    // A delta's difference from its target suffers from cancellation; an IoU loss does not.
    const double within = params.loss == box_loss::smooth_l1 ? 4 * loss_within<T> : loss_within<T>;
    CHECK((loss == exact_loss || std::abs(loss - exact_loss) <= within * size));

    // Every representation of the same selection is bit-identical.
    marked<T> again(4 * boxes(), 1);
    const auto same = [&](const regression_targets<T>& t, const box_selection& selection) {
      CHECK(loss == regression_loss_and_grad(d, anchors, t, selection, again.boxes(), params));
      CHECK(same_bits(grad.data(), again.data(), static_cast<std::size_t>(4 * boxes())));
      CHECK(loss == regression_loss(d, anchors, t, selection, params));
    };
    same(by_match, matches);
    const std::vector<int> narrow(matches.begin(), matches.end());
    same(each, narrow);
    same(by_match, narrow);
    same(each, box_selection::list(indices));
    same(by_match, box_selection::list(indices));
    if (static_cast<index_t>(indices.size()) == boxes()) {
      same(each, box_selection::all());
      same(by_match, box_selection::all());
    }
  }
};

}  // namespace

TEST_CASE_TEMPLATE("regression loss", T, float, bfloat16, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const box_loss loss : all_losses) {
      for (index_t boxes = 1; boxes <= 150; boxes += 1 + boxes / 8) {
        problem<T> p(boxes, ++seed);
        p.params.loss = loss;
        p.check();
        problem<T> all(boxes, ++seed, 1.1);
        all.params.loss = loss;
        all.check();
      }
      for (const size_clamp clamp : {size_clamp::above, size_clamp::both, size_clamp::none}) {
        problem<T> p(500, ++seed);
        p.params.loss = loss;
        p.params.scale = 1.0 / 31;
        p.params.coder.clamp = clamp;
        p.params.coder.size_limit = 0.5;  // cuts off some
        p.check();
        p.params.coder.weight_x = p.params.coder.weight_y = 10;
        p.params.coder.weight_w = p.params.coder.weight_h = 5;
        p.params.beta = 1;
        p.params.epsilon = 1e-3;
        random_generator generator(seed);
        for (int i = 0; i < 500; ++i)
          p.weights.push_back(static_cast<float>(generator.uniform(0, 2)));
        p.check();
      }
    }
  });
}

TEST_CASE("regression loss: bfloat16 deltas of float boxes act like floats") {
  for_each_isa([](isa) {
    for (const box_loss loss : all_losses) {
      for (const index_t boxes : {1, 16, 17, 500}) {
        for (const double foreground : {0.3, 1.1}) {
          problem<float> p(boxes, 31, foreground);
          p.params.loss = loss;
          p.params.scale = 0.25;
          p.params.coder.size_limit = 0.5;  // cuts off some
          p.weights.assign(static_cast<std::size_t>(boxes), 1.5f);
          p.params.box_weights = p.weights;
          std::vector<bfloat16> deltas;
          for (float& x : p.deltas) {
            deltas.push_back(bfloat16(x));
            x = deltas.back();
          }
          const auto check = [&](const regression_targets<float>& targets,
                                 const box_selection& selection) {
            std::vector<float> exact(p.deltas.size());
            marked<bfloat16> grad(4 * boxes, 1);
            const boxes_view<const bfloat16> d(deltas);
            const double sum = regression_loss_and_grad(
                boxes_view<const float>(p.deltas), p.anchors, targets, selection, exact, p.params);
            CHECK(sum == regression_loss_and_grad(d, p.anchors, targets, selection, grad.boxes(),
                                                  p.params));
            CHECK(sum == regression_loss(d, p.anchors, targets, selection, p.params));
            const std::vector<bfloat16> expected(exact.begin(), exact.end());
            CHECK(same_bits(expected.data(), grad.data(), expected.size()));
            CHECK(grad.marks_untouched());
          };
          check(p.targets, p.matches);
          check({p.truth, p.matches}, p.matches);
          check({p.truth, p.matches}, box_selection::list(p.indices));
          if (foreground > 1) check(p.targets, box_selection::all());
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("regression loss: the anchors of one image serve all images", T, float, bfloat16,
                   double) {
  for_each_isa([](isa) {
    for (const index_t anchors_per_image : {1, 5, 16, 67}) {
      for (const box_loss loss : all_losses) {
        problem<T> p(3 * anchors_per_image, 11);
        p.params.loss = loss;
        const std::vector<T> one(p.anchors.begin(), p.anchors.begin() + 4 * anchors_per_image);
        std::vector<T> all;
        for (int n = 0; n < 3; ++n) all.insert(all.end(), one.begin(), one.end());
        const std::vector<T> targets = random_boxes<T>(3 * anchors_per_image, 13, 400);
        const auto compare = [&](const regression_targets<T>& to, const box_selection& selection) {
          std::vector<T> expected(p.deltas.size()), grad(p.deltas.size());
          const double sum =
              regression_loss_and_grad(p.deltas, all, to, selection, expected, p.params);
          const auto is_sum = [&](double actual, double within) {
            return actual == sum || std::abs(actual - sum) <= within * std::abs(sum);
          };
          CHECK(is_sum(regression_loss_and_grad(p.deltas, one, to, selection, grad, p.params),
                       1e-12));
          CHECK(same_bits(grad, expected));
          CHECK(is_sum(regression_loss(p.deltas, one, to, selection, p.params), 1e-6));
        };
        compare(targets, box_selection::all());
        compare(targets, p.matches);
        compare({p.truth, p.matches}, p.matches);
        compare({p.truth, p.matches}, box_selection::list(p.indices));
      }
    }
  });
  problem<T> p(6, 11);
  std::vector<T> grad(p.deltas.size());
  const std::vector<T> four(p.anchors.begin(), p.anchors.begin() + 16);
  CHECK_THROWS_WITH_AS(
      regression_loss_and_grad(p.deltas, four, {p.truth, p.matches}, p.matches, grad),
      "vecdet::regression_loss_and_grad: anchors.size() is 4, expected 6, the number of deltas, or "
      "a divisor: the anchors of one image",
      std::invalid_argument);
}

TEST_CASE_TEMPLATE("regression loss: 0 times infinity is 0 for weights", T, float, bfloat16,
                   double) {
  const index_t boxes = 42;
  std::vector<T> anchors = random_boxes<T>(boxes, 1, 100), targets = random_boxes<T>(boxes, 2, 100);
  std::vector<T> deltas(anchors.size(), to<T>(0));
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    if (i / 4 % 3 == 0) targets[i] = anchors[i];  // loss 0
    if (i / 4 % 5 == 1) targets[i] = to<T>(4);    // a point, whose sides' logarithms are infinite
  }
  for_each_isa([&](isa) {
    for (const box_loss loss : all_losses) {
      check_special_weights<T>(
          boxes, 4, [&](index_t first, const std::vector<float>& weights, double scale) {
            const auto count = static_cast<index_t>(weights.size());
            regression_loss_params params;
            params.loss = loss;
            params.epsilon = 0;
            params.scale = scale;
            params.box_weights = weights;
            std::vector<T> grad(4 * weights.size());
            const auto part = [&](const std::vector<T>& of) {
              return boxes_view<const T>(of.data() + 4 * first, count);
            };
            regression_loss_and_grad(part(deltas), part(anchors),
                                     regression_targets<T>(part(targets)), box_selection::all(),
                                     boxes_view<T>(grad), params);
            return grad;
          });
    }
    const auto sum = [&](index_t box, float weight) {
      const std::vector<float> weights{weight};
      regression_loss_params params;
      params.box_weights = weights;
      const auto part = [&](const std::vector<T>& of) {
        return boxes_view<const T>(of.data() + 4 * box, 1);
      };
      return regression_loss(part(deltas), part(anchors), regression_targets<T>(part(targets)),
                             box_selection::all(), params);
    };
    const float inf = std::numeric_limits<float>::infinity();
    CHECK(sum(0, inf) == 0);
    CHECK(sum(1, 1) == std::numeric_limits<double>::infinity());
    CHECK(sum(1, 0) == 0);
    CHECK(sum(2, -inf) == -std::numeric_limits<double>::infinity());
  });
}

TEST_CASE("regression loss: no foreground, and selected degenerate boxes") {
  const std::vector<float> nothing(8, NAN);
  std::vector<float> grad(8, 1);
  const boxes_view<const float> d(nothing);
  CHECK(regression_loss_and_grad(d, nothing, nothing, std::vector<int>{-1, -2}, grad) == 0);
  for (const float g : grad) CHECK(g == 0);
  const boxes_view<const float> none(nullptr, 0);
  CHECK(regression_loss(none, none, none, std::vector<int>{}) == 0);

  const std::vector<float> zero(4), point{4, 4, 4, 4}, square{0, 0, 8, 8};
  std::vector<float> g(4);
  const boxes_view<const float> z(zero);
  for_each_isa([&](isa) {
    CHECK(std::isnan(regression_loss_and_grad(z, point, point, std::vector<int>{0}, g)));
    CHECK(regression_loss(z, square, point, std::vector<int>{0}) ==
          std::numeric_limits<double>::infinity());
    regression_loss_params giou;
    giou.loss = box_loss::giou;
    CHECK(regression_loss_and_grad(z, square, point, std::vector<int>{0}, g, giou) ==
          doctest::Approx(1).epsilon(1e-6));
    for (const float x : g) CHECK(std::isfinite(x));
  });
}

TEST_CASE("regression loss: bad arguments throw errors that name them and write nothing") {
  const std::vector<float> four(16, 1), three(12, 1);
  std::vector<index_t> matches{0, -1, 2, -2};
  marked<float> out(16, 0);
  regression_loss_params params;
  const boxes_view<const float> d(four), q(three);
  const auto refused = refusals(out);
  const auto fails = [&](const char* message, const auto& call) {
    refused(message, call);
    params = {};
  };
  const auto run = [&] {
    regression_loss_and_grad(d, four, {three, matches}, matches, out.boxes(), params);
  };
  params.beta = -1;
  fails("regression_loss_and_grad: params.beta is -1", run);
  params.epsilon = std::nan("");
  fails("params.epsilon is nan", run);
  params.scale = INFINITY;
  fails("params.scale is inf", run);
  params.coder.weight_w = 0;
  fails("params.coder.weight_w is 0", run);
  params.coder = coder_params::ssd();
  fails("params.coder.anchors is cxcywh, expected xyxy", run);
  params.box_weights = three;
  fails("params.box_weights.size() is 12", run);
  matches[2] = 3;
  fails("matches[2] is 3, expected 0 to 2 (3 ground-truth boxes)", run);
  matches[2] = -3;
  fails("matches[2] is -3", run);
  const std::vector<index_t> indices{1};
  fails("matches[1] is -1", [&] {
    regression_loss_and_grad(d, four, {three, matches}, box_selection::list(indices), out.boxes());
  });
  fails("matches[1] is -1", [&] {
    regression_loss_and_grad(d, four, {three, matches}, box_selection::all(), out.boxes());
  });
  fails("anchors.size() is 3",
        [&] { regression_loss_and_grad(d, three, four, matches, out.boxes()); });
  fails("targets.size() is 3",
        [&] { regression_loss_and_grad(d, four, three, matches, out.boxes()); });
  fails("grad.size() is 4",
        [&] { regression_loss_and_grad(q, three, three, std::vector<int>(3), out.boxes()); });
  fails("labels.size() is 3",
        [&] { regression_loss_and_grad(d, four, four, std::vector<int>(3), out.boxes()); });
  fails("matches.size() is 4", [&] {
    regression_loss(q, three, {three, matches}, std::vector<int>(3));
  });
  // The first of several invalid labels, after the first block of labels.
  const std::vector<float> many(4 * 300, 1);
  std::vector<index_t> far(300, 0);
  far[130] = far[290] = 5;
  fails("matches[130] is 5", [&] {
    regression_loss(boxes_view<const float>(many), many, {three, far}, std::vector<index_t>(300));
  });
  fails("matches[130] is 5", [&] {
    regression_loss(boxes_view<const float>(many), many, {three, far}, std::vector<int>(300));
  });
}

// SPDX-License-Identifier: Apache-2.0
// RetinaNet's loss in one call against its parts called one by one, in both layouts and types, and
// every documented error.
#include "support/head_tensor.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/retinanet_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr index_t anchors_at_location = 9;

/// A batch on an image of 96 x 64 pixels, with two levels.
template <class T>
struct batch {
  index_t images, classes;
  std::vector<float> anchors;
  head_tensor<T> logits, deltas, logits_grad, deltas_grad;
  std::vector<float> boxes;
  std::vector<index_t> box_classes, offsets{0};

  batch(head_layout layout, index_t image_count, index_t class_count, index_t boxes_per_image,
        std::uint64_t seed)
      : images(image_count),
        classes(class_count),
        logits(layout, images, anchors_at_location, classes, {{12, 8}, {6, 4}}),
        deltas(layout, images, anchors_at_location, 4, {{12, 8}, {6, 4}}),
        logits_grad(logits),
        deltas_grad(deltas) {
    std::vector<anchor_shapes> shapes = anchor_shapes::retinanet();
    shapes.resize(2);
    const std::vector<grid_size> features{{12, 8}, {6, 4}};
    anchors.resize(static_cast<std::size_t>(4 * count_anchors(shapes, features)));
    make_anchors(shapes, {96, 64}, features, anchors);
    random_generator random(seed);
    logits.for_each([&](T& x, index_t, index_t) { x = to<T>(6 * (random.uniform() - 0.5)); });
    deltas.for_each([&](T& x, index_t, index_t) { x = to<T>(2 * (random.uniform() - 0.5)); });
    for (index_t n = 0; n < images; ++n) {
      // The second image has no ground truth.
      for (index_t k = 0; k < (n == 1 ? 0 : boxes_per_image); ++k) {
        const double x = 60 * random.uniform(), y = 40 * random.uniform();
        for (const double number :
             {x, y, x + 16 + 40 * random.uniform(), y + 16 + 40 * random.uniform()})
          boxes.push_back(static_cast<float>(number));
        box_classes.push_back(
            static_cast<index_t>(random.uniform() * 0.999 * static_cast<double>(classes)));
      }
      offsets.push_back(static_cast<index_t>(box_classes.size()));
    }
  }

  index_t anchor_count() const { return static_cast<index_t>(anchors.size()) / 4; }

  retinanet_head<T> head() {
    return {logits.const_view(), deltas.const_view(), logits_grad.view(), deltas_grad.view()};
  }
  ground_truth truth() const { return {boxes, box_classes, offsets}; }
};

/// The same by the separate functions, image by image.
template <class T>
void check_against_parts(batch<T>& b, const retinanet_loss_params& params, threading policy) {
  const index_t rows = b.anchor_count();
  const std::vector<T> logits = b.logits.flat(), deltas = b.deltas.flat();
  std::vector<T> logits_grad(logits.size()), deltas_grad(deltas.size());
  const anchor_index index{boxes_view<const float>(b.anchors)};
  double classification = 0, regression = 0;
  index_t all_foreground = 0;
  match_workspace matching;
  for (index_t n = 0; n < b.images; ++n) {
    const index_t first = b.offsets[static_cast<std::size_t>(n)];
    const index_t count = b.offsets[static_cast<std::size_t>(n) + 1] - first;
    const ground_truth truth{boxes_view<const float>(b.boxes.data() + 4 * first, count),
                             vector_view<const index_t>(b.box_classes.data() + first, count)};
    std::vector<index_t> matches(static_cast<std::size_t>(rows)), labels(matches.size());
    const match_results results{matches, labels};
    const index_t foreground = match_anchors(index, truth, results, params.matcher, matching);
    all_foreground += foreground;
    const auto scale =
        static_cast<float>(params.scale / (static_cast<double>(std::max<index_t>(1, foreground)) *
                                           static_cast<double>(b.images)));
    focal_loss_params focal;
    focal.alpha = params.alpha;
    focal.gamma = params.gamma;
    focal.scale = scale;
    classification += sigmoid_focal_loss_and_grad(
        matrix_view<const T>(logits.data() + n * rows * b.classes, rows, b.classes), labels,
        matrix_view<T>(logits_grad.data() + n * rows * b.classes, rows, b.classes), focal);
    regression_loss_params boxes;
    boxes.loss = params.loss;
    boxes.beta = params.beta;
    boxes.scale = scale;
    std::vector<float> image_deltas, grad(static_cast<std::size_t>(4 * rows));
    for (index_t i = 4 * n * rows; i < 4 * (n + 1) * rows; ++i)
      image_deltas.push_back(static_cast<float>(deltas[static_cast<std::size_t>(i)]));
    regression += regression_loss_and_grad(boxes_view<const float>(image_deltas),
                                           boxes_view<const float>(b.anchors),
                                           regression_targets<float>(truth.boxes, matches),
                                           box_selection(labels), boxes_view<float>(grad), boxes);
    for (index_t i = 0; i < 4 * rows; ++i)
      deltas_grad[static_cast<std::size_t>(4 * n * rows + i)] =
          to<T>(grad[static_cast<std::size_t>(i)]);
  }

  retinanet_loss_workspace workspace;
  const retinanet_losses losses =
      retinanet_loss_and_grad(b.head(), index, b.truth(), params, workspace, policy);
  CHECK(losses.foreground == all_foreground);
  CHECK(losses.classification == doctest::Approx(classification).epsilon(1e-6));
  CHECK(losses.regression == doctest::Approx(regression).epsilon(1e-6));
  const auto check_equal = [](const std::vector<T>& actual, const std::vector<T>& expected) {
    // They differ by one rounding: the whole loss uses weights of boxes, the parts a scale.
    const double tolerance = std::is_same<T, float>::value ? 1e-6 : 1e-2;
    double worst = 0;
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double e = expected[i], a = actual[i];
      worst = std::max(worst, std::abs(a - e) / (std::abs(e) + 1e-12));
    }
    CHECK(worst <= tolerance);
  };
  check_equal(b.logits_grad.flat(), logits_grad);
  check_equal(b.deltas_grad.flat(), deltas_grad);
}

}  // namespace

TEST_CASE_TEMPLATE("retinanet loss: equals its parts called one by one", T, float, bfloat16) {
  for_each_isa([](isa) {
    for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
      for (const index_t boxes : {0, 1, 5}) {
        for (const box_loss loss : {box_loss::smooth_l1, box_loss::giou}) {
          batch<T> b(layout, 3, 7, boxes, 5 + static_cast<std::uint64_t>(boxes));
          retinanet_loss_params params;
          params.loss = loss;
          params.scale = loss == box_loss::giou ? 128 : 1;
          check_against_parts(b, params, threading::sequential);
        }
      }
    }
  });
}

TEST_CASE("retinanet loss: bad arguments throw errors that name them and write nothing") {
  constexpr index_t a = anchors_at_location;
  constexpr head_layout nhwc = head_layout::nhwc, nchw = head_layout::nchw;
  batch<float> b(nhwc, 2, 5, 4, 3);
  const anchor_index index{boxes_view<const float>(b.anchors)};
  const anchor_index fewer(boxes_view<const float>(b.anchors.data(), 16));
  retinanet_loss_workspace workspace;
  struct arguments {
    retinanet_head<float> head;
    const anchor_index* anchors;
    ground_truth truth;
    retinanet_loss_params params;
  };
  const auto refused = refusals(b.logits_grad.data, b.deltas_grad.data);
  const auto fails = [&](const char* message, const auto& change) {
    arguments c{b.head(), &index, b.truth(), {}};
    change(c);
    refused(message,
            [&] { retinanet_loss_and_grad(c.head, *c.anchors, c.truth, c.params, workspace); });
  };
  using call = arguments;
  auto levels = b.deltas_grad.levels, logit_levels = b.logits_grad.levels;
  fails("head.deltas.classes()", [](call& c) { c.head.deltas = c.head.logits; });
  fails("head.deltas_grad.levels().size()", [&](call& c) {
    c.head.deltas_grad = {{levels.data(), 1}, 2, a, 4, nhwc};
  });
  fails("head.logits_grad.layout()", [&](call& c) {
    c.head.logits_grad = {logit_levels, 2, a, 5, nchw};
  });
  std::swap(logit_levels[0], logit_levels[1]);
  fails("head.logits_grad.levels()[0]", [&](call& c) {
    c.head.logits_grad = {logit_levels, 2, a, 5, nhwc};
  });
  fails("anchors.size()", [&](call& c) { c.anchors = &fewer; });
  fails("the number of truth's images", [](call& c) { c.truth.image_offsets = {}; });
  std::vector<index_t> classes = b.box_classes;
  classes[2] = 5;
  fails("truth.classes[2]", [&](call& c) { c.truth.classes = classes; });
  const std::vector<index_t> descending{0, 3, 2}, regions{0, 0}, no_offsets{0};
  fails("retinanet_loss_and_grad: truth.image_offsets[2] is 2",
        [&](call& c) { c.truth.image_offsets = descending; });
  fails("retinanet_loss_and_grad: truth.region_offsets.size() is 2",
        [&](call& c) { c.truth.region_offsets = regions; });
  fails("params.beta", [](call& c) { c.params.beta = -1; });
  fails("params.gamma", [](call& c) { c.params.gamma = -1; });
  fails("params.scale", [](call& c) { c.params.scale = HUGE_VAL; });
  fails("retinanet_loss_and_grad: params.matcher.coder.weight_w is 0",
        [](call& c) { c.params.matcher.coder.weight_w = 0; });
  fails("params.matcher.ignore is -1", [](call& c) { c.params.matcher.ignore = -1; });
  fails("params.matcher.region_threshold is 2",
        [](call& c) { c.params.matcher.region_threshold = 2; });
  fails("retinanet_loss_and_grad: params.matcher.low_threshold is nan",
        [](call& c) { c.params.matcher.low_threshold = std::nan(""); });
  // The same without images.
  const ground_truth nothing{{}, {}, no_offsets};
  const retinanet_head<float> no_images{{b.logits.const_levels, 0, a, 5, nhwc},
                                        {b.deltas.const_levels, 0, a, 4, nhwc},
                                        {b.logits_grad.levels, 0, a, 5, nhwc},
                                        {b.deltas_grad.levels, 0, a, 4, nhwc}};
  fails("retinanet_loss_and_grad: params.beta", [&](call& c) {
    c.head = no_images;
    c.truth = nothing;
    c.params.beta = -1;
  });
  CHECK(retinanet_loss_and_grad(no_images, index, nothing, {}, workspace).foreground == 0);
}

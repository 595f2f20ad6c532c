// SPDX-License-Identifier: Apache-2.0
// RetinaNet's loss in one call against its parts called one by one, in both layouts and types, and
// every documented error.
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/values.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/retinanet_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr index_t anchors_at_location = 9;

/// A batch on an image of 96 x 64 pixels, with two levels.
template <class T>
struct batch {
  head_layout layout;
  index_t images, classes;
  std::vector<grid_size> features{{12, 8}, {6, 4}};
  std::vector<float> anchors;
  std::vector<std::vector<T>> logits, deltas, logits_grad, deltas_grad;
  std::vector<head_level<const T>> logit_levels, delta_levels;
  std::vector<head_level<T>> logit_grad_levels, delta_grad_levels;
  std::vector<float> boxes;
  std::vector<index_t> box_classes, offsets{0};

  batch(head_layout how, index_t image_count, index_t class_count, index_t boxes_per_image,
        std::uint64_t seed)
      : layout(how), images(image_count), classes(class_count) {
    std::vector<anchor_shapes> shapes = anchor_shapes::retinanet();
    shapes.resize(2);
    anchors.resize(static_cast<std::size_t>(4 * count_anchors(shapes, features)));
    make_anchors(shapes, {96, 64}, features, anchors);
    random_generator random(seed);
    const auto fill = [&](std::vector<std::vector<T>>& levels, index_t per_anchor, double scale) {
      for (const grid_size& f : features) {
        levels.emplace_back();
        for (index_t i = 0; i < images * f.height * f.width * anchors_at_location * per_anchor; ++i)
          levels.back().push_back(to<T>(scale * (random.uniform() - 0.5)));
      }
    };
    fill(logits, classes, 6);
    fill(deltas, 4, 2);
    logits_grad = logits;
    deltas_grad = deltas;
    for (std::size_t l = 0; l < features.size(); ++l) {
      const grid_size& f = features[l];
      logit_levels.push_back({logits[l].data(), f.height, f.width});
      delta_levels.push_back({deltas[l].data(), f.height, f.width});
      logit_grad_levels.push_back({logits_grad[l].data(), f.height, f.width});
      delta_grad_levels.push_back({deltas_grad[l].data(), f.height, f.width});
    }
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
    const index_t a = anchors_at_location;
    return {{logit_levels, images, a, classes, layout},
            {delta_levels, images, a, 4, layout},
            {logit_grad_levels, images, a, classes, layout},
            {delta_grad_levels, images, a, 4, layout}};
  }
  ground_truth truth() const {
    ground_truth truth;
    truth.boxes = boxes;
    truth.classes = box_classes;
    truth.image_offsets = offsets;
    return truth;
  }

  /// The contents of all levels as one matrix of all anchors.
  std::vector<T> flat(const std::vector<std::vector<T>>& levels, index_t columns) const {
    std::vector<T> rows;
    for (index_t n = 0; n < images; ++n) {
      for (std::size_t l = 0; l < features.size(); ++l) {
        const index_t plane = features[l].height * features[l].width;
        for (index_t p = 0; p < plane; ++p) {
          for (index_t a = 0; a < anchors_at_location; ++a) {
            for (index_t c = 0; c < columns; ++c) {
              const index_t at = layout == head_layout::nhwc
                                     ? ((n * plane + p) * anchors_at_location + a) * columns + c
                                     : ((n * anchors_at_location + a) * columns + c) * plane + p;
              rows.push_back(levels[l][static_cast<std::size_t>(at)]);
            }
          }
        }
      }
    }
    return rows;
  }
};

/// The same by the separate functions, image by image.
template <class T>
void check_against_parts(batch<T>& b, const retinanet_loss_params& params, threading policy) {
  const index_t rows = b.anchor_count();
  const std::vector<T> logits = b.flat(b.logits, b.classes), deltas = b.flat(b.deltas, 4);
  std::vector<T> logits_grad(logits.size()), deltas_grad(deltas.size());
  const anchor_index index{boxes_view<const float>(b.anchors)};
  double classification = 0, regression = 0;
  index_t all_foreground = 0;
  match_workspace matching;
  for (index_t n = 0; n < b.images; ++n) {
    const index_t first = b.offsets[static_cast<std::size_t>(n)];
    const index_t count = b.offsets[static_cast<std::size_t>(n) + 1] - first;
    ground_truth truth;
    truth.boxes = boxes_view<const float>(b.boxes.data() + 4 * first, count);
    truth.classes = vector_view<const index_t>(b.box_classes.data() + first, count);
    std::vector<index_t> matches(static_cast<std::size_t>(rows)), labels(matches.size());
    match_results results;
    results.matches = matches;
    results.labels = labels;
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
  check_equal(b.flat(b.logits_grad, b.classes), logits_grad);
  check_equal(b.flat(b.deltas_grad, 4), deltas_grad);
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
  batch<float> b(head_layout::nhwc, 2, 5, 4, 3);
  const anchor_index index{boxes_view<const float>(b.anchors)};
  retinanet_loss_workspace workspace;
  const auto before_logits = b.logits_grad, before_deltas = b.deltas_grad;
  const auto check_refused = [&](const std::string& argument, const retinanet_head<float>& head,
                                 const anchor_index& anchors, const ground_truth& truth,
                                 const retinanet_loss_params& params) {
    CAPTURE(argument);
    std::string message;
    try {
      retinanet_loss_and_grad(head, anchors, truth, params, workspace);
    } catch (const std::invalid_argument& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find(argument) != std::string::npos);
    CHECK(b.logits_grad == before_logits);
    CHECK(b.deltas_grad == before_deltas);
  };
  const ground_truth truth = b.truth();
  {
    auto head = b.head();
    head.deltas = head.logits;
    check_refused("head.deltas.classes()", head, index, truth, {});
  }
  {
    auto head = b.head();
    const std::vector<head_level<float>> one(b.delta_grad_levels.begin(),
                                             b.delta_grad_levels.begin() + 1);
    head.deltas_grad = {one, 2, anchors_at_location, 4, head_layout::nhwc};
    check_refused("head.deltas_grad.levels().size()", head, index, truth, {});
  }
  {
    auto head = b.head();
    head.logits_grad = {b.logit_grad_levels, 2, anchors_at_location, 5, head_layout::nchw};
    check_refused("head.logits_grad.layout()", head, index, truth, {});
  }
  {
    auto head = b.head();
    auto levels = b.logit_grad_levels;
    std::swap(levels[0], levels[1]);
    head.logits_grad = {levels, 2, anchors_at_location, 5, head_layout::nhwc};
    check_refused("head.logits_grad.levels()[0]", head, index, truth, {});
  }
  {
    auto head = b.head();
    auto levels = b.delta_grad_levels;
    levels[1].data = b.logits_grad[0].data();
    head.deltas_grad = {levels, 2, anchors_at_location, 4, head_layout::nhwc};
    check_refused("head.deltas_grad.levels()[1] is head.logits_grad.levels()[0]", head, index,
                  truth, {});
    levels[1].data = b.delta_grad_levels[0].data + 8;
    head.deltas_grad = {levels, 2, anchors_at_location, 4, head_layout::nhwc};
    check_refused("head.deltas_grad.levels()[1] is head.deltas_grad.levels()[0]", head, index,
                  truth, {});
    // As long as the level, so that it does not reach into other memory.
    std::vector<float> both = b.boxes;
    both.resize(std::max(b.boxes.size(), b.deltas_grad[1].size()));
    ground_truth in_both = truth;
    in_both.boxes =
        boxes_view<const float>(both.data(), static_cast<index_t>(b.box_classes.size()));
    levels[1].data = both.data();
    head.deltas_grad = {levels, 2, anchors_at_location, 4, head_layout::nhwc};
    check_refused("head.deltas_grad.levels()[1] is truth.boxes", head, index, in_both, {});
  }
  const anchor_index fewer(boxes_view<const float>(b.anchors.data(), 16));
  check_refused("anchors.size()", b.head(), fewer, truth, {});
  {
    ground_truth one = truth;
    one.image_offsets = {};
    check_refused("the number of truth's images", b.head(), index, one, {});
  }
  {
    std::vector<index_t> classes = b.box_classes;
    classes[2] = 5;
    ground_truth wrong = truth;
    wrong.classes = classes;
    check_refused("truth.classes[2]", b.head(), index, wrong, {});
  }
  retinanet_loss_params params;
  params.beta = -1;
  check_refused("params.beta", b.head(), index, truth, params);
  // The same without images.
  const std::vector<index_t> no_offsets{0};
  ground_truth nothing;
  nothing.image_offsets = no_offsets;
  const head_layout nhwc = head_layout::nhwc;
  const index_t a = anchors_at_location;
  const retinanet_head<float> no_images{{b.logit_levels, 0, a, 5, nhwc},
                                        {b.delta_levels, 0, a, 4, nhwc},
                                        {b.logit_grad_levels, 0, a, 5, nhwc},
                                        {b.delta_grad_levels, 0, a, 4, nhwc}};
  check_refused("retinanet_loss_and_grad: params.beta", no_images, index, nothing, params);
  CHECK(retinanet_loss_and_grad(no_images, index, nothing, {}, workspace).foreground == 0);
  params = {};
  params.matcher.coder.weight_w = 0;
  check_refused("retinanet_loss_and_grad: params.matcher.coder.weight_w is 0", b.head(), index,
                truth, params);
  params = {};
  params.matcher.ignore = -1;
  check_refused("params.matcher.ignore is -1", b.head(), index, truth, params);
  params = {};
  params.matcher.region_threshold = 2;
  check_refused("params.matcher.region_threshold is 2", b.head(), index, truth, params);
  {
    ground_truth wrong = truth;
    const std::vector<index_t> descending{0, 3, 2};
    wrong.image_offsets = descending;
    check_refused("retinanet_loss_and_grad: truth.image_offsets[2] is 2", b.head(), index, wrong,
                  {});
    wrong = truth;
    const std::vector<index_t> regions{0, 0};
    wrong.region_offsets = regions;
    check_refused("retinanet_loss_and_grad: truth.region_offsets.size() is 2", b.head(), index,
                  wrong, {});
  }
  params = {};
  params.gamma = -1;
  check_refused("params.gamma", b.head(), index, truth, params);
  params = {};
  params.scale = std::numeric_limits<double>::infinity();
  check_refused("params.scale", b.head(), index, truth, params);
  params = {};
  params.matcher.low_threshold = std::nan("");
  check_refused("retinanet_loss_and_grad: params.matcher.low_threshold is nan", b.head(), index,
                truth, params);
}

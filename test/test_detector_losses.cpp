// SPDX-License-Identifier: Apache-2.0
// The whole losses of SSD and FCOS against numbers that torchvision 0.14's functions computed from
// the same inputs, and against their parts called one by one; types, layouts, threads, in place,
// and every documented error.
#include "support/box_tensor.hpp"
#include "support/head_tensor.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/assigners.hpp>
#include <vecdet/fcos_loss.hpp>
#include <vecdet/ssd_loss.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// Numbers from -2 to 2, exact in float.
float number(index_t i, index_t m) {
  return static_cast<float>((i * 37 + m * 101) % 257 - 128) / 64;
}
std::vector<float> numbers(index_t size, index_t m) {
  std::vector<float> result;
  for (index_t i = 0; i < size; ++i) result.push_back(number(i, m));
  return result;
}
/// A number to which every element contributes.
template <class T>
double projected(const std::vector<T>& gradient) {
  double sum = 0;
  index_t i = 0;
  for (const T g : gradient) sum += static_cast<double>(g) * static_cast<double>(number(i++, 9));
  return sum;
}

// ---- FCOS

struct fcos_problem {
  head_layout layout;
  std::vector<grid_size> levels{{8, 10}, {4, 5}, {2, 3}};
  std::vector<float> anchors;
  std::vector<float> boxes{5,  6,  40, 50, 20, 10, 70, 60, 22, 12,
                           30, 20, 0,  0,  79, 63, 30, 20, 62, 52};
  std::vector<index_t> classes{1, 3, 0, 2, 4}, offsets{0, 3, 3, 5};

  explicit fcos_problem(head_layout how) : layout(how) {
    float stride = 8;
    for (const grid_size& level : levels) {
      for (index_t y = 0; y < level.height; ++y) {
        for (index_t x = 0; x < level.width; ++x) {
          const float at_x = static_cast<float>(x) * stride, at_y = static_cast<float>(y) * stride;
          for (const float corner :
               {at_x - stride / 2, at_y - stride / 2, at_x + stride / 2, at_y + stride / 2})
            anchors.push_back(corner);
        }
      }
      stride *= 2;
    }
  }
  index_t anchor_count() const { return static_cast<index_t>(anchors.size() / 4); }
  ground_truth truth() const { return {boxes, classes, offsets}; }
};

template <class T>
struct fcos_tensors {
  head_tensor<T> logits, distances, centerness, logits_grad, distances_grad, centerness_grad;

  explicit fcos_tensors(const fcos_problem& p, index_t others = 0)
      : logits(p.layout, 3, 1, 5, {{8, 10}, {4, 5}, {2, 3}}, others),
        distances(p.layout, 3, 1, 4, {{8, 10}, {4, 5}, {2, 3}}, others),
        centerness(p.layout, 3, 1, 1, {{8, 10}, {4, 5}, {2, 3}}, others),
        logits_grad(logits),
        distances_grad(distances),
        centerness_grad(centerness) {
    const auto set = [](head_tensor<T>& tensor, index_t m) {
      std::vector<T> values;
      for (const float x : numbers(tensor.rows() * tensor.columns, m))
        values.push_back(T(m == 2 ? std::abs(x) + 0.5f : x));
      tensor.set(values);
    };
    set(logits, 1);
    set(distances, 2);
    set(centerness, 3);
  }
  fcos_head<T> head() {
    return {logits.const_view(), distances.const_view(), centerness.const_view(),
            logits_grad.view(),  distances_grad.view(),  centerness_grad.view()};
  }
};

/// The definition: all boxes against all anchors.
std::vector<index_t> fcos_matches(const std::vector<float>& anchors,
                                  const std::vector<grid_size>& levels,
                                  const std::vector<float>& boxes, float radius) {
  std::vector<index_t> matches;
  index_t i = 0;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    for (index_t k = 0; k < levels[l].height * levels[l].width; ++k, ++i) {
      const float* const a = anchors.data() + 4 * i;
      const float x = (a[0] + a[2]) / 2, y = (a[1] + a[3]) / 2, size = a[2] - a[0];
      float best = 0;
      index_t match = -1;
      for (std::size_t j = 0; j < boxes.size() / 4; ++j) {
        const float* const b = boxes.data() + 4 * j;
        const float off =
            std::max(std::abs(x - (b[0] + b[2]) / 2), std::abs(y - (b[1] + b[3]) / 2));
        const float least = std::min({x - b[0], y - b[1], b[2] - x, b[3] - y});
        const float most = std::max({x - b[0], y - b[1], b[2] - x, b[3] - y});
        const volatile float area = (b[2] - b[0]) * (b[3] - b[1]);
        const float rank = 1e8f - area;
        if (off < radius * size && least > 0 && most > (l == 0 ? 0 : 4 * size) &&
            (l + 1 == levels.size() || most < 8 * size) && rank > best && rank >= 1e-5f) {
          best = rank;
          match = static_cast<index_t>(j);
        }
      }
      matches.push_back(match);
    }
  }
  return matches;
}

// ---- SSD

struct ssd_problem {
  static constexpr index_t images = 2, anchor_count = 40, classes = 4;
  std::vector<float> anchors, logits, deltas, logits_grad, deltas_grad;
  std::vector<float> boxes{2, 3, 24, 19, 30, 20, 52, 44, 10, 10, 34, 30};
  std::vector<index_t> box_classes{1, 3, 2}, offsets{0, 2, 3};

  ssd_problem()
      : logits(numbers(images * anchor_count * classes, 4)),
        deltas(numbers(images * anchor_count * 4, 5)),
        logits_grad(logits.size(), -7.0f),
        deltas_grad(deltas.size(), -7.0f) {
    for (index_t i = 0; i < anchor_count; ++i) {
      const auto x = static_cast<float>(8 * (i % 8) + 4), y = static_cast<float>(12 * (i / 8) + 6);
      const auto w = static_cast<float>(8 + 2 * (i % 5)), h = static_cast<float>(7 + 3 * (i % 3));
      for (const float corner : {x - w, y - h, x + w, y + h}) anchors.push_back(corner);
    }
  }
  ssd_head head() {
    constexpr index_t rows = images * anchor_count;
    return {{logits.data(), rows, classes},
            {deltas.data(), rows},
            {logits_grad.data(), rows, classes},
            {deltas_grad.data(), rows}};
  }
  ground_truth truth() const { return {boxes, box_classes, offsets}; }
  anchor_index index() const { return anchor_index(boxes_view<const float>(anchors)); }
};

doctest::Approx near(double x) { return doctest::Approx(x).epsilon(2e-6); }

}  // namespace

TEST_CASE("FCOS's assigner: all boxes against all anchors") {
  random_generator generator(4);
  const auto shapes = anchor_shapes::fcos();
  const std::vector<grid_size> levels{{40, 30}, {20, 15}, {10, 8}, {5, 4}, {3, 2}};
  std::vector<float> anchors(static_cast<std::size_t>(4 * count_anchors(shapes, levels)));
  make_anchors(shapes, {320, 240}, levels, anchors);
  assigner_workspace workspace;
  for (const double radius : {1.5, 0.5, 100.0, 0.0}) {
    for (const index_t count : {0, 1, 40}) {
      std::vector<float> boxes;
      for (index_t j = 0; j < count; ++j) {
        const double side = generator.uniform(4, 200), x = generator.uniform(-30, 230);
        const double y = generator.uniform(-30, 300);
        for (const double corner : {x, y, x + side, y + side * generator.uniform(0.3, 3)})
          boxes.push_back(static_cast<float>(generator.chance(0.3) ? std::round(corner) : corner));
      }
      if (count == 40) {
        for (int k = 0; k < 4; ++k)
          boxes[static_cast<std::size_t>(4 + k)] = boxes[static_cast<std::size_t>(k)];
        boxes[20] = std::nanf("");
        boxes[24 + 2] = HUGE_VALF;
      }
      const auto expected = fcos_matches(anchors, levels, boxes, static_cast<float>(radius));
      ground_truth truth{boxes};
      const std::vector<index_t> offsets{0, 0, count};  // an image without boxes first
      truth.image_offsets = offsets;
      std::vector<index_t> matches(2 * expected.size(), -7);
      fcos_assigner_params params;
      params.radius = radius;
      assign_fcos(anchors, levels, truth, matches, params, workspace);
      CHECK(std::vector<index_t>(matches.begin(),
                                 matches.begin() + static_cast<std::ptrdiff_t>(expected.size())) ==
            std::vector<index_t>(expected.size(), -1));
      CHECK(std::vector<index_t>(matches.begin() + static_cast<std::ptrdiff_t>(expected.size()),
                                 matches.end()) == expected);
      if (count == 40 && radius == 1.5)
        CHECK(std::count_if(expected.begin(), expected.end(), [](index_t m) { return m >= 0; }) >
              100);
    }
  }
}

TEST_CASE_TEMPLATE("FCOS's loss: equals torchvision's", T, float, bfloat16) {
  for_each_isa([](isa) {
    for (const head_layout layout : all_layouts) {
      for (const index_t others : {0, 2}) {
        const fcos_problem p(layout);
        fcos_tensors<T> t(p, others);
        fcos_loss_workspace workspace;
        const fcos_losses losses =
            fcos_loss_and_grad(t.head(), p.anchors, p.truth(), {}, workspace);
        CHECK(losses.foreground == 27);
        if (std::is_same<T, bfloat16>::value) continue;  // its inputs are rounded
        CHECK(losses.classification == near(17.8823681));
        CHECK(losses.regression == near(0.76221168));
        CHECK(losses.centerness == near(0.822729647));
        CHECK(projected(t.logits_grad.flat()) == near(3.29287496));
        CHECK(projected(t.distances_grad.flat()) == doctest::Approx(0.107469663).epsilon(1e-5));
        CHECK(projected(t.centerness_grad.flat()) == near(-0.0664774942));
      }
    }
  });
}

TEST_CASE("FCOS's loss: distances in pixels") {
  const fcos_problem p(head_layout::nchw);
  fcos_tensors<float> relative(p), pixels(p);
  const auto multiply = [](head_tensor<float>& distances) {
    float size = 8;  // of the level's anchors: a power of two, so that products are exact
    for (auto& level : distances.data) {
      for (float& x : level) x *= size;
      size *= 2;
    }
  };
  multiply(pixels.distances);
  fcos_loss_params params;
  params.coder = distance_params::pixels();
  fcos_loss_workspace workspace;
  const ground_truth truth = p.truth();
  const double expected =
      fcos_loss_and_grad(relative.head(), p.anchors, truth, {}, workspace).regression;
  CHECK(fcos_loss_and_grad(pixels.head(), p.anchors, truth, params, workspace).regression ==
        expected);
  multiply(pixels.distances_grad);
  CHECK(pixels.distances_grad.data == relative.distances_grad.data);
}

TEST_CASE("FCOS's loss: without classes, all boxes have class 0") {
  fcos_problem p(head_layout::nchw);
  fcos_loss_workspace workspace;
  const auto run = [&](const ground_truth& truth) {
    fcos_tensors<float> t(p);
    const fcos_losses losses = fcos_loss_and_grad(t.head(), p.anchors, truth, {}, workspace);
    auto all = t.logits_grad.flat();
    all.push_back(static_cast<float>(losses.classification));
    return all;
  };
  for (auto& label : p.classes) label = 0;
  ground_truth truth = p.truth();
  const auto expected = run(truth);
  truth.classes = {};
  CHECK(run(truth) == expected);
}

TEST_CASE("FCOS's loss: anchors in ignore regions have no classification loss") {
  const fcos_problem p(head_layout::nchw);
  const std::vector<float> regions{-10, -10, 20, 30, 40, 40, 90, 90};
  const std::vector<index_t> region_offsets{0, 1, 1, 2};
  ground_truth truth = p.truth();
  truth.regions = regions;
  truth.region_offsets = region_offsets;
  assigner_workspace assigner;
  std::vector<index_t> labels(static_cast<std::size_t>(3 * p.anchor_count()));
  assign_fcos(p.anchors, p.levels, truth, labels, {}, assigner);
  CHECK(std::count(labels.begin(), labels.end(), -2) > 10);
  for (index_t& label : labels)
    if (label >= 0) label = p.classes[static_cast<std::size_t>(label)];
  fcos_tensors<float> t(p), expected(p), plain(p);
  fcos_loss_workspace workspace;
  const fcos_losses without = fcos_loss_and_grad(plain.head(), p.anchors, p.truth(), {}, workspace);
  const fcos_losses losses = fcos_loss_and_grad(t.head(), p.anchors, truth, {}, workspace);
  focal_loss_params params;
  params.scale = 1.0 / 27;
  const double classification = sigmoid_focal_loss_and_grad(
      expected.logits.const_view(), labels, expected.logits_grad.view(), {}, params);
  CHECK(losses.foreground == 27);
  CHECK(losses.classification == classification);
  CHECK(losses.classification < without.classification);
  CHECK(t.logits_grad.data == expected.logits_grad.data);
  CHECK(losses.regression == without.regression);
  CHECK(losses.centerness == without.centerness);
}

TEST_CASE_TEMPLATE("FCOS's loss: bfloat16 is float, rounded", T, float, bfloat16) {
  for (const head_layout layout : all_layouts) {
    const fcos_problem p(layout);
    fcos_tensors<T> t(p);
    fcos_tensors<float> wide(p);
    const auto widen = [](const head_tensor<T>& from, head_tensor<float>& to) {
      for (std::size_t l = 0; l < from.data.size(); ++l)
        for (std::size_t i = 0; i < from.data[l].size(); ++i)
          to.data[l][i] = static_cast<float>(from.data[l][i]);
    };
    widen(t.logits, wide.logits);
    widen(t.distances, wide.distances);
    widen(t.centerness, wide.centerness);
    fcos_loss_params params;
    params.scale = 8;
    fcos_loss_workspace workspace;
    const ground_truth truth = p.truth();
    fcos_loss_and_grad(wide.head(), p.anchors, truth, params, workspace);
    fcos_loss_and_grad(t.head(), p.anchors, truth, params, workspace);
    const auto check_rounded = [](const head_tensor<float>& exact, const head_tensor<T>& rounded) {
      for (std::size_t l = 0; l < exact.data.size(); ++l)
        for (std::size_t i = 0; i < exact.data[l].size(); ++i)
          REQUIRE(static_cast<float>(rounded.data[l][i]) ==
                  static_cast<float>(T(exact.data[l][i])));
    };
    check_rounded(wide.distances_grad, t.distances_grad);
    check_rounded(wide.centerness_grad, t.centerness_grad);
  }
}

TEST_CASE("FCOS's loss: bad arguments throw errors that name them and write nothing") {
  fcos_problem p(head_layout::nchw);
  fcos_tensors<float> t(p);
  fcos_loss_workspace workspace;
  struct arguments {
    fcos_head<float> head;
    std::vector<float> anchors;
    ground_truth truth;
    fcos_loss_params params;
  };
  const auto refused = refusals(t.logits_grad.data, t.distances_grad.data, t.centerness_grad.data);
  const auto fails = [&](const char* message, const auto& change) {
    arguments c{t.head(), p.anchors, p.truth(), {}};
    change(c);
    refused(message, [&] { fcos_loss_and_grad(c.head, c.anchors, c.truth, c.params, workspace); });
  };
  using call = arguments;
  constexpr head_layout nchw = head_layout::nchw;
  fails("head.centerness.classes() is 5, expected 1",
        [](call& c) { c.head.centerness = c.head.logits; });
  fails("head.distances_grad.classes() is 5",
        [&](call& c) { c.head.distances_grad = t.logits.view(); });
  fails("head.logits_grad.classes() is 5, expected 4",
        [](call& c) { c.head.logits = c.head.distances; });
  fails("fcos_loss_and_grad: anchors[", [](call& c) { c.anchors[5] -= 1; });
  fails("anchors.size() is 1", [](call& c) { c.anchors.resize(4); });
  fails("the number of truth's images is 1", [](call& c) { c.truth.image_offsets = {}; });
  std::vector<index_t> classes = p.classes;
  classes[1] = 5;
  fails("truth.classes[1] is 5", [&](call& c) { c.truth.classes = classes; });
  fails("fcos_loss_and_grad: params.radius is -1", [](call& c) { c.params.radius = -1; });
  fails("fcos_loss_and_grad: params.coder.anchors is cxcywh, expected xyxy",
        [](call& c) { c.params.coder.anchors = box_format::cxcywh; });
  fails("params.epsilon is -1", [](call& c) { c.params.epsilon = -1; });
  fails("fcos_loss_and_grad: params.gamma is -1", [](call& c) { c.params.gamma = -1; });
  fails("params.scale is inf", [](call& c) { c.params.scale = HUGE_VAL; });
  // The same for a batch without images, whose losses are 0.
  const fcos_head<float> empty{
      {t.logits.const_levels, 0, 1, 5, nchw},     {t.distances.const_levels, 0, 1, 4, nchw},
      {t.centerness.const_levels, 0, 1, 1, nchw}, {t.logits_grad.levels, 0, 1, 5, nchw},
      {t.distances_grad.levels, 0, 1, 4, nchw},   {t.centerness_grad.levels, 0, 1, 1, nchw}};
  const std::vector<index_t> no_images{0};
  const ground_truth none{{}, {}, no_images};
  fails("params.radius is -1", [&](call& c) {
    c.head = empty;
    c.truth = none;
    c.params.radius = -1;
  });
  const fcos_losses losses = fcos_loss_and_grad(empty, p.anchors, none, {}, workspace);
  CHECK(losses.foreground == 0);
  CHECK(losses.classification + losses.regression + losses.centerness == 0);
}

TEST_CASE("SSD's loss: equals torchvision's") {
  for_each_isa([](isa) {
    ssd_problem p;
    ssd_loss_workspace workspace;
    const ssd_losses losses = ssd_loss_and_grad(p.head(), p.index(), p.truth(), {}, workspace);
    CHECK(losses.foreground == 3);
    CHECK(losses.classification == near(8.65675068));
    CHECK(losses.regression == near(4.2981801));
    CHECK(projected(p.logits_grad) == near(2.61982081));
    CHECK(projected(p.deltas_grad) == near(0.737748944));
  });
}

TEST_CASE("SSD's loss: the sum of its parts") {
  ssd_problem p;
  const anchor_index index = p.index();
  ssd_loss_params params;
  params.negatives_per_foreground = 2;
  params.scale = 16;
  params.beta = 0.25;
  constexpr index_t rows = ssd_problem::images * ssd_problem::anchor_count;
  std::vector<index_t> matches(rows), labels(rows);
  const match_results results{matches, labels};
  matcher_params matcher = params.matcher;
  matcher.background = 0;
  match_workspace matching;
  const index_t foreground = match_anchors(index, p.truth(), results, matcher, matching);
  softmax_cross_entropy_params softmax;
  softmax.scale = 16.0 / static_cast<double>(foreground);
  softmax_cross_entropy_workspace mining;
  std::vector<float> logits_grad(p.logits.size()), deltas_grad(p.deltas.size());
  const double classification = softmax_cross_entropy_loss_and_grad(
      p.head().logits, labels, {ssd_problem::images, 2, 0},
      matrix_view<float>(logits_grad.data(), rows, ssd_problem::classes), softmax, mining);
  regression_loss_params boxes;
  boxes.beta = params.beta;
  boxes.scale = softmax.scale;
  boxes.coder = params.matcher.coder;
  std::vector<float> anchors = p.anchors;
  anchors.insert(anchors.end(), p.anchors.begin(), p.anchors.end());
  const double regression = regression_loss_and_grad(
      boxes_view<const float>(p.deltas), boxes_view<const float>(anchors),
      regression_targets<float>(p.boxes, matches), matches, boxes_view<float>(deltas_grad), boxes);

  ssd_loss_workspace workspace;
  const ground_truth truth = p.truth();
  const ssd_losses losses = ssd_loss_and_grad(p.head(), index, truth, params, workspace);
  CHECK(losses.foreground == foreground);
  CHECK(losses.classification == classification);
  CHECK(losses.regression == near(regression));
  CHECK(same_bits(p.logits_grad, logits_grad));
  CHECK(same_bits(p.deltas_grad, deltas_grad));
}

TEST_CASE("SSD's loss: bad arguments throw errors that name them and write nothing") {
  ssd_problem p;
  const anchor_index index = p.index();
  ssd_loss_workspace workspace;
  struct arguments {
    ssd_head head;
    ground_truth truth;
    ssd_loss_params params;
  };
  const auto refused = refusals(p.deltas_grad, p.logits_grad);
  const auto fails = [&](const char* message, const auto& change) {
    arguments c{p.head(), p.truth(), {}};
    change(c);
    refused(message, [&] { ssd_loss_and_grad(c.head, index, c.truth, c.params, workspace); });
  };
  using call = arguments;
  fails("head.deltas.size() is 3", [&](call& c) { c.head.deltas = {p.deltas.data(), 3}; });
  fails("head.logits.rows() is 40", [&](call& c) { c.head.logits = {p.logits.data(), 40, 4}; });
  fails("head.logits_grad.cols() is 3", [&](call& c) {
    c.head.logits_grad = {p.logits_grad.data(), 80, 3};
  });
  const std::vector<index_t> background{1, 0, 2}, unknown{1, 4, 2}, beyond{0, 2, 4};
  fails("truth.classes[1] is 0, expected 1 to 3, as 0 is background",
        [&](call& c) { c.truth.classes = background; });
  fails("truth.classes[1] is 4", [&](call& c) { c.truth.classes = unknown; });
  fails("truth.image_offsets[2] is 4", [&](call& c) { c.truth.image_offsets = beyond; });
  fails("params.matcher.ignore is 2", [](call& c) { c.params.matcher.ignore = 2; });
  fails("ssd_loss_and_grad: params.matcher.high_threshold is nan",
        [](call& c) { c.params.matcher.high_threshold = std::nan(""); });
  fails("params.matcher.coder.weight_w is 0", [](call& c) { c.params.matcher.coder.weight_w = 0; });
  fails("params.negatives_per_foreground is -1",
        [](call& c) { c.params.negatives_per_foreground = -1; });
  fails("params.beta is -1", [](call& c) { c.params.beta = -1; });
  fails("params.scale is inf", [](call& c) { c.params.scale = HUGE_VAL; });
}

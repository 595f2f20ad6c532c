// SPDX-License-Identifier: Apache-2.0
// set_loss_and_grad on every instruction set: PyTorch's losses, the reference, its parts bit by
// bit, layers and denoising groups, divisors, NaN and infinity, threads, and every documented
// error.
#include "support/data.hpp"
#include "support/detr_problem.hpp"
#include "support/isa.hpp"
#include <vecdet/focal_loss.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/query_matching.hpp>
#include <vecdet/reference/set_loss.hpp>
#include <vecdet/set_loss.hpp>
#include <vecdet/smooth_l1.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// A layer with its matches and memory for its gradients.
template <class T>
struct owned_layer {
  random_layer<T> outputs;
  std::vector<index_t> matches;
  std::vector<T> logits_grad, boxes_grad;

  owned_layer(random_layer<T> of, std::vector<index_t> matched)
      : outputs(std::move(of)),
        matches(std::move(matched)),
        logits_grad(outputs.logits.size(), to<T>(77)),
        boxes_grad(outputs.boxes.size(), to<T>(77)) {}

  set_loss_layer<T> view() {
    return {outputs.view(),
            matches,
            {logits_grad.data(), outputs.rows, outputs.classes},
            boxes_view<T>(boxes_grad)};
  }
};

template <class T>
std::vector<set_losses> run(std::vector<owned_layer<T>>& layers, const ground_truth& truth,
                            const set_loss_params& params,
                            threading policy = threading::sequential) {
  std::vector<set_loss_layer<T>> views;
  for (owned_layer<T>& layer : layers) {
    std::fill(layer.logits_grad.begin(), layer.logits_grad.end(), to<T>(77));
    std::fill(layer.boxes_grad.begin(), layer.boxes_grad.end(), to<T>(77));
    views.push_back(layer.view());
  }
  std::vector<set_losses> losses(layers.size());
  set_loss_workspace workspace;
  set_loss_and_grad<T>(views, truth, losses, params, workspace, policy);
  return losses;
}

/// Random matches. Groups of boxes do not share queries.
std::vector<index_t> random_matches(const random_truth& truth, index_t queries, index_t groups,
                                    random_generator& generator) {
  std::vector<index_t> matches(at(groups * truth.size()), -1);
  for (std::size_t image = 0; image + 1 < truth.offsets.size(); ++image) {
    std::vector<index_t> free;
    for (index_t q = 0; q < queries; ++q) free.push_back(q);
    for (index_t g = 0; g < groups; ++g)
      for (index_t b = truth.offsets[image]; b < truth.offsets[image + 1]; ++b) {
        if (free.empty() || generator.chance(0.05)) continue;
        const auto i = at(generator.below(static_cast<index_t>(free.size())));
        matches[at(g * truth.size() + b)] = free[i];
        free.erase(free.begin() + static_cast<std::ptrdiff_t>(i));
      }
  }
  return matches;
}

template <class T>
std::vector<owned_layer<T>> random_layers(const random_truth& truth, index_t classes,
                                          random_generator& generator) {
  const auto images = static_cast<index_t>(truth.offsets.size()) - 1;
  std::vector<owned_layer<T>> layers;
  for (const index_t queries : {60, 23, 40})
    layers.emplace_back(random_layer<T>(images * queries, classes, generator),
                        random_matches(truth, queries, queries == 40 ? 2 : 1, generator));
  return layers;
}

template <class T>
reference::set_loss_result exact(const owned_layer<T>& layer, const random_truth& truth,
                                 const set_loss_params& params) {
  reference::set_loss_layer of;
  of.rows = layer.outputs.rows;
  of.classes = layer.outputs.classes;
  for (const T x : layer.outputs.logits) of.logits.push_back(static_cast<float>(x));
  for (const T x : layer.outputs.boxes) of.boxes.push_back(static_cast<double>(x));
  of.matched.assign(at(of.rows), -1);
  const auto images = static_cast<index_t>(truth.offsets.size()) - 1;
  for (std::size_t i = 0; i < layer.matches.size(); ++i) {
    const index_t box = static_cast<index_t>(i) % truth.size();
    const auto image = std::upper_bound(truth.offsets.begin(), truth.offsets.end(), box) -
                       truth.offsets.begin() - 1;
    if (layer.matches[i] >= 0) of.matched[at(image * (of.rows / images) + layer.matches[i])] = box;
  }
  const double boxes = params.boxes > 0 ? params.boxes : static_cast<double>(truth.size());
  const double groups =
      static_cast<double>(layer.matches.size()) / static_cast<double>(truth.size());
  reference::set_loss_params p;
  p.class_loss = params.class_loss;
  p.alpha = params.alpha;
  p.gamma = params.gamma;
  p.no_object_weight = params.no_object_weight;
  p.class_weight = params.class_weight * params.scale;
  p.l1_weight = params.l1_weight * params.scale;
  p.giou_weight = params.giou_weight * params.scale;
  p.divisor = std::max(1.0, boxes) * groups;
  return reference::set_loss(of, {truth.boxes.begin(), truth.boxes.end()}, truth.classes, p);
}

/// The largest difference, relative to the largest expected magnitude.
template <class T>
double worst(const std::vector<T>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0, size = 1e-30;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double off = std::abs(static_cast<double>(actual[i]) - expected[i]);
    largest = off <= largest ? largest : off;  // a NaN stays
    size = std::max(size, std::abs(expected[i]));
  }
  return largest / size;
}

const set_loss_params presets[] = {set_loss_params::rt_detr(), set_loss_params::deformable_detr(),
                                   set_loss_params::detr()};

template <class T>
void check_random(const set_loss_params& params, std::uint64_t seed) {
  random_generator generator(seed);
  const random_truth truth({4, 0, 9, 1}, 9, generator);
  auto layers = random_layers<T>(truth, 10, generator);
  std::vector<T> wide_logits, wide_boxes;
  for_each_isa([&](isa set) {
    const auto losses = run(layers, truth.view(), params);
    constexpr double tolerance = std::is_same<T, float>::value ? 2e-6 : 4e-3;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      INFO("layer ", l);
      const auto expected = exact(layers[l], truth, params);
      CHECK(std::abs(losses[l].classification - expected.classification) <=
            1e-6 * expected.classification);
      CHECK(std::abs(losses[l].l1 - expected.l1) <= 1e-6 * expected.l1);
      CHECK(std::abs(losses[l].giou - expected.giou) <= 1e-6 * std::abs(expected.giou));
      CHECK(losses[l].total() == losses[l].classification + losses[l].l1 + losses[l].giou);
      CHECK(worst(layers[l].logits_grad, expected.logits_grad) < tolerance);
      CHECK(worst(layers[l].boxes_grad, expected.boxes_grad) < tolerance);
    }
    const auto before = layers;
    const auto parallel = run(layers, truth.view(), params, threading::parallel);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      CHECK(parallel[l].total() == losses[l].total());
      CHECK(same_bits(layers[l].logits_grad, before[l].logits_grad));
      CHECK(same_bits(layers[l].boxes_grad, before[l].boxes_grad));
    }
    if (set == isa::baseline) return;
    if (!wide_logits.empty()) {
      CHECK(same_bits(wide_logits, layers[0].logits_grad));
      CHECK(same_bits(wide_boxes, layers[0].boxes_grad));
    }
    wide_logits = layers[0].logits_grad;
    wide_boxes = layers[0].boxes_grad;
  });
}

}  // namespace

TEST_CASE("set_loss_and_grad: PyTorch's losses and gradients") {
  if (!has_data("golden_network/detr_losses_0.npy", "set_loss_and_grad: PyTorch's losses")) return;
  for (int k = 0; k < 2; ++k) {
    const auto array = [&](auto zero, const std::string& name) {
      return golden_network<decltype(zero)>("detr_" + name + "_" + std::to_string(k));
    };
    const auto logits = array(0.0f, "logits"), boxes = array(0.0f, "boxes");
    const auto targets = array(0.0f, "targets");
    const auto labels = array(index_t{0}, "labels"), offsets = array(index_t{0}, "offsets");
    const auto losses = array(0.0, "losses");
    const ground_truth truth{targets.values, labels.values, offsets.values};
    for_each_isa([&](isa) {
      const index_t rows = logits.shape[0] * logits.shape[1];
      std::vector<index_t> matches(labels.values.size());
      query_match_workspace matching;
      const std::vector<detr_outputs<float>> outputs{
          {{logits.values.data(), rows, logits.shape[2]}, boxes.values}};
      match_queries<float>(outputs, truth, matches, query_match_params::rt_detr(), matching);
      std::vector<float> logits_grad(logits.values.size()), boxes_grad(boxes.values.size());
      const std::vector<set_loss_layer<float>> layers{{outputs[0],
                                                       matches,
                                                       {logits_grad.data(), rows, logits.shape[2]},
                                                       boxes_view<float>(boxes_grad)}};
      std::vector<set_losses> found(1);
      set_loss_workspace workspace;
      set_loss_and_grad<float>(layers, truth, found, set_loss_params::rt_detr(), workspace);
      CHECK(std::abs(found[0].classification - losses.values[0]) < 1e-6 * losses.values[0]);
      CHECK(std::abs(found[0].l1 - 5 * losses.values[1]) < 1e-6 * losses.values[1]);
      CHECK(std::abs(found[0].giou - 2 * losses.values[2]) < 1e-6 * losses.values[2]);
      CHECK(worst(logits_grad, array(0.0, "glogits").values) < 1e-6);
      CHECK(worst(boxes_grad, array(0.0, "gboxes").values) < 1e-6);
    });
  }
}

TEST_CASE("set_loss_and_grad: layers and groups against the reference") {
  std::uint64_t seed = 0;
  for (const set_loss_params& preset : presets) {
    set_loss_params params = preset;
    check_random<float>(params, ++seed);
    check_random<bfloat16>(params, ++seed);
    params.scale = 0.5;
    params.boxes = 3.25;
    params.no_object_weight = 0.4;
    check_random<float>(params, ++seed);
    params.gamma = 1.5;
    params.boxes = 0.25;  // at least 1
    check_random<float>(params, ++seed);
    params.l1_weight = 0;
    params.giou_weight = -1;
    params.class_weight = 3;
    check_random<bfloat16>(params, ++seed);
  }
}

TEST_CASE("set_loss_and_grad: equal to its parts") {
  random_generator generator(7);
  const random_truth truth({6}, 9, generator);
  std::vector<owned_layer<float>> layers;
  layers.emplace_back(random_layer<float>(50, 10, generator),
                      random_matches(truth, 50, 1, generator));
  owned_layer<float>& layer = layers[0];
  for (index_t& match : layer.matches)  // all boxes have a query
    if (match < 0) match = 49;
  const matrix_view<const float> logits(layer.outputs.logits.data(), 50, 10);
  std::vector<index_t> labels(50, -1);
  std::vector<float> predicted, targets, deltas, aims;
  for (index_t b = 0; b < 6; ++b) {
    const index_t row = layer.matches[at(b)];
    labels[at(row)] = truth.classes[at(b)];
    const float *p = &layer.outputs.boxes[at(4 * row)], *t = &truth.boxes[at(4 * b)];
    for (int k = 0; k < 4; ++k) {
      const float half_p = 0.5f * p[2 + k % 2], half_t = 0.5f * t[2 + k % 2];
      predicted.push_back(k < 2 ? p[k] - half_p : p[k - 2] + half_p);
      targets.push_back(k < 2 ? t[k] - half_t : t[k - 2] + half_t);
      deltas.push_back(p[k]);
      aims.push_back(t[k]);
    }
  }
  for_each_isa([&](isa) {
    for (const set_loss_params& params : presets) {
      const set_losses losses = run(layers, truth.view(), params)[0];
      std::vector<float> grad(500), corners(24), by_l1(24);
      iou_loss_params giou;
      giou.epsilon = 1e-16;
      giou.scale = params.giou_weight / 6;
      const double giou_sum =
          iou_loss_and_grad(predicted, targets, boxes_view<float>(corners), iou_kind::giou, giou);
      CHECK(std::abs(losses.giou - giou_sum) <= 1e-6 * giou_sum);
      smooth_l1_params l1;
      l1.beta = 0;
      l1.scale = params.l1_weight / 6;
      const double l1_sum =
          smooth_l1_loss_and_grad(deltas, aims, box_selection::all(), boxes_view<float>(by_l1), l1);
      CHECK(std::abs(losses.l1 - l1_sum) <= 1e-7 * l1_sum);
      double off = 0;
      for (index_t b = 0; b < 6; ++b)
        for (index_t k = 0; k < 4; ++k) {
          const float low = corners[at(4 * b + k % 2)], high = corners[at(4 * b + k % 2 + 2)];
          const float by_giou = k < 2 ? low + high : 0.5f * (high - low);
          const float whole = layer.boxes_grad[at(4 * layer.matches[at(b)] + k)];
          off = std::max(off,
                         static_cast<double>(std::abs(whole - (by_l1[at(4 * b + k)] + by_giou))));
        }
      CHECK(off <= 1e-6);
      if (params.class_loss == set_class_loss::varifocal) {
        std::vector<float> scores(50), ious(6);
        for (index_t b = 0; b < 6; ++b)
          scores[at(layer.matches[at(b)])] =
              static_cast<float>(reference::overlap_of_centres(
                                     four_of(layer.outputs.boxes, layer.matches[at(b)]).data(),
                                     four_of(truth.boxes, b).data())
                                     .iou);
        varifocal_params part;
        part.grad_through_factor = false;
        part.scale = 1.0 / 6;
        const double sum =
            varifocal_loss_and_grad(logits, {labels, scores}, {grad.data(), 50, 10}, part);
        CHECK(std::abs(losses.classification - sum) <= 1e-6 * sum);
        std::vector<double> expected(grad.begin(), grad.end());
        CHECK(worst(layer.logits_grad, expected) < 1e-6);  // the IoUs are rounded differently
      } else if (params.class_loss == set_class_loss::focal) {
        focal_loss_params part;
        part.scale = 2.0 / 6;
        const double sum = sigmoid_focal_loss_and_grad(logits, labels, {grad.data(), 50, 10}, part);
        CHECK(losses.classification == sum);
        CHECK(same_bits(layer.logits_grad, grad));
      } else {
        std::vector<index_t> with_box(labels), without(labels);
        for (std::size_t i = 0; i < 50; ++i) without[i] = labels[i] < 0 ? 9 : -1;
        softmax_cross_entropy_params part;
        part.ignore = -1;
        part.scale = 1 / (6 + 0.1 * 44);
        std::vector<float> other(500);
        double sum =
            softmax_cross_entropy_loss_and_grad(logits, with_box, {grad.data(), 50, 10}, part);
        part.scale *= 0.1;
        sum += softmax_cross_entropy_loss_and_grad(logits, without, {other.data(), 50, 10}, part);
        for (std::size_t i = 0; i < 500; ++i) grad[i] = labels[i / 10] < 0 ? other[i] : grad[i];
        CHECK(std::abs(losses.classification - sum) <= 1e-12);
        CHECK(same_bits(layer.logits_grad, grad));
      }
    }
  });
}

TEST_CASE("set_loss_and_grad: no images, no boxes, no queries") {
  random_generator generator(1);
  const random_truth none({0, 0}, 3, generator);
  for_each_isa([&](isa) {
    for (const set_loss_params& params : presets) {
      std::vector<owned_layer<float>> layers;
      layers.emplace_back(random_layer<float>(8, 3, generator), std::vector<index_t>());
      layers.emplace_back(random_layer<float>(0, 3, generator), std::vector<index_t>());
      const auto losses = run(layers, none.view(), params);
      CHECK(losses[0].classification > 0);
      CHECK(losses[0].l1 == 0);
      CHECK(losses[0].giou == 0);
      CHECK(losses[1].total() == 0);
      CHECK(std::count(layers[0].boxes_grad.begin(), layers[0].boxes_grad.end(), 0.0f) == 32);
    }
  });
}

TEST_CASE("set_loss_and_grad: boxes without area, equal boxes, NaN and infinity") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ground_truth truth;
  const std::vector<float> target{0.5f, 0.5f, 0.25f, 0.5f};
  truth.boxes = target;
  random_generator generator(1);
  std::vector<owned_layer<float>> layers;
  layers.emplace_back(random_layer<float>(2, 2, generator), std::vector<index_t>{1});
  owned_layer<float>& layer = layers[0];
  auto& boxes = layer.outputs.boxes;
  for_each_isa([&](isa) {
    for (int k = 0; k < 4; ++k) boxes[at(4 + k)] = target[at(k)];
    set_losses losses = run(layers, truth, {})[0];
    CHECK(losses.l1 == 0);
    CHECK(losses.giou == 0);
    boxes[6] = boxes[7] = 0;  // a point inside the box: IoU 0, GIoU 0 - (H - U) / H = 0
    losses = run(layers, truth, {})[0];
    CHECK(losses.giou == 2);
    for (const float g : layer.boxes_grad) CHECK(std::isfinite(g));
    // The target of the varifocal loss is 0, so the label has no loss.
    CHECK(layer.logits_grad[2] == 0);
    boxes[4] = nan;
    losses = run(layers, truth, {})[0];
    CHECK(std::isnan(losses.l1));
    CHECK(std::isnan(losses.giou));
    CHECK(std::isfinite(losses.classification));
    boxes[4] = std::numeric_limits<float>::infinity();
    losses = run(layers, truth, {})[0];
    CHECK(std::isinf(losses.l1));
    layer.outputs.logits[0] = nan;
    CHECK(std::isnan(run(layers, truth, {})[0].classification));
    layer.outputs.logits[0] = 0;
  });
}

TEST_CASE("set_loss_and_grad: bad arguments throw errors that name them") {
  random_generator generator(3);
  const random_truth good({2, 1}, 4, generator);
  std::vector<owned_layer<float>> layers;
  layers.emplace_back(random_layer<float>(20, 4, generator), std::vector<index_t>{3, 0, 3});
  layers.emplace_back(random_layer<float>(8, 4, generator),
                      std::vector<index_t>{-1, 0, 3, 2, 3, 1});
  std::vector<set_loss_layer<float>> views;
  std::vector<set_losses> losses;
  std::vector<index_t> classes;
  const std::vector<float> region{0, 0, 1, 1};
  ground_truth truth;
  set_loss_params params;
  set_loss_workspace workspace;
  const auto reset = [&] {
    layers[0].matches = {3, 0, 3};
    layers[1].matches = {-1, 0, 3, 2, 3, 1};
    views = {layers[0].view(), layers[1].view()};
    losses.assign(2, {7, 7, 7});
    classes = {1, 3, 0};
    truth = good.view();
    truth.classes = classes;
    params = {};
  };
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(set_loss_and_grad<float>(views, truth, losses, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
    for (const set_losses& of : losses) CHECK(of.total() == 21);
    for (const auto& layer : layers) {
      for (const float x : layer.logits_grad) CHECK(x == 77);
      for (const float x : layer.boxes_grad) CHECK(x == 77);
    }
    reset();
  };
  reset();
  views.clear();
  fails("vecdet::set_loss_and_grad: layers.size() is 0, expected 1 or more");
  losses.pop_back();
  fails("losses.size() is 1, expected 2, the number of layers");
  params.alpha = -1;
  fails("params.alpha is -1, expected a finite float, 0 or more");
  params.class_loss = set_class_loss::focal;
  params.alpha = 2;
  fails("params.alpha is 2, expected a number in [0, 1], or a negative one for no weighting");
  params.gamma = -2;
  fails("params.gamma is -2, expected a finite float, 0 or more");
  params.no_object_weight = -0.5;
  fails("params.no_object_weight is -0.5, expected a finite float, 0 or more");
  params.boxes = -1;
  fails("params.boxes is -1, expected a finite float, 0 or more");
  params.scale = 1e300;
  fails("params.scale is 1");
  params.class_weight = 1e30;
  params.scale = 1e30;
  fails("params.class_weight is 1");
  params.l1_weight = std::nan("");
  fails("params.l1_weight is nan");
  params.giou_weight = std::numeric_limits<double>::infinity();
  fails("params.giou_weight is inf, expected a finite float, even when multiplied by params.scale");
  truth.regions = region;
  fails("truth.regions.size() is 1, expected 0");
  classes[1] = 4;
  fails("truth.classes[1] is 4, expected 0 to 3 (4 classes)");
  params.class_loss = set_class_loss::cross_entropy;
  fails("truth.classes[1] is 3, expected 0 to 2 (3 classes)");
  views[0].outputs.logits = {layers[0].outputs.logits.data(), 19, 4};
  fails("layers[0].outputs.logits.rows() is 19, expected a multiple of 2, the number of images");
  views[1].outputs.boxes = {layers[1].outputs.boxes.data(), 7};
  fails("layers[1].outputs.boxes.size() is 7, expected 8, the rows of its logits");
  views[1].logits_grad = {layers[1].logits_grad.data(), 7, 4};
  fails("layers[1].logits_grad.rows() is 7, expected 8, the rows of the logits");
  views[1].logits_grad = {layers[1].logits_grad.data(), 8, 3};
  fails("layers[1].logits_grad.cols() is 3, expected 4, the columns of the logits");
  views[1].boxes_grad = {layers[1].boxes_grad.data(), 6};
  fails("layers[1].boxes_grad.size() is 6, expected 8, the rows of the logits");
  views[1].matches = {layers[1].matches.data(), 5};
  fails("layers[1].matches.size() is 5, expected groups x 3 boxes");
  views[1].matches = {layers[1].matches.data(), 0};
  fails("layers[1].matches.size() is 0, expected groups x 3 boxes");
  layers[1].matches[4] = 4;
  fails("layers[1].matches[4] is 4, expected 0 to 3 (4 queries) or -1");
  layers[1].matches[4] = -2;
  fails("layers[1].matches[4] is -2, expected 0 to 3 (4 queries) or -1");
  layers[1].matches[3] = 0;
  fails("layers[1].matches[3] is 0, expected a query that no other box has");
  views[1].boxes_grad = {layers[1].logits_grad.data() + 4, 8};
  fails("layers[1].logits_grad is in the memory of layers[1].boxes_grad, expected separate memory");
  views[1].boxes_grad = boxes_view<float>(layers[0].outputs.boxes.data(), 8);
  const auto before = layers[0].outputs.boxes;
  fails(
      "layers[1].boxes_grad is in the memory of layers[0].outputs.boxes, expected separate memory");
  CHECK(before == layers[0].outputs.boxes);
}

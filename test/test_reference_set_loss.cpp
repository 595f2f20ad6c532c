// SPDX-License-Identifier: Apache-2.0
// The reference of the loss of a decoder layer: PyTorch's results, finite differences, and an
// example computed by hand.
#include "support/data.hpp"
#include "support/values.hpp"
#include <vecdet/reference/set_loss.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    largest = off <= largest ? largest : off;  // a NaN stays
  }
  return largest;
}

}  // namespace

TEST_CASE("reference of set_loss: PyTorch's losses and gradients") {
  if (!has_data("golden_network/detr_losses_0.npy", "set_loss: PyTorch's losses")) return;
  for (int k = 0; k < 2; ++k) {
    const auto number = std::to_string(k);
    const auto logits = golden_network<float>("detr_logits_" + number);
    const auto boxes = golden_network<float>("detr_boxes_" + number);
    const auto truth = golden_network<float>("detr_targets_" + number);
    const auto labels = golden_network<index_t>("detr_labels_" + number);
    const auto queries = golden_network<index_t>("detr_queries_" + number);
    const auto matched = golden_network<index_t>("detr_truth_" + number);
    reference::set_loss_layer layer;
    layer.rows = logits.shape[0] * logits.shape[1];
    layer.classes = logits.shape[2];
    layer.logits = logits.values;
    layer.boxes.assign(boxes.values.begin(), boxes.values.end());
    layer.matched.assign(static_cast<std::size_t>(layer.rows), -1);
    for (std::size_t i = 0; i < queries.values.size(); ++i)
      layer.matched[static_cast<std::size_t>(queries.values[i])] = matched.values[i];
    reference::set_loss_params params;
    params.divisor = static_cast<double>(std::max(index_t{1}, truth.shape[0]));
    const auto result = reference::set_loss(layer, {truth.values.begin(), truth.values.end()},
                                            labels.values, params);
    const auto losses = golden_network<double>("detr_losses_" + number);
    CHECK(std::abs(result.classification - losses.values[0]) < 1e-12);
    CHECK(std::abs(result.l1 - 5 * losses.values[1]) < 1e-12);
    CHECK(std::abs(result.giou - 2 * losses.values[2]) < 1e-12);
    CHECK(worst(result.logits_grad, golden_network<double>("detr_glogits_" + number).values) <
          1e-12);
    CHECK(worst(result.boxes_grad, golden_network<double>("detr_gboxes_" + number).values) < 1e-12);
  }
}

TEST_CASE("reference of set_loss: gradients equal finite differences of the losses") {
  random_generator generator(5);
  reference::set_loss_layer layer;
  layer.rows = 5;
  layer.classes = 4;
  layer.matched = {-1, 1, -1, 0, -1};
  for (int i = 0; i < 20; ++i) layer.logits.push_back(static_cast<float>(generator.uniform(-3, 3)));
  for (int i = 0; i < 20; ++i) layer.boxes.push_back(generator.uniform(0.3, 0.6));
  const std::vector<double> truth{0.4, 0.5, 0.35, 0.3, 0.55, 0.45, 0.4, 0.42};
  const std::vector<index_t> labels{2, 0};
  for (const set_class_loss kind :
       {set_class_loss::focal, set_class_loss::varifocal, set_class_loss::cross_entropy}) {
    reference::set_loss_params params;
    params.class_loss = kind;
    params.alpha = 0.25;
    params.divisor = 3;
    // The varifocal loss treats its factor and the IoUs as constants.
    const auto of = [&](const reference::set_loss_layer& at) {
      const auto result = reference::set_loss(at, truth, labels, params);
      return (kind == set_class_loss::varifocal ? 0 : result.classification) + result.l1 +
             result.giou;
    };
    const auto result = reference::set_loss(layer, truth, labels, params);
    constexpr double step = 1e-6;
    for (std::size_t i = 0; i < layer.boxes.size(); ++i) {
      auto up = layer, down = layer;
      up.boxes[i] += step;
      down.boxes[i] -= step;
      CHECK(std::abs((of(up) - of(down)) / (2 * step) - result.boxes_grad[i]) < 1e-7);
    }
    if (kind == set_class_loss::varifocal) continue;
    for (std::size_t i = 0; i < layer.logits.size(); ++i) {
      constexpr float float_step = 1.0f / 512;
      auto up = layer, down = layer;
      up.logits[i] += float_step;
      down.logits[i] -= float_step;
      CHECK(std::abs((of(up) - of(down)) / static_cast<double>(up.logits[i] - down.logits[i]) -
                     result.logits_grad[i]) < 1e-5);
    }
  }
}

TEST_CASE("reference of set_loss: cross entropy by hand") {
  reference::set_loss_layer layer;
  layer.rows = 2;
  layer.classes = 2;
  layer.logits = {0, 0, 0, 0};
  layer.boxes = {0.5, 0.5, 0.2, 0.2, 0.5, 0.5, 0.2, 0.2};
  layer.matched = {0, -1};
  reference::set_loss_params params;
  params.class_loss = set_class_loss::cross_entropy;
  const auto result = reference::set_loss(layer, {0.5, 0.5, 0.2, 0.2}, {0}, params);
  // The rows have weights 1 and 0.1; the weighted mean of log(2) is log(2).
  CHECK(std::abs(result.classification - std::log(2)) < 1e-15);
  CHECK(worst(result.logits_grad, {-0.5 / 1.1, 0.5 / 1.1, 0.05 / 1.1, -0.05 / 1.1}) < 1e-15);
  CHECK(result.l1 == 0);
  CHECK(std::abs(result.giou) < 1e-12);
}

// SPDX-License-Identifier: Apache-2.0
// A loss and its gradient: torchvision's form and vecdet's operator.
#include "forms.hpp"
#include "support.hpp"

#include <string>
#include <tuple>
#include <vector>

namespace vecdet::bench {
namespace {

using at::Tensor;
constexpr std::int64_t sum = at::Reduction::Sum;

Tensor some_labels(std::int64_t rows) {
  const Tensor labels = at::full({rows}, -1, at::kLong);
  labels.slice(0, 0, rows, 1000).fill_(3);
  return labels;
}

const bool focal = [] {
  at::manual_seed(1);
  const Tensor logits = tracked(at::randn({anchor_count, class_count}) - 4);
  const Tensor labels = some_labels(anchor_count), targets = forms::one_hot(labels, class_count);
  add_step("sigmoid_focal_loss/labels/f32/120087x91/form", {logits},
           [=] { return forms::sigmoid_focal_loss(logits, targets); });
  add_step("sigmoid_focal_loss/labels/f32/120087x91/vecdet", {logits},
           [=] { return ops::sigmoid_focal_loss(logits, labels, 0.25, 2, sum); });
  return true;
}();

const bool boxes = [] {
  at::manual_seed(2);
  const Tensor targets = some_boxes(anchor_count);
  const Tensor predicted = tracked(targets + at::randn({anchor_count, 4}));
  add_step("giou_loss/f32/120087/form", {predicted},
           [=] { return forms::giou_loss(predicted, targets); });
  add_step("giou_loss/f32/120087/vecdet", {predicted},
           [=] { return ops::iou_loss(predicted, targets, vecdet::iou_kind::giou, sum); });
  add_step("ciou_loss/f32/120087/form", {predicted},
           [=] { return forms::ciou_loss(predicted, targets); });
  add_step("ciou_loss/f32/120087/vecdet", {predicted},
           [=] { return ops::iou_loss(predicted, targets, vecdet::iou_kind::ciou, sum); });
  add_step("smooth_l1_loss/f32/120087/form", {predicted},
           [=] { return at::smooth_l1_loss(predicted, targets, sum, 1); });
  add_step("smooth_l1_loss/f32/120087/vecdet", {predicted},
           [=] { return ops::smooth_l1_loss(predicted, targets, 1, sum); });
  return true;
}();

const bool mined = [] {
  at::manual_seed(3);
  const Tensor logits = tracked(at::randn({4, 8732, 21}));
  const Tensor labels = at::zeros({4, 8732}, at::kLong);
  labels.slice(1, 0, 8732, 300).fill_(7);
  add_step("mined_cross_entropy_loss/f32/4x8732x21/form", {logits},
           [=] { return forms::mined_cross_entropy_loss(logits, labels); });
  add_step("mined_cross_entropy_loss/f32/4x8732x21/vecdet", {logits},
           [=] { return ops::mined_cross_entropy_loss(logits, labels); });
  return true;
}();

/// The head of RetinaNet at 800 x 800 for one image, in its convolutions' layout.
const bool retinanet = [] {
  at::manual_seed(4);
  const Tensor anchors = some_boxes(anchor_count), truth = some_boxes(20);
  const Tensor classes = at::arange(20);
  for (const bool channels_last : {false, true}) {
    std::vector<Tensor> logits, deltas, inputs;
    for (const std::int64_t side : {100, 50, 25, 13, 7}) {
      const auto level = [&](std::int64_t columns, double mean) {
        const Tensor values = at::randn({1, 9 * columns, side, side}) + mean;
        return tracked(values.contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                                       : at::MemoryFormat::Contiguous));
      };
      logits.push_back(level(class_count, -4));
      deltas.push_back(level(4, 0));
    }
    inputs = logits;
    inputs.insert(inputs.end(), deltas.begin(), deltas.end());
    const std::string name =
        std::string("retinanet_loss/") + (channels_last ? "nhwc" : "nchw") + "/f32/120087x91/";
    add_step((name + "form").c_str(), inputs,
             [=] { return forms::retinanet_loss(logits, deltas, anchors, truth, classes); });
    add_step((name + "vecdet").c_str(), inputs, [=] {
      const auto losses = ops::retinanet_loss(logits, deltas, anchors, truth, classes);
      return std::get<0>(losses) + std::get<1>(losses);
    });
  }
  return true;
}();

}  // namespace
}  // namespace vecdet::bench

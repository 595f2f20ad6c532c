// SPDX-License-Identifier: Apache-2.0
// Functions without a gradient: torchvision's form and vecdet's operator.
#include "forms.hpp"
#include "support.hpp"

#include <string>
#include <tuple>

namespace vecdet::bench {
namespace {

using at::Tensor;

const bool boxes = [] {
  at::manual_seed(1);
  const Tensor anchors = some_boxes(anchor_count), targets = some_boxes(anchor_count);
  const Tensor deltas = at::randn({anchor_count, 4}) * 0.2, truth = some_boxes(20);
  add("encode_boxes/f32/120087/form", [=] { return forms::encode_boxes(targets, anchors); });
  add("encode_boxes/f32/120087/vecdet", [=] { return ops::encode_boxes(targets, anchors); });
  add("decode_boxes/clip/f32/120087/form",
      [=] { return forms::decode_boxes(deltas, anchors, 800, 800); });
  add("decode_boxes/clip/f32/120087/vecdet", [=] {
    return ops::decode_boxes(deltas, anchors, {}, {800.0, 800.0});
  });
  add("pairwise_iou/f32/20x120087/form", [=] { return forms::pairwise_iou(truth, anchors); });
  add("pairwise_iou/f32/20x120087/vecdet", [=] { return ops::pairwise_iou(truth, anchors); });
  add("match_anchors/f32/20x120087/form", [=] { return forms::match_anchors(anchors, truth); });
  add("match_anchors/f32/20x120087/vecdet",
      [=] { return std::get<0>(ops::match_anchors(anchors, truth)); });
  return true;
}();

const bool suppression = [] {
  at::manual_seed(2);
  for (const std::int64_t count : {1000, 5000}) {
    const Tensor some = some_boxes(count), scores = at::rand({count});
    const std::string name = "nms/f32/" + std::to_string(count);
    add((name + "/form").c_str(), [=] { return forms::nms(some, scores, 0.5); });
    add((name + "/vecdet").c_str(), [=] { return ops::nms(some, scores, 0.5); });
  }
  return true;
}();

}  // namespace
}  // namespace vecdet::bench

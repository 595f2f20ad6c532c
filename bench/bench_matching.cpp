// SPDX-License-Identifier: Apache-2.0
// Matching of RetinaNet's anchors at 800 x 800 with the boxes of a picture: matches, labels and the
// best IoU of each anchor. Ten thousand boxes show how memory and time grow.
#include "plain/matching.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/matching.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t anchor_count = 120087;

struct matching {
  std::vector<float> anchors = retinanet_anchors(), boxes, ious;
  std::vector<index_t> classes, matches, labels;
  anchor_index index{anchors, threading::sequential};
  match_workspace workspace;
  plain_match_memory plain_memory;

  explicit matching(index_t box_count) {
    // Shuffled, because annotations are in any order and the built-in picture's are sorted by size.
    const picture objects = built_in_picture(box_count);
    const index_t step = 7919;
    for (index_t j = 0; j < box_count; ++j) {
      const index_t from = j * step % box_count;
      for (index_t k = 0; k < 4; ++k)
        boxes.push_back(objects.boxes[static_cast<std::size_t>(4 * from + k)]);
      classes.push_back(objects.classes[static_cast<std::size_t>(from)]);
    }
    ious.resize(anchors.size() / 4);
    matches.resize(ious.size());
    labels.resize(ious.size());
  }

  void run(threading policy) {
    const ground_truth truth{boxes, classes};
    const match_results results{matches, labels, ious};
    match_anchors(index, truth, results, matcher_params::retinanet(), workspace, policy);
  }
  void run_plain() {
    VECDET_PLAIN(plain_match_anchors)
    (anchors.data(), anchor_count, boxes.data(), classes.data(),
     static_cast<index_t>(classes.size()), matches.data(), labels.data(), ious.data(),
     plain_memory);
  }
};

void register_boxes(index_t box_count) {
  const auto prepare = [box_count] { return std::make_shared<matching>(box_count); };
  const std::string problem =
      "match_anchors/retinanet/f32/" + std::to_string(box_count) + "x120087";
  // An element is an anchor; anchors are read, and matches, labels and IoUs written.
  const work amount{static_cast<double>(anchor_count), 36.0 * anchor_count};
  if (box_count > 1000) {
    register_vecdet(problem, amount, prepare,
                    [](matching& data, threading policy) { data.run(policy); });
    return;
  }
  // The check compares IoUs: matches with equal IoUs depend on the last bit, which -ffast-math does
  // not preserve.
  register_with_plain(
      problem, amount, prepare, [](matching& data, threading policy) { data.run(policy); },
      [](matching& data) { data.run_plain(); }, &matching::ious);
}

const bool registered = [] {
  for (const index_t box_count : {8, 32, 300, 1000, 10000}) register_boxes(box_count);
  show_in_figures("match_anchors/retinanet/f32/[0-9]+x120087");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench

// SPDX-License-Identifier: Apache-2.0
// Replays matching of RetinaNet's anchors with the boxes of as many pictures: a problem's name
// tells neither thresholds nor options. The number of boxes is a rounded one; the bytes tell which
// results were asked for.
#include "replay_inputs.hpp"
#include <vecdet/matching.hpp>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vecdet;

struct operands {
  std::vector<float> anchors, boxes, ious;
  std::vector<index_t> offsets{0}, matches, labels;
  anchor_index index;
  match_workspace workspace;

  operands(index_t images, index_t truths, index_t anchor_count, index_t bytes_an_anchor)
      : anchors(profile::anchors(anchor_count)),
        boxes(bench::built_in_picture(truths).boxes),
        index(anchors) {
    for (index_t k = 1; k <= images; ++k) offsets.push_back(truths * k / images);
    const auto results = static_cast<std::size_t>(images * anchor_count);
    if (bytes_an_anchor % 8 == 4) ious.resize(results);
    if (bytes_an_anchor >= 8) matches.resize(results);
    if (bytes_an_anchor >= 16) labels.resize(results);
  }
  ground_truth truth() const {
    ground_truth all;
    all.boxes = boxes;
    all.image_offsets = offsets;
    return all;
  }
  match_results results() {
    match_results asked;
    asked.matches = matches;
    asked.labels = labels;
    asked.best_ious = ious;
    return asked;
  }
};

profile::replay_call make(const profile::entry& e, execution policy) {
  // Without boxes or anchors a shape ends early.
  if ((e.variant != "indexed" && e.variant != "boxes") || e.type != "f32" || e.shape.size() != 3)
    return {};
  const index_t images = e.shape[0], truths = e.shape[1], anchors = e.shape[2];
  const double results = profile::call_bytes(e) - 16.0 * static_cast<double>(anchors);
  const auto each =
      static_cast<index_t>(std::round(results / static_cast<double>(images * anchors)));
  const auto data = std::make_shared<operands>(images, truths, anchors, each);
  const bool is_indexed = e.variant == "indexed";
  return [=] {
    if (is_indexed) {
      match_anchors(data->index, data->truth(), data->results(), {}, data->workspace, policy);
    } else {
      match_anchors(boxes_view<const float>(data->anchors), data->truth(), data->results(), {},
                    data->workspace, policy);
    }
  };
}

const profile::replay_registration registered[] = {{"match_anchors", make}};

}  // namespace

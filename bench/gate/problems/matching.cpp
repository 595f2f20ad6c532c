// SPDX-License-Identifier: Apache-2.0
// Matching of a level's anchors with an image's boxes.
#include "../../plain/matching.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/matching.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

struct image {
  std::vector<float> anchors, boxes, ious;
  std::vector<std::int64_t> matches, labels, classes;

  image(std::int64_t anchor_count, std::int64_t box_count)
      : anchors(clustered_boxes(anchor_count, 1)),
        boxes(clustered_boxes(box_count, 2)),
        ious(static_cast<std::size_t>(anchor_count)),
        matches(ious.size()),
        labels(ious.size()),
        classes(static_cast<std::size_t>(box_count)) {}

  boxes_view<const float> a() const { return anchors; }
};

/// For one image, with all results except deltas. A template, because the base may lack matching.
template <class Image>
auto match(Image& d)
    -> decltype(match_anchors(d.a(), {}, {}, {}, own<match_workspace>(), sequential)) {
  ground_truth truth;
  truth.boxes = d.boxes;
  truth.classes = d.classes;
  match_results results;
  results.matches = d.matches;
  results.labels = d.labels;
  results.best_ious = d.ious;
  return match_anchors(d.a(), truth, results, {}, own<match_workspace>(), sequential);
}

void match_plain(image& d) {
  bench::native::plain_match_anchors(
      d.anchors.data(), static_cast<std::int64_t>(d.ious.size()), d.boxes.data(), d.classes.data(),
      static_cast<std::int64_t>(d.classes.size()), d.matches.data(), d.labels.data(), d.ious.data(),
      own<bench::plain_match_memory>());
}

const problems added{
    {"match_anchors/boxes/f32/32x4096", make<image>(4096, 32), VECDET_GATE_CALL(match(d)),
     VECDET_GATE_CALL(match_plain(d))},
};

}  // namespace
}  // namespace vecdet::gate

// SPDX-License-Identifier: Apache-2.0
// A program with the mistakes that VECDET_CHECK=1 reports, each in a loop. checked.sh counts the
// reports.
#include <vecdet/vecdet.hpp>

#include <array>
#include <cstdio>
#include <vector>

using namespace vecdet;

namespace {

/// Three calls from one place.
void suppress(const std::vector<float>& boxes, const std::vector<float>& scores) {
  for (int i = 0; i < 3; ++i) nms(boxes, scores, 0.5, threading::sequential);
}

}  // namespace

int main() {
  const std::vector<float> xywh{100, 100, 20, 30, 1, 1, 4, 4}, corners{0, 0, 9, 9, 1, 1, 9, 9};
  const std::vector<float> scores{0.9f, 0.5f}, logits{2.5f, -1};
  suppress(xywh, scores);
  suppress(corners, logits);
  for (int i = 0; i < 3; ++i) nms(xywh, scores, 0.5, threading::sequential);  // another place
  suppress(corners, scores);

  const std::vector<float> sigmoids(40, 0.25f), raw(40, -3);
  filter_topk_workspace topk_workspace;
  const auto filter = [&](const std::vector<float>& of) {
    for (int i = 0; i < 3; ++i)
      filter_topk(matrix_view<const float>(of.data(), 10, 4), 0.5, 5, topk_workspace);
  };
  filter(sigmoids);
  filter(raw);
  const head_level<const float> level{sigmoids.data(), 2, 5};
  filter_topk(head_view<const float>({&level, 1}, 1, 1, 4, head_layout::nchw), 0.5, 5,
              topk_workspace);

  match_workspace matching_workspace;
  std::vector<index_t> matches(2);
  const match_results results{matches};
  const auto match = [&](const std::vector<float>& of) {
    const ground_truth truth{of};
    for (int i = 0; i < 3; ++i) match_anchors(corners, truth, results, {}, matching_workspace);
  };
  match(xywh);
  match(corners);

  const std::vector<float> masks(37 * 40, 0.25f), classes(36 * 40, 0.25f);
  postprocess_workspace detection_workspace;
  const auto detect = [&](const std::vector<float>& numbers, index_t extras, index_t count = 0,
                          postprocess_yolo_params params = postprocess_yolo_params::v8()) {
    params.extras = extras;
    params.class_count = count;
    const auto rows = static_cast<index_t>(numbers.size()) / 40;
    const yolo_outputs<float> outputs{{numbers.data(), rows, 40}, 1};
    for (int i = 0; i < 3; ++i) postprocess_yolo(outputs, {}, params, detection_workspace);
  };
  detect(masks, postprocess_yolo_params::unknown_extras);
  detect(masks, postprocess_yolo_params::unknown_extras, 33);
  detect(masks, 0);
  detect(masks, 32);
  detect(classes, postprocess_yolo_params::unknown_extras);
  const std::vector<float> dota(20 * 40, 0.25f), coco(84 * 40, 0.25f);
  const auto obb = postprocess_yolo_params::v8_obb();
  detect(dota, postprocess_yolo_params::unknown_extras);
  detect(dota, postprocess_yolo_params::unknown_extras, 0, obb);
  detect(coco, postprocess_yolo_params::unknown_extras, 0, obb);
  detect(coco, postprocess_yolo_params::unknown_extras, 79, obb);

  const std::vector<int> labels{1, -1};
  const std::vector<float> targets{1.5f, 7};
  sigmoid_focal_loss(matrix_view<const float>(raw.data(), 2, 4), scored_labels{labels, targets});
}

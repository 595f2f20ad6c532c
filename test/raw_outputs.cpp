// SPDX-License-Identifier: Apache-2.0
// A library for raw_outputs.py: postprocess_yolo, merge_boxes and letterbox by plain pointers.
#include <vecdet/letterbox.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/yolo_postprocess.hpp>

#include <algorithm>
#include <cstdint>

using namespace vecdet;

extern "C" {

/// Writes detections as rows of six numbers and extras. `options`: score threshold, IoU threshold,
/// multi-label, class-agnostic, extras, numbers per key point, height and width of the image and of
/// the input. Returns the number of rows; there is memory for 300.
std::int64_t raw_outputs_yolo(const float* output, std::int64_t rows, std::int64_t cols,
                              const char* model, const double* options, float* found) {
  yolo_postprocess_params params = *model == '5'   ? yolo_postprocess_params::v5()
                                   : *model == '8' ? yolo_postprocess_params::v8()
                                                   : yolo_postprocess_params::v10();
  params.score_threshold = options[0];
  params.iou_threshold = options[1];
  params.multi_label = options[2] != 0;
  params.class_agnostic = options[3] != 0;
  params.extras = static_cast<index_t>(options[4]);
  params.keypoint_size = static_cast<index_t>(options[5]);
  const auto transform =
      letterbox_transform::centred(image_size::height_width(options[6], options[7]),
                                   image_size::height_width(options[8], options[9]));
  yolo_postprocess_workspace workspace;
  const auto result = postprocess_yolo(yolo_outputs<float>{{output, rows, cols}, 1},
                                       vector_view<const letterbox_transform>(&transform, 1),
                                       params, workspace, threading::sequential);
  for (index_t i = 0; i < result.scores.size(); ++i) {
    found = std::copy_n(result.boxes[i], 4, found);
    *found++ = result.scores[i];
    *found++ = static_cast<float>(result.labels[i]);
    found = std::copy_n(result.extras.row(i), params.extras, found);
  }
  return result.scores.size();
}

/// Merges float boxes with classes. Writes each group's size and all members, and returns the
/// number of groups.
std::int64_t raw_outputs_merge(const float* boxes, const float* scores, const std::int64_t* classes,
                               std::int64_t count, int smaller_area, int transitive,
                               double threshold, std::int64_t* sizes, std::int64_t* members,
                               float* merged) {
  merge_params params = transitive != 0 ? merge_params::sahi_nmm(threshold)
                                        : merge_params::sahi_greedy_nmm(threshold);
  if (smaller_area == 0) params.overlap = nms_overlap::positive_area;
  nms_groups groups;
  if (classes != nullptr) groups.classes = vector_view<const std::int64_t>(classes, count);
  merge_workspace workspace;
  const auto result =
      merge_boxes(boxes_view<const float>(boxes, count), vector_view<const float>(scores, count),
                  groups, params, workspace, threading::sequential);
  for (index_t g = 0; g < result.scores.size(); ++g)
    sizes[g] = result.offsets[g + 1] - result.offsets[g];
  std::copy(result.members.begin(), result.members.end(), members);
  std::copy_n(result.boxes.data(), 4 * result.boxes.size(), merged);
  return result.scores.size();
}

void raw_outputs_letterbox(const std::uint8_t* pixels, std::int64_t height, std::int64_t width,
                           std::int64_t input_height, std::int64_t input_width, float* batch) {
  const byte_image image{pixels, height, width, 0};
  letterbox_workspace workspace;
  letterbox(vector_view<const byte_image>(&image, 1),
            vector_view<float>(batch, 3 * input_height * input_width), {input_height, input_width},
            letterbox_params::yolo(), workspace, threading::sequential);
}

}  // extern "C"

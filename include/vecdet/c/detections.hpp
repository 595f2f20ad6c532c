// SPDX-License-Identifier: Apache-2.0
// What functions that return detections share.
#pragma once

#include <vecdet/c/support.hpp>
#include <vecdet/letterbox_transform.hpp>
#include <vecdet/postprocess_yolo.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vecdet_c {

/// The memory that a function writes its detections to.
struct detection_outputs {
  float* boxes;
  float* scores;
  int64_t* labels;
  int64_t* offsets;

  void check(const char* function, int64_t images, int64_t max_detections) const {
    const bool any = images > 0 && max_detections > 0;
    check_pointer(boxes, function, "boxes", any);
    check_pointer(scores, function, "scores", any);
    check_pointer(labels, function, "labels", any);
    check_pointer(offsets, function, "offsets");
  }
  template <class Detections>
  void write(const Detections& found) const {
    std::copy_n(found.boxes.data(), 4 * found.boxes.size(), boxes);
    copy_view(found.scores, scores);
    copy_view(found.labels, labels);
    copy_view(found.offsets, offsets);
  }
};

std::vector<letterbox_transform> transforms_of(const vecdet_letterbox_transform* transforms,
                                               int64_t images);

/// Writes the detections of a raw output. `sources` and `extras` may be null.
void write_raw(const detections_view& found, const detection_outputs& out, int64_t* sources,
               float* extras);

/// The detections of matrices that may be quantised; `coordinates` may be null.
detections_view yolo_detections_of(const vecdet_matrix* coordinates, const vecdet_matrix* numbers,
                                   index_t images,
                                   const vector_view<const letterbox_transform>& transforms,
                                   const postprocess_yolo_params& params,
                                   postprocess_workspace& workspace, threading policy);

}  // namespace vecdet_c

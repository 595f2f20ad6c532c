// SPDX-License-Identifier: Apache-2.0
// OpenCV's NMSBoxes and NMSBoxesBatched as peers, where the option VECDET_BENCH_OPENCV is on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <opencv2/dnn.hpp>

namespace vecdet {
namespace bench {

class opencv_nms_problem {
 public:
  opencv_nms_problem(const std::vector<float>& boxes, const std::vector<float>& scores,
                     const std::vector<std::int64_t>& classes)
      : scores_(scores), classes_(classes.begin(), classes.end()) {
    for (std::size_t i = 0; i + 3 < boxes.size(); i += 4)
      boxes_.emplace_back(boxes[i], boxes[i + 1], boxes[i + 2] - boxes[i],
                          boxes[i + 3] - boxes[i + 1]);
  }

  /// The number of boxes kept.
  std::size_t run(float iou_threshold) const {
    std::vector<int> kept;
    cv::dnn::NMSBoxes(boxes_, scores_, 0.0f, iou_threshold, kept);
    return kept.size();
  }
  std::size_t run_batched(float iou_threshold) const {
    std::vector<int> kept;
    cv::dnn::NMSBoxesBatched(boxes_, scores_, classes_, 0.0f, iou_threshold, kept);
    return kept.size();
  }

 private:
  std::vector<cv::Rect2d> boxes_;
  std::vector<float> scores_;
  std::vector<int> classes_;
};

}  // namespace bench
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// OpenCV's NMSBoxes as a peer, if the option VECDET_BENCH_OPENCV is on. It takes doubles and uses
// one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <opencv2/dnn.hpp>

namespace vecdet::bench {

class opencv_nms_problem {
 public:
  opencv_nms_problem(const std::vector<float>& boxes, const std::vector<float>& scores,
                     const std::vector<std::int64_t>& classes)
      : scores_(scores), classes_(classes) {
    for (std::size_t i = 0; i + 3 < boxes.size(); i += 4) {
      const double x = boxes[i], y = boxes[i + 1];
      boxes_.emplace_back(x, y, boxes[i + 2] - x, boxes[i + 3] - y);
    }
  }

  /// The kept indices, best score first, valid until the next call. OpenCV drops scores of 0.
  const std::vector<int>& run(float iou_threshold) {
    cv::dnn::NMSBoxes(boxes_, scores_, 0.0f, iou_threshold, kept_);
    return kept_;
  }

  /// The same by class, with the method of NMSBoxesBatched in OpenCV 4.7 and newer: all classes at
  /// once, each shifted by an offset.
  const std::vector<int>& run_batched(float iou_threshold) {
    double extent = 0;
    for (const cv::Rect2d& box : boxes_)
      extent = std::max({extent, box.x + box.width, box.y + box.height});
    shifted_ = boxes_;
    for (std::size_t i = 0; i < shifted_.size(); ++i) {
      const double shift = static_cast<double>(classes_[i]) * (extent + 1);
      shifted_[i].x += shift;
      shifted_[i].y += shift;
    }
    cv::dnn::NMSBoxes(shifted_, scores_, 0.0f, iou_threshold, kept_);
    return kept_;
  }

 private:
  std::vector<cv::Rect2d> boxes_, shifted_;
  std::vector<float> scores_;
  std::vector<std::int64_t> classes_;
  std::vector<int> kept_;
};

}  // namespace vecdet::bench

// SPDX-License-Identifier: Apache-2.0
// Plain loops, as a good programmer writes them without vecdet, compiled with -O3 -march=native
// -ffast-math. Each X.hpp declares the loops of X.cpp.
//
// Each file of loops is compiled for this processor's instruction set, with VECDET_PLAIN_SET as the
// namespace of its functions: native. If that set is AVX-512, it is compiled once more for AVX2,
// so that vecdet on AVX2 is compared with a plain loop on AVX2. VECDET_PLAIN(function)(arguments)
// calls one of them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace vecdet::bench {

/// Declares loops in the namespace of each instruction set.
#define VECDET_PLAIN_LOOPS(...) \
  namespace native {            \
  __VA_ARGS__                   \
  }                             \
  namespace avx2 {              \
  __VA_ARGS__                   \
  }

/// Whether VECDET_PLAIN calls the loops for AVX2.
inline bool plain_for_avx2 = false;

#if defined(VECDET_PLAIN_AVX2_TOO)
#define VECDET_PLAIN(...) (plain_for_avx2 ? avx2::__VA_ARGS__ : native::__VA_ARGS__)
#else
#define VECDET_PLAIN(...) native::__VA_ARGS__
#endif

/// Boxes as N x 4, or as one array per coordinate, one after the other.
enum class plain_layout { rows, planes };

/// Memory of matching between calls: the anchors, their best boxes, and each box's best IoU.
struct plain_match_memory {
  std::vector<float> x1, y1, x2, y2, area, top;
  std::vector<std::int32_t> best;
};

/// Memory of plain_nms between calls.
struct plain_nms_memory {
  std::vector<std::int64_t> order, kept;
  std::vector<float> x1, y1, x2, y2, area;
  std::vector<std::uint8_t> gone;
};

/// Memory of plain_batched_nms between calls.
struct plain_batched_nms_memory {
  std::vector<std::int64_t> ends, members, all_kept;
  std::vector<float> boxes, scores;  ///< of the current class
  plain_nms_memory nms;
};

/// A head's output for a level of one image. In planes, each channel is one array of all locations.
struct plain_level {
  const float *logits, *deltas, *centerness;
  std::int64_t at_location, classes, locations;
};

/// A logit or score, and its element (location x at_location + anchor) x classes + class.
struct plain_candidate {
  float value;
  std::int64_t element;
};

enum class plain_detector { retinanet, fcos, rpn };

struct plain_postprocess_params {
  plain_detector detector;
  bool planes;
  float score_threshold, iou_threshold, min_size;
  std::int64_t max_candidates, max_detections;
  float width, height;  ///< of the image
};

/// The scratch memory and the results of plain_postprocess.
struct plain_postprocess_memory {
  std::vector<plain_candidate> candidates;
  std::vector<float> boxes, scores;
  std::vector<std::int64_t> labels;
  std::vector<float> best_boxes, best_scores;
  plain_batched_nms_memory nms;
};

/// The scratch memory and the results of plain_yolo.
struct plain_yolo_memory {
  std::vector<float> best, class_boxes, class_scores, found;
  std::vector<std::uint8_t> best_bytes;
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> class_sources, sources;  ///< indices of boxes
  std::vector<std::pair<float, std::int64_t>> kept;  ///< -score and index
  plain_nms_memory nms;
};

enum class plain_iou { torchvision, detectron2, giou, diou, ciou };

enum class plain_loss { smooth_l1, giou, diou, ciou };

/// The sum of the losses, each loss instead, or the sum and its gradient.
enum class plain_output { sum, loss, grad };

}  // namespace vecdet::bench

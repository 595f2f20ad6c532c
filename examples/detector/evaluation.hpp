// SPDX-License-Identifier: Apache-2.0
// Detections of a model in pictures, and their quality by COCO's rules.
#pragma once

#include "../coco_map.hpp"
#include "data_parallel.hpp"
#include "dataset.hpp"
#include "loader.hpp"
#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace detector {

struct detection {
  box corners;  ///< in pixels of the picture's file
  std::int64_t label;
  float score;
};

/// The heads' outputs for a batch.
head_outputs compute_heads(retinanet& model, const at::Tensor& images, precision_options precision);

/// The detections of each of a batch's pictures, in descending score.
std::vector<std::vector<detection>> detect(retinanet& model, vecdet::anchor_cache& anchors,
                                           const batch& pictures, canvas_size canvas,
                                           double score_threshold = 0.05,
                                           precision_options precision = {},
                                           postprocessing_kind kind = postprocessing_kind::vecdet);

struct evaluation {
  vecdet::coco::average_precision precision;  ///< means over classes
  std::vector<vecdet::coco::coco_box> detections;
  std::size_t pictures = 0;  ///< pictures read
  /// Pictures of this process that could not be read; they are left out of the score.
  std::vector<std::pair<std::size_t, std::string>> broken;
};

/// Evaluates the whole data set, of which each process takes a share. `params` configures loading.
evaluation evaluate(retinanet& model, const dataset& data, loader_params params,
                    precision_options precision, process_group& processes,
                    postprocessing_kind kind = postprocessing_kind::vecdet);

/// Writes detections as a COCO results file.
void write_results(const std::string& file, const dataset& data,
                   const std::vector<vecdet::coco::coco_box>& detections);

}  // namespace detector

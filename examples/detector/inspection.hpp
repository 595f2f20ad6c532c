// SPDX-License-Identifier: Apache-2.0
// Evaluates a trained model, and shows what it finds.
#pragma once

#include "options.hpp"

#include <string>
#include <vector>

namespace detector {

struct evaluation_options {
  std::string checkpoint;
  dataset_source test;
  std::string results;  ///< file for the detections as COCO results; empty: none
  std::size_t batch_size = 8, loader_threads = 2;
};

/// Prints COCO's average precision. Throws std::runtime_error if data or checkpoint are invalid.
void evaluate_checkpoint(const evaluation_options& options);

struct drawing_options {
  std::string checkpoint;
  std::vector<std::string> pictures;
  std::string folder;  ///< destination of the pictures with boxes, as PNG
  double score_threshold = 0.3;
};

/// Draws the model's detections onto copies of the pictures. An unreadable picture is reported and
/// skipped; returns the number of these. Throws std::runtime_error, before anything is drawn, if a
/// copy would overwrite a picture or another copy.
int draw_detections(const drawing_options& options);

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
// What a trained model is worth, and what it finds.
#pragma once

#include "options.hpp"

#include <string>
#include <vector>

namespace detector {

struct evaluation_options {
  std::string checkpoint;
  dataset_source test;
  std::string results;  ///< a file for the detections, as COCO's results; empty: none
  std::size_t batch_size = 8, loader_threads = 2;
};

/// Prints COCO's average precision. Throws std::runtime_error where something is wrong with data or
/// checkpoint.
void evaluate_checkpoint(const evaluation_options& options);

struct drawing_options {
  std::string checkpoint;
  std::vector<std::string> pictures;
  std::string folder;  ///< where pictures with boxes are written, as PNG
  double score_threshold = 0.3;
};

/// Draws what the model finds onto copies of the pictures. One that cannot be read is named and
/// skipped; returns how many were. Throws std::runtime_error, before anything is drawn, where a
/// copy would replace a picture or another copy.
int draw_detections(const drawing_options& options);

}  // namespace detector

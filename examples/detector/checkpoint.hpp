// SPDX-License-Identifier: Apache-2.0
// Checkpoints: a model, and where its training stands. A file is whole or is not there: it is
// written under another name, brought to the disk, and renamed.
#pragma once

#include "model.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/optim.h>

namespace detector {

struct training_state {
  std::int64_t epoch = 0;          ///< that is under way
  std::int64_t step_of_epoch = 0;  ///< steps of it that are done
  std::int64_t step = 0;           ///< steps of all epochs
  double seconds = 0;              ///< of training and evaluation so far
  double best_ap = -1;
  /// What decides the course of training, as one line: it must be the same to go on.
  std::string recipe;
};

struct checkpoint {
  std::shared_ptr<retinanet> model;
  std::vector<std::string> classes;
  canvas_size canvas;
  training_state state;
};

/// Throws std::runtime_error with the file and the reason, such as a full disk, and leaves the file
/// that was there before.
void save_checkpoint(const std::string& file, const checkpoint& content,
                     const torch::optim::Optimizer* optimiser);

/// The model and its state, without the optimiser's. Throws std::runtime_error with the file and
/// the reason, when it cannot be read or is no checkpoint.
checkpoint load_checkpoint(const std::string& file);

/// Goes on with a training: fills model, optimiser and state. Throws as above, and when the file is
/// of another model, of other classes, or of another recipe, and says both.
void resume(const std::string& file, checkpoint& content, torch::optim::Optimizer& optimiser);

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
// Checkpoints: a model and the state of its training. A checkpoint file is always complete: it is
// written under another name, flushed to disk, and renamed.
#pragma once

#include "model.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/optim.h>

namespace detector {

/// An option that affects training, as text.
struct setting {
  std::string option;  ///< "--rate"
  std::string value;   ///< "0.0004"
};

struct training_state {
  std::int64_t epoch = 0;          ///< current epoch
  std::int64_t step_of_epoch = 0;  ///< steps of it that are done
  std::int64_t step = 0;           ///< steps of all epochs
  double seconds = 0;              ///< of training and evaluation so far
  double best_ap = -1;
  /// Everything that affects training; all of it must be equal to resume.
  std::vector<setting> settings;
};

struct checkpoint {
  std::shared_ptr<retinanet> model;
  std::vector<std::string> classes;
  canvas_size canvas;
  training_state state;
};

/// Throws std::runtime_error with the file and the reason, such as a full disk, and then keeps the
/// previous file.
void save_checkpoint(const std::string& file, const checkpoint& content,
                     const torch::optim::Optimizer* optimiser);

/// Reads the model and its state, without the optimiser's. Throws std::runtime_error with the file
/// and the reason if it cannot be read or is not a checkpoint.
checkpoint load_checkpoint(const std::string& file);

/// Resumes a training: fills model, optimiser and state. Throws as above. Also throws if the file's
/// classes or settings differ; the message has each option with both values.
void resume(const std::string& file, checkpoint& content, torch::optim::Optimizer& optimiser);

}  // namespace detector

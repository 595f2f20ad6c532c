// SPDX-License-Identifier: Apache-2.0
// Trains a detector: reads, computes, evaluates, saves, tells.
#pragma once

#include "options.hpp"

namespace detector {

enum class outcome {
  finished,
  target_reached,
  interrupted,  ///< by stop_training()
  diverged,     ///< the loss was no number
};

/// Runs the training. What is wrong with data, files or options throws std::runtime_error.
///
/// Where the loss becomes NaN or infinite it ends, before the weights are touched, and saves them
/// if they are all numbers. The same options give the same weights on every run with the same
/// number of threads.
outcome train(const training_options& options);

/// Ends the training after the step that is under way, with a checkpoint. May be called by a signal
/// handler.
void stop_training() noexcept;

}  // namespace detector

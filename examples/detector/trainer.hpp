// SPDX-License-Identifier: Apache-2.0
// Trains a detector: loads, computes, evaluates, saves and logs.
#pragma once

#include "options.hpp"

namespace detector {

enum class outcome {
  finished,
  target_reached,
  interrupted,  ///< by stop_training()
  diverged,     ///< the loss was NaN or infinite
};

/// Runs the training. Throws std::runtime_error for invalid data, files or options.
///
/// If the loss becomes NaN or infinite, training ends before the weights are updated, and saves
/// them if they are all finite. The same options give the same weights on every run with the same
/// number of threads.
outcome train(const training_options& options);

/// Ends the training after the current step, with a checkpoint. Safe to call from a signal handler.
void stop_training() noexcept;

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
// The training step of MLPerf's RetinaNet, made faster by one change at a time.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace detector {

/// One way to compute the step. Each of stages() makes one change to the one before.
struct bench_stage {
  const char* name;  ///< what changes
  loss_kind loss;
  bool keeps_memory;  ///< whether glibc's allocator keeps freed pages
  bool doubles_small_levels, folds_normalisation;
  convolution_kind convolutions;
  bool channels_last, bfloat16;
};
const std::vector<bench_stage>& stages();

struct bench_options {
  std::vector<std::int64_t> batches{1, 2};
  int rounds = 3;   ///< in each round, every stage runs in a separate process
  int steps = 2;    ///< timed steps per process, after two warm-up steps
  int threads = 0;  ///< 0: all
  std::int64_t side = 800;
  std::string program;      ///< path of this program, which is started again
  std::string results;      ///< file that receives a line of JSON per process; empty: none
  int stage = -1;           ///< the only stage that this process runs; -1: all, in processes
  bool loss_alone = false;  ///< only the stage's loss and gradient, without a network
  std::string profile;      ///< file for a profile of the stage's timed steps; empty: none
};

/// Prints one table per batch size with the step times of the stages, in interleaved runs, and the
/// saving of each. The model is ResNeXt50 with frozen normalisation and 264 classes, trained by SGD
/// without its stem and first stage; pictures and boxes are random. With a stage, prints seconds
/// and loss of each step. Throws std::runtime_error if a process fails.
void bench_mlperf(const bench_options& options);

}  // namespace detector

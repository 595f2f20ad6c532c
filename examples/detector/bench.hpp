// SPDX-License-Identifier: Apache-2.0
// The training step of MLPerf's RetinaNet, made faster one change at a time.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace detector {

/// One way to compute the step; each of stages() changes one thing of the one before.
struct bench_stage {
  const char* name;  ///< what is changed
  loss_kind loss;
  bool keeps_memory;  ///< glibc's allocator told to keep freed pages
  bool doubles_small_levels, folds_normalisation, channels_last, bfloat16;
};
const std::vector<bench_stage>& stages();

struct bench_options {
  std::vector<std::int64_t> batches{1, 2};
  int rounds = 3;   ///< in each, every stage runs in a process of its own
  int steps = 2;    ///< timed in a process, after one that is not
  int threads = 0;  ///< 0: all
  std::int64_t side = 800;
  std::string program;      ///< this one, which is started again
  std::string results;      ///< file that gets a line of JSON for each process; empty: none
  int stage = -1;           ///< the one that this process is to run alone; -1: all, in processes
  bool loss_alone = false;  ///< of the stage the loss and its gradient, on numbers of no network
  std::string profile;      ///< file for a profile of the stage's timed steps; empty: none
};

/// Prints a table a batch size: step times of the stages in interleaved runs, and what each brings.
/// ResNeXt50 with frozen normalisation of which the stem and the first stage are not trained, 264
/// classes, SGD; random pictures and boxes. With a stage, prints seconds and loss of each step.
/// Throws std::runtime_error where a process fails.
void bench_mlperf(const bench_options& options);

}  // namespace detector

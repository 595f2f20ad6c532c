// SPDX-License-Identifier: Apache-2.0
// MLPerf Inference's scenarios on a checkpoint and a data set's pictures.
#pragma once

#include "load_generator.hpp"
#include "options.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace detector {

struct scenario_options {
  std::string checkpoint;
  dataset_source test;
  scenario_kind scenario = scenario_kind::single_stream;
  /// Its number of samples is that of the data set, at most 64. least_queries 0: see
  /// default_queries().
  load_params load;
  bool accuracy = false;  ///< instead of times, the AP of all pictures' outputs
  convolution_kind convolutions = convolution_kind::vecdet;
  postprocessing_kind postprocessing = postprocessing_kind::vecdet;
  std::size_t loader_threads = 2;
};

/// The minimum number of queries, or of samples offline.
std::int64_t default_queries(scenario_kind scenario);

/// Prints `:::MLLOG` lines and a summary of the scenario. A query begins with pictures on the
/// network's canvas, in memory, and ends with the boxes in the pictures. Throws std::runtime_error
/// if data or checkpoint are invalid, or no picture can be read.
void bench_scenario(const scenario_options& options);

}  // namespace detector

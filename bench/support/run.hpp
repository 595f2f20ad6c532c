// SPDX-License-Identifier: Apache-2.0
// A run of vecdet_bench: chooses benchmarks, checks the plain loops among them, then times.
#pragma once

#include "implementations.hpp"
#include "table_reporter.hpp"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace vecdet::bench {

/// The problems that are nearest to those of README's table, in its order; they run by default.
inline const std::vector<std::string>& readme_problems() {
  static const std::vector<std::string> names{
      "sigmoid_focal_loss_and_grad/labels/f32/120087x91",
      "iou_loss_and_grad/giou/f32/120087",
      "match_anchors/retinanet/f32/300x120087",
      "decode_boxes/clip/f32/120087",
      "roi_align/aligned0_sampling2/f32/1000x256x7x7",
      "roi_align_grad/aligned0_sampling2/f32/1000x256x7x7",
      "nms/clustered/f32/1000",
      "batched_nms/clustered91/f32/5000",
      "match_queries/focal/f32/16x300x50",
      "deformable_attention/f32/17821x8x32x16",
      "deformable_attention_grad/f32/17821x8x32x16",
      "conv3x3/f32/1x256x50x50x256",
  };
  return names;
}

/// Whether a benchmark has called SkipWithError.
inline bool& has_failure() {
  static bool any = false;
  return any;
}

/// Passes all benchmarks to Google Benchmark, by function: README's functions first, in its order,
/// then the others in the order of the files.
inline void register_benchmarks() {
  std::vector<std::string> functions;
  const auto rank = [&](const std::string& name) {
    const auto at = std::find(functions.begin(), functions.end(), function_of(name));
    return at - functions.begin();
  };
  const auto add = [&](const std::string& name) {
    if (rank(name) == static_cast<std::ptrdiff_t>(functions.size()))
      functions.push_back(function_of(name));
  };
  for (const std::string& name : readme_problems()) add(name);
  for (const named_benchmark& each : benchmarks()) add(each.name);
  std::stable_sort(benchmarks().begin(), benchmarks().end(),
                   [&](const named_benchmark& a, const named_benchmark& b) {
                     return rank(a.name) < rank(b.name);
                   });
  for (const named_benchmark& each : benchmarks()) {
    auto* const registered =
        benchmark::RegisterBenchmark(each.name.c_str(), [run = each.run](benchmark::State& state) {
          run(state);
          if (state.error_occurred()) has_failure() = true;
        });
    if (each.sets_time)
      registered->UseManualTime();
    else
      registered->UseRealTime();
  }
}

/// The names of the benchmarks that Google Benchmark's filter selects. Its flag
/// --benchmark_list_tests must be set; it prints one name per line.
inline std::vector<std::string> selected_benchmarks() {
  std::stringstream list, complaint;
  benchmark::ConsoleReporter reporter;
  reporter.SetOutputStream(&list);
  reporter.SetErrorStream(&complaint);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  std::vector<std::string> names;
  for (std::string name; std::getline(list, name);) {
    // Google Benchmark appends how it takes the time.
    for (const std::string suffix : {"/real_time", "/manual_time"})
      if (name.size() > suffix.size() && name.rfind(suffix) == name.size() - suffix.size())
        name.resize(name.size() - suffix.size());
    names.push_back(name);
  }
  return names;
}

/// Throws if one of README's problems is not among the benchmarks.
inline void check_readme_problems(const std::vector<std::string>& names) {
  for (const std::string& problem : readme_problems())
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) {
          return parse_result_name(name).problem == problem;
        }))
      throw std::logic_error("README's problem " + problem + " is not a benchmark");
}

/// Compares each plain loop among the benchmarks with vecdet; throws at the first that differs.
/// @return the number of loops
inline std::size_t check_plain_loops_of(const std::vector<std::string>& names) {
  std::size_t loops = 0;
  for (const std::string& name : names) {
    const auto check = plain_checks().find(name.substr(0, name.rfind('/')));
    if (check == plain_checks().end()) continue;
    check->second.run();
    ++loops;
  }
  return loops;
}

}  // namespace vecdet::bench

// SPDX-License-Identifier: Apache-2.0
#include "scenarios.hpp"

#include "checkpoint.hpp"
#include "evaluation.hpp"
#include "run_log.hpp"
#include <vecdet/keep_memory.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

namespace detector {
namespace {

using nlohmann::json;

const char* mlperf_name(scenario_kind scenario) {
  constexpr const char* names[] = {"SingleStream", "MultiStream", "Server", "Offline"};
  return names[static_cast<int>(scenario)];
}

/// Pictures of a query, or of the largest batch.
std::size_t batch_of(const scenario_options& options) {
  if (options.scenario == scenario_kind::single_stream) return 1;
  if (options.scenario == scenario_kind::multi_stream) return stream_samples;
  return options.load.largest_batch;
}

/// Lines in the format of MLPerf's logs.
class mlperf_log {
 public:
  void write(const std::string& key, const json& value) const {
    const json line{{"key", key},
                    {"value", value},
                    {"time_ms", watch_.seconds() * 1e3},
                    {"namespace", "mlperf::logging"},
                    {"event_type", "POINT_IN_TIME"},
                    {"metadata", {{"is_error", false}, {"is_warning", false}}}};
    std::printf(":::MLLOG %s\n", line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  }

 private:
  stopwatch watch_;
};

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// A model and pictures in memory.
class detector_system : public measured_system {
 public:
  detector_system(checkpoint content, const dataset& data, const scenario_options& options)
      : content_(std::move(content)),
        postprocessing_(options.postprocessing),
        anchors_(content_.model->anchor_shapes()) {
    content_.model->eval();
    loader_params params;
    params.canvas = content_.canvas;
    params.training = false;
    params.batch_size = 1;
    params.threads = options.loader_threads;
    loader pictures(data, params, 0);
    std::string first_error;
    for (std::size_t i = 0; i < pictures.batches() && size() < options.load.samples; ++i) {
      batch one = pictures.next();
      for (const auto& picture : one.broken) {
        std::fprintf(stderr, "skipped: %s\n", picture.second.c_str());
        if (first_error.empty()) first_error = picture.second;
      }
      if (!one.pictures.empty()) pictures_.push_back(std::move(one));
    }
    if (pictures_.empty())
      throw std::runtime_error("no picture could be read; the first error: " + first_error);
  }

  std::size_t size() const noexcept { return pictures_.size(); }

  double now() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void wait_until(double time) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(time - now()));
  }
  void process(const std::vector<std::size_t>& samples) override {
    batch query;
    std::vector<at::Tensor> images;
    for (const std::size_t sample : samples) {
      images.push_back(pictures_[sample].images);
      query.pictures.push_back(pictures_[sample].pictures[0]);
    }
    query.images = images.size() == 1 ? images[0] : at::cat(images);
    detect(*content_.model, anchors_, query, content_.canvas, 0.05, {}, postprocessing_);
  }

 private:
  checkpoint content_;
  postprocessing_kind postprocessing_;
  vecdet::anchor_cache anchors_;
  std::vector<batch> pictures_;  ///< each of one picture
};

void measure_accuracy(const scenario_options& options, const checkpoint& content,
                      const dataset& data, const mlperf_log& log) {
  loader_params params;
  params.canvas = content.canvas;
  params.batch_size = batch_of(options);
  params.threads = options.loader_threads;
  process_group alone;
  const evaluation result =
      evaluate(*content.model, data, params, {}, alone, options.postprocessing);
  for (const auto& picture : result.broken)
    std::fprintf(stderr, "skipped: %s\n", picture.second.c_str());
  log.write("result_query_count", result.pictures);
  log.write("accuracy_ap", result.precision.ap);
  log.write("accuracy_ap50", result.precision.ap50);
  log.write("accuracy_ap75", result.precision.ap75);
  std::printf("AP %.4f, AP50 %.4f, AP75 %.4f on %zu pictures\n", result.precision.ap,
              result.precision.ap50, result.precision.ap75, result.pictures);
}

void log_latencies(const load_result& result, const std::string& of, const mlperf_log& log) {
  const std::vector<double>& all = result.latencies;
  const double mean =
      std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  log.write("result_min_" + of + "latency_ns", nanoseconds(all.front()));
  log.write("result_max_" + of + "latency_ns", nanoseconds(all.back()));
  log.write("result_mean_" + of + "latency_ns", nanoseconds(mean));
  constexpr int percents[] = {50, 90, 95, 97, 99};
  for (const int percent : percents)
    log.write("result_" + std::to_string(percent) + ".00_percentile_" + of + "latency_ns",
              nanoseconds(percentile(all, percent)));
  std::printf("  least %.2f ms, mean %.2f ms, greatest %.2f ms\n", all.front() * 1e3, mean * 1e3,
              all.back() * 1e3);
  const char* separator = " ";
  for (const int percent : percents) {
    std::printf("%s %dth percentile %.2f ms", separator, percent, percentile(all, percent) * 1e3);
    separator = ",";
  }
  std::printf("\n");
}

}  // namespace

std::int64_t default_queries(scenario_kind scenario) {
  if (scenario == scenario_kind::single_stream) return 1024;
  return scenario == scenario_kind::offline ? 24576 : 662;
}

void bench_scenario(const scenario_options& options) {
  vecdet::keep_memory();
  checkpoint content = load_checkpoint(options.checkpoint);
  const dataset data = read_dataset(options.test, content.classes);
  content.model->convolve_by(options.convolutions);
  const scenario_kind scenario = options.scenario;
  const bool is_server = scenario == scenario_kind::server;
  load_params load = options.load;
  if (load.least_queries == 0) load.least_queries = default_queries(scenario);

  const mlperf_log log;
  log.write("sut_name", "vecdet detector, " + content.model->config().text());
  log.write("effective_scenario", mlperf_name(scenario));
  log.write("effective_test_mode", options.accuracy ? "AccuracyOnly" : "PerformanceOnly");
  log.write("convolutions", name_of(options.convolutions));
  log.write("postprocessing", name_of(options.postprocessing));
  log.write("threads", at::get_num_threads());
  log.write("effective_samples_per_query", batch_of(options));
  if (options.accuracy) return measure_accuracy(options, content, data, log);

  detector_system system(std::move(content), data, options);
  load.samples = system.size();
  log.write("effective_min_duration_ms", load.least_seconds * 1e3);
  log.write("effective_min_query_count", load.least_queries);
  log.write("effective_sample_index_rng_seed", load.sample_seed);
  log.write("effective_performance_sample_count", load.samples);
  if (is_server) {
    log.write("effective_schedule_rng_seed", load.schedule_seed);
    log.write("effective_target_latency_ns", nanoseconds(load.bound));
  }

  load_result result;
  if (is_server)
    result = find_server_rate(system, load, [](const load_result& run) {
      std::fprintf(stderr, "%.2f pictures/s: %s\n", run.rate,
                   run.is_late ? "too many are late" : "within the bound");
    });
  else if (scenario == scenario_kind::offline)
    result = run_offline(system, load);
  else
    result = run_stream(system, load, batch_of(options));

  const bool is_valid = result.queries > 0;  // a run is as long as it must be, or there is none
  log.write("result_validity", is_valid ? "VALID" : "INVALID");
  log.write("result_query_count", result.queries);
  std::printf("\nMLPerf scenario %s, %s, %d threads: not an official result\n",
              mlperf_name(scenario), options.checkpoint.c_str(), at::get_num_threads());
  std::printf("  convolutions by %s, postprocessing by %s\n", name_of(options.convolutions),
              name_of(options.postprocessing));
  if (!is_valid) {
    std::printf("  no rate: the 99th percentile of pictures alone is above %.2f ms\n",
                load.bound * 1e3);
    return;
  }
  std::printf("  %lld queries with %lld of %zu pictures in %.2f s\n",
              static_cast<long long>(result.queries), static_cast<long long>(result.samples),
              load.samples, result.seconds);
  const double completed = static_cast<double>(result.samples) / result.seconds;
  if (scenario == scenario_kind::offline) {
    log.write("result_samples_per_second", completed);
    std::printf("  result: %.2f pictures/s\n", completed);
    return;
  }
  if (is_server) {
    log.write("result_scheduled_samples_per_sec", result.rate);
    log.write("result_completed_samples_per_sec", completed);
    std::printf("  result: %.2f pictures/s with a 99th percentile within %.2f ms\n", result.rate,
                load.bound * 1e3);
  } else {
    const int percent = percentile_of(scenario);
    std::printf("  result: %dth percentile %.2f ms\n", percent,
                percentile(result.latencies, percent) * 1e3);
  }
  log_latencies(result, scenario == scenario_kind::multi_stream ? "per_query_" : "", log);
}

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"

#include "evaluation.hpp"
#include "losses.hpp"
#include "model.hpp"
#include "optimisation.hpp"
#include "random.hpp"
#include "run_log.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>

namespace detector {
namespace {

/// Freed memory stays with the process, so that its pages are zeroed once, not at each step.
void keep_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

/// Boxes of an image, as many as OpenImages' pictures have on average: seven.
std::vector<object> random_objects(std::int64_t side, random_source& random) {
  std::vector<object> objects;
  for (int k = 0; k < 7; ++k) {
    const double size = random.uniform(0.05, 0.5) * static_cast<double>(side);
    const double x = random.uniform(0, static_cast<double>(side) - size);
    const double y = random.uniform(0, static_cast<double>(side) - size);
    objects.push_back({{static_cast<float>(x), static_cast<float>(y), static_cast<float>(x + size),
                        static_cast<float>(y + size)},
                       static_cast<std::int64_t>(random.next() % 264),
                       false});
  }
  return objects;
}

/// Runs one stage in this process, and prints the seconds of each step that counts.
void run_stage(const bench_options& options, const bench_stage& stage) {
  if (stage.keeps_memory) keep_memory();
  at::manual_seed(0);
  model_config config;
  config.backbone = backbone_kind::resnext50_32x4d;
  config.norm = norm_kind::frozen;
  config.classes = 264;
  config.frozen_stages = 2;
  retinanet model(config);
  model.doubles_small_levels = stage.doubles_small_levels;
  const precision_options precision{stage.channels_last, stage.bfloat16};
  if (precision.channels_last) use_channels_last(model);
  optimisation params;
  params.optimiser = optimiser_kind::sgd;
  params.rate = 1e-6;
  const auto optimiser = make_optimiser(model, params);
  criterion loss(static_cast<loss_kind>(stage.loss), model.anchor_shapes());
  random_source random{1};
  for (int step = 0; step <= options.steps; ++step) {
    const std::int64_t batch_size = options.batches.front();
    const at::Tensor images = at::randn({batch_size, 3, options.side, options.side});
    batch_truth truth;
    for (std::int64_t i = 0; i < batch_size; ++i)
      truth.add_image(random_objects(options.side, random));
    const stopwatch watch;
    optimiser->zero_grad();
    const head_outputs outputs = compute_heads(model, images, precision);
    const loss_values values =
        loss(outputs, truth, {static_cast<int>(options.side), static_cast<int>(options.side)});
    values.total.backward();
    optimiser->step();
    if (step > 0)
      std::printf("%.6f %.6f\n", watch.seconds(), values.classification + values.regression);
  }
}

struct measured {
  std::vector<double> seconds;
  double loss = 0;  ///< of the last step: the same in all stages of one precision

  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

/// Adds what a process of its own measures.
void measure(const bench_options& options, std::int64_t batch_size, std::size_t stage,
             measured& result) {
  const std::string command =
      "'" + options.program + "' bench --mlperf --stage " + std::to_string(stage) + " --batch " +
      std::to_string(batch_size) + " --steps " + std::to_string(options.steps) + " --side " +
      std::to_string(options.side) + " --threads " + std::to_string(at::get_num_threads());
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) throw std::runtime_error("no process for a stage of the benchmark");
  double seconds = 0;
  while (std::fscanf(output, "%lf %lf", &seconds, &result.loss) == 2)
    result.seconds.push_back(seconds);
  if (pclose(output) != 0 || result.seconds.empty())
    throw std::runtime_error("a stage of the benchmark failed: " + command);
}

void print_table(const bench_options& options, std::int64_t batch_size,
                 const std::vector<measured>& results) {
  std::printf("\n%d x %d, batch of %d, %d threads; seconds of a step, %d runs\n\n",
              static_cast<int>(options.side), static_cast<int>(options.side),
              static_cast<int>(batch_size), at::get_num_threads(), options.rounds);
  std::printf("| step | median | least | of the one before | of the first | loss |\n");
  std::printf("|---|--:|--:|--:|--:|--:|\n");
  for (std::size_t s = 0; s < results.size(); ++s) {
    const double median = results[s].median();
    std::printf("| %s | %.3f | %.3f | %.2fx | %.2fx | %.5f |\n", stages()[s].name, median,
                *std::min_element(results[s].seconds.begin(), results[s].seconds.end()),
                results[s == 0 ? 0 : s - 1].median() / median, results[0].median() / median,
                results[s].loss);
  }
  std::fflush(stdout);
}

}  // namespace

const std::vector<bench_stage>& stages() {
  constexpr int torch = static_cast<int>(loss_kind::torch);
  constexpr int operators = static_cast<int>(loss_kind::operators);
  constexpr int vecdet = static_cast<int>(loss_kind::vecdet);
  static const std::vector<bench_stage> all{
      {"as installed, torch's loss", torch, false, false, false, false},
      {"vecdet's operators", operators, false, false, false, false},
      {"allocator keeps its memory", operators, true, false, false, false},
      {"loss on the head's own layout", vecdet, true, false, false, false},
      {"small levels in oneDNN", vecdet, true, true, false, false},
      {"channels_last", vecdet, true, true, true, false},
      {"bfloat16", vecdet, true, true, true, true},
  };
  return all;
}

void bench_mlperf(const bench_options& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  if (options.stage >= 0) {
    run_stage(options, stages().at(static_cast<std::size_t>(options.stage)));
    return;
  }
  for (const std::int64_t batch_size : options.batches) {
    std::vector<measured> results(stages().size());
    for (int round = 0; round < options.rounds; ++round)
      for (std::size_t s = 0; s < results.size(); ++s) measure(options, batch_size, s, results[s]);
    print_table(options, batch_size, results);
  }
}

}  // namespace detector

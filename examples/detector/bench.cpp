// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"

#include "evaluation.hpp"
#include "json_lines.hpp"
#include "losses.hpp"
#include "model.hpp"
#include "optimisation.hpp"
#include "random.hpp"
#include "run_log.hpp"
#include <vecdet/keep_memory.hpp>
#include <vecdet/profile.hpp>
#include <vecdet/torch/profile.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

namespace detector {
namespace {

constexpr std::int64_t classes = 264;

/// Boxes per image: seven, the average of OpenImages.
std::vector<object> random_objects(std::int64_t side, random_source& random) {
  std::vector<object> objects;
  for (int k = 0; k < 7; ++k) {
    const double size = random.uniform(0.05, 0.5) * static_cast<double>(side);
    const double x = random.uniform(0, static_cast<double>(side) - size);
    const double y = random.uniform(0, static_cast<double>(side) - size);
    objects.push_back({{static_cast<float>(x), static_cast<float>(y), static_cast<float>(x + size),
                        static_cast<float>(y + size)},
                       static_cast<std::int64_t>(random.next() % classes),
                       false});
  }
  return objects;
}

batch_truth random_truth(const bench_options& options, random_source& random) {
  batch_truth truth;
  for (std::int64_t i = 0; i < options.batches.front(); ++i)
    truth.add_image(random_objects(options.side, random));
  return truth;
}

/// If a file is named, profiles the code that runs during its lifetime and reports the cost of page
/// faults.
class profiled {
 public:
  explicit profiled(const std::string& file) : file_(file) {
    if (file.empty()) return;
    operators_ = std::make_unique<vecdet::profile::torch_operators>();
    vecdet::profile::enable();
  }
  profiled(const profiled&) = delete;
  profiled& operator=(const profiled&) = delete;

  void write() const {
    if (file_.empty()) return;
    vecdet::profile::disable();
    vecdet::profile::write_file(file_, vecdet::profile::snapshot());
    std::fputs(operators_->page_fault_report().c_str(), stderr);
  }

 private:
  std::string file_;
  std::unique_ptr<vecdet::profile::torch_operators> operators_;
};

/// Runs `step`, which returns its loss, on the result of `prepare`: twice as a warm-up, since the
/// second step still allocates, and then options.steps times with a stopwatch. Prints seconds and
/// loss.
template <class Prepare, class Step>
void time_steps(const bench_options& options, const Prepare& prepare, const Step& step) {
  for (int i = 0; i < 2; ++i) step(prepare());
  const profiled recorded(options.profile);
  for (int i = 0; i < options.steps; ++i) {
    const auto input = prepare();
    const stopwatch watch;
    const double loss = step(input);
    std::printf("%.6f %.6f\n", watch.seconds(), loss);
  }
  recorded.write();
}

/// The step of a stage: zero gradients, heads, loss, backward, optimiser.
void run_stage(const bench_options& options, const bench_stage& stage) {
  at::manual_seed(0);
  model_config config;
  config.backbone = backbone_kind::resnext50_32x4d;
  config.norm = norm_kind::frozen;
  config.classes = classes;
  config.frozen_stages = 2;
  retinanet model(config);
  model.doubles_small_levels = stage.doubles_small_levels;
  model.fold_normalisation(stage.folds_normalisation);
  model.convolve_by(stage.convolutions);
  const precision_options precision{stage.channels_last, stage.bfloat16};
  if (precision.channels_last) use_channels_last(model);
  optimisation params;
  params.optimiser = optimiser_kind::sgd;
  params.rate = 1e-6;
  const auto optimiser = make_optimiser(model, params);
  criterion loss(stage.loss, model.anchor_shapes());
  random_source random{1};
  const auto side = static_cast<int>(options.side);
  const at::Tensor images = at::randn({options.batches.front(), 3, side, side});
  const batch_truth truth = random_truth(options, random);
  const auto images_of_step = [&] { return images; };
  time_steps(options, images_of_step, [&](const at::Tensor& input) {
    VECDET_PROFILE_SCOPE("step");
    optimiser->zero_grad();
    head_outputs outputs;
    {
      VECDET_PROFILE_SCOPE("network");
      outputs = compute_heads(model, input, precision);
    }
    loss_values values;
    {
      VECDET_PROFILE_SCOPE("loss");
      values = loss(outputs, truth, {side, side});
    }
    {
      VECDET_PROFILE_SCOPE("backward");
      values.total.backward();
    }
    VECDET_PROFILE_SCOPE("optimiser");
    optimiser->step();
    return values.classification + values.regression;
  });
}

/// Stand-ins for the outputs of the heads' convolutions, as leaves of the graph.
head_outputs random_outputs(const bench_options& options, const bench_stage& stage) {
  head_outputs outputs;
  const auto make = [&](std::int64_t columns, std::int64_t side, double mean) {
    const at::Tensor level =
        at::randn({options.batches.front(), retinanet::anchors_of_location * columns, side, side})
            .mul_(0.01)
            .add_(mean)
            .to(stage.bfloat16 ? at::kBFloat16 : at::kFloat);
    return level
        .contiguous(stage.channels_last ? at::MemoryFormat::ChannelsLast
                                        : at::MemoryFormat::Contiguous)
        .requires_grad_();
  };
  std::int64_t side = (options.side + 7) / 8;
  for (int level = 3; level <= 7; ++level) {
    outputs.logits.push_back(make(classes, side, -4.6));
    outputs.deltas.push_back(make(4, side, 0));
    side = (side + 1) / 2;
  }
  return outputs;
}

/// Only the loss of a stage with its gradient.
void run_loss(const bench_options& options, const bench_stage& stage) {
  at::manual_seed(0);
  criterion loss(stage.loss, vecdet::anchor_shapes::retinanet());
  random_source random{1};
  const auto side = static_cast<int>(options.side);
  const batch_truth truth = random_truth(options, random);
  const auto outputs_of_step = [&] { return random_outputs(options, stage); };
  time_steps(options, outputs_of_step, [&](const head_outputs& outputs) {
    const loss_values values = loss(outputs, truth, {side, side});
    values.total.backward();
    return values.classification + values.regression;
  });
}

struct measured {
  std::vector<double> seconds;
  double loss = 0;  ///< of the last step: equal in all stages of one precision

  void add(const measured& other) {
    seconds.insert(seconds.end(), other.seconds.begin(), other.seconds.end());
    loss = other.loss;
  }
  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

/// Measures a stage in a separate process.
measured measure(const bench_options& options, std::int64_t batch_size, std::size_t stage) {
  const std::string command =
      "'" + options.program + "' bench --mlperf --stage " + std::to_string(stage) + " --batch " +
      std::to_string(batch_size) + " --steps " + std::to_string(options.steps) + " --side " +
      std::to_string(options.side) + " --threads " + std::to_string(at::get_num_threads());
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr)
    throw std::runtime_error("cannot start a process for a stage of the benchmark");
  measured result;
  double seconds = 0;
  while (std::fscanf(output, "%lf %lf", &seconds, &result.loss) == 2)
    result.seconds.push_back(seconds);
  if (pclose(output) != 0 || result.seconds.empty())
    throw std::runtime_error("a stage of the benchmark failed: " + command);
  return result;
}

void print_table(const bench_options& options, std::int64_t batch_size,
                 const std::vector<measured>& results) {
  std::printf("\n%d x %d, batch of %d, %d threads; seconds per step, %d runs\n\n",
              static_cast<int>(options.side), static_cast<int>(options.side),
              static_cast<int>(batch_size), at::get_num_threads(), options.rounds);
  std::printf("| stage | median | least | speed-up over previous | speed-up over first | loss |\n");
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
  constexpr loss_kind torch = loss_kind::torch, operators = loss_kind::operators,
                      vecdet = loss_kind::vecdet;
  constexpr convolution_kind theirs = convolution_kind::torch, ours = convolution_kind::vecdet;
  static const std::vector<bench_stage> all{
      {"as installed, torch's loss", torch, false, false, false, theirs, false, false},
      {"vecdet's operators", operators, false, false, false, theirs, false, false},
      {"allocator keeps its memory", operators, true, false, false, theirs, false, false},
      {"loss on the head's own layout", vecdet, true, false, false, theirs, false, false},
      {"small levels in oneDNN", vecdet, true, true, false, theirs, false, false},
      {"normalisation in convolutions", vecdet, true, true, true, theirs, false, false},
      {"vecdet's convolutions", vecdet, true, true, true, ours, false, false},
      {"channels_last", vecdet, true, true, true, ours, true, false},
      {"bfloat16", vecdet, true, true, true, ours, true, true},
  };
  return all;
}

void bench_mlperf(const bench_options& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  if (options.stage >= 0) {
    const bench_stage& stage = stages().at(static_cast<std::size_t>(options.stage));
    if (stage.keeps_memory) vecdet::keep_memory();
    if (options.loss_alone)
      run_loss(options, stage);
    else
      run_stage(options, stage);
    return;
  }
  std::unique_ptr<json_lines> lines;
  if (!options.results.empty()) lines = std::make_unique<json_lines>(options.results);
  for (const std::int64_t batch_size : options.batches) {
    std::vector<measured> results(stages().size());
    for (int round = 0; round < options.rounds; ++round)
      for (std::size_t s = 0; s < results.size(); ++s) {
        const measured found = measure(options, batch_size, s);
        results[s].add(found);
        if (lines == nullptr) continue;
        lines->write({{"batch", batch_size},
                      {"stage", s},
                      {"name", stages()[s].name},
                      {"threads", at::get_num_threads()},
                      {"seconds", found.seconds},
                      {"loss", found.loss}});
      }
    print_table(options, batch_size, results);
  }
}

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
// detector: trains RetinaNet on your pictures, evaluates it, and shows what it finds. See `detector
// --help` and README.md in this directory.
#include "bench.hpp"
#include "inspection.hpp"
#include "scenarios.hpp"
#include "trainer.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <unistd.h>

namespace {

using namespace detector;

void add_data(CLI::App& app, const std::string& which, dataset_source& source, bool is_required) {
  app.add_option("--" + which, source.annotations,
                 "COCO annotations (.json), or a VOC list in ImageSets/Main (.txt)")
      ->required(is_required);
  app.add_option("--" + which + "-pictures", source.pictures,
                 "folder of the pictures, for COCO annotations");
}

void add_loading(CLI::App& app, loader_params& loading, int& threads) {
  app.add_option("--threads", threads, "compute threads; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--loader-threads", loading.threads, "threads that read pictures")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
}

template <class Kind>
CLI::CheckedTransformer one_of(std::map<std::string, Kind> names) {
  CLI::CheckedTransformer transformer(std::move(names));
  transformer.description("");
  return transformer;
}

struct train_command {
  training_options options;
  std::vector<int> size{320, 256};
  std::vector<double> scales{1, 1};
  int threads = 0;

  explicit train_command(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("train", "Trains a model from scratch");
    app->set_config("--config", "", "file to read options from");
    add_data(*app, "train", options.train, true);
    add_data(*app, "test", options.test, false);
    add_loading(*app, options.loading, threads);
    app->add_option("--out", options.folder, "folder for checkpoints and log")->required();
    app->add_flag("--resume", options.resume, "continue from the checkpoint in that folder");
    app->add_option("--epochs", options.epochs, "passes over the training set")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app->add_option("--batch", options.loading.batch_size, "pictures per step")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096));
    app->add_option("--size", size, "width and height of the input; pictures are scaled to fit")
        ->expected(2)
        ->capture_default_str()
        ->check(CLI::Range(32, 8192));
    app->add_option("--seed", options.loading.seed, "seed of weights, order and augmentation")
        ->capture_default_str();

    app->add_option("--backbone", options.model.backbone, "resnet18, resnet50 or resnext50_32x4d")
        ->transform(one_of<backbone_kind>({{"resnet18", backbone_kind::resnet18},
                                           {"resnet50", backbone_kind::resnet50},
                                           {"resnext50_32x4d", backbone_kind::resnext50_32x4d}}));
    app->add_option("--norm", options.model.norm, "normalisation: group or frozen")
        ->transform(
            one_of<norm_kind>({{"group", norm_kind::group}, {"frozen", norm_kind::frozen}}));
    app->add_option("--channels", options.model.channels, "channels of the pyramid and the heads")
        ->capture_default_str()
        ->check(CLI::Range(8, 1024));
    app->add_option("--anchor-size", options.model.anchor_size,
                    "side of the smallest anchor, in pixels")
        ->capture_default_str()
        ->check(CLI::Range(2.0, 512.0));
    app->add_option("--loss", options.loss, "vecdet, or torch for libtorch's operators only")
        ->transform(
            one_of<loss_kind>({{"torch", loss_kind::torch}, {"vecdet", loss_kind::vecdet}}));
    app->add_option("--convolutions", options.convolutions,
                    "3x3 convolutions with stride 1: vecdet, or torch for libtorch's")
        ->transform(one_of<convolution_kind>(
            {{"torch", convolution_kind::torch}, {"vecdet", convolution_kind::vecdet}}));
    app->add_flag("--channels-last", options.precision.channels_last,
                  "run the network in channels_last");
    app->add_flag("--bfloat16", options.precision.bfloat16,
                  "run the network in bfloat16, by autocast");

    app->add_option("--hflip", options.loading.changes.horizontal_flip,
                    "probability of a horizontal flip")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    app->add_option("--vflip", options.loading.changes.vertical_flip,
                    "probability of a vertical flip")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    app->add_option("--scales", scales, "smallest and largest random scale of pictures")
        ->expected(2)
        ->capture_default_str()
        ->check(CLI::Range(0.1, 10.0));

    optimisation& optimiser = options.optimiser;
    app->add_option("--optimiser", optimiser.optimiser, "adamw or sgd")
        ->transform(one_of<optimiser_kind>(
            {{"sgd", optimiser_kind::sgd}, {"adamw", optimiser_kind::adamw}}));
    app->add_option("--rate", optimiser.rate, "learning rate")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app->add_option("--weight-decay", optimiser.weight_decay)
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app->add_option("--momentum", optimiser.momentum, "momentum of SGD")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    app->add_option("--warmup", optimiser.warmup_steps, "steps over which the learning rate rises")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app->add_option("--schedule", optimiser.schedule,
                    "learning rate over time: cosine, steps or constant")
        ->transform(one_of<schedule_kind>({{"cosine", schedule_kind::cosine},
                                           {"steps", schedule_kind::steps},
                                           {"constant", schedule_kind::constant}}));
    app->add_option("--drops", optimiser.drops,
                    "fractions of the training after which the schedule steps lowers the rate")
        ->capture_default_str();

    app->add_option("--average-steps", options.average_steps,
                    "of several processes: steps between averages of the weights; 1: gradients are "
                    "averaged in every step")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app->add_option("--evaluate-every", options.evaluate_every, "epochs between evaluations")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app->add_option("--checkpoint-steps", options.checkpoint_steps,
                    "steps between further checkpoints, in addition to one per epoch")
        ->check(CLI::NonNegativeNumber);
    app->add_option("--target-ap50", options.target_ap50,
                    "stop when AP50 on the test set reaches this")
        ->check(CLI::Range(0.0, 1.0));
  }

  int run() {
    if (scales[0] > scales[1])
      throw std::invalid_argument("--scales: the smallest scale is " + std::to_string(scales[0]) +
                                  ", expected at most the largest, " + std::to_string(scales[1]));
    if (threads > 0) at::set_num_threads(threads);
    // A pyramid's strides divide multiples of 32.
    options.loading.canvas = {(size[0] + 31) / 32 * 32, (size[1] + 31) / 32 * 32};
    options.loading.changes.smallest_scale = scales[0];
    options.loading.changes.largest_scale = scales[1];
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_training(); });
    return train(options) == outcome::diverged ? 3 : 0;
  }
};

struct evaluate_command {
  evaluation_options options;
  int threads = 0;

  explicit evaluate_command(CLI::App& parent) {
    CLI::App* const app =
        parent.add_subcommand("evaluate", "Prints COCO's average precision of a checkpoint");
    app->add_option("checkpoint", options.checkpoint)->required();
    add_data(*app, "test", options.test, true);
    app->add_option("--results", options.results,
                    "file for the detections, in COCO's results format");
    app->add_option("--threads", threads, "compute threads; 0: all")->check(CLI::NonNegativeNumber);
  }

  int run() {
    if (threads > 0) at::set_num_threads(threads);
    evaluate_checkpoint(options);
    return 0;
  }
};

struct draw_command {
  drawing_options options;

  explicit draw_command(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("draw", "Draws a model's detections onto pictures");
    app->add_option("checkpoint", options.checkpoint)->required();
    app->add_option("pictures", options.pictures, "JPEG or PNG files")->required();
    app->add_option("--out", options.folder, "folder for the results")->required();
    app->add_option("--score", options.score_threshold, "lowest score of a box that is drawn")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
  }

  int run() { return draw_detections(options) == 0 ? 0 : 2; }
};

struct bench_command {
  bench_options options;
  scenario_options scenario;
  double bound_ms = 100;
  CLI::Option* scenario_option = nullptr;

  explicit bench_command(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand(
        "bench", "Times a training step, or a checkpoint in MLPerf's scenarios");
    CLI::App* const what = app->add_option_group("what");
    auto* const step =
        what->add_flag("--mlperf", "the step of MLPerf: 800 x 800, 264 classes, ResNeXt50");
    scenario_option =
        what->add_option("--scenario", scenario.scenario,
                         "single-stream, multi-stream, server or offline")
            ->transform(one_of<scenario_kind>({{"single-stream", scenario_kind::single_stream},
                                               {"multi-stream", scenario_kind::multi_stream},
                                               {"server", scenario_kind::server},
                                               {"offline", scenario_kind::offline}}));
    what->require_option(1);
    app->add_option("--threads", options.threads, "compute threads; 0: all")
        ->check(CLI::NonNegativeNumber);
    add_step(*app->add_option_group("With --mlperf"), step);
    add_scenario(*app->add_option_group("With --scenario"));
  }

  void add_step(CLI::App& app, CLI::Option* step) {
    app.add_option("--batch", options.batches, "batch sizes; each gets a table")
        ->capture_default_str()
        ->needs(step);
    app.add_option("--rounds", options.rounds, "runs of each stage")
        ->capture_default_str()
        ->check(CLI::PositiveNumber)
        ->needs(step);
    app.add_option("--steps", options.steps, "timed steps per stage and round")
        ->capture_default_str()
        ->check(CLI::PositiveNumber)
        ->needs(step);
    app.add_option("--side", options.side, "side of the pictures, in pixels")
        ->capture_default_str()
        ->check(CLI::Range(64, 4096))
        ->needs(step);
    app.add_option("--results", options.results, "file for one line of JSON per process")
        ->needs(step);
    auto* const stage = app.add_option("--stage", options.stage,
                                       "run only this stage, by number; prints seconds and loss")
                            ->check(CLI::Range(0, static_cast<int>(stages().size()) - 1))
                            ->needs(step);
    app.add_flag("--loss-alone", options.loss_alone, "time the stage's loss without a network")
        ->needs(stage);
    app.add_option("--profile", options.profile,
                   "file for a profile of the timed steps; its ending selects the format")
        ->needs(stage);
  }

  void add_scenario(CLI::App& app) {
    auto* const checkpoint = app.add_option("checkpoint", scenario.checkpoint);
    add_data(app, "test", scenario.test, false);
    scenario_option->needs(checkpoint)->needs(app.get_option("--test"));
    load_params& load = scenario.load;
    const auto only = [this](CLI::Option* option) { option->needs(scenario_option); };
    only(app.add_flag("--accuracy", scenario.accuracy,
                      "print the AP of the outputs for all pictures, instead of times"));
    only(app.add_option("--latency-bound", bound_ms,
                        "milliseconds within which a server's 99th percentile stays")
             ->capture_default_str()
             ->check(CLI::PositiveNumber));
    only(app.add_option("--min-seconds", load.least_seconds, "minimum duration of a run")
             ->capture_default_str()
             ->check(CLI::NonNegativeNumber));
    only(app.add_option("--min-queries", load.least_queries,
                        "minimum number of queries; offline: of pictures; default: 1024 "
                        "(single-stream), 662 (multi-stream, server), 24576 (offline)")
             ->check(CLI::PositiveNumber));
    only(app.add_option("--warmup-queries", load.warmup_queries, "queries before those measured")
             ->capture_default_str()
             ->check(CLI::NonNegativeNumber));
    only(app.add_option("--largest-batch", load.largest_batch,
                        "pictures that a server, or offline, computes at once")
             ->capture_default_str()
             ->check(CLI::Range(1, 4096)));
    only(app.add_option("--sample-seed", load.sample_seed, "seed of the pictures' order")
             ->capture_default_str());
    only(app.add_option("--schedule-seed", load.schedule_seed, "seed of a server's arrivals")
             ->capture_default_str());
    only(app.add_option("--convolutions", scenario.convolutions,
                        "3x3 convolutions with stride 1: vecdet, or torch for libtorch's")
             ->transform(one_of<convolution_kind>(
                 {{"torch", convolution_kind::torch}, {"vecdet", convolution_kind::vecdet}})));
    only(app.add_option("--postprocessing", scenario.postprocessing,
                        "vecdet, or torch for libtorch's operators only")
             ->transform(one_of<postprocessing_kind>({{"torch", postprocessing_kind::torch},
                                                      {"vecdet", postprocessing_kind::vecdet}})));
  }

  int run() {
    if (scenario_option->count() > 0) {
      if (options.threads > 0) at::set_num_threads(options.threads);
      scenario.load.bound = bound_ms * 1e-3;
      bench_scenario(scenario);
      return 0;
    }
    options.program = "/proc/" + std::to_string(::getpid()) + "/exe";
    bench_mlperf(options);
    return 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains RetinaNet on your pictures, evaluates it and draws its detections.");
  app.require_subcommand(1);
  train_command train(app);
  evaluate_command evaluate(app);
  draw_command draw(app);
  bench_command bench(app);
  CLI11_PARSE(app, argc, argv);
  try {
    if (app.got_subcommand("train")) return train.run();
    if (app.got_subcommand("evaluate")) return evaluate.run();
    if (app.got_subcommand("draw")) return draw.run();
    return bench.run();
  } catch (const std::exception& error) {
    // libtorch appends a stack trace to its errors, line by line.
    const std::string text = error.what();
    std::fprintf(stderr, "detector: %s\n", text.substr(0, text.find("\nException raised")).c_str());
    return 1;
  }
}

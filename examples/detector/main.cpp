// SPDX-License-Identifier: Apache-2.0
// detector: trains RetinaNet on your pictures, evaluates it, and shows what it finds. `detector
// --help`, and README.md beside this file.
#include "trainer.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

namespace {

using namespace detector;

void add_data(CLI::App& app, const std::string& which, dataset_source& source, bool is_required) {
  app.add_option("--" + which, source.annotations,
                 "COCO annotations (.json), or a list of VOC's in ImageSets/Main (.txt)")
      ->required(is_required);
  app.add_option("--" + which + "-pictures", source.pictures, "folder of COCO's pictures");
}

void add_loading(CLI::App& app, loader_params& loading, int& threads) {
  app.add_option("--threads", threads, "of computation; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--loader-threads", loading.threads, "that read pictures")
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
    app->set_config("--config", "", "options from a file");
    add_data(*app, "train", options.train, true);
    add_data(*app, "test", options.test, false);
    add_loading(*app, options.loading, threads);
    app->add_option("--out", options.folder, "folder of checkpoints and log")->required();
    app->add_flag("--resume", options.resume, "go on from the folder's checkpoint");
    app->add_option("--epochs", options.epochs)->capture_default_str()->check(CLI::PositiveNumber);
    app->add_option("--batch", options.loading.batch_size, "pictures of a step")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096));
    app->add_option("--size", size, "width and height that pictures are fitted into")
        ->expected(2)
        ->capture_default_str()
        ->check(CLI::Range(32, 8192));
    app->add_option("--seed", options.loading.seed)->capture_default_str();

    app->add_option("--backbone", options.model.backbone, "resnet18, resnet50 or resnext50_32x4d")
        ->transform(one_of<backbone_kind>({{"resnet18", backbone_kind::resnet18},
                                           {"resnet50", backbone_kind::resnet50},
                                           {"resnext50_32x4d", backbone_kind::resnext50_32x4d}}));
    app->add_option("--norm", options.model.norm, "group or frozen")
        ->transform(
            one_of<norm_kind>({{"group", norm_kind::group}, {"frozen", norm_kind::frozen}}));
    app->add_option("--channels", options.model.channels, "of the pyramid and the heads")
        ->capture_default_str()
        ->check(CLI::Range(8, 1024));
    app->add_option("--anchor-size", options.model.anchor_size, "side of the smallest, in pixels")
        ->capture_default_str()
        ->check(CLI::Range(2.0, 512.0));
    app->add_option("--loss", options.loss, "vecdet, or torch: libtorch's operators alone")
        ->transform(
            one_of<loss_kind>({{"torch", loss_kind::torch}, {"vecdet", loss_kind::vecdet}}));
    app->add_flag("--channels-last", options.channels_last);
    app->add_flag("--bfloat16", options.bfloat16, "autocast of the network");

    app->add_option("--hflip", options.loading.changes.horizontal_flip, "probability")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    app->add_option("--vflip", options.loading.changes.vertical_flip, "probability")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    app->add_option("--scales", scales, "smallest and largest scale of pictures")
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
    app->add_option("--momentum", optimiser.momentum, "of SGD")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    app->add_option("--warmup", optimiser.warmup_steps, "steps in which the rate rises")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app->add_option("--schedule", optimiser.schedule, "cosine, steps or constant")
        ->transform(one_of<schedule_kind>({{"cosine", schedule_kind::cosine},
                                           {"steps", schedule_kind::steps},
                                           {"constant", schedule_kind::constant}}));
    app->add_option("--drops", optimiser.drops, "of the schedule steps: parts of the training")
        ->capture_default_str();

    app->add_option("--evaluate-every", options.evaluate_every, "epochs")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app->add_option("--checkpoint-steps", options.checkpoint_steps,
                    "a checkpoint also every so many steps")
        ->check(CLI::NonNegativeNumber);
    app->add_option("--target-ap50", options.target_ap50, "end once the test set's AP50 is this")
        ->check(CLI::Range(0.0, 1.0));
  }

  int run() {
    if (threads > 0) at::set_num_threads(threads);
    // A pyramid's strides divide sizes of whole multiples of 32.
    options.loading.canvas = {(size[0] + 31) / 32 * 32, (size[1] + 31) / 32 * 32};
    options.loading.changes.smallest_scale = scales[0];
    options.loading.changes.largest_scale = scales[1];
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_training(); });
    return train(options) == outcome::diverged ? 3 : 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains RetinaNet on your pictures, evaluates it, and shows what it finds.");
  app.require_subcommand(1);
  train_command train(app);
  CLI11_PARSE(app, argc, argv);
  try {
    return train.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "detector: %s\n", error.what());
    return 1;
  }
}

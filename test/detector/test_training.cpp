// SPDX-License-Identifier: Apache-2.0
// Losses, training, checkpoints.
#include "../../examples/detector/checkpoint.hpp"
#include "../../examples/detector/evaluation.hpp"
#include "../../examples/detector/inspection.hpp"
#include "../../examples/detector/losses.hpp"
#include "../../examples/detector/optimisation.hpp"
#include "../../examples/detector/run_log.hpp"
#include "../../examples/detector/trainer.hpp"
#include "picture_files.hpp"
#include "shapes.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

using namespace detector;
using nlohmann::json;
using test::contains;
using test::error_of;

namespace {

/// A training that takes seconds.
training_options small_training(const test::temporary_folder& folder, const std::string& out) {
  training_options options;
  options.train.annotations = folder / "ImageSets/Main/train.txt";
  options.test.annotations = folder / "ImageSets/Main/test.txt";
  options.folder = folder / out;
  options.model.channels = 32;
  options.model.anchor_size = 16;
  options.loading.canvas = {96, 96};
  options.loading.batch_size = 4;
  options.loading.changes.horizontal_flip = 0.5;
  options.optimiser.rate = 1e-3;
  options.optimiser.warmup_steps = 5;
  options.epochs = 2;
  return options;
}

std::vector<json> events(const training_options& options, const std::string& kind) {
  std::ifstream file(options.folder + "/log.jsonl");
  std::vector<json> found;
  for (std::string line; std::getline(file, line);) {
    json event = json::parse(line);
    if (event.at("event") == kind) found.push_back(event);
  }
  return found;
}

std::vector<double> losses_of(const training_options& options) {
  std::vector<double> losses;
  for (const json& event : events(options, "step")) losses.push_back(event.at("loss"));
  return losses;
}

/// The loss of a model on fixed pictures, and its gradient by all weights as one vector.
std::pair<loss_values, at::Tensor> loss_and_gradient(loss_kind kind, bool channels_last,
                                                     convolution_kind convolutions) {
  at::manual_seed(3);
  model_config config;
  config.channels = 32;
  config.classes = 5;
  config.anchor_size = 16;
  retinanet model(config);
  model.convolve_by(convolutions);
  if (channels_last) use_channels_last(model);
  criterion loss(kind, model.anchor_shapes());
  batch_truth truth;
  truth.add_image({{{3, 4, 40, 50}, 4, false}, {{50, 20, 70, 44}, 0, false}});
  truth.add_image({});
  truth.add_image({{{10, 10, 30, 30}, 2, false}});
  const at::Tensor images = at::randn({3, 3, 96, 96});
  const head_outputs outputs = compute_heads(model, images, {channels_last, false});
  const loss_values values = loss(outputs, truth, {96, 96});
  (values.total * 2).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& weight : model.parameters())
    gradients.push_back(weight.grad().contiguous().view({-1}));
  return {values, at::cat(gradients)};
}

}  // namespace

TEST_CASE("losses: libtorch's operators, vecdet's and the single call agree") {
  const auto expected = loss_and_gradient(loss_kind::torch, false, convolution_kind::torch);
  CHECK(expected.second.abs().max().item<double>() > 0);
  for (const loss_kind kind : {loss_kind::operators, loss_kind::vecdet})
    for (const bool channels_last : {false, true}) {
      const auto found = loss_and_gradient(kind, channels_last, convolution_kind::torch);
      CAPTURE(name_of(kind));
      CHECK(found.first.classification ==
            doctest::Approx(expected.first.classification).epsilon(1e-5));
      CHECK(found.first.regression == doctest::Approx(expected.first.regression).epsilon(1e-5));
      const double distance = (found.second - expected.second).norm().item<double>();
      CHECK(distance < 1e-3 * expected.second.norm().item<double>());
    }
}

TEST_CASE("losses: libtorch's convolutions and vecdet's agree") {
  const auto expected = loss_and_gradient(loss_kind::torch, false, convolution_kind::torch);
  for (const bool channels_last : {false, true}) {
    const auto found =
        loss_and_gradient(loss_kind::vecdet, channels_last, convolution_kind::vecdet);
    CHECK(found.first.classification ==
          doctest::Approx(expected.first.classification).epsilon(1e-4));
    CHECK(found.first.regression == doctest::Approx(expected.first.regression).epsilon(1e-4));
    const double distance = (found.second - expected.second).norm().item<double>();
    CHECK(distance > 0);
    // A few ReLUs near 0 are of another sign.
    CHECK(distance < 1e-2 * expected.second.norm().item<double>());
  }
}

TEST_CASE("model: libtorch's convolutions and vecdet's agree with frozen normalisation") {
  at::manual_seed(3);
  model_config config;
  config.norm = norm_kind::frozen;
  config.channels = 32;
  config.classes = 5;
  retinanet model(config);
  const at::Tensor images = at::randn({2, 3, 128, 160});
  std::vector<at::Tensor> outputs, gradients;
  for (const convolution_kind kind : {convolution_kind::torch, convolution_kind::vecdet}) {
    model.convolve_by(kind);
    model.zero_grad();
    std::vector<at::Tensor> maps = model.forward(images).logits;
    for (at::Tensor& map : maps) map = map.flatten();
    outputs.push_back(at::cat(maps));
    outputs.back().square().mean().backward();
    gradients.emplace_back();
    for (const at::Tensor& weight : model.parameters())
      if (weight.grad().defined())
        gradients.back() = gradients.back().defined()
                               ? at::cat({gradients.back(), weight.grad().flatten()})
                               : weight.grad().flatten();
  }
  const at::Tensor output_distance = (outputs[1] - outputs[0]).norm();
  CHECK(output_distance.item<double>() > 0);
  CHECK(output_distance.item<double>() < 1e-4 * outputs[0].norm().item<double>());
  CHECK((gradients[1] - gradients[0]).norm().item<double>() <
        1e-3 * gradients[0].norm().item<double>());
}

TEST_CASE("model: a second picture of zeros changes nothing") {
  at::manual_seed(3);
  model_config config;
  config.channels = 32;
  config.classes = 5;
  retinanet model(config);
  model.convolve_by(convolution_kind::torch);
  const at::NoGradGuard no_grad;
  const at::Tensor image = at::randn({1, 3, 128, 160});
  model.doubles_small_levels = false;
  const head_outputs expected = model.forward(image);
  model.doubles_small_levels = true;
  const head_outputs found = model.forward(image);
  for (std::size_t l = 0; l < expected.logits.size(); ++l) {
    CHECK(at::allclose(found.logits[l], expected.logits[l], 1e-4, 1e-5));
    CHECK(at::allclose(found.deltas[l], expected.deltas[l], 1e-4, 1e-5));
  }
}

TEST_CASE("model: frozen normalisation gives the same inside and after the convolutions") {
  for (const backbone_kind kind : {backbone_kind::resnet18, backbone_kind::resnext50_32x4d}) {
    at::manual_seed(3);
    backbone body(kind, norm_kind::frozen);
    for (at::Tensor& statistic : body.buffers()) statistic.uniform_(0.5, 1);
    const at::Tensor image = at::randn({2, 3, 64, 96});
    std::vector<at::Tensor> outputs, gradients;
    for (const bool folds : {false, true}) {
      body.fold_normalisation(folds);
      body.zero_grad();
      outputs.push_back(body.forward(image).back());
      outputs.back().square().mean().backward();
      std::vector<at::Tensor> all;
      for (const at::Tensor& weight : body.parameters()) all.push_back(weight.grad().flatten());
      gradients.push_back(at::cat(all));
    }
    CHECK(outputs[0].abs().max().item<double>() > 0);
    CHECK((outputs[1] - outputs[0]).norm().item<double>() <
          1e-4 * outputs[0].norm().item<double>());
    CHECK((gradients[1] - gradients[0]).norm().item<double>() <
          1e-3 * gradients[0].norm().item<double>());
  }
}

TEST_CASE("optimisation: the learning rate of each step") {
  optimisation params;
  params.rate = 1;
  CHECK(params.rate_at(0, 100) == 1);
  CHECK(params.rate_at(50, 100) == doctest::Approx(0.5));
  CHECK(params.rate_at(99, 100) < 0.001);
  params.schedule = schedule_kind::steps;
  CHECK(params.rate_at(60, 100) == 1);
  CHECK(params.rate_at(70, 100) == doctest::Approx(0.1));
  CHECK(params.rate_at(95, 100) == doctest::Approx(0.01));
  params.warmup_steps = 10;
  CHECK(params.rate_at(0, 100) == doctest::Approx(0.001));
  CHECK(params.rate_at(5, 100) == doctest::Approx(0.5005));
}

TEST_CASE("optimisation: weights are averaged with all that the optimiser keeps for them") {
  for (const bool is_adamw : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      optimisation params;
      params.optimiser = is_adamw ? optimiser_kind::adamw : optimiser_kind::sgd;
      params.momentum = momentum;
      params.weight_decay = 0;
      torch::nn::Linear layer(3, 2);
      const auto optimiser = make_optimiser(*layer, params);
      layer(at::ones({1, 3})).sum().backward();  // gradients of 1
      optimiser->step();
      // After one step, the momentum is the gradient, and AdamW's moments are 0.1 and 0.001 of it
      // and of its square.
      std::vector<double> expected;
      if (is_adamw)
        expected = {0.1, 0.001};
      else if (momentum > 0)
        expected = {1};
      CAPTURE(expected.size());
      CHECK(state_tensors(params) == static_cast<std::int64_t>(expected.size()));
      const std::vector<at::Tensor> tensors = trained_state(*optimiser, params);
      REQUIRE(tensors.size() == 2 * (1 + expected.size()));
      for (std::size_t weight = 0; weight < 2; ++weight) {
        const std::size_t first = weight * (1 + expected.size());
        CHECK(tensors[first].is_same(weight == 0 ? layer->weight : layer->bias));
        for (std::size_t i = 0; i < expected.size(); ++i)
          CHECK(at::allclose(tensors[first + 1 + i], at::full_like(tensors[first], expected[i])));
      }
    }
  }
}

TEST_CASE("training: reproducible, also after resuming") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 16);  // 12 to train: 3 steps an epoch
  const training_options once = small_training(folder, "once");
  REQUIRE(train(once) == outcome::finished);
  const std::vector<double> expected = losses_of(once);
  CHECK(expected.size() == 6);

  // Checkpoints change nothing.
  training_options cut = small_training(folder, "cut");
  cut.checkpoint_steps = 2;
  REQUIRE(train(cut) == outcome::finished);
  CHECK(losses_of(cut) == expected);
  CHECK(contains(error_of([&] { train(cut); }), "there is already a training"));

  // Asked to stop as soon as a step has been reported, training ends within an epoch or after one.
  // In both cases, the two parts equal the whole.
  training_options halves = small_training(folder, "halves");
  std::filesystem::create_directories(halves.folder);
  std::thread watcher([&] {
    while (events(halves, "step").empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop_training();
  });
  REQUIRE(train(halves) == outcome::interrupted);
  watcher.join();
  CHECK(losses_of(halves).size() < expected.size());
  halves.resume = true;
  REQUIRE(train(halves) == outcome::finished);
  CHECK(losses_of(halves) == expected);

  const std::string one = folder / "Annotations/shapes_0.xml";
  const std::string before = test::read_bytes(one);
  test::write_bytes(one, "<annotation/>");
  CHECK(contains(error_of([&] { train(halves); }),
                 "checkpoint.pt: --resume continues with the "
                 "options of the checkpoint: --train is 12 "));
  test::write_bytes(one, before);
  halves = small_training(folder, "halves");
  halves.resume = true;
  for (int i = 0; i < 16; ++i) {
    const std::string xml = folder / ("Annotations/shapes_" + std::to_string(i) + ".xml");
    std::ifstream in(xml);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::size_t at; (at = text.find("disc")) != std::string::npos;)
      text.replace(at, 4, "ring");
    std::ofstream(xml) << text;
  }
  CHECK(contains(error_of([&] { train(halves); }), "the checkpoint has another list of classes: "));
}

TEST_CASE("training: every option that changes it must be the checkpoint's to resume") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 16);
  training_options begun = small_training(folder, "run");
  begun.epochs = 1;
  begun.optimiser.schedule = schedule_kind::steps;
  begun.optimiser.drops = {4e-5, 0.5};
  REQUIRE(train(begun) == outcome::finished);
  begun.resume = true;
  const std::string log = begun.folder + "/log.jsonl", checkpoint = begun.folder + "/checkpoint.pt";
  const std::string logged = test::read_bytes(log), saved = test::read_bytes(checkpoint);
  const struct {
    const char* expected;
    std::function<void(training_options&)> change;
  } changes[] = {
      {"--loss is torch, expected vecdet", [](auto& o) { o.loss = loss_kind::torch; }},
      {"--convolutions is torch, expected vecdet",
       [](auto& o) { o.convolutions = convolution_kind::torch; }},
      {"--epochs is 2, expected 1", [](auto& o) { o.epochs = 2; }},
      {"--batch is 3 in all processes, expected 4 in all processes",
       [](auto& o) { o.loading.batch_size = 3; }},
      {"--seed is 1, expected 0", [](auto& o) { o.loading.seed = 1; }},
      {"--backbone is resnet50, expected resnet18",
       [](auto& o) { o.model.backbone = backbone_kind::resnet50; }},
      {"--norm is frozen, expected group", [](auto& o) { o.model.norm = norm_kind::frozen; }},
      {"--channels is 64, expected 32", [](auto& o) { o.model.channels = 64; }},
      {"--anchor-size is 16.0000001, expected 16.0",
       [](auto& o) { o.model.anchor_size = 16.0000001; }},
      {"prior is 0.05, expected 0.01", [](auto& o) { o.model.prior = 0.05; }},
      {"frozen stages is 1, expected 0", [](auto& o) { o.model.frozen_stages = 1; }},
      {"--optimiser is sgd, expected adamw",
       [](auto& o) { o.optimiser.optimiser = optimiser_kind::sgd; }},
      {"--rate is 0.001000001, expected 0.001", [](auto& o) { o.optimiser.rate = 0.001000001; }},
      {"--weight-decay is 0.0, expected 0.0001", [](auto& o) { o.optimiser.weight_decay = 0; }},
      {"--momentum is 0.5, expected 0.9", [](auto& o) { o.optimiser.momentum = 0.5; }},
      {"--warmup is 6, expected 5", [](auto& o) { o.optimiser.warmup_steps = 6; }},
      {"--schedule is cosine, expected steps",
       [](auto& o) { o.optimiser.schedule = schedule_kind::cosine; }},
      {"--drops is 4e-06 0.5, expected 4e-05 0.5",
       [](auto& o) {
         o.optimiser.drops = {4e-6, 0.5};
       }},
      {"--size is 96 128, expected 96 96", [](auto& o) { o.loading.canvas.height = 128; }},
      {"--hflip is 0.0, expected 0.5", [](auto& o) { o.loading.changes.horizontal_flip = 0; }},
      {"--vflip is 0.1, expected 0.0", [](auto& o) { o.loading.changes.vertical_flip = 0.1; }},
      {"--scales is 0.5 1.0, expected 1.0 1.0",
       [](auto& o) { o.loading.changes.smallest_scale = 0.5; }},
      {"--bfloat16 is on, expected off", [](auto& o) { o.precision.bfloat16 = true; }},
      {"--channels-last is on, expected off", [](auto& o) { o.precision.channels_last = true; }},
      {"--test is none, expected 4 pictures ", [](auto& o) { o.test.annotations.clear(); }},
  };
  const auto error_with = [&](const training_options& changed) {
    const std::string error = error_of([&] { train(changed); });
    CHECK(
        contains(error, checkpoint + ": --resume continues with the options of the checkpoint: "));
    CHECK(test::read_bytes(checkpoint) == saved);
    CHECK(test::read_bytes(log) == logged);
    return error;
  };
  // The message has each option that differs.
  training_options changed = begun;
  for (const auto& each : changes) each.change(changed);
  const std::string error = error_with(changed);
  for (const auto& each : changes) {
    CAPTURE(each.expected);
    CHECK(contains(error, each.expected));
  }
  CHECK(std::count(error.begin(), error.end(), ';') + 1 ==
        static_cast<std::ptrdiff_t>(std::size(changes)));
  changed = begun;
  changed.optimiser.drops = {4e-5};
  CHECK(error_with(changed) == checkpoint +
                                   ": --resume continues with the options of the "
                                   "checkpoint: --drops is 4e-05, expected 4e-05 0.5");
  // The others do not change the weights.
  begun.loading.threads = 1;
  begun.evaluate_every = 3;
  begun.checkpoint_steps = 1;
  begun.target_ap50 = 1;
  CHECK(train(begun) == outcome::finished);
}

TEST_CASE("training: a line that was torn by a kill or a full disk spoils no other") {
  const test::temporary_folder folder;
  const std::string file = folder / "log.jsonl";
  const std::string first = "{\"event\":\"step\",\"step\":1}\n";
  const auto after = [&](const std::string& before, std::int64_t cut) {
    test::write_bytes(file, before);
    {
      json_lines lines(file);
      CHECK(lines.cut() == cut);
      lines.write({{"event", "step"}, {"step", 2}});
    }
    return test::read_bytes(file);
  };
  const std::string second = "{\"event\":\"step\",\"step\":2}\n";
  CHECK(after("", 0) == second);
  CHECK(after(first, 0) == first + second);
  CHECK(after(first + "{\"event\":\"st", 12) == first + second);
  CHECK(after("{\"event\":\"st", 12) == second);
  const std::string whole = first.substr(0, first.size() - 1);  // without its end
  CHECK(after(whole, 0) == first + second);
  CHECK(after(first + whole, 0) == first + first + second);
  CHECK(after(first + std::string(5, '\0'), 5) == first + second);
  test::write_bytes(file, "my notes");
  CHECK(
      contains(error_of([&] { json_lines lines(file); }), "log.jsonl: its last line is not JSON"));
  CHECK(test::read_bytes(file) == "my notes");
  const std::string large = "{\"text\": \"" + std::string(100'000, 'x');
  CHECK(after(first + large, static_cast<std::int64_t>(large.size())) == first + second);

  // A disk that becomes full within a line, for this process.
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  test::write_bytes(file, first);
  std::signal(SIGXFSZ, SIG_IGN);
  std::string error;
  {
    run_log log(file, true);
    struct rlimit full = before;
    full.rlim_cur = first.size() + 10;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
    error = error_of([&] { log.write({{"event", "step"}, {"step", 2}}); });
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(test::read_bytes(file) == first);
    log.write({{"event", "step"}, {"step", 2}});
  }
  CHECK(contains(error, "log.jsonl: cannot be written: File too large"));
  CHECK(test::read_bytes(file) == first + second);

  // A training goes on after it.
  test::write_shapes(folder, 16);
  training_options options = small_training(folder, "run");
  options.epochs = 1;
  REQUIRE(train(options) == outcome::finished);
  std::ofstream(options.folder + "/log.jsonl", std::ios::app) << "{\"event\":\"st";
  options.resume = true;
  REQUIRE(train(options) == outcome::finished);
  CHECK(events(options, "resume").size() == 1);  // each line is parsed
}

TEST_CASE("training: a picture of another size than its annotation states is skipped") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 16);
  const std::string xml = folder / "Annotations/shapes_2.xml";
  std::string text = test::read_bytes(xml);
  text.insert(text.find("<object>"), "<size><width>192</width><height>192</height></size>");
  test::write_bytes(xml, text);
  training_options options = small_training(folder, "sizes");
  options.epochs = 1;
  REQUIRE(train(options) == outcome::finished);
  const std::vector<json> broken = events(options, "broken");
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].at("reason") ==
        (folder / "JPEGImages/shapes_2.png") +
            ": the picture has 96 x 96 pixels, its annotation states 192 x 192");
}

TEST_CASE("training: a broken picture is reported once, skipped and counted") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 16);
  std::ofstream(folder / "JPEGImages/shapes_1.png") << "no picture";
  const std::string twelve_bytes("\x78\x9c\x63\x60\x60\x60\x00\x00\x00\x04\x00\x01", 12);
  test::write_bytes(folder / "JPEGImages/shapes_2.png",
                    test::png_of(200'000, 200'000, twelve_bytes));
  // An invalid box is reported as well.
  const std::string xml = folder / "Annotations/shapes_4.xml";
  std::string text = test::read_bytes(xml);
  text.replace(text.find("<xmin>"), 6, "<xmin>x");
  test::write_bytes(xml, text);
  const training_options options = small_training(folder, "broken");
  REQUIRE(train(options) == outcome::finished);
  const std::vector<json> broken = events(options, "broken");
  REQUIRE(broken.size() == 2);
  for (const json& event : broken) {
    const bool is_first = event.at("file") == folder / "JPEGImages/shapes_1.png";
    CHECK((is_first || event.at("file") == folder / "JPEGImages/shapes_2.png"));
    CHECK(contains(event.at("reason"), is_first ? "no JPEG or PNG" : "200000 x 200000 pixels"));
  }
  const std::vector<json> dropped = events(options, "dropped");
  REQUIRE(dropped.size() == 1);
  CHECK(contains(dropped[0].at("reason"), "shapes_4.xml: <xmin> is \"x"));
  CHECK(events(options, "start").back().at("boxes_dropped") == 1);
  CHECK(events(options, "end").back().at("broken_pictures") == 2);
  CHECK(losses_of(options).size() == 6);  // as many steps as without them
}

TEST_CASE("training: paths that are not UTF-8 do not stop training") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 16);
  std::ofstream(folder / "JPEGImages/shapes_1.png") << "no picture";
  std::filesystem::create_directories(folder / "\xe4");
  for (const char* part : {"Annotations", "JPEGImages", "ImageSets"})
    std::filesystem::rename(folder / part, folder / (std::string("\xe4/") + part));
  training_options options = small_training(folder, "latin");
  options.train.annotations = folder / "\xe4/ImageSets/Main/train.txt";
  options.test.annotations = "";
  options.epochs = 1;
  REQUIRE(train(options) == outcome::finished);
  CHECK(
      contains(events(options, "broken").at(0).at("file"), "\xef\xbf\xbd/JPEGImages/shapes_1.png"));
}

TEST_CASE("training: an error if files cannot be written") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 16);
  std::ofstream(folder / "file") << "no folder";
  const training_options options = small_training(folder, "file/run");
  CHECK(
      contains(error_of([&] { train(options); }), "file/run: cannot be created: Not a directory"));
  run_log full("/dev/full");
  CHECK(error_of([&] {
          full.write({{"event", "step"}});
        }) == "/dev/full: cannot be written: No space left on device");
}

TEST_CASE("training: a NaN loss ends the training and keeps the last good weights") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 16);
  training_options options = small_training(folder, "diverges");
  options.optimiser.rate = 1e18;
  options.optimiser.warmup_steps = 0;
  options.epochs = 20;
  options.evaluate_every = 20;
  REQUIRE(train(options) == outcome::diverged);
  CHECK(events(options, "end").back().at("outcome") == "diverged");
  const std::string file = options.folder + "/checkpoint.pt";
  if (std::filesystem::exists(file))
    for (const at::Tensor& weight : load_checkpoint(file).model->parameters())
      CHECK(at::isfinite(weight).all().item<bool>());
}

TEST_CASE("checkpoints: complete or absent, and errors that name the file") {
  const test::temporary_folder folder;
  checkpoint content;
  model_config config;
  config.channels = 16;
  config.classes = 2;
  content.model = std::make_shared<retinanet>(config);
  content.classes = {"a", "b"};
  content.canvas = {64, 32};
  content.state.step = 7;
  const std::string file = folder / "model.pt";
  const auto optimiser = make_optimiser(*content.model, {});
  save_checkpoint(file, content, optimiser.get());
  const auto size = std::filesystem::file_size(file);

  // Simulates a full disk for this process.
  content.state.step = 8;
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit full = before;
  full.rlim_cur = size / 2;
  std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
  const std::string error = error_of([&] { save_checkpoint(file, content, optimiser.get()); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(contains(error, "model.pt: the checkpoint cannot be written: "));
  CHECK_FALSE(std::filesystem::exists(file + ".unfinished"));

  const checkpoint read = load_checkpoint(file);
  CHECK(read.state.step == 7);
  CHECK(read.classes == content.classes);
  CHECK(read.canvas.width == 64);
  const auto expected = content.model->parameters(), found = read.model->parameters();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(at::equal(found[i], expected[i]));

  CHECK(contains(error_of([&] { load_checkpoint(folder / "no.pt"); }), "no such checkpoint"));
  std::filesystem::resize_file(file, size / 2);
  CHECK(contains(error_of([&] { load_checkpoint(file); }),
                 "model.pt: not a checkpoint, or a corrupt"));
}

TEST_CASE("checkpoints: mismatches are refused") {
  const test::temporary_folder folder;
  checkpoint content;
  model_config config;
  config.channels = 16;
  config.classes = 2;
  content.model = std::make_shared<retinanet>(config);
  content.canvas = {64, 32};
  const std::string file = folder / "model.pt";
  const auto error = [&] {
    save_checkpoint(file, content, nullptr);
    return error_of([&] { load_checkpoint(file); });
  };
  content.classes = {"a"};
  CHECK(contains(error(), "it names 1 classes, expected 2, the number of its model"));
  content.classes = {"a", "b", "c"};
  CHECK(contains(error(), "it names 3 classes, expected 2"));
  content.classes = {"a", "b"};
  content.canvas.width = -1;
  CHECK(contains(error(), R"("width" is -1, expected a number from 1 to 16384)"));
  content.canvas.width = 64;
  content.state.step = -5;
  CHECK(contains(error(), R"("step" is -5, expected)"));
  content.state.step = 0;
  CHECK(error().empty());

  // An unfinished file that is a link is replaced, not followed.
  test::write_bytes(folder / "other", "precious");
  std::filesystem::create_symlink(folder / "other", file + ".unfinished");
  save_checkpoint(file, content, nullptr);
  CHECK(test::read_bytes(folder / "other") == "precious");
  CHECK(load_checkpoint(file).classes == content.classes);
}

TEST_CASE("drawing: no picture or copy overwrites another") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 2);
  checkpoint content;
  model_config config;
  config.channels = 16;
  config.classes = 2;
  content.model = std::make_shared<retinanet>(config);
  content.classes = {"disc", "square"};
  content.canvas = {64, 64};
  const std::string file = folder / "model.pt";
  save_checkpoint(file, content, nullptr);
  const std::string first = folder / "JPEGImages/shapes_0.png";
  const std::string before = test::read_bytes(first);
  drawing_options options;
  options.checkpoint = file;
  options.pictures = {first};
  const auto error = [&] { return error_of([&] { draw_detections(options); }); };

  options.folder = folder / "JPEGImages/../JPEGImages";
  CHECK(contains(error(), ", the folder of " + first + "; expected another"));
  std::filesystem::create_directory_symlink(folder / "JPEGImages", folder / "link");
  options.folder = folder / "link";
  CHECK(contains(error(), ", the folder of " + first));
  options.folder = folder / "drawn";
  std::filesystem::create_directories(options.folder);
  std::filesystem::create_symlink(first, folder / "drawn/shapes_0.png");
  CHECK(contains(error(), "shapes_0.png leads to the picture " + first));
  std::filesystem::remove(folder / "drawn/shapes_0.png");
  CHECK(test::read_bytes(first) == before);

  std::filesystem::create_directories(folder / "more");
  std::filesystem::copy_file(first, folder / "more/shapes_0.jpg");
  options.pictures.push_back(folder / "more/shapes_0.jpg");
  CHECK(contains(error(), "would both be drawn into " + (folder / "drawn/shapes_0.png")));
  CHECK_FALSE(std::filesystem::exists(folder / "drawn/shapes_0.png"));
  options.pictures.pop_back();
  const std::string twelve_bytes("\x78\x9c\x63\x60\x60\x60\x00\x00\x00\x04\x00\x01", 12);
  test::write_bytes(folder / "more/huge.png", test::png_of(200'000, 200'000, twelve_bytes));
  options.pictures.push_back(folder / "more/huge.png");
  CHECK(draw_detections(options) == 1);  // skipped
  CHECK(std::filesystem::exists(folder / "drawn/shapes_0.png"));
}

// The small case of the quality target: a minute on one core.
TEST_CASE("training: reaches a target from scratch") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 64);
  training_options options = small_training(folder, "target");
  options.epochs = 12;
  options.evaluate_every = 2;
  options.target_ap50 = 0.6;
  CHECK(train(options) == outcome::target_reached);
  // Evaluating the checkpoint gives the training's result.
  const checkpoint best = load_checkpoint(options.folder + "/best.pt");
  const dataset data = read_dataset(options.test, best.classes);
  loader_params params = options.loading;
  params.batch_size = 3;  // other batches, the same pictures
  process_group alone;
  const evaluation result = evaluate(*best.model, data, params, {}, alone);
  CHECK(
      result.precision.ap50 ==
      doctest::Approx(events(options, "evaluation").back().at("ap50").get<double>()).epsilon(0.02));
}

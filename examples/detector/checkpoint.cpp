// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include "descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include <ATen/ATen.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <torch/serialize.h>
#include <unistd.h>

namespace detector {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* format = "vecdet detector 1";

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw std::runtime_error(file + ": " + what);
}

void write_whole(const std::string& file, const std::string& bytes) {
  const std::string unfinished = file + ".unfinished";
  const auto give_up = [&] {
    const std::string reason = std::strerror(errno);
    ::unlink(unfinished.c_str());
    fail(file, "the checkpoint cannot be written: " + reason);
  };
  {
    // The file may be left over from a killed run or belong to somebody else. It is replaced by a
    // new file, without following a link.
    ::unlink(unfinished.c_str());
    const descriptor out(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC);
    if (!out.is_open() || !out.write(bytes.data(), bytes.size()) || !out.sync()) give_up();
  }
  if (std::rename(unfinished.c_str(), file.c_str()) != 0) give_up();
  // The new directory entry must reach the disk as well.
  const std::string folder = fs::absolute(file).parent_path().string();
  const descriptor directory(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory.is_open()) directory.sync();
}

json description_of(const checkpoint& content) {
  const model_config& model = content.model->config();
  const training_state& state = content.state;
  json settings = json::array();
  for (const setting& each : state.settings) settings.push_back({each.option, each.value});
  return {{"format", format},
          {"model",
           {{"backbone", name_of(model.backbone)},
            {"norm", name_of(model.norm)},
            {"channels", model.channels},
            {"classes", model.classes},
            {"anchor_size", model.anchor_size},
            {"prior", model.prior},
            {"frozen_stages", model.frozen_stages}}},
          {"classes", content.classes},
          {"canvas", {content.canvas.width, content.canvas.height}},
          {"state",
           {{"epoch", state.epoch},
            {"step_of_epoch", state.step_of_epoch},
            {"step", state.step},
            {"seconds", state.seconds},
            {"best_ap", state.best_ap},
            {"settings", settings}}}};
}

/// Reads a number from a file that may contain anything.
template <class T>
T number(const json& parent, const char* key, T least, T most) {
  const json& value = parent.at(key);
  const bool is_of_kind =
      std::is_integral<T>::value ? value.is_number_integer() : value.is_number();
  const double found = is_of_kind ? value.get<double>() : 0;
  if (!is_of_kind || !(found >= static_cast<double>(least) && found <= static_cast<double>(most))) {
    std::ostringstream message;
    message << "\"" << key << "\" is " << value.dump() << ", expected a number from " << least
            << " to " << most;
    throw std::out_of_range(message.str());
  }
  return value.get<T>();
}

template <class Kind>
Kind kind_named(const json& parent, const char* key, std::initializer_list<Kind> kinds) {
  const std::string name = parent.at(key).get<std::string>();
  for (const Kind kind : kinds)
    if (name == name_of(kind)) return kind;
  throw std::out_of_range(std::string("\"") + key + "\" is \"" + name + "\", which is unknown");
}

constexpr std::int64_t most_steps = std::int64_t{1} << 53;

model_config config_of(const json& model) {
  model_config config;
  config.backbone = kind_named(
      model, "backbone",
      {backbone_kind::resnet18, backbone_kind::resnet50, backbone_kind::resnext50_32x4d});
  config.norm = kind_named(model, "norm", {norm_kind::frozen, norm_kind::group});
  config.channels = number<std::int64_t>(model, "channels", 1, 1 << 14);
  config.classes = number<std::int64_t>(model, "classes", 1, 1 << 20);
  config.anchor_size = number(model, "anchor_size", 1e-3, 1e6);
  config.prior = number(model, "prior", 1e-9, 1 - 1e-9);
  config.frozen_stages = number<std::int64_t>(model, "frozen_stages", 0, 5);
  return config;
}

/// The file's contents except the weights.
checkpoint described_by(const json& description) {
  checkpoint content;
  content.classes = description.at("classes").get<std::vector<std::string>>();
  const std::int64_t outputs = config_of(description.at("model")).classes;
  if (static_cast<std::int64_t>(content.classes.size()) != outputs)
    throw std::out_of_range("it names " + std::to_string(content.classes.size()) +
                            " classes, expected " + std::to_string(outputs) +
                            ", the number of its model");
  const json canvas = {{"width", description.at("canvas").at(0)},
                       {"height", description.at("canvas").at(1)}};
  content.canvas = {number(canvas, "width", 1, 1 << 14), number(canvas, "height", 1, 1 << 14)};
  const json& state = description.at("state");
  content.state.epoch = number<std::int64_t>(state, "epoch", 0, most_steps);
  content.state.step_of_epoch = number<std::int64_t>(state, "step_of_epoch", 0, most_steps);
  content.state.step = number<std::int64_t>(state, "step", 0, most_steps);
  content.state.seconds = number(state, "seconds", 0.0, 1e12);
  content.state.best_ap = number(state, "best_ap", -1.0, 1.0);
  // Those of version 0.2 have none. They can be evaluated, but not resumed.
  if (state.contains("settings"))
    for (const json& each : state.at("settings"))
      content.state.settings.push_back(
          {each.at(0).get<std::string>(), each.at(1).get<std::string>()});
  return content;
}

/// Calls use(archive, description) and rethrows libtorch's errors as errors of the file.
template <class Use>
void read(const std::string& file, const Use& use) {
  if (!fs::exists(file)) fail(file, "no such checkpoint");
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(file);
    c10::IValue text;
    archive.read("description", text);
    const json description = json::parse(text.toStringRef());
    if (description.at("format") != format)
      fail(file, "this checkpoint has another format version");
    use(archive, description);
  } catch (const c10::Error& error) {
    fail(file,
         "not a checkpoint, or a corrupt one: " + std::string(error.what_without_backtrace()));
  } catch (const json::exception& error) {
    fail(file, "not a checkpoint, or a corrupt one: " + std::string(error.what()));
  } catch (const std::out_of_range& error) {
    fail(file, "corrupt checkpoint: " + std::string(error.what()));
  }
}

/// Throws unless both trainings have the same settings.
void check_settings(const std::string& file, const std::vector<setting>& theirs,
                    const std::vector<setting>& ours) {
  if (theirs.empty())
    fail(file,
         "the checkpoint does not contain the options of its training, expected one written "
         "by this version; it can be evaluated, but not resumed");
  std::string differences;
  for (const setting& own : ours) {
    const auto at = std::find_if(theirs.begin(), theirs.end(),
                                 [&](const setting& other) { return other.option == own.option; });
    if (at != theirs.end() && at->value == own.value) continue;
    differences += (differences.empty() ? "" : "; ") + own.option + " is " + own.value +
                   ", expected " + (at == theirs.end() ? "none" : at->value);
  }
  if (!differences.empty())
    fail(file, "--resume continues with the options of the checkpoint: " + differences);
}

}  // namespace

void save_checkpoint(const std::string& file, const checkpoint& content,
                     const torch::optim::Optimizer* optimiser) {
  torch::serialize::OutputArchive archive, model, training;
  archive.write("description", c10::IValue(description_of(content).dump()));
  content.model->save(model);
  archive.write("model", model);
  if (optimiser != nullptr) {
    optimiser->save(training);
    archive.write("optimiser", training);
  }
  std::ostringstream bytes;
  archive.save_to(bytes);
  write_whole(file, bytes.str());
}

checkpoint load_checkpoint(const std::string& file) {
  checkpoint content;
  read(file, [&](torch::serialize::InputArchive& archive, const json& description) {
    content = described_by(description);
    content.model = std::make_shared<retinanet>(config_of(description.at("model")));
    torch::serialize::InputArchive model;
    archive.read("model", model);
    content.model->load(model);
  });
  return content;
}

void resume(const std::string& file, checkpoint& content, torch::optim::Optimizer& optimiser) {
  read(file, [&](torch::serialize::InputArchive& archive, const json& description) {
    const checkpoint found = described_by(description);
    const std::string theirs = json(found.classes).dump(), ours = json(content.classes).dump();
    if (theirs != ours)
      fail(file, "the checkpoint has another list of classes: " + theirs + "; expected " + ours);
    check_settings(file, found.state.settings, content.state.settings);
    torch::serialize::InputArchive model, training;
    archive.read("model", model);
    if (!archive.try_read("optimiser", training))
      fail(file, "the checkpoint does not contain the optimiser's state");
    content.model->load(model);
    optimiser.load(training);
    content.state = found.state;
  });
}

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"

#include "checkpoint.hpp"
#include "data_parallel.hpp"
#include "dataset.hpp"
#include "evaluation.hpp"
#include "losses.hpp"
#include "optimisation.hpp"
#include "run_log.hpp"
#include <vecdet/keep_memory.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace detector {
namespace {

std::atomic<bool> is_to_stop{false};

/// FNV-1a.
class byte_hash {
 public:
  void add(const void* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      value_ = (value_ ^ static_cast<const unsigned char*>(bytes)[i]) * 1099511628211u;
  }
  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

/// Identifies a data set independently of its location: a hash of picture names, boxes and labels.
std::string digest_of(const dataset& data) {
  byte_hash hash;
  for (const annotated_picture& picture : data.pictures) {
    const std::string name = std::filesystem::path(picture.file).filename().string();
    hash.add(name.c_str(), name.size() + 1);
    for (const object& found : picture.objects) {
      hash.add(found.corners.data(), sizeof found.corners);
      hash.add(&found.label, sizeof found.label);
      hash.add(&found.crowd, sizeof found.crowd);
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash.value());
  return text;
}

/// The shortest text that gives the same number.
std::string text_of(double number) { return nlohmann::json(number).dump(); }

/// Everything that affects training beyond rounding, by option; data by its contents. The number of
/// threads, and that of processes with the same global batch, change only the rounding.
std::vector<setting> settings_of(const training_options& options, const model_config& model,
                                 const dataset& data, const dataset& test) {
  const loader_params& loading = options.loading;
  const augmentation& changes = loading.changes;
  const optimisation& optimiser = options.optimiser;
  constexpr const char* schedules[] = {"constant", "cosine", "steps"};
  std::string drops;
  for (const double drop : optimiser.drops) drops += (drops.empty() ? "" : " ") + text_of(drop);
  const bool averages = options.average_steps > 1 && loading.ranks > 1;
  const auto contents = [](const dataset& of) {
    return std::to_string(of.pictures.size()) + " pictures " + digest_of(of);
  };
  return {
      {"--loss", name_of(options.loss)},
      {"--convolutions", name_of(options.convolutions)},
      {"--epochs", std::to_string(options.epochs)},
      {"--batch", std::to_string(loading.batch_size * loading.ranks) + " in all processes"},
      {"--seed", std::to_string(loading.seed)},
      {"--backbone", name_of(model.backbone)},
      {"--norm", name_of(model.norm)},
      {"--channels", std::to_string(model.channels)},
      {"--anchor-size", text_of(model.anchor_size)},
      {"prior", text_of(model.prior)},
      {"frozen stages", std::to_string(model.frozen_stages)},
      {"--optimiser", optimiser.optimiser == optimiser_kind::sgd ? "sgd" : "adamw"},
      {"--rate", text_of(optimiser.rate)},
      {"--weight-decay", text_of(optimiser.weight_decay)},
      {"--momentum", text_of(optimiser.momentum)},
      {"--warmup", std::to_string(optimiser.warmup_steps)},
      {"--schedule", schedules[static_cast<std::size_t>(optimiser.schedule)]},
      {"--drops", drops},
      {"--size",
       std::to_string(loading.canvas.width) + " " + std::to_string(loading.canvas.height)},
      {"--hflip", text_of(changes.horizontal_flip)},
      {"--vflip", text_of(changes.vertical_flip)},
      {"--scales", text_of(changes.smallest_scale) + " " + text_of(changes.largest_scale)},
      {"--bfloat16", options.precision.bfloat16 ? "on" : "off"},
      {"--channels-last", options.precision.channels_last ? "on" : "off"},
      {"--average-steps", averages ? std::to_string(options.average_steps) + " of " +
                                         std::to_string(loading.ranks) + " processes"
                                   : "1"},
      {"--train", contents(data)},
      // The best AP so far is that of the test set.
      {"--test", test.pictures.empty() ? "none" : contents(test)},
  };
}

/// "loss vecdet, convolutions vecdet, epochs 14, ..."
std::string recipe_of(const std::vector<setting>& settings) {
  std::string line;
  for (const setting& each : settings) {
    const std::size_t first = each.option.find_first_not_of('-');
    line += (line.empty() ? "" : ", ") + each.option.substr(first) + " " + each.value;
  }
  return line;
}

bool all_finite(torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& weight : model.parameters())
    if (!at::isfinite(weight).all().item<bool>()) return false;
  return true;
}

class training {
 public:
  explicit training(const training_options& options)
      : options_(options),
        processes_(options.average_steps),
        train_(read_dataset(options.train)),
        log_(make_log(options.folder, processes_)) {
    if (!options.test.annotations.empty()) test_ = read_dataset(options.test, train_.classes);
    model_config config = options.model;
    config.classes = static_cast<std::int64_t>(train_.classes.size());
    at::manual_seed(options.loading.seed);
    now_.model = std::make_shared<retinanet>(config);
    now_.model->convolve_by(options.convolutions);
    if (options.precision.channels_last) use_channels_last(*now_.model);
    now_.classes = train_.classes;
    now_.canvas = options.loading.canvas;
    optimiser_ = make_optimiser(*now_.model, options.optimiser);
    criterion_ = std::make_unique<criterion>(options.loss, now_.model->anchor_shapes());
    options_.loading.rank = processes_.rank();
    options_.loading.ranks = processes_.size();
    now_.state.settings = settings_of(options_, config, train_, test_);
    check_ranks();
    const std::string file = latest();
    if (options.resume)
      resume(file, now_, *optimiser_);
    else if (std::filesystem::exists(file))
      throw std::runtime_error(file +
                               ": there is already a training; pass --resume to continue it");
    check_steps(file);
    std::vector<at::Tensor> trained;
    for (const at::Tensor& weight : now_.model->parameters())
      if (weight.requires_grad()) trained.push_back(weight);
    processes_.copy_from_rank_0(trained);
    if (!averages_weights()) processes_.share_gradients(trained);
  }

  outcome run() {
    introduce();
    training_state& state = now_.state;
    while (state.epoch < options_.epochs) {
      const outcome ended = run_epoch();
      if (ended != outcome::finished) return finish(ended);
      ++state.epoch;
      state.step_of_epoch = 0;
      const bool is_due =
          state.epoch % options_.evaluate_every == 0 || state.epoch == options_.epochs;
      const bool is_good = test_.pictures.empty() || !is_due ? false : evaluate_now();
      save(latest());
      if (is_good) return finish(outcome::target_reached);
    }
    return finish(outcome::finished);
  }

 private:
  /// Only rank 0 writes files and prints.
  static run_log make_log(const std::string& folder, const process_group& processes) {
    if (processes.rank() > 0) return run_log("", true);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw std::runtime_error(folder + ": cannot be created: " + error.message());
    return run_log(folder + "/log.jsonl");
  }

  /// Throws unless all processes have the same settings, and evaluate and end together.
  void check_ranks() {
    if (processes_.size() == 1) return;
    std::vector<setting> own = now_.state.settings;
    own.push_back({"--evaluate-every", std::to_string(options_.evaluate_every)});
    own.push_back({"--target-ap50", text_of(options_.target_ap50)});
    std::vector<double> hashes;  // a double holds 32 bits
    for (const setting& each : own) {
      byte_hash hash;
      hash.add(each.value.data(), each.value.size());
      hashes.push_back(static_cast<double>(hash.value() & 0xffffffff));
    }
    const std::vector<double> all = processes_.joined(hashes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == all[i % own.size()]) continue;
      const setting& differing = own[i % own.size()];
      throw std::runtime_error(differing.option + " is " + differing.value + " in process " +
                               std::to_string(processes_.rank()) + ", but process " +
                               std::to_string(i / own.size()) +
                               " has another value than process 0; expected the same in all");
    }
  }

  /// Throws unless all processes continue after the same step.
  void check_steps(const std::string& file) {
    const std::vector<double> steps = processes_.joined({static_cast<double>(now_.state.step)});
    const auto step_of = [&](std::size_t rank) {
      return std::to_string(static_cast<std::int64_t>(steps[rank]));
    };
    for (std::size_t r = 0; r < steps.size(); ++r) {
      if (steps[r] == steps[0]) continue;
      throw std::runtime_error(
          file + ": process " + std::to_string(r) + " has the checkpoint of step " + step_of(r) +
          ", process 0 that of step " + step_of(0) + "; expected the same in all");
    }
  }

  /// Whether processes step on their own gradients. Otherwise they share them.
  bool averages_weights() const { return options_.average_steps > 1 && processes_.size() > 1; }
  std::string latest() const { return options_.folder + "/checkpoint.pt"; }
  double seconds() const { return before_ + watch_.seconds(); }

  void introduce() {
    before_ = now_.state.seconds;
    first_step_ = now_.state.step;
    std::int64_t weights = 0;
    for (const at::Tensor& weight : now_.model->parameters()) weights += weight.numel();
    std::ostringstream text;
    text << train_.pictures.size() << " pictures with " << train_.boxes << " boxes ("
         << train_.dropped.size() << " left out), " << test_.pictures.size() << " to evaluate; "
         << now_.model->config().text() << ", " << weights << " weights";
    log_.say(text.str());
    if (now_.state.step > 0) log_.say("continuing after step " + std::to_string(now_.state.step));
    nlohmann::json event{{"event", now_.state.step > 0 ? "resume" : "start"},
                         {"step", now_.state.step},
                         {"seconds", seconds()},
                         {"recipe", recipe_of(now_.state.settings)},
                         {"model", now_.model->config().text()},
                         {"weights", weights},
                         {"threads", at::get_num_threads()},
                         {"ranks", processes_.size()},
                         {"average_steps", options_.average_steps},
                         {"pictures", train_.pictures.size()},
                         {"boxes", train_.boxes},
                         {"boxes_dropped", train_.dropped.size()}};
    if (processes_.size() > 1) event["average_bytes"] = average_bytes();
    for (const shared_bucket& of : processes_.buckets()) event["bucket_bytes"].push_back(of.bytes);
    for (const timed_message& message : processes_.time_messages())
      event["all_reduce"].push_back({message.bytes, message.seconds});
    log_.write(event);
    note_dropped(train_);
    note_dropped(test_);
  }

  /// The bytes of a message that averages weights and the optimiser's state.
  std::int64_t average_bytes() const {
    std::int64_t bytes = 0;
    for (const at::Tensor& weight : now_.model->parameters())
      if (weight.requires_grad())
        bytes += weight.numel() * static_cast<std::int64_t>(weight.element_size());
    return bytes * (1 + state_tensors(options_.optimiser));
  }

  /// Reports the boxes that are left out: all of them in the log, the first on the terminal.
  void note_dropped(const dataset& data) {
    constexpr std::size_t most_told = 10;
    for (std::size_t i = 0; i < data.dropped.size(); ++i) {
      if (i < most_told) log_.say("box left out: " + data.dropped[i]);
      log_.write({{"event", "dropped"}, {"reason", data.dropped[i]}});
    }
    if (data.dropped.size() > most_told)
      log_.say("boxes left out: " + std::to_string(data.dropped.size() - most_told) +
               " more, listed in log.jsonl");
  }

  outcome run_epoch() {
    training_state& state = now_.state;
    loader batches(train_, options_.loading, static_cast<std::uint64_t>(state.epoch),
                   static_cast<std::size_t>(state.step_of_epoch));
    const auto steps = static_cast<std::int64_t>(batches.batches());
    while (state.step_of_epoch < steps) {
      VECDET_PROFILE_SCOPE("step");
      const stopwatch step_watch;
      const batch pictures = [&] {
        VECDET_PROFILE_SCOPE("pictures");
        return batches.next();
      }();
      const double waited = step_watch.seconds();
      // The average was computed while pictures were loaded.
      const outcome averaged = end_window();
      if (averaged != outcome::finished) return averaged;
      const stopwatch compute_watch;
      note_broken(train_, pictures.broken);
      const double rate = options_.optimiser.rate_at(state.step, steps * options_.epochs);
      const loss_values losses = compute_step(pictures, rate);
      if (!averages_weights() && !std::isfinite(losses.classification + losses.regression))
        return diverged(state.step + 1, losses);
      ++state.step;
      ++state.step_of_epoch;
      window_.push_back(event_of(losses, rate, waited + compute_watch.seconds(), waited));
      show_progress(losses, steps);
      if (averages_weights()) {
        if (state.step_of_epoch % options_.average_steps == 0 || state.step_of_epoch == steps)
          begin_average();
        continue;
      }
      const outcome ended = write_window();
      if (ended != outcome::finished) return ended;
    }
    return end_window();
  }

  /// The losses are the means of all processes if these share gradients. If they are not finite,
  /// nothing else is computed.
  loss_values compute_step(const batch& pictures, double rate) {
    batch_truth truth;
    for (const drawn_picture& drawn : pictures.pictures) truth.add_image(drawn.objects);
    set_rate(*optimiser_, rate);
    optimiser_->zero_grad();
    waited_before_ = processes_.waited();
    loss_values losses = compute_losses(pictures.images, truth);
    if (!averages_weights()) {
      const std::vector<double> sums =
          processes_.sum({losses.classification, losses.regression, is_to_stop ? 1.0 : 0.0});
      losses.classification = sums[0] / static_cast<double>(processes_.size());
      losses.regression = sums[1] / static_cast<double>(processes_.size());
      is_asked_to_stop_ = sums[2] > 0;
      if (!std::isfinite(losses.classification + losses.regression)) return losses;
    }
    compute_gradients(losses.total);
    VECDET_PROFILE_SCOPE("optimiser");
    optimiser_->step();
    return losses;
  }

  /// Starts to average the weights, the optimiser's state, and the losses of the window's steps.
  void begin_average() {
    VECDET_PROFILE_SCOPE("average");
    std::vector<double> numbers;
    for (const nlohmann::json& event : window_)
      for (const char* loss : {"classification", "regression"})
        numbers.push_back(event.at(loss).get<double>());
    numbers.push_back(is_to_stop ? 1.0 : 0.0);
    waited_before_ = processes_.waited();
    processes_.begin_average(trained_state(*optimiser_, options_.optimiser), std::move(numbers));
    is_averaging_ = true;
  }

  /// Ends the average, if one is under way.
  outcome end_window() {
    if (!is_averaging_) return outcome::finished;
    is_averaging_ = false;
    VECDET_PROFILE_SCOPE("average");
    const stopwatch watch;
    const std::vector<double> sums = processes_.end_average();
    const auto ranks = static_cast<double>(processes_.size());
    for (std::size_t i = 0; i < window_.size(); ++i) {
      loss_values losses;
      losses.classification = sums[2 * i] / ranks;
      losses.regression = sums[2 * i + 1] / ranks;
      nlohmann::json& event = window_[i];
      if (!std::isfinite(losses.classification + losses.regression))
        return diverged(event.at("step").get<std::int64_t>(), losses);
      event["loss"] = losses.classification + losses.regression;
      event["classification"] = losses.classification;
      event["regression"] = losses.regression;
    }
    is_asked_to_stop_ = sums.back() > 0;
    nlohmann::json& last = window_.back();
    last["step_seconds"] = last.at("step_seconds").get<double>() + watch.seconds();
    last["all_reduce_waited"] = processes_.waited() - waited_before_;
    return write_window();
  }

  /// Logs the steps since all processes had the same weights, as they have again. Then saves them
  /// if that became due since.
  outcome write_window() {
    const auto done = static_cast<std::int64_t>(window_.size());
    for (const nlohmann::json& event : window_) log_.write(event);
    window_.clear();
    if (is_asked_to_stop_) {
      save(latest());
      return outcome::interrupted;
    }
    const std::int64_t between = options_.checkpoint_steps, step = now_.state.step;
    if (between > 0 && step / between > (step - done) / between) save(latest());
    return outcome::finished;
  }

  loss_values compute_losses(const at::Tensor& images, const batch_truth& truth) {
    const head_outputs outputs = [&] {
      VECDET_PROFILE_SCOPE("forward");
      return compute_heads(*now_.model, images, options_.precision);
    }();
    VECDET_PROFILE_SCOPE("loss");
    return (*criterion_)(outputs, truth, options_.loading.canvas);
  }

  /// The means over all processes.
  void compute_gradients(const at::Tensor& loss) {
    const stopwatch watch;
    processes_.begin_step();
    {
      VECDET_PROFILE_SCOPE("backward");
      loss.backward();
    }
    backward_seconds_ = watch.seconds();
    processes_.end_step();
  }

  nlohmann::json event_of(const loss_values& losses, double rate, double step_seconds,
                          double waited) {
    const training_state& state = now_.state;
    nlohmann::json event{{"event", "step"},
                         {"step", state.step},
                         {"epoch", state.epoch},
                         {"loss", losses.classification + losses.regression},
                         {"classification", losses.classification},
                         {"regression", losses.regression},
                         {"rate", rate},
                         {"step_seconds", step_seconds},
                         {"waited", waited},
                         {"seconds", seconds()}};
    if (processes_.size() > 1) {
      event["backward_seconds"] = backward_seconds_;
      event["all_reduce_waited"] = processes_.waited() - waited_before_;
      for (const shared_bucket& of : processes_.buckets())
        event["buckets_ready"].push_back(of.ready);
    }
    return event;
  }

  void show_progress(const loss_values& losses, std::int64_t steps) {
    const training_state& state = now_.state;
    const double done = static_cast<double>(state.step - first_step_);
    const double left = watch_.seconds() / std::max(1.0, done) *
                        static_cast<double>(steps * options_.epochs - state.step);
    char text[160];
    std::snprintf(text, sizeof text, "epoch %d/%d, step %d/%d, loss %.4f (%.4f + %.4f), %s left",
                  static_cast<int>(state.epoch + 1), static_cast<int>(options_.epochs),
                  static_cast<int>(state.step_of_epoch), static_cast<int>(steps),
                  losses.classification + losses.regression, losses.classification,
                  losses.regression, duration_text(left).c_str());
    log_.show(text);
  }

  /// Returns whether the target is reached.
  bool evaluate_now() {
    const stopwatch watch;
    const evaluation result =
        evaluate(*now_.model, test_, options_.loading, options_.precision, processes_);
    note_broken(test_, result.broken);
    const auto& precision = result.precision;
    log_.write({{"event", "evaluation"},
                {"step", now_.state.step},
                {"epoch", now_.state.epoch},
                {"ap", precision.ap},
                {"ap50", precision.ap50},
                {"ap75", precision.ap75},
                {"evaluation_seconds", watch.seconds()},
                {"seconds", seconds()}});
    char text[120];
    std::snprintf(text, sizeof text, "epoch %d: AP %.4f, AP50 %.4f, AP75 %.4f after %s",
                  static_cast<int>(now_.state.epoch), precision.ap, precision.ap50, precision.ap75,
                  duration_text(seconds()).c_str());
    log_.say(text);
    if (precision.ap > now_.state.best_ap) {
      now_.state.best_ap = precision.ap;
      if (processes_.rank() == 0) save_checkpoint(options_.folder + "/best.pt", now_, nullptr);
    }
    return options_.target_ap50 > 0 && precision.ap50 >= options_.target_ap50;
  }

  void save(const std::string& file) {
    if (processes_.rank() > 0) return;
    now_.state.seconds = seconds();
    save_checkpoint(file, now_, optimiser_.get());
    log_.write({{"event", "checkpoint"}, {"step", now_.state.step}, {"seconds", seconds()}});
  }

  outcome diverged(std::int64_t step, const loss_values& losses) {
    // Processes that step on their own had different weights at that step.
    const bool is_good = !averages_weights() && all_finite(*now_.model);
    if (is_good) save(latest());
    char text[240];
    std::snprintf(
        text, sizeof text, "step %d: the loss is not finite (classification %g, regression %g); %s",
        static_cast<int>(step), losses.classification, losses.regression,
        is_good ? "the weights before it are saved; a new training with a lower --rate or a "
                  "--warmup may help"
        : averages_weights()
            ? "the steps since the last average are discarded: the last checkpoint is kept"
            : "the weights are not finite either: the last checkpoint is kept");
    log_.say(text);
    return outcome::diverged;
  }

  /// Reports each picture once.
  void note_broken(const dataset& data,
                   const std::vector<std::pair<std::size_t, std::string>>& broken) {
    for (const auto& picture : broken) {
      if (!broken_.insert(data.pictures[picture.first].file).second) continue;
      log_.say("skipped: " + picture.second);
      log_.write({{"event", "broken"},
                  {"file", data.pictures[picture.first].file},
                  {"reason", picture.second}});
    }
  }

  outcome finish(outcome ended) {
    constexpr const char* names[] = {"finished", "target reached", "interrupted", "diverged"};
    const char* const name = names[static_cast<int>(ended)];
    nlohmann::json event{{"event", "end"},
                         {"outcome", name},
                         {"step", now_.state.step},
                         {"broken_pictures", broken_.size()},
                         {"seconds", seconds()}};
    if (processes_.size() > 1) event["weights_of_ranks"] = weights_of_ranks();
    log_.write(event);
    log_.say(std::string(name) + " after " + duration_text(seconds()) +
             (broken_.empty() ? "" : "; " + std::to_string(broken_.size()) + " pictures skipped"));
    return ended;
  }

  /// A hash of each rank's weights, to see that they are equal.
  std::vector<std::string> weights_of_ranks() {
    byte_hash hash;
    for (const at::Tensor& weight : now_.model->parameters()) {
      const at::Tensor plain = weight.detach().contiguous();
      hash.add(plain.data_ptr(), plain.nbytes());
    }
    // A double holds half of it.
    const std::vector<double> halves = processes_.joined(
        {static_cast<double>(hash.value() >> 32), static_cast<double>(hash.value() & 0xffffffff)});
    std::vector<std::string> hashes;
    for (std::size_t i = 0; i < halves.size(); i += 2) {
      char text[33];
      std::snprintf(text, sizeof text, "%08" PRIx64 "%08" PRIx64,
                    static_cast<std::uint64_t>(halves[i]),
                    static_cast<std::uint64_t>(halves[i + 1]));
      hashes.emplace_back(text);
    }
    return hashes;
  }

  training_options options_;
  process_group processes_;
  const dataset train_;
  dataset test_;
  run_log log_;
  checkpoint now_;
  std::unique_ptr<torch::optim::Optimizer> optimiser_;
  std::unique_ptr<criterion> criterion_;
  std::set<std::string> broken_;
  stopwatch watch_;
  std::vector<nlohmann::json> window_;  ///< steps not logged yet: all but one wait for an average
  bool is_averaging_ = false;
  bool is_asked_to_stop_ = false;
  double before_ = 0;            ///< seconds of earlier runs
  double backward_seconds_ = 0;  ///< of the last step
  double waited_before_ = 0;     ///< seconds waited for other processes before that step
  std::int64_t first_step_ = 0;
};

}  // namespace

outcome train(const training_options& options) {
  vecdet::keep_memory();
  is_to_stop = false;
  return training(options).run();
}

void stop_training() noexcept { is_to_stop = true; }

}  // namespace detector

// SPDX-License-Identifier: Apache-2.0
// Prefix beam search: golden vectors; random problems against the reference on every instruction
// set, with limits and impossible classes; equal probabilities; a width at which it is exhaustive,
// against CTC's loss; steps of classes; and every documented error.
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/log_softmax.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/ctc_beams.hpp>
#include <vecdet/ctc_loss.hpp>
#include <vecdet/reference/ctc_beams.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Owns what a call returns.
struct texts {
  std::vector<index_t> classes, steps, offsets, sample_offsets;
  std::vector<double> log_probabilities;

  explicit texts(const ctc_beam_results& found)
      : classes(found.classes.begin(), found.classes.end()),
        steps(found.steps.begin(), found.steps.end()),
        offsets(found.offsets.begin(), found.offsets.end()),
        sample_offsets(found.sample_offsets.begin(), found.sample_offsets.end()),
        log_probabilities(found.log_probabilities.begin(), found.log_probabilities.end()) {}
  bool operator==(const texts& other) const {
    return classes == other.classes && steps == other.steps && offsets == other.offsets &&
           sample_offsets == other.sample_offsets &&
           same_bits(log_probabilities, other.log_probabilities);
  }
  std::vector<index_t> text(std::size_t k) const {
    return {classes.begin() + offsets[k], classes.begin() + offsets[k + 1]};
  }
};

template <class T>
texts search(const std::vector<T>& logits, index_t steps, index_t samples, index_t classes,
             const ctc_beams_params& params, const std::vector<index_t>& lengths = {},
             threading policy = threading::sequential) {
  static ctc_beams_workspace workspace;
  return texts(
      ctc_beams(sequences_view<const T>::steps_first(logits.data(), steps, samples, classes),
                lengths, params, workspace, policy));
}

template <class T>
void check_random() {
  random_generator random(5);
  for (int i = 0; i < 150; ++i) {
    const index_t steps = random.below(12), samples = 1 + random.below(3);
    const index_t classes = 1 + random.below(i % 5 == 0 ? 70 : 6);
    ctc_beams_params params;
    params.blank = random.below(classes);
    params.width = 1 + random.below(12);
    params.texts = params.width;
    if (random.chance(0.3)) params.max_classes = random.below(6);
    if (random.chance(0.3)) params.min_probability = random.uniform(0.01, 0.2);
    const bool has_impossible = random.chance(0.2);
    std::vector<T> logits(static_cast<std::size_t>(steps * samples * classes));
    for (T& x : logits)
      x = to<T>(has_impossible && random.chance(0.1) ? -infinity : random.uniform(-4, 4));
    for (index_t row = 0; row < steps * samples; ++row)  // a step needs a possible class
      logits[static_cast<std::size_t>(row * classes)] = to<T>(random.uniform(-4, 4));
    std::vector<index_t> lengths;
    for (index_t n = 0; n < samples; ++n) lengths.push_back(steps - n % (steps + 1));
    INFO("problem ", i, " steps ", steps, " classes ", classes, " width ", params.width);
    const auto run = [&](threading policy) {
      return search(logits, steps, samples, classes, params, lengths, policy);
    };
    const auto check = [&](const texts& found) {
      tbb::task_arena arena(3);
      arena.execute([&] { CHECK((run(threading::parallel) == found)); });
      for (index_t n = 0; n < samples; ++n) {
        const step_probabilities log_p(logits.data() + n * classes, steps, samples * classes,
                                       classes);
        const auto exact = reference::ctc_beams(
            log_p, lengths[static_cast<std::size_t>(n)], classes, params.blank, params.width,
            params.max_classes == 0 ? classes : params.max_classes,
            params.min_probability > 0 ? std::log(params.min_probability) : -infinity);
        const auto first =
            static_cast<std::size_t>(found.sample_offsets[static_cast<std::size_t>(n)]);
        REQUIRE(found.sample_offsets[static_cast<std::size_t>(n + 1)] ==
                static_cast<index_t>(first + exact.size()));
        for (std::size_t k = 0; k < exact.size(); ++k) {
          CHECK(std::abs(found.log_probabilities[first + k] - exact[k].all()) < 2e-6 * 12);
          // Numbers of few bits are often equally probable, up to rounding.
          if (!std::is_same<T, bfloat16>::value) CHECK(found.text(first + k) == exact[k].classes);
        }
      }
    };
    check_on_every_isa([&] { return run(threading::sequential); }, check);
  }
}

}  // namespace

TEST_CASE("CTC's beams: golden vectors") {
  if (!has_data("golden_text/decode_logits_0.npy", "CTC's beams")) return;
  const index_t blanks[] = {0, 10, 0}, widths[] = {5, 10, 25};
  for (std::size_t k = 0; k < 3; ++k) {
    const std::string name = "golden_text/decode_", number = std::to_string(k);
    const auto logits = load_npy<float>(data_path(name + "logits_" + number + ".npy"));
    ctc_beams_params params;
    params.blank = blanks[k];
    params.width = widths[k];
    params.texts = 3;
    for_each_isa([&](isa) {
      const texts found = search(logits.values, static_cast<index_t>(logits.shape[0]), 1,
                                 static_cast<index_t>(logits.shape[1]), params);
      for (std::size_t j = 0; j < 3; ++j) {
        const std::string end = number + "_" + std::to_string(j) + ".npy";
        const auto text = load_npy<std::int64_t>(data_path(name + "beam_" + end)).values;
        const auto score = load_npy<double>(data_path(name + "beam_score_" + end)).values[0];
        CHECK(found.text(j) == std::vector<index_t>(text.begin(), text.end()));
        CHECK(found.log_probabilities[j] == doctest::Approx(score).epsilon(1e-7));
      }
    });
  }
}

TEST_CASE("CTC's beams: random problems against the reference") {
  check_random<float>();
  check_random<bfloat16>();
  check_random<double>();
}

namespace {

/// The steps in which the classes of a text begin in its most probable path, by trying all paths.
std::vector<index_t> steps_of_best_path(const std::vector<double>& logits, index_t steps,
                                        index_t classes, const std::vector<index_t>& text) {
  std::vector<index_t> path(static_cast<std::size_t>(steps), 0), best;
  double most = -infinity;
  for (;;) {
    std::vector<index_t> left, begins;
    double log = 0;
    for (std::size_t t = 0; t < path.size(); ++t) {
      log += logits[t * static_cast<std::size_t>(classes) + static_cast<std::size_t>(path[t])];
      if (path[t] == 0 || (t > 0 && path[t] == path[t - 1])) continue;
      left.push_back(path[t]);
      begins.push_back(static_cast<index_t>(t));
    }
    if (left == text && log > most) most = log, best = begins;
    std::size_t t = 0;
    while (t < path.size() && ++path[t] == classes) path[t++] = 0;
    if (t == path.size()) return best;
  }
}

}  // namespace

TEST_CASE("CTC's beams: with all texts in the beam, probabilities are those of CTC's loss") {
  random_generator random(9);
  std::vector<double> logits(5 * 3);
  for (double& x : logits) x = random.normal();
  ctc_beams_params params;
  params.width = params.texts = 1000;
  const texts found = search(logits, 5, 1, 3, params);
  double total = 0;
  for (std::size_t k = 0; k < found.log_probabilities.size(); ++k) {
    ctc_workspace workspace;
    const std::vector<index_t> classes = found.text(k);
    const std::vector<index_t> length{static_cast<index_t>(classes.size())};
    ctc_targets target;
    target.classes = classes;
    target.lengths = length;
    CHECK(ctc_loss(sequences_view<const double>::steps_first(logits.data(), 5, 1, 3), target, {},
                   {}, workspace) == doctest::Approx(-found.log_probabilities[k]).epsilon(1e-12));
    CHECK(steps_of_best_path(logits, 5, 3, classes) ==
          std::vector<index_t>(found.steps.begin() + found.offsets[k],
                               found.steps.begin() + found.offsets[k + 1]));
    total += std::exp(found.log_probabilities[k]);
  }
  CHECK(total == doctest::Approx(1).epsilon(1e-12));
}

TEST_CASE("CTC's beams: equal probabilities, steps, impossible steps") {
  for_each_isa([](isa) {
    // Four texts of one step are equally probable: the empty one, then lower classes.
    ctc_beams_params params;
    params.width = params.texts = 3;
    texts found = search(std::vector<float>(4, 1.0f), 1, 1, 4, params);
    CHECK(found.classes == std::vector<index_t>{1, 2});
    CHECK(found.offsets == std::vector<index_t>{0, 0, 1, 2});
    CHECK(found.log_probabilities[2] == doctest::Approx(-std::log(4.0)));
    // Class 1 in steps 1 and 3, between blanks.
    std::vector<float> sure{9, 0, 0, 9, 9, 0, 0, 9};
    found = search(sure, 4, 1, 2, {});
    CHECK(found.classes == std::vector<index_t>{1, 1});
    CHECK(found.steps == std::vector<index_t>{1, 3});
    sure[2] = sure[3] = static_cast<float>(-infinity);
    CHECK(search(sure, 4, 1, 2, {}).sample_offsets == std::vector<index_t>{0, 0});
    // One text: that without steps.
    found = search(sure, 0, 2, 2, {});
    CHECK(found.sample_offsets == std::vector<index_t>{0, 1, 2});
    CHECK(found.log_probabilities == std::vector<double>{0, 0});
    CHECK(search(sure, 4, 0, 2, {}).sample_offsets == std::vector<index_t>{0});
  });
}

TEST_CASE("CTC's beams: errors name function, argument, value and expectation") {
  const std::vector<float> x(4 * 2 * 5);
  ctc_beams_params params;
  const auto fails = refusals();
  const auto search_fails = [&](const char* message, const std::vector<index_t>& lengths = {}) {
    fails(message, [&] { search(x, 4, 2, 5, params, lengths); });
    params = {};
  };
  params.blank = 5;
  search_fails("vecdet::ctc_beams: params.blank is 5, expected 0 to 4 (5 classes)");
  params.width = 0;
  search_fails("params.width is 0, expected 1 to 10000");
  params.width = 10001;
  search_fails("params.width is 10001");
  params.texts = 0;
  search_fails("params.texts is 0, expected 1 to 10, the width");
  params.texts = 11;
  search_fails("params.texts is 11");
  params.max_classes = -1;
  search_fails("params.max_classes is -1, expected 0 or more");
  params.min_probability = 1.5;
  search_fails("params.min_probability is 1.5, expected 0 to 1");
  params.min_probability = std::nan("");
  search_fails("params.min_probability is nan");
  search_fails("input_lengths.size() is 1, expected 0 or 2, the number of samples", {4});
  search_fails("input_lengths[1] is 5, expected 0 to 4, the logits' steps", {4, 5});
  fails("logits.classes() is 0, expected 1 or more", [&] { search(x, 4, 2, 0, params); });
}

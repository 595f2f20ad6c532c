// SPDX-License-Identifier: Apache-2.0
// Decoding of CTC: golden vectors; the kernels against the reference on every instruction set, with
// numbers of classes around rows of lanes, equal logits, both orders of steps and samples, lengths
// and special values; and every documented error.
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/log_softmax.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/ctc_decoding.hpp>
#include <vecdet/reference/ctc_decoding.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// Owns what a call returns.
struct texts {
  std::vector<index_t> classes, steps, offsets;
  std::vector<float> probabilities;
  std::vector<double> log_probabilities;

  explicit texts(const ctc_texts& found)
      : classes(found.classes.begin(), found.classes.end()),
        steps(found.steps.begin(), found.steps.end()),
        offsets(found.offsets.begin(), found.offsets.end()),
        probabilities(found.probabilities.begin(), found.probabilities.end()),
        log_probabilities(found.log_probabilities.begin(), found.log_probabilities.end()) {}
  bool operator==(const texts& other) const {
    return classes == other.classes && steps == other.steps && offsets == other.offsets &&
           same_bits(probabilities, other.probabilities) &&
           same_bits(log_probabilities, other.log_probabilities);
  }
};

template <class T>
void check(index_t steps, index_t samples, index_t classes, std::uint64_t seed) {
  INFO(std::string(dtype_name<T>()), " steps ", steps, " samples ", samples, " classes ", classes);
  random_generator random(seed);
  const bool steps_first = seed % 2 == 0;
  const index_t gap = static_cast<index_t>(seed % 3), stride = classes + gap;
  const index_t blank = seed % 4 < 2 ? 0 : classes - 1;
  std::vector<T> logits(static_cast<std::size_t>(steps * samples * stride));
  // Few different numbers: many are equal.
  for (T& x : logits)
    x = to<T>(seed % 2 == 0 ? random.uniform(-4, 4) : static_cast<double>(random.below(4)));
  std::vector<index_t> lengths;
  for (index_t n = 0; n < samples; ++n) lengths.push_back(steps - n % (steps + 1));
  const index_t step_stride = steps_first ? stride * samples : stride;
  const index_t sample_stride = steps_first ? stride : stride * steps;
  const sequences_view<const T> view(logits.data(), steps, samples, classes, step_stride,
                                     sample_stride);
  const double error = std::is_same<T, double>::value ? 1e-12 : 1e-6;
  ctc_decoding_workspace workspace;
  const auto run = [&] {
    return texts(ctc_greedy(view, lengths, blank, workspace, threading::sequential));
  };
  check_on_every_isa(run, [&](const texts& found) {
    tbb::task_arena arena(3);
    arena.execute([&] { CHECK((texts(ctc_greedy(view, lengths, blank, workspace)) == found)); });
    REQUIRE(found.offsets.size() == static_cast<std::size_t>(samples + 1));
    CHECK(found.offsets[0] == 0);
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      const step_probabilities log_p(logits.data() + static_cast<index_t>(n) * sample_stride,
                                     lengths[n], step_stride, classes);
      const auto exact = reference::ctc_greedy(log_p, lengths[n], classes, blank);
      const auto first = found.offsets[n], last = found.offsets[n + 1];
      CHECK(std::vector<index_t>(found.classes.begin() + first, found.classes.begin() + last) ==
            exact.classes);
      CHECK(std::vector<index_t>(found.steps.begin() + first, found.steps.begin() + last) ==
            exact.steps);
      CHECK(std::abs(found.log_probabilities[n] - exact.log_probability) <=
            error * static_cast<double>(steps));
      for (std::size_t k = 0; k < exact.classes.size(); ++k)
        CHECK(static_cast<double>(found.probabilities[static_cast<std::size_t>(first) + k]) ==
              doctest::Approx(exact.probabilities[k]).epsilon(1e-6));
    }
  });
}

template <class T>
void check_shapes() {
  std::uint64_t seed = 0;
  for (int round = 0; round < 4; ++round) {
    for (const index_t classes : {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 300})
      check<T>(7, 3, classes, ++seed);
    for (const index_t steps : {0, 1, 2, 15, 16, 17, 33, 100}) check<T>(steps, 4, 3, ++seed);
  }
  check<T>(3, 2, 5000, ++seed);
}

}  // namespace

TEST_CASE("CTC's best path: golden vectors") {
  if (!has_data("golden_text/decode_logits_0.npy", "CTC's best path")) return;
  const index_t blanks[] = {0, 10, 0};
  for (std::size_t k = 0; k < 3; ++k) {
    const std::string end = "_" + std::to_string(k) + ".npy";
    const auto logits = load_npy<float>(data_path("golden_text/decode_logits" + end));
    const auto classes =
        load_npy<std::int64_t>(data_path("golden_text/decode_greedy" + end)).values;
    const auto score = load_npy<double>(data_path("golden_text/decode_greedy_score" + end)).values;
    const auto view = sequences_view<const float>::steps_first(
        logits.values.data(), static_cast<index_t>(logits.shape[0]), 1,
        static_cast<index_t>(logits.shape[1]));
    ctc_decoding_workspace workspace;
    for_each_isa([&](isa) {
      const ctc_texts found = ctc_greedy(view, {}, blanks[k], workspace);
      CHECK(std::vector<std::int64_t>(found.classes.begin(), found.classes.end()) ==
            std::vector<std::int64_t>(classes.begin(), classes.end()));
      CHECK(found.log_probabilities[0] == doctest::Approx(score[0]).epsilon(1e-6));
    });
  }
}

TEST_CASE("CTC's best path: classes, steps, orders, gaps, equal logits") {
  check_shapes<float>();
  check_shapes<bfloat16>();
  check_shapes<double>();
}

TEST_CASE("CTC's best path: NaN and infinities") {
  for_each_isa([](isa) {
    for (const index_t classes : {3, 16, 40}) {
      std::vector<float> x(static_cast<std::size_t>(5 * classes), 0.0f);
      const auto at = [&](index_t t, index_t c) -> float& {
        return x[static_cast<std::size_t>(t * classes + c)];
      };
      at(0, 1) = 9;
      at(1, 0) = quiet_nan;
      at(1, 2) = 1;
      at(2, 1) = infinity;
      for (index_t c = 0; c < classes; ++c) at(3, c) = -infinity;
      at(4, 0) = -infinity;
      at(4, 1) = 3;
      ctc_decoding_workspace workspace;
      const ctc_texts found = ctc_greedy(
          sequences_view<const float>::steps_first(x.data(), 5, 1, classes), {}, 0, workspace);
      CHECK(std::vector<index_t>(found.classes.begin(), found.classes.end()) ==
            std::vector<index_t>{1, 2, 1, 1});
      CHECK(std::vector<index_t>(found.steps.begin(), found.steps.end()) ==
            std::vector<index_t>{0, 1, 2, 4});
      CHECK(std::isfinite(found.probabilities[0]));
      CHECK(std::isnan(found.probabilities[1]));
      CHECK(std::isnan(found.probabilities[2]));
      CHECK(std::isfinite(found.probabilities[3]));
      CHECK(std::isnan(found.log_probabilities[0]));
    }
  });
}

TEST_CASE("CTC's best path: errors name function, argument, value and expectation") {
  const std::vector<float> x(4 * 2 * 5);
  const auto logits = sequences_view<const float>::steps_first(x.data(), 4, 2, 5);
  const std::vector<index_t> one{4}, long_one{4, 5}, negative{-1, 4};
  ctc_decoding_workspace workspace;
  const auto fails = refusals();
  fails("vecdet::ctc_greedy: blank is 5, expected 0 to 4 (5 classes)",
        [&] { ctc_greedy(logits, {}, 5, workspace); });
  fails("blank is -1", [&] { ctc_greedy(logits, {}, -1, workspace); });
  fails("input_lengths.size() is 1, expected 0 or 2, the number of samples",
        [&] { ctc_greedy(logits, one, 0, workspace); });
  fails("input_lengths[1] is 5, expected 0 to 4, the logits' steps",
        [&] { ctc_greedy(logits, long_one, 0, workspace); });
  fails("input_lengths[0] is -1", [&] { ctc_greedy(logits, negative, 0, workspace); });
  fails("logits.classes() is 0, expected 1 or more", [&] {
    ctc_greedy(sequences_view<const float>::steps_first(x.data(), 4, 2, 0), {}, 0, workspace);
  });
}

// SPDX-License-Identifier: Apache-2.0
// The performance gate's statistics and rules, on published numbers and invented measurements.
#include "bench/gate/report.hpp"
#include "bench/gate/report_files.hpp"
#include "bench/gate/statistics.hpp"
#include "bench/gate/verdict.hpp"

#include <cmath>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet::gate;

TEST_CASE("median") {
  CHECK(median({3}) == 3);
  CHECK(median({3, 1}) == 2);
  CHECK(median({5, 1, 3}) == 3);
  CHECK(median({4, 1, 3, 2}) == 2.5);
}

TEST_CASE("ranks within rounds: one other time") {
  // Head is above its neighbour in 3 rounds of 4: of the 16 outcomes, 5 are so many or more. The
  // normal approximation with correction for continuity is close.
  const round_ratios four{1, {std::log(1.2), std::log(1.1), std::log(1.3), std::log(0.9)}};
  CHECK(four.estimate() == doctest::Approx(std::sqrt(1.1 * 1.2)));
  CHECK(four.p_above(1) == doctest::Approx(5.0 / 16).epsilon(0.02));
  CHECK(four.p_below(1) == doctest::Approx(15.0 / 16).epsilon(0.02));
  CHECK(four.p_above(1.4) > 0.99);
  CHECK(four.p_below(1.4) == doctest::Approx(1.0 / 16).epsilon(0.1));
  CHECK(round_ratios{}.p_above(1) == 1);
  CHECK(round_ratios{}.p_below(1) == 1);
  // Ties count for neither side.
  CHECK(round_ratios{1, std::vector<double>(50, 0.0)}.p_above(1) > 0.5);
  CHECK(round_ratios{1, std::vector<double>(50, 0.0)}.p_below(1) > 0.5);
}

TEST_CASE("ranks within rounds: the probabilities against all orders of three times") {
  // The ranks of 6 rounds: 3^6 equally probable outcomes, summed up.
  constexpr int rounds = 6;
  std::vector<int> ways(2 * rounds + 1, 0);
  for (int code = 0; code < 729; ++code) {
    int sum = rounds;
    for (int rest = code, round = 0; round < rounds; ++round, rest /= 3) sum += rest % 3 - 1;
    ++ways[static_cast<std::size_t>(sum)];
  }
  for (int sum = -rounds; sum <= rounds; ++sum) {
    round_ratios ratios{2, {}};
    for (int round = 0; round < rounds; ++round) {
      // `sum` rounds in which head is above or below both others, and the rest between them.
      const double side = round < std::abs(sum) ? (sum > 0 ? 1 : -1) : 0;
      ratios.logarithms.push_back(side == 0 ? 0.1 : 0.1 * side);
      ratios.logarithms.push_back(side == 0 ? -0.1 : 0.1 * side);
    }
    double at_least = 0;
    for (int other = sum; other <= rounds; ++other)
      at_least += ways[static_cast<std::size_t>(other + rounds)] / 729.0;
    CHECK(std::abs(ratios.p_above(1) - at_least) < 0.01);
    for (double& ratio : ratios.logarithms) ratio = -ratio;
    CHECK(std::abs(ratios.p_below(1) - at_least) < 0.01);
  }
}

TEST_CASE("Holm's correction") {
  const std::vector<double> corrected = holm({0.01, 0.04, 0.03, 0.005}, 4);
  const std::vector<double> expected = {0.03, 0.06, 0.06, 0.02};
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(corrected[i] == doctest::Approx(expected[i]));
  CHECK(holm({0.01}, 30)[0] == doctest::Approx(0.3));
  CHECK(holm({0.5, 0.9}, 10)[1] == 1);
}

namespace {

judged_problem compared(double recorded_ratio = 0) {
  judged_problem problem;
  problem.name = "nms/clustered/f32/1000";
  problem.isa = "avx2";
  problem.recorded_ratio = recorded_ratio;
  problem.with_plain_loop = recorded_ratio > 0;
  return problem;
}

/// Rounds in which head takes `ratio` times as long as base and control, whose times are alike, and
/// every tenth round `outlier` times as long.
rounds series_of(double ratio, double outlier = 1, double control = 1, double plain = 0) {
  rounds times;
  for (int i = 0; i < 100; ++i) {
    const double both = i % 2 == 0 ? 1.001 : 0.999;  // a round is slower or faster as a whole
    times.head.push_back(100 * both * ratio * (i % 10 == 0 ? outlier : 1));
    times.base.push_back(100 * both);
    times.control.push_back(100 * both * control);
    if (plain > 0) times.plain.push_back(100 * both * ratio * plain);
  }
  return times;
}

/// Adds a series, of a problem out of 30.
void add(judged_problem& problem, const rounds& times) {
  problem.measurements.emplace_back(times);
  judge({&problem}, 30, rules{});
}

/// A series that says nothing: head is far above base as often as below.
rounds undecided() {
  rounds times = series_of(1);
  for (std::size_t i = 0; i < times.head.size(); ++i) times.head[i] *= i % 2 == 0 ? 1.2 : 1 / 1.2;
  return times;
}

}  // namespace

TEST_CASE("a problem passes only if a slowdown is excluded") {
  judged_problem same = compared(), unclear = compared();
  add(same, series_of(1));
  CHECK(verdict_of(same) == "pass");
  for (int series = 0; series < most_processes; ++series) {
    CHECK_FALSE(unclear.settled());
    add(unclear, undecided());
  }
  CHECK(verdict_of(unclear) == "inconclusive");
  CHECK(unclear.open());
  // Over 4% slower, but in a single series: neither a failure nor a pass.
  judged_problem once = compared();
  add(once, series_of(1.043));
  CHECK_FALSE(once.settled());
}

TEST_CASE("three slow series fail a problem; one that is not slow does not pass it") {
  judged_problem slower = compared();
  for (int process = 0; process < 3; ++process) {
    CHECK_FALSE(slower.settled());
    add(slower, series_of(1.04));
  }
  CHECK(slower.failed());
  CHECK(change_of(slower) == doctest::Approx(1.04));

  // A quarter of the rounds is below the threshold.
  judged_problem lucky = compared();
  for (const double ratio : {1.04, 1.04, 1.02}) add(lucky, series_of(ratio));
  CHECK(lucky.failed());

  // The series contradict each other: most of the rounds decide.
  judged_problem unsure = compared();
  for (const double ratio : {1.04, 1.0, 1.0}) add(unsure, series_of(ratio));
  CHECK_FALSE(unsure.failed());
}

TEST_CASE("the nearer the threshold, the more series a pass needs") {
  const auto series_to_pass = [](double ratio) {
    judged_problem problem = compared();
    for (int series = 1; series <= most_processes; ++series) {
      add(problem, series_of(ratio));
      if (problem.settled()) return problem.failed() ? -series : series;
    }
    return 0;
  };
  CHECK(series_to_pass(1) == 1);
  CHECK(series_to_pass(1.018) == 1);
  CHECK(series_to_pass(1.0215) == 2);
  CHECK(series_to_pass(1.029) == 0);
  CHECK(series_to_pass(1.031) == -3);
}

TEST_CASE("a faster problem is reported with its change") {
  const auto verdict_in_table = [](const judged_problem& problem) {
    std::ostringstream table;
    write_table(table, {{"a processor", "avx2", "a compiler"}, {}, {problem}, {}});
    const std::string text = table.str();
    const std::size_t end = text.find('\n', text.find('\n') + 1);
    return text.substr(text.rfind("  ", end) + 2, end - text.rfind("  ", end) - 2);
  };
  judged_problem by_half = compared();
  add(by_half, series_of(0.48));
  CHECK(by_half.settled());
  CHECK_FALSE(by_half.failed());
  CHECK(verdict_of(by_half) == "faster");
  CHECK(verdict_in_table(by_half) == "faster, -52 %");

  judged_problem by_little = compared(), scattered = compared();
  add(by_little, series_of(0.98));
  CHECK(verdict_in_table(by_little) == "pass");
  add(scattered, series_of(0.48, 1, 1.02));
  CHECK(verdict_in_table(scattered) == "inconclusive");
  add(scattered, series_of(0.99));
  CHECK(verdict_in_table(scattered) == "pass");
}

TEST_CASE("a series whose control deviates gives no answer") {
  judged_problem restless = compared();
  for (int process = 0; process < 6; ++process) {
    add(restless, series_of(1.10, 1, process % 2 == 0 ? 1.02 : 0.98));
  }
  CHECK_FALSE(restless.settled());
  CHECK(change_of(restless) == doctest::Approx(1.10).epsilon(0.02));
  for (int process = 0; process < 3; ++process) add(restless, series_of(1.10, 1, 1.009));
  CHECK(restless.failed());
  // That it deviates by chance, in noise, is no reason.
  rounds times = undecided();
  std::swap(times.head, times.control);
  times.control[1] = times.control[3] = 200;
  CHECK(std::abs(std::log(measurement(times).control_to_base)) > std::log(1.01));
  CHECK_FALSE(control_strays(measurement(times), rules{}));
}

TEST_CASE("outliers do not move the verdict") {
  judged_problem same = compared(), slower = compared();
  add(same, series_of(1, 10));
  CHECK(verdict_of(same) == "pass");
  for (int process = 0; process < 3; ++process) add(slower, series_of(1.04, 0.1));
  CHECK(verdict_of(slower) == "SLOWER");
}

TEST_CASE("the ratio to the plain loop fails when it falls by over 15%") {
  judged_problem slower = compared(4);
  for (int process = 0; process < 3; ++process) add(slower, series_of(1, 1, 1, 3.3));
  CHECK(slower.speed.answer == verdict::pass);
  CHECK(slower.ratio.answer == verdict::fail);
  CHECK(slower.failed());

  judged_problem sound = compared(4);
  add(sound, series_of(1, 1, 1, 3.7));
  CHECK(sound.settled());
  CHECK_FALSE(sound.failed());

  // Half of the rounds say that it has fallen, the other half that it has risen.
  judged_problem unclear = compared(4);
  for (int process = 0; process < most_processes; ++process) {
    rounds times = series_of(1, 1, 1, 4);
    for (std::size_t i = 0; i < times.plain.size(); ++i)
      times.plain[i] *= i % 2 == 0 ? 1.5 : 1 / 1.5;
    add(unclear, times);
  }
  CHECK(verdict_of(unclear) == "inconclusive");
}

TEST_CASE("a problem without a time: an error in head alone fails, other trouble is open") {
  judged_problem broken = compared(), unusable = compared();
  broken.trouble = "reports an error: no such file";
  broken.head_failed = true;
  unusable.trouble = "its time is 0 ns, expected more";
  CHECK(broken.settled());
  CHECK(broken.failed());
  CHECK(verdict_of(broken) == "FAILED");
  CHECK(unusable.settled());
  CHECK(unusable.open());
  CHECK(verdict_of(unusable) == "not compared");
}

TEST_CASE("the exit code: 0 pass, 1 fail, 3 inconclusive") {
  judged_problem sound = compared(), lagging = compared(), restless = compared(),
                 rotting = compared(4);
  add(sound, series_of(1));
  for (int process = 0; process < 3; ++process) {
    add(lagging, series_of(1.04));
    add(rotting, series_of(1, 1, 1, 3.3));
  }
  for (int process = 0; process < most_processes; ++process) add(restless, undecided());
  const auto expect = [](const std::vector<judged_problem>& problems, int code, const char* name) {
    const gate_result result{{"a processor", "avx2", "a compiler"}, {}, problems, {}};
    CHECK(static_cast<int>(result.answer()) == code);
    const auto json = to_json(result);
    CHECK(json["exit_code"] == code);
    CHECK(json["verdict"] == name);
    std::ostringstream table;
    write_table(table, result);
    CHECK(table.str().find("vecdet-gate: " + std::string(name)) != std::string::npos);
  };
  expect({sound, sound}, 0, "pass");
  expect({sound, lagging}, 1, "fail");
  expect({sound, rotting}, 1, "fail");
  expect({sound, restless}, 3, "inconclusive");
  expect({restless}, 3, "inconclusive");
  expect({restless, lagging}, 1, "fail");  // a slower problem fails in any case
  CHECK(verdict_of(restless) == "inconclusive");
}

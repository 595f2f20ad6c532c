// SPDX-License-Identifier: Apache-2.0
// The performance gate's statistics and rules, on published numbers and invented measurements.
#include "bench/gate/report.hpp"
#include "bench/gate/report_files.hpp"
#include "bench/gate/statistics.hpp"
#include "bench/gate/verdict.hpp"

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet::gate;

TEST_CASE("median") {
  CHECK(median({3}) == 3);
  CHECK(median({3, 1}) == 2);
  CHECK(median({5, 1, 3}) == 3);
  CHECK(median({4, 1, 3, 2}) == 2.5);
}

TEST_CASE("signed ranks of Darwin's plants") {
  // Differences of cross- and self-fertilised plants in eighths of an inch: Darwin (1876), in
  // Fisher's "The Design of Experiments"; the sum of the positive ranks is 96 of 120.
  const signed_ranks ranks({49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48});
  CHECK(ranks.positive_sum == 96);
  CHECK(ranks.mean == 60);
  CHECK(ranks.variance == 310);
}

TEST_CASE("signed ranks with zeros and ties") {
  const signed_ranks ranks({0, 1, -1, 2, 2, -3});  // ranks 1.5 1.5 3.5 3.5 5
  CHECK(ranks.positive_sum == 8.5);
  CHECK(ranks.mean == 7.5);
  CHECK(ranks.variance == 5 * 6 * 11 / 24.0 - (2 * 3 + 2 * 3) / 48.0);
}

TEST_CASE("the signed-rank test") {
  std::vector<double> balanced, shifted;
  for (int i = 1; i <= 100; ++i) {
    balanced.push_back(i % 2 == 0 ? i : -i);
    shifted.push_back(i % 10 == 0 ? -i : i);
  }
  CHECK(signed_rank_p_greater(balanced) == doctest::Approx(0.46643).epsilon(0.0001));
  CHECK(signed_rank_p_greater(shifted) < 1e-9);
  for (double& difference : shifted) difference = -difference;
  CHECK(signed_rank_p_greater(shifted) > 1 - 1e-9);
  CHECK(signed_rank_p_greater({}) == 1);
  CHECK(signed_rank_p_greater({0, 0, 0}) == 1);
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

/// One process's result, out of 30 comparisons.
void add(judged_problem& problem, double head_to_base, double p, double control = 1,
         double plain_to_head = 4) {
  problem.measurements.push_back(
      {100, 100 * head_to_base, head_to_base, p, control, plain_to_head});
  judge({&problem}, 30, rules{});
}

}  // namespace

TEST_CASE("three slow processes fail a problem; one that is not slow passes it") {
  judged_problem slower = compared();
  for (int process = 0; process < 3; ++process) {
    CHECK_FALSE(slower.settled());
    add(slower, 1.04, 1e-9);
  }
  CHECK(slower.failed());

  judged_problem lucky = compared();
  add(lucky, 1.04, 1e-9);
  add(lucky, 1.04, 1e-9);
  add(lucky, 1.02, 1e-9);
  CHECK(lucky.settled());
  CHECK_FALSE(lucky.failed());

  judged_problem unsure = compared();
  add(unsure, 1.04, 0.001);  // 0.03 after the correction
  CHECK(unsure.settled());
  CHECK_FALSE(unsure.failed());
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
  add(by_half, 0.48, 1 - 1e-9);
  CHECK(by_half.settled());
  CHECK_FALSE(by_half.failed());
  CHECK(verdict_of(by_half) == "faster");
  CHECK(verdict_in_table(by_half) == "faster, -52 %");

  judged_problem by_little = compared(), by_chance = compared(), scattered = compared();
  add(by_little, 0.98, 1 - 1e-9);
  CHECK(verdict_in_table(by_little) == "pass");
  add(by_chance, 0.48, 0.98);
  CHECK(verdict_in_table(by_chance) == "pass");
  add(scattered, 0.48, 1 - 1e-9, 1.02);
  CHECK(verdict_in_table(scattered) == "inconclusive");
  add(scattered, 0.99, 0.5);
  CHECK(verdict_in_table(scattered) == "pass");
}

TEST_CASE("a process whose control deviates gives no answer") {
  judged_problem restless = compared();
  for (int process = 0; process < 6; ++process) {
    add(restless, 1.10, 1e-9, process % 2 == 0 ? 1.02 : 0.98);
  }
  CHECK_FALSE(restless.settled());
  CHECK_FALSE(restless.failed());
  for (int process = 0; process < 3; ++process) add(restless, 1.10, 1e-9, 1.009);
  CHECK(restless.failed());
}

TEST_CASE("the ratio to the plain loop fails when it falls by over 15%") {
  judged_problem slower = compared(4);
  for (int process = 0; process < 3; ++process) add(slower, 1, 0.5, 1, 3.3);
  CHECK(slower.speed.answer == verdict::pass);
  CHECK(slower.ratio.answer == verdict::fail);
  CHECK(slower.failed());

  judged_problem sound = compared(4);
  add(sound, 1, 0.5, 1, 3.5);
  CHECK(sound.settled());
  CHECK_FALSE(sound.failed());
}

TEST_CASE("the exit code: 0 pass, 1 fail, 3 inconclusive") {
  judged_problem sound = compared(), lagging = compared(), restless = compared(),
                 rotting = compared(4);
  add(sound, 1, 0.5);
  for (int process = 0; process < 3; ++process) {
    add(lagging, 1.04, 1e-9);
    add(rotting, 1, 0.5, 1, 3.3);
  }
  for (int process = 0; process < most_processes; ++process) add(restless, 1.10, 1e-9, 1.02);
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

// SPDX-License-Identifier: Apache-2.0
// How often the gate's verdict is right, on machines of made-up noise: the rates in
// docs/own_gate.md.
#include "bench/gate/verdict.hpp"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet::gate;

namespace {

constexpr int runs = 400;

/// The noise of a machine: of each measured piece, and of a whole series of a program.
struct machine {
  const char* name;
  double spread;     ///< of a piece's logarithm, normal
  double shared;     ///< share of pieces whose core also runs another thread: 1.9 times as long
  double disturbed;  ///< share of pieces that take half as long again on average, exponential
  double layout;     ///< of a program's logarithm in a series, normal

  double piece(std::mt19937& random) const {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    double time = 100 * std::exp(spread * normal(random));
    if (uniform(random) < shared) time *= 1.9;
    if (uniform(random) < disturbed) time *= 1 + std::exponential_distribution<double>(2)(random);
    return time;
  }
};

constexpr machine quiet{"quiet", 0.01, 0, 0, 0};
constexpr machine layouts{"layout", 0.01, 0, 0, 0.005};
constexpr machine crowded{"crowded", 0.03, 0.5, 0.1, 0};
constexpr machine hopeless{"hopeless", 0.15, 0, 0, 0};

struct rates {
  double pass = 0, fail = 0, open = 0;
};

/// Verdicts on one benchmark that takes `ratio` times as long as before.
rates judge_on(const machine& here, double ratio) {
  std::mt19937 random(1);
  rates found;
  for (int run = 0; run < runs; ++run) {
    std::vector<judged_problem> problems(1);
    settle(problems, rules{}, [&](const std::vector<judged_problem*>& all) {
      std::normal_distribution<double> layout(0, here.layout > 0 ? here.layout : 1e-12);
      const double head = ratio * std::exp(layout(random)), base = std::exp(layout(random)),
                   control = std::exp(layout(random));
      rounds times;
      for (int round = 0; round < rules{}.pairs; ++round) {
        times.head.push_back(head * here.piece(random));
        times.base.push_back(base * here.piece(random));
        times.control.push_back(control * here.piece(random));
      }
      all[0]->measurements.emplace_back(times);
    });
    (problems[0].failed() ? found.fail
     : problems[0].open() ? found.open
                          : found.pass) += 1.0 / runs;
  }
  MESSAGE(std::string(here.name) << ", " << ratio << " times the time: pass " << 100 * found.pass
                                 << " %, fail " << 100 * found.fail << " %, inconclusive "
                                 << 100 * found.open << " %");
  return found;
}

}  // namespace

TEST_CASE("gate: rates of the verdicts") {
  for (const machine& here : {quiet, layouts, crowded, hopeless}) {
    const rates same = judge_on(here, 1), limit = judge_on(here, 1.03),
                slower = judge_on(here, 1.04), much_slower = judge_on(here, 1.1);
    // What is promised in any noise: no false alarm, and no pass of what is at the threshold.
    CHECK(same.fail <= 0.01);
    CHECK(limit.pass <= (here.layout > 0 ? 0.05 : 0.01));
    CHECK(slower.pass <= 0.005);
    CHECK(much_slower.pass == 0);
    // What can be told.
    if (here.spread < 0.1) {
      CHECK(same.pass >= 0.98);
      CHECK(slower.fail >= 0.97);
    }
    CHECK(much_slower.fail >= 0.97);
  }
}

// SPDX-License-Identifier: Apache-2.0
// What makes a run's figures fair: checks come first, a call that is not timed precedes each
// repetition, a repetition has at least five calls, and unsteady rows are marked.
#include "support/run.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::bench;

namespace {

std::vector<std::string>& events() {
  static std::vector<std::string> list;
  return list;
}

void register_scripted() {
  const auto slow = [](const char* name) {
    events().push_back(name);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  for (const char* problem : {"scripted/a/f32/1", "scripted/b/f32/1"}) {
    const auto prepare = [] { return std::make_shared<int>(0); };
    register_plain(
        problem, {1, 1}, prepare, [](int&) { events().push_back("check"); },
        [=](benchmark::State& state, int&) { time_calls(state, [&] { slow("plain"); }); });
    register_vecdet(problem, {1, 1}, prepare, [=](int&, threading) { slow("vecdet"); });
  }
}

/// Two benchmarks, of which one fails.
void register_failing() {
  for (const std::string name : {"failing/always/f32/1", "failing/never/f32/1"})
    register_implementation(name, "baseline", 1, {1, 1}, [=](benchmark::State& state) {
      if (name == "failing/always/f32/1") return state.SkipWithError("no such file");
      time_calls(state, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    });
}

void initialize(std::vector<std::string> flags) {
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  REQUIRE(count == 1);
}

/// A repetition of a benchmark, as Google Benchmark reports it.
benchmark::BenchmarkReporter::Run repetition(const std::string& name, double seconds) {
  benchmark::BenchmarkReporter::Run run;
  run.run_name.function_name = name;
  run.iterations = 5;
  run.real_accumulated_time = 5 * seconds;
  return run;
}

}  // namespace

TEST_CASE("run: checks, then at least five timed calls per repetition after one that is not") {
  register_scripted();
  register_benchmarks();
  // The first call already takes the least time.
  const std::vector<std::string> flags{"test", "--benchmark_min_time=0.001",
                                       "--benchmark_repetitions=2", "--benchmark_filter=^scripted"};
  std::vector<std::string> list = flags, run = flags;
  list.push_back("--benchmark_list_tests=true");
  run.push_back("--benchmark_list_tests=false");
  initialize(list);
  const std::vector<std::string> names = selected_benchmarks();
  const auto plain_loops = static_cast<std::size_t>(std::count_if(
      names.begin(), names.end(),
      [](const std::string& name) { return name.find("/plain_") != std::string::npos; }));
  REQUIRE(plain_loops >= 2);
  REQUIRE(events().empty());
  CHECK(check_plain_loops_of(names) == plain_loops);
  CHECK(events() == std::vector<std::string>(plain_loops, "check"));

  initialize(run);
  std::ostringstream out;
  table_reporter table(names.size(), isa_name(detected_isa()), "the end\n", true);
  table.SetOutputStream(&out);
  table.SetErrorStream(&out);
  benchmark::RunSpecifiedBenchmarks(&table);
  const auto calls_of = [](const char* name) {
    return static_cast<std::size_t>(std::count(events().begin(), events().end(), name));
  };
  CHECK(calls_of("check") == plain_loops);  // none while timing
  CHECK(calls_of("plain") == plain_loops * 2 * (1 + least_calls));
  CHECK(calls_of("vecdet") == (names.size() - plain_loops) * 2 * (1 + least_calls));

  const std::string text = out.str();
  CHECK(text.find("DEBUG") == std::string::npos);
  const std::size_t summary = text.find("Summary of 2 problems");
  REQUIRE(summary != std::string::npos);
  CHECK(std::count(text.begin() + static_cast<std::ptrdiff_t>(summary), text.end(), '\n') <= 10);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
}

TEST_CASE("run: a failed benchmark is named with its reason, counted, and has no row") {
  register_failing();
  benchmark::ClearRegisteredBenchmarks();
  register_benchmarks();
  CHECK(!has_failure());
  const auto run = [](const char* filter, const char* aggregates) {
    initialize({"test", "--benchmark_min_time=0.001", "--benchmark_repetitions=3", filter,
                aggregates, "--benchmark_list_tests=false"});
    std::ostringstream out;
    table_reporter table(3, "baseline", "the end\n", true);
    table.SetOutputStream(&out);
    table.SetErrorStream(&out);
    benchmark::RunSpecifiedBenchmarks(&table);
    return out.str();
  };
  const auto count_of = [](const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++count;
    return count;
  };
  CHECK(run("--benchmark_filter=^failing/never", "--benchmark_report_aggregates_only=false")
            .find("failed") == std::string::npos);
  CHECK(!has_failure());
  for (const bool aggregates : {false, true}) {
    const std::string text =
        run("--benchmark_filter=^failing", aggregates ? "--benchmark_report_aggregates_only=true"
                                                      : "--benchmark_report_aggregates_only=false");
    CAPTURE(text);
    CHECK(count_of(text, "failing/always/f32/1/baseline/threads:1: failed: no such file\n") == 1);
    CHECK(count_of(text, "  failed                    1: failing/always") == 1);
    CHECK(count_of(text, "|   never/") == 1);
    CHECK(count_of(text, "|   always/") == 0);
    CHECK(has_failure());
    has_failure() = false;
  }
}

TEST_CASE("run: repetitions that differ by more than a third are marked") {
  std::ostringstream out;
  table_reporter table(4, "avx2", "", true);
  table.SetOutputStream(&out);
  table.SetErrorStream(&out);
  const auto report = [&](const std::string& name, double slowest) {
    table.ReportRuns({repetition(name, 1e-3), repetition(name, slowest), repetition(name, 1.2e-3)});
  };
  report("f/steady/f32/8/plain_avx2/threads:1", 1.3e-3);
  report("f/steady/f32/8/avx2/threads:1", 1.3e-3);
  report("f/unsteady/f32/8/plain_avx2/threads:1", 1.3e-3);
  report("f/unsteady/f32/8/avx2/threads:1", 1.4e-3);
  table.Finalize();
  const std::string text = out.str(), rows = text.substr(0, text.find("Milliseconds"));
  CHECK(std::count(rows.begin(), rows.end(), '~') == 1);
  CHECK(rows.find("1.20 ~") > rows.find("unsteady"));
}

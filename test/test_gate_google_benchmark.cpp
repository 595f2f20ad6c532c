// SPDX-License-Identifier: Apache-2.0
// The gate's reading of Google Benchmark's JSON and of the counter's notes, and its filters.
#include "bench/gate/counter.hpp"
#include "bench/gate/google_benchmark.hpp"

#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet::gate;

namespace {

std::string document(const std::string& entries) {
  return R"({"context": {"num_cpus": 2}, "benchmarks": [)" + entries + "]}";
}

std::string message_of(const std::string& text) {
  try {
    read_google_benchmark(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Google Benchmark's JSON: repetitions, aggregates, units and clocks") {
  const std::vector<benchmark_run> runs = read_google_benchmark(document(
      R"({"name": "sum/8", "run_name": "sum/8", "run_type": "iteration", "threads": 1,
          "iterations": 10, "real_time": 9, "cpu_time": 2.5, "time_unit": "us"},
         {"name": "sum/8", "run_name": "sum/8", "run_type": "iteration", "threads": 1,
          "iterations": 10, "real_time": 9, "cpu_time": 3.5, "time_unit": "us"},
         {"name": "sum/8_mean", "run_name": "sum/8", "run_type": "aggregate", "cpu_time": 3,
          "real_time": 3, "iterations": 2, "time_unit": "us"},
         {"name": "wait/real_time", "iterations": 4, "real_time": 2, "cpu_time": 1,
          "time_unit": "ms"},
         {"name": "gpu/manual_time/threads:4", "iterations": 4, "real_time": 2, "cpu_time": 1,
          "threads": 4, "time_unit": "s"},
         {"name": "real_times", "iterations": 1, "real_time": 2, "cpu_time": 1})"));
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].name == "sum/8");
  CHECK(runs[0].ns == std::vector<double>{2500, 3500});
  CHECK(runs[0].iterations == 20);
  CHECK_FALSE(runs[0].parallel);
  CHECK_FALSE(runs[0].wall_clock);
  CHECK(runs[1].ns == std::vector<double>{2e6});
  CHECK(runs[1].wall_clock);
  CHECK(runs[2].ns == std::vector<double>{2e9});
  CHECK(runs[2].parallel);
  CHECK(runs[3].ns == std::vector<double>{1});
  CHECK(read_google_benchmark(document("")).empty());
}

TEST_CASE("Google Benchmark's JSON: skipped benchmarks and errors") {
  const auto skipped = read_google_benchmark(
      document(R"({"name": "a", "skipped": true, "skip_message": "no GPU"})"));
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0].skipped == "skipped: no GPU");
  CHECK(message_of(
            document(R"({"name": "a", "error_occurred": true, "error_message": "no file"})")) ==
        "benchmark \"a\" reports an error: no file");
}

TEST_CASE("Google Benchmark's JSON: malformed") {
  for (const char* text : {"", "{", "3", "[]", "{}", R"({"benchmarks": {}})", "null", "\xff"})
    CHECK(message_of(text).find("not the JSON of Google Benchmark") == 0);
  CHECK(message_of(document("3")) == "an entry of \"benchmarks\" is no object");
  CHECK(message_of(document("{}")) == "a benchmark has no name");
  CHECK(message_of(document(R"({"name": 3})")) == "\"name\" is 3, expected a string");
  CHECK(message_of(document(R"({"name": "a"})")) ==
        "benchmark \"a\": \"iterations\" is missing, expected a number of at least 0");
  CHECK(message_of(document(R"({"name": "a", "iterations": 1, "cpu_time": -1})")) ==
        "benchmark \"a\": \"cpu_time\" is -1, expected a number of at least 0");
  CHECK(message_of(document(R"({"name": "a", "iterations": 1, "cpu_time": "1"})")) ==
        "benchmark \"a\": \"cpu_time\" is \"1\", expected a number of at least 0");
  CHECK(
      message_of(document(R"({"name": "a", "iterations": 1, "cpu_time": 1, "time_unit": "h"})")) ==
      "the time unit is \"h\", expected ns, us, ms or s");
  // Any prefix of a good document is refused.
  const std::string good =
      document(R"({"name": "a", "iterations": 1, "cpu_time": 1, "time_unit": "ns"})");
  CHECK(message_of(good).empty());
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_FALSE(message_of(good.substr(0, size)).empty());
}

TEST_CASE("a filter matches exactly its names") {
  const std::vector<std::string> names{"sum/8", "a<b, c>(x)", "p.q|r+[1]{2}^$*?\\"};
  const std::regex filter(filter_for(names), std::regex::extended);
  for (const std::string& name : names) CHECK(std::regex_search(name, filter));
  for (const char* name : {"sum/80", "a sum/8", "sum/8/real_time", "pxq|r+[1]{2}^$*?\\", ""})
    CHECK_FALSE(std::regex_search(name, filter));
}

TEST_CASE("counts per call from the counter's notes") {
  // Six pieces of 3 allocations; the first also has 7 page faults.
  std::string notes;
  for (int i = 0; i < 6; ++i) {
    const std::string begin = std::to_string(100 + 10 * i), end = std::to_string(103 + 10 * i);
    notes += begin + " 5\n" + end + (i == 0 ? " 12\n" : " 5\n");
  }
  const counted_pieces pieces(notes);
  const call_counts once = counts_per_call(pieces, 0, 6, 6, 1);
  CHECK(once.allocations == 3.0);
  CHECK(once.page_faults == 0.0);
  CHECK(counts_per_call(pieces, 0, 6, 3, 1).allocations == 6.0);  // two pieces per repetition
  CHECK(counts_per_call(pieces, 0, 6, 6, 2).allocations == 1.5);  // two calls per piece
  CHECK(counts_per_call(pieces, 0, 1, 1, 1).page_faults == 7.0);
  CHECK_FALSE(counts_per_call(pieces, 0, 6, 4, 1).page_faults.has_value());
  CHECK_FALSE(counts_per_call(pieces, 0, 8, 8, 1).page_faults.has_value());
  CHECK_FALSE(counts_per_call(counted_pieces(""), 0, 0, 20, 1).page_faults.has_value());
  // A program that replaces the allocator.
  const call_counts unknown = counts_per_call(counted_pieces("-1 5\n-1 6\n"), 0, 1, 1, 1);
  CHECK_FALSE(unknown.allocations.has_value());
  CHECK(unknown.page_faults == 1.0);
}

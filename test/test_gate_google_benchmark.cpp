// SPDX-License-Identifier: Apache-2.0
// The gate's reading of Google Benchmark's JSON and of the counter's notes, and its filters.
#include "bench/gate/counter.hpp"
#include "bench/gate/google_benchmark.hpp"
#include "bench/gate/utf8.hpp"

#include <cstddef>
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
          "repetitions": 2, "iterations": 10, "real_time": 9, "cpu_time": 2.5, "time_unit": "us"},
         {"name": "sum/8", "run_name": "sum/8", "run_type": "iteration", "threads": 1,
          "repetitions": 2, "iterations": 10, "real_time": 9, "cpu_time": 3.5, "time_unit": "us"},
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
  CHECK(skipped[0].state == run_state::skipped);
  CHECK(skipped[0].reason == "skipped: no GPU");
  const auto failed = read_google_benchmark(
      document(R"({"name": "a", "error_occurred": true, "error_message": "no file"},
                  {"name": "b", "iterations": 1, "cpu_time": 1})"));
  REQUIRE(failed.size() == 2);
  CHECK(failed[0].state == run_state::failed);
  CHECK(failed[0].reason == "reports an error: no file");
  CHECK(failed[1].state == run_state::timed);
}

namespace {

std::vector<std::string> names_of(const std::vector<benchmark_run>& runs) {
  std::vector<std::string> names;
  for (const benchmark_run& run : runs) names.push_back(run.name);
  return names;
}

}  // namespace

TEST_CASE("Google Benchmark's JSON: benchmarks of one name") {
  // With the fields of version 1.7: two families, two repetitions of each.
  std::string entries;
  for (const char* family : {"0", "1"}) {
    for (const char* repetition : {"0", "1"}) {
      entries += std::string(entries.empty() ? "" : ",") +
                 R"({"name": "sum", "run_name": "sum", "family_index": )" + family +
                 R"(, "per_family_instance_index": 0, "repetitions": 2, "repetition_index": )" +
                 repetition + R"(, "iterations": 3, "cpu_time": 1)" + family + repetition + "}";
    }
  }
  const auto runs = read_google_benchmark(document(entries));
  REQUIRE(names_of(runs) == std::vector<std::string>{"sum", "sum #2"});
  CHECK(runs[0].ns == std::vector<double>{100, 101});
  CHECK(runs[1].ns == std::vector<double>{110, 111});
  CHECK(runs[1].run_name == "sum");
  // Older versions have only the repetitions' numbers, and still older ones not even these.
  CHECK(read_google_benchmark(document(R"(
            {"name": "a", "repetition_index": 0, "repetitions": 2, "iterations": 1, "cpu_time": 1},
            {"name": "a", "repetition_index": 1, "repetitions": 2, "iterations": 1, "cpu_time": 2},
            {"name": "a", "repetition_index": 0, "repetitions": 2, "iterations": 1, "cpu_time": 3}
            )"))[1]
            .ns == std::vector<double>{3});
  CHECK(names_of(read_google_benchmark(document(R"(
            {"name": "a", "iterations": 1, "cpu_time": 1},
            {"name": "a", "iterations": 1, "cpu_time": 2},
            {"name": "a #2", "iterations": 1, "cpu_time": 2})"))) ==
        std::vector<std::string>{"a", "a #3", "a #2"});
  const auto places = read_google_benchmark(document(R"(
            {"name": "a #2", "iterations": 1, "cpu_time": 1},
            {"name": "a", "iterations": 1, "cpu_time": 1},
            {"name": "a", "iterations": 1, "cpu_time": 2})"));
  CHECK(names_of(places) == std::vector<std::string>{"a #2", "a", "a #3"});
  CHECK(places[0].place == 1);
  CHECK(places[1].place == 1);
  CHECK(places[2].place == 2);
  CHECK(places[2].run_name == "a");
}

TEST_CASE("Google Benchmark's JSON: aggregates alone") {
  const auto runs = read_google_benchmark(document(
      R"({"name": "a_mean", "run_name": "a", "run_type": "aggregate", "aggregate_name": "mean",
          "cpu_time": 3, "iterations": 3, "time_unit": "us"},
         {"name": "a_median", "run_name": "a", "run_type": "aggregate", "aggregate_name": "median",
          "cpu_time": 2, "iterations": 3, "time_unit": "us"},
         {"name": "b_mean", "run_name": "b", "run_type": "aggregate", "aggregate_name": "mean",
          "cpu_time": 3, "iterations": 3, "time_unit": "us"},
         {"name": "c_BigO", "run_name": "c", "run_type": "aggregate", "aggregate_name": "BigO",
          "cpu_coefficient": 1, "big_o": "N"},
         {"name": "c_RMS", "run_name": "c", "run_type": "aggregate", "aggregate_name": "RMS",
          "rms": 0.1})"));
  REQUIRE(names_of(runs) == std::vector<std::string>{"a", "b"});
  CHECK(runs[0].state == run_state::timed);
  CHECK(runs[0].ns == std::vector<double>{2000});
  CHECK(runs[1].state == run_state::unusable);
  CHECK(runs[1].reason == "reports only aggregates, without a median");
}

TEST_CASE("Google Benchmark's JSON: counters") {
  // They follow Google Benchmark's own keys. A rate in no time is not JSON.
  const auto runs = read_google_benchmark(document(
      R"({"name": "a", "iterations": 1, "cpu_time": 2, "cpu_time": {"cpu_time": 8, "threads": 5},
          "threads": 1, "time_unit": "ns", "cpu_time": 7, "threads": 9},
         {"name": "NaN \"Infinity", "iterations": 1, "cpu_time": 3, "x": NaN, "y": -Infinity},
         {"name": "c", "iterations": 1, "cpu_time": NaN})"));
  REQUIRE(names_of(runs) == std::vector<std::string>{"a", "NaN \"Infinity", "c"});
  CHECK(runs[0].ns == std::vector<double>{2});
  CHECK_FALSE(runs[0].parallel);
  CHECK(runs[1].ns == std::vector<double>{3});
  CHECK(runs[2].state == run_state::unusable);
}

TEST_CASE("Google Benchmark's JSON: numbers beyond double's range") {
  const auto runs = read_google_benchmark(
      document(R"({"name": "a 1e400", "iterations": 1e400, "cpu_time": 1e400, "real_time": -1e400},
                  {"name": "b", "iterations": 10, "cpu_time": 1.5e-3, "x": 1E999, "y": 1e-400})"));
  REQUIRE(names_of(runs) == std::vector<std::string>{"a 1e400", "b"});
  CHECK(runs[0].state == run_state::unusable);
  CHECK(runs[1].ns == std::vector<double>{1.5e-3});
}

TEST_CASE("Google Benchmark's JSON: bytes that are not UTF-8") {
  const auto runs = read_google_benchmark(document(
      "{\"name\": \"gr\xfc\xdf\", \"error_occurred\": true, \"error_message\": \"\xff!\"}"));
  REQUIRE(names_of(runs) == std::vector<std::string>{"gr\xef\xbf\xbd\xef\xbf\xbd"});
  CHECK(runs[0].reason == "reports an error: \xef\xbf\xbd!");
  const std::regex filter(filter_for(runs), std::regex::extended);
  CHECK(std::regex_search("gr\xfc\xdf", filter));
  CHECK(std::regex_search("gr\xef\xbf\xbd\xef\xbf\xbd", filter));
  CHECK_FALSE(std::regex_search("gr\xfc\xdf\xdf", filter));
}

TEST_CASE("UTF-8") {
  const std::string replaced = replaced_byte;
  for (const std::string valid : {"", "a\n", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                  "\xef\xbf\xbd", "\xf4\x8f\xbf\xbf"})
    CHECK(valid_utf8(valid) == valid);
  CHECK(valid_utf8("a\x80z") == "a" + replaced + "z");
  for (const std::string wrong : {"\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                  "\xe2\x82", "\xf0\x9f\x98", "\xff", "\xf8\x88"}) {
    std::string every;
    for (std::size_t i = 0; i < wrong.size(); ++i) every += replaced;
    CHECK(valid_utf8(wrong) == every);
  }
}

TEST_CASE("Google Benchmark's JSON: malformed") {
  for (const char* text : {"", "{", "3", "[]", "{}", R"({"benchmarks": {}})", "null", "\xff",
                           R"({"benchmarks": [1e]})"})
    CHECK(message_of(text).find("not the JSON of Google Benchmark") == 0);
  CHECK(message_of(document("3")) == "an entry of \"benchmarks\" is no object");
  CHECK(message_of(document("{}")) == "a benchmark has no name");
  CHECK(message_of(document(R"({"name": 3})")) == "\"name\" is 3, expected a string");
  const auto reason_of = [](const std::string& entry) {
    return read_google_benchmark(document(entry)).at(0).reason;
  };
  CHECK(reason_of(R"({"name": "a"})") ==
        "\"cpu_time\" is missing, expected a number of at least 0");
  CHECK(reason_of(R"({"name": "a", "iterations": 1, "cpu_time": -1})") ==
        "\"cpu_time\" is -1, expected a number of at least 0");
  CHECK(reason_of(R"({"name": "a", "iterations": 1, "cpu_time": "1"})") ==
        "\"cpu_time\" is \"1\", expected a number of at least 0");
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
  std::vector<benchmark_run> runs(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) runs[i].run_name = names[i];
  const std::regex filter(filter_for(runs), std::regex::extended);
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

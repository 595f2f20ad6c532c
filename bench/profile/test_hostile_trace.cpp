// SPDX-License-Identifier: Apache-2.0
// Traces made to exhaust the memory: short when compressed, since the text repeats.
#include "import_torch_trace.hpp"
#include "torch_trace.hpp"
#include "trace_report.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <sys/resource.h>

namespace profile = vecdet::profile;

namespace {

/// The most memory that this process has had, in MB.
double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// A trace of so many events, which are made while it is read.
profile::trace_reader events(int count, const std::function<std::string(int)>& event) {
  return [=, next = 0, text = std::string("[")](char* to, std::size_t most) mutable {
    for (; text.size() < most && next < count; ++next)
      text += event(next) + (next + 1 < count ? "," : "]");
    const std::size_t size = std::min(most, text.size());
    text.copy(to, size);
    text.erase(0, size);
    return size;
  };
}

std::string event(const std::string& name, int begin, int duration, const std::string& more) {
  return R"({"ph":"X","cat":"cpu_op","pid":1,"name":")" + name + R"(","ts":)" +
         std::to_string(begin) + R"(,"dur":)" + std::to_string(duration) + more + "}";
}

bool warns(const profile::report& r, const std::string& text) {
  return std::any_of(r.warnings.begin(), r.warnings.end(), [&](const std::string& warning) {
    return warning.find(text) != warning.npos;
  });
}

}  // namespace

TEST_CASE("hostile trace: white space, empty lists and literals of many megabytes") {
  const double before = peak_memory();
  for (const std::string repeated : {" ", "\n", "{},", "[],", "null,", "true ,"}) {
    CAPTURE(repeated);
    const auto text = [&repeated, made = std::size_t{0}](char* to, std::size_t most) mutable {
      if (made > std::size_t{256} << 20) return std::size_t{0};
      if (made == 0) {
        *to = '[';
        return ++made;
      }
      for (std::size_t i = 0; i < most; ++i) to[i] = repeated[(made - 1 + i) % repeated.size()];
      made += most;
      return most;
    };
    CHECK_THROWS_WITH_AS(profile::import_torch_trace(text),
                         "more than 1 MB without a string or number", std::runtime_error);
  }
  CHECK(peak_memory() - before < 50);
}

TEST_CASE("hostile trace: large operators share one entry beyond 64 MB") {
  // 8 KB of text for 450 KB of memory: 4000 of them would take 1.8 GB.
  std::string inputs = "0";
  for (int i = 0; i < 4000; ++i) inputs += ",0";
  const double before = peak_memory();
  const profile::torch_import in = profile::import_torch_trace(events(4000, [&](int i) {
    return event("o" + std::to_string(i), i, 1, R"(,"args":{"Input type":[)" + inputs + "]}");
  }));
  CHECK(peak_memory() - before < 300);
  CHECK(warns(in.recorded, "beyond the first 65536 or 64 MB"));
}

TEST_CASE("hostile trace: long names") {
  const double before = peak_memory();
  const std::string end(4000, 'x');
  const profile::torch_import in = profile::import_torch_trace(
      events(70000, [&](int i) { return event(std::to_string(i) + end, i, 1, ""); }));
  CHECK(peak_memory() - before < 600);
  CHECK(warns(in.recorded, "beyond the first"));
}

TEST_CASE("hostile trace: strings of many megabytes and deep nesting are refused at once") {
  int made = 0;
  const std::string piece(1000, 'x');
  const auto endless = [&](const std::string& start, const std::string& more) {
    return events(1 << 30, [&, start, more](int i) {
      ++made;
      return i == 0 ? start : more;
    });
  };
  CHECK_THROWS_WITH_AS(profile::import_torch_trace(endless(R"({"ph":")", piece)),
                       "a string or number is longer than 1 MB", std::runtime_error);
  CHECK_THROWS_WITH_AS(profile::import_torch_trace(endless("[", std::string(8, '['))),
                       "not JSON at byte 3", std::runtime_error);
  CHECK_THROWS_WITH_AS(profile::import_torch_trace(endless(std::string(100, '['), "")),
                       "nested deeper than 64", std::runtime_error);
  CHECK(made < 100000);
}

TEST_CASE("hostile trace: more threads than any process has are refused") {
  const auto threads = [](int count) {
    return events(count, [](int i) { return event("o", i, 1, R"(,"tid":)" + std::to_string(i)); });
  };
  const int most = profile::trace_collector::most_threads;
  CHECK(profile::import_torch_trace(threads(most)).recorded.processes[0].threads == most);
  CHECK_THROWS_WITH_AS(profile::import_torch_trace(threads(most + 1)),
                       "it has more than 16384 threads", std::runtime_error);
}

TEST_CASE("hostile trace: calls that never end") {
  const auto begins = [](int count) {
    return events(count + 1, [=](int i) {
      return i == count ? event("o", i, 1, "")
                        : R"({"ph":"B","cat":"cpu_op","pid":1,"tid":2,"name":"b","ts":1})";
    });
  };
  const int most = profile::trace_collector::most_begun;
  CHECK(warns(profile::import_torch_trace(begins(most)).recorded, "262144 calls that begin"));
  CHECK_THROWS_WITH_AS(profile::import_torch_trace(begins(most + 1)),
                       "it has more than 262144 calls that have begun and not ended",
                       std::runtime_error);
}

TEST_CASE("hostile trace: beyond the paths that are kept, every problem still has a call") {
  // Each of 400 operators calls each of 400: 160,000 paths. The last ones call an operator that is
  // seen nowhere else.
  constexpr int side = 400;
  const profile::torch_import in = profile::import_torch_trace(events(side * side * 2, [](int i) {
    const int pair = i / 2;
    if (i % 2 == 0) return event("outer" + std::to_string(pair / side), 10 * pair, 10, "");
    const bool is_last = pair / side == side - 1;
    return event((is_last ? "late" : "inner") + std::to_string(pair % side), 10 * pair, 5, "");
  }));
  CHECK(warns(in.recorded, "on too many paths"));
  CHECK(in.recorded.paths.size() == profile::trace_nesting::most_paths);
  for (const profile::entry& e : in.recorded.entries) {
    CHECK(e.count > 0);
    CHECK(e.function.find("late") == e.function.npos);
  }
}

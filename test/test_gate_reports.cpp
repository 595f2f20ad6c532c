// SPDX-License-Identifier: Apache-2.0
// The gate's Markdown, XML and history, with names that need escapes; rules chosen by a user.
#include "bench/gate/history.hpp"
#include "bench/gate/history_page.hpp"
#include "bench/gate/report_files.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>

using namespace vecdet::gate;

namespace {

gate_result one_problem(const std::string& name, double head_to_base, const rules& rule = {}) {
  gate_result result;
  result.machine.processor = "a processor";
  result.rule = rule;
  judged_problem problem;
  problem.name = name;
  result.problems.push_back(problem);
  settle(result.problems, rule, [&](const std::vector<judged_problem*>& problems) {
    const std::vector<double> base(100, 100), control(100, 100.5);
    problems[0]->measurements.emplace_back(
        rounds{std::vector<double>(100, 100 * head_to_base), base, control, {}});
  });
  return result;
}

std::string markdown(const gate_result& result) {
  std::ostringstream out;
  write_markdown(out, result);
  return out.str();
}

std::string junit(const gate_result& result) {
  std::ostringstream out;
  write_junit(out, result);
  return out.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("gate: the threshold and the control's bound are the user's") {
  CHECK(one_problem("a", 1.04).answer() == outcome::fail);
  CHECK(one_problem("a", 1.04, {1.05, 1.01, 100, 0}).answer() == outcome::pass);
  CHECK(one_problem("a", 1.02, {1.01, 1.01, 100, 0}).answer() == outcome::fail);
  CHECK(one_problem("a", 1.04, {1.03, 1.001, 100, 0}).answer() == outcome::inconclusive);
  CHECK(one_problem("a", 1.04).problems[0].measurements.size() == 3);
  CHECK(one_problem("a", 1.0).problems[0].measurements.size() == 1);
  CHECK(one_problem("a", 1.04, {1.03, 1.001, 100, 0}).problems[0].measurements.size() == 6);
}

TEST_CASE("gate: times and counts as text") {
  CHECK(time_text(0.5) == "0.50 ns");
  CHECK(time_text(999) == "999.00 ns");
  CHECK(time_text(1500) == "1.50 us");
  CHECK(time_text(2.5e6) == "2.50 ms");
  CHECK(time_text(7e12) == "7000.00 s");
  CHECK(count_text({}, {}) == "-");
  CHECK(count_text(3.0, 3.0) == "3");
  CHECK(count_text(3.0, 4.5) == "3 -> 4.5");
  CHECK(count_text(3.0, {}) == "3 -> ?");
}

TEST_CASE("gate: Markdown and XML escape names") {
  const gate_result result = one_problem("a<b>|`c`\"&\x01", 1.04);
  CHECK(contains(markdown(result), "| a&lt;b>\\|\\`c\\`\"&amp;\x01 | 100.00 ns | 104.00 ns |"));
  CHECK(contains(junit(result), "name=\"a&lt;b&gt;|`c`&quot;&amp;?\""));
  CHECK(contains(junit(result), "failures=\"1\""));
  CHECK(
      contains(junit(result), "<failure message=\"SLOWER: head 104.00 ns, base 100.00 ns, +3.7%"));
  const gate_result open = one_problem("a", 1.04, {1.03, 1.001, 100, 0});
  CHECK(contains(junit(open), "skipped=\"1\""));
  CHECK(contains(junit(open), "<skipped message="));
  CHECK(contains(markdown(open), "### Performance gate: inconclusive"));
}

TEST_CASE("gate: a history can be read again") {
  std::stringstream file;
  for (int i = 0; i < 3; ++i)
    file << history_line(one_problem("a\"b", 1 + i), "r" + std::to_string(i), 86400 * i).dump()
         << "\n\n";
  const std::vector<benchmark_history> all = read_history(file, "h", std::cerr);
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "a\"b");
  CHECK(all[0].machine == "a processor");
  CHECK(all[0].revisions == std::vector<std::string>{"r0", "r1", "r2"});
  CHECK(all[0].times[1] == "1970-01-02T00:00:00Z");
  CHECK(all[0].ns == std::vector<double>{100, 200, 300});
  CHECK(all[0].changes.empty());
  CHECK(level(all[0], 0) == 200);
}

TEST_CASE("gate: each machine has its own history") {
  gate_result here = one_problem("a", 1), there = one_problem("a", 1);
  there.machine.processor = "another";
  std::stringstream file;
  file << history_line(here, "", 0).dump() << '\n' << history_line(there, "", 0).dump() << '\n';
  CHECK(read_history(file, "h", std::cerr).size() == 2);
}

TEST_CASE("gate: a history that no gate has written") {
  const auto message_of = [](const std::string& line) -> std::string {
    std::stringstream file("\n" + line + "\n");
    try {
      read_history(file, "h", std::cerr);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const std::string good = history_line(one_problem("a", 1), "r", 0).dump();
  CHECK(message_of(good).empty());
  for (const std::string wrong : {"0", "-1", "\"x\"", "[]"}) {
    std::string line = good;
    const std::size_t at = line.find("100.0");
    CHECK_FALSE(message_of(line.replace(at, 5, wrong)).empty());
  }
  std::string line = good;
  CHECK(contains(message_of(line.replace(line.find("1970"), 4, "<svg")), "expected as 2026"));
}

TEST_CASE("gate: a line that was cut off is named and skipped, wherever it is") {
  const std::string good = history_line(one_problem("a", 1), "r", 0).dump();
  for (std::size_t size = 1; size < good.size(); ++size) {
    for (const bool in_the_middle : {false, true}) {
      const std::string torn = good.substr(0, size);
      std::stringstream file(good + "\n" + torn + (in_the_middle ? "\n" + good + "\n" : ""));
      std::ostringstream warnings;
      const std::vector<benchmark_history> all = read_history(file, "h", warnings);
      REQUIRE(all.size() == 1);
      CHECK(all[0].ns.size() == (in_the_middle ? 2 : 1));
      CHECK(warnings.str() == "vecdet-gate: \"h\", line 2 is not complete JSON: skipped\n");
    }
  }
}

TEST_CASE("gate: problems without a time in the reports") {
  gate_result result = one_problem("a", 1);
  judged_problem broken;
  broken.name = "b";
  broken.trouble = "in head, reports an error: <none>";
  broken.head_failed = true;
  result.problems.push_back(broken);
  broken.name = "c";
  broken.head_failed = false;
  result.problems.push_back(broken);
  result.skipped = {"d: not in base"};
  CHECK(result.answer() == outcome::fail);
  CHECK(summary(result) ==
        "1 compared, 0 slower, 0 faster, 0 inconclusive, 1 failed, 2 not compared");
  CHECK(contains(markdown(result),
                 "| b | - | - | - | - | - | FAILED: in head, reports an error: "
                 "&lt;none> |"));
  CHECK(contains(junit(result), "failures=\"1\" errors=\"0\" skipped=\"1\""));
  CHECK(contains(junit(result),
                 "<failure message=\"FAILED: in head, reports an error: &lt;none&gt;"));
  CHECK(history_line(result, "r", 0)["benchmarks"].size() == 1);
  result.problems.erase(result.problems.begin() + 1);
  CHECK(result.answer() == outcome::inconclusive);
}

TEST_CASE("gate: a line is added to a history on a file system without locks") {
  const std::string path = "gate_history_without_locks.jsonl";
  const auto content = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::ofstream(path) << "torn";
  append_line(path, "a", [](int, int) { return errno = ENOLCK, -1; });
  append_line(path, "b", [](int, int) { return errno = ENOTSUP, -1; });
  append_line(path, "c", [](int, int) { return errno = EOPNOTSUPP, -1; });
  append_line(path, "d");
  CHECK(content() == "torn\na\nb\nc\nd\n");
  CHECK_THROWS_WITH_AS(append_line(path, "e", [](int, int) { return errno = EBADF, -1; }),
                       doctest::Contains("cannot be written: Bad file descriptor"),
                       std::runtime_error);
  CHECK(content() == "torn\na\nb\nc\nd\n");

  // A disk that is full after six bytes: with a lock, the incomplete line is taken back.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{content().size() + 6, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_WITH_AS(append_line(path, "0123456789"), doctest::Contains("cannot be written"),
                       std::runtime_error);
  CHECK(content() == "torn\na\nb\nc\nd\n");
  CHECK_THROWS_WITH_AS(append_line(path, "0123456789", [](int, int) { return errno = ENOLCK, -1; }),
                       doctest::Contains("has an incomplete last line"), std::runtime_error);
  CHECK(content() == "torn\na\nb\nc\nd\n012345");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  std::filesystem::remove(path);
}

TEST_CASE("gate: the history's page says from how many runs it can tell") {
  const auto history_of = [](const char* name, int runs, int step) {
    benchmark_history series;
    series.name = name;
    series.machine = "m";
    for (int i = 0; i < runs; ++i) {
      series.times.push_back("2026-01-01T00:00:00Z");
      series.revisions.push_back("r");
      series.ns.push_back(i < step ? 100 : 150);
    }
    series.changes = change_points(series.ns);
    return series;
  };
  std::ostringstream out;
  write_history_page(
      out, {history_of("few", 8, 4), history_of("same", 12, 12), history_of("stepped", 10, 5)});
  const std::string page = out.str();
  CHECK(contains(page, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
  CHECK(contains(page, "3 benchmarks, 1 change. "));
  CHECK(contains(
      page, "It takes 5 runs before a step and 5 after it to tell it from chance, or 3 after"));
  CHECK(contains(page, "1 benchmark has fewer than 10 runs and no change"));
  CHECK(contains(page, "8 runs: too few to tell a change"));
  CHECK_FALSE(contains(page, "12 runs: too few"));
  CHECK(page.find("<h2>stepped") < page.find("<h2>few"));
  CHECK(page.find("<h2>few") < page.find("<h2>same"));
}

TEST_CASE("gate: the history's page escapes what it shows") {
  benchmark_history series;
  series.name = "<script>";
  series.machine = "m&m";
  for (int i = 0; i < 4; ++i) {
    series.times.push_back("2026-01-01T00:00:00Z");
    series.revisions.push_back("<b>");
    series.ns.push_back(i < 2 ? 100 : 150);
  }
  series.changes = {2};
  std::ostringstream out;
  write_history_page(out, {series});
  CHECK_FALSE(contains(out.str(), "<script>"));
  CHECK_FALSE(contains(out.str(), "<b>"));
  CHECK(contains(out.str(), "m&amp;m"));
  CHECK(contains(out.str(), "+50.0%"));
}

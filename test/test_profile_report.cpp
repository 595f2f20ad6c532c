// SPDX-License-Identifier: Apache-2.0
// The formats of a report, for any names, and its output files.
#include "support/report_files.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace profile = vecdet::profile;
using namespace vecdet::test;
using nlohmann::json;

namespace {

/// A profile with all kinds of problematic names, in two nested scopes.
profile::report awkward_report() {
  profile::enable();
  profile::reset();
  profile::keep_events(32);
  for (int i = 0; i < 3; ++i) {
    VECDET_PROFILE_SCOPE("quotes \" and \\, comma; semicolon </script>\n line");
    VECDET_PROFILE_WORK("größer 検出 \xff\xc0 broken", 1000, 2000, 7, 8);
    const profile::scope kernel([] {
      return profile::problem{"nms", "torchvision", "f32", {1000}, "avx2", 2, 4000, 9000};
    });
  }
  profile::disable();
  profile::report r = profile::snapshot();
  profile::keep_events(0);
  profile::reset();
  r.machine.memory_gbs = r.machine.memory_gbs_all_threads = 40;
  r.machine.gflops_f32 = r.machine.gflops_f32_all_threads = 250;
  r.warnings.push_back("a \"warning\"");
  return r;
}

template <class Write>
std::string written(const Write& write) {
  std::ostringstream out;
  write(out);
  return out.str();
}

}  // namespace

TEST_CASE("profile: JSON follows its schema for any names") {
  const profile::report r = awkward_report();
  const std::string text = written([&](std::ostream& out) { write_json(out, r); });
  const json j = json::parse(text);  // throws on bytes that are not UTF-8
  CHECK(vecdet::test::schema_violation(schema(), j) == "");
  REQUIRE(j["entries"].size() == 3);
  std::vector<std::string> names;
  double share = 0;
  for (const json& e : j["entries"]) {
    names.push_back(e["name"]);
    share += e["share"].get<double>();
  }
  CHECK(share == doctest::Approx(1));
  CHECK(std::count(names.begin(), names.end(),
                   "quotes \" and \\, comma; semicolon </script>\n line") == 1);
  CHECK(std::count(names.begin(), names.end(), "größer 検出 \xef\xbf\xbd\xef\xbf\xbd broken/7x8") ==
        1);
  CHECK(std::count(names.begin(), names.end(), "nms/torchvision/f32/1000/avx2/threads:2") == 1);
  // A report that violates the schema is refused.
  json broken = j;
  broken["entries"][0]["count"] = -1;
  CHECK(vecdet::test::schema_violation(schema(), broken) != "");
  broken = j;
  broken["entries"][0].erase("p99_ns");
  CHECK(vecdet::test::schema_violation(schema(), broken) != "");
  broken = j;
  broken["surprise"] = 1;
  CHECK(vecdet::test::schema_violation(schema(), broken) != "");
  // An empty profile follows the schema too.
  const json empty =
      json::parse(written([&](std::ostream& out) { write_json(out, profile::report{}); }));
  CHECK(vecdet::test::schema_violation(schema(), empty) == "");
}

TEST_CASE("profile: the trace is in the Trace Event Format") {
  const profile::report r = awkward_report();
  const json j = json::parse(written([&](std::ostream& out) { write_trace(out, r); }));
  CHECK(j.at("displayTimeUnit") == "ns");
  int complete = 0;
  for (const json& e : j.at("traceEvents")) {
    CHECK(e.at("name").is_string());
    CHECK(e.at("pid").is_number_integer());
    CHECK(e.at("tid").is_number_integer());
    if (e.at("ph") == "M") continue;
    REQUIRE(e.at("ph") == "X");
    CHECK(e.at("ts").get<double>() >= 0);
    CHECK(e.at("dur").get<double>() >= 0);
    ++complete;
  }
  CHECK(complete == 9);
}

TEST_CASE("profile: in the trace, scopes of one thread are nested or disjoint") {
  profile::report r;
  r.processes.emplace_back();
  r.entries.emplace_back();
  r.entries[0].name = "scope";
  const auto add = [&](double begin, double end) {
    profile::event e;
    e.begin_ns = begin;
    e.duration_ns = end - begin;
    r.events.push_back(e);
  };
  // Each event begins no earlier than the previous one, and ends inside it.
  for (int i = 0; i < 200; ++i) {
    const double begin = 1000 * i + 0.37 * i, end = begin + 600.45 + 0.19 * i;
    add(begin, end);
    add(begin + 0.3, end);
    add(begin + 0.45, end - 0.2);
  }
  const json j = json::parse(written([&](std::ostream& out) { write_trace(out, r); }));
  std::vector<std::pair<std::int64_t, std::int64_t>> scopes;
  for (const json& e : j.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const std::int64_t begin = std::llround(1000 * e.at("ts").get<double>());
    scopes.emplace_back(begin, begin + std::llround(1000 * e.at("dur").get<double>()));
  }
  REQUIRE(scopes.size() == 600);
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    if (i % 3 == 0) continue;
    CHECK(scopes[i].first >= scopes[i - 1].first);
    CHECK(scopes[i].second <= scopes[i - 1].second);
  }
}

TEST_CASE("profile: CSV has one row per problem, quoted if necessary") {
  const profile::report r = awkward_report();
  const std::string text = written([&](std::ostream& out) { write_csv(out, r); });
  // RFC 4180, read back.
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      if (quoted && i + 1 < text.size() && text[i + 1] == '"') {
        rows.back().back() += text[++i];
      } else {
        quoted = !quoted;
      }
    } else if (quoted || (c != ',' && c != '\r' && c != '\n')) {
      rows.back().back() += c;
    } else if (c == ',') {
      rows.back().push_back("");
    } else if (c == '\n') {
      rows.push_back({""});
    }
  }
  rows.pop_back();
  REQUIRE(rows.size() == 4);
  for (const auto& row : rows) CHECK(row.size() == rows[0].size());
  bool found = false;
  for (const auto& row : rows)
    found = found || row[0] == "quotes \" and \\, comma; semicolon </script>\n line";
  CHECK(found);
}

TEST_CASE("profile: folded stacks have one path and number per line") {
  const profile::report r = awkward_report();
  std::istringstream lines(written([&](std::ostream& out) { write_folded(out, r); }));
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n) {
    const std::size_t space = line.rfind(' ');
    REQUIRE(space != std::string::npos);
    CHECK(line.find_first_not_of("0123456789", space + 1) == std::string::npos);
    CHECK(std::count(line.begin(), line.end(), ';') == n);
  }
  CHECK(n == 3);
}

TEST_CASE("profile: the page contains its data and loads nothing") {
  const profile::report r = awkward_report();
  const std::string page = written([&](std::ostream& out) { write_html(out, r, &r, "a", "b"); });
  for (const char* foreign : {"http://", "https://", "src=", "@import", "url(\"", "url('"}) {
    CHECK_MESSAGE(!contains(page, foreign), foreign);
  }
  std::size_t scripts_end = 0;
  for (std::size_t at = page.find("</script>"); at != std::string::npos;
       at = page.find("</script>", at + 1)) {
    ++scripts_end;
  }
  CHECK(scripts_end == 1);
  const std::size_t begin = page.find("const PROFILE=") + 14;
  const json j = json::parse(page.substr(begin, page.find(";\nconst BASELINE=", begin) - begin));
  CHECK(vecdet::test::schema_violation(schema(), j) == "");
}

TEST_CASE("profile: the table has one line per problem") {
  const profile::report r = awkward_report();
  const std::string table = written([&](std::ostream& out) { write_table(out, r); });
  CHECK(contains(table, "nms/torchvision/f32/1000/avx2/threads:2"));
  CHECK(contains(table, "semicolon </script>  line\n"));
  CHECK(
      contains(written([&](std::ostream& out) { write_table(out, r, 1); }), "and 2 more problems"));
  CHECK(contains(written([&](std::ostream& out) { write_table(out, profile::report{}); }),
                 "no scope has ended"));
}

TEST_CASE("profile: the table by function groups the problems of each") {
  profile::enable();
  profile::reset();
  for (const std::int64_t boxes : {8, 9, 10}) {
    const profile::scope kernel([&] {
      return profile::problem{"match_anchors", "", "f32", {boxes, 100}, "avx2", 2, 4000, 9000};
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  { VECDET_PROFILE_SCOPE("step"); }
  profile::disable();
  profile::report r = profile::snapshot();
  profile::reset();
  r.machine.memory_gbs = r.machine.memory_gbs_all_threads = 40;
  const auto table = [&](std::size_t rows, profile::rows_of kind) {
    return written([&](std::ostream& out) { write_table(out, r, rows, kind); });
  };
  const std::string problems = table(50, profile::rows_of::problems);
  CHECK(contains(problems, "match_anchors/f32/9x100/avx2/threads:2\n"));
  CHECK(contains(problems, " % memory"));
  CHECK(contains(problems, ", 1 caller, "));
  CHECK(contains(problems, "callers  problem\n"));
  const std::string functions = table(50, profile::rows_of::functions);
  CHECK(contains(functions, "in 4 scopes of 4 problems"));
  CHECK(contains(functions, "callers  function\n"));
  CHECK(contains(functions, "match_anchors, 3 problems\n"));
  CHECK(contains(functions, "step\n"));
  CHECK_FALSE(contains(functions, "100/avx2"));
  CHECK_FALSE(contains(functions, " % memory"));
  CHECK(contains(table(1, profile::rows_of::functions), "and 1 more functions"));
  CHECK(std::count(functions.begin(), functions.end(), '\n') ==
        std::count(problems.begin(), problems.end(), '\n') - 2);
}

TEST_CASE("profile: time spent waiting for other processes is separate") {
  profile::enable();
  profile::reset();
  {
    VECDET_PROFILE_SCOPE("step");
    VECDET_PROFILE_WAIT("all_reduce");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  profile::disable();
  const profile::report r = profile::snapshot();
  profile::reset();
  const profile::process_info& process = r.processes[0];
  CHECK(process.recorded_ns == r.whole_ns());
  CHECK(process.waiting_ns >= 2e6);
  for (const profile::entry& e : r.entries)
    if (e.name == "all_reduce/waiting") CHECK(process.waiting_ns == e.self_ns);
  CHECK(written([&](std::ostream& out) { write_table(out, r); }).find("computing") !=
        std::string::npos);
}

TEST_CASE("profile: reports contain no terminal control codes") {
  CHECK(profile::detail::one_line("a\x1b[2Jb\tc\x7f\r\n") == "a [2Jb c   ");
  CHECK(profile::detail::one_line("\xc2\x9b[2J \x9b[2J") == " [2J ?[2J");
  CHECK(profile::detail::one_line("größer 検出 \xc2\xa0") == "größer 検出 \xc2\xa0");
  profile::report r;
  r.processes.emplace_back();
  r.entries.emplace_back();
  const std::string hostile = "\x1b]0;title\a\x9b[2J\xc2\x9b[2J\n";
  r.warnings = {hostile};
  r.entries[0].name = r.entries[0].function = r.processes[0].command = r.processes[0].host =
      hostile;
  r.paths.emplace_back();
  r.paths[0].entries = {0};
  for (const std::string& text : {written([&](std::ostream& out) { write_table(out, r); }),
                                  written([&](std::ostream& out) { write_folded(out, r); })}) {
    CHECK(text.find_first_of("\x1b\a\x9b\x7f") == std::string::npos);
    CHECK(contains(text, " ]0;title") + contains(text, " ]0,title") == 1);
  }
}

TEST_CASE("profile: the position below the roofline") {
  profile::machine_info m;
  m.threads = 4;
  m.cache_bytes = 1e6;
  m.cache_gbs = 200;
  m.cache_gbs_all_threads = 800;
  m.memory_gbs = 40;
  m.memory_gbs_all_threads = 100;
  m.gflops_f32 = 250;
  m.gflops_f32_all_threads = 1000;
  profile::entry e;
  e.count = 1;
  e.threads = 1;
  e.inclusive_ns = 1e6;
  e.bytes = 20e6;  // 20 GB/s
  CHECK(position(e, m).percent == doctest::Approx(50));
  CHECK(std::string(position(e, m).bound) == "memory");
  e.threads = 2;
  CHECK(position(e, m).percent == doctest::Approx(25));
  e.threads = 4;
  CHECK(position(e, m).percent == doctest::Approx(20));
  e.threads = 1;
  e.flops = 200e6;  // 200 GFLOP/s
  CHECK(position(e, m).percent == doctest::Approx(80));
  CHECK(std::string(position(e, m).bound) == "compute");
  e.type = "f64";
  CHECK(position(e, m).percent == doctest::Approx(160));
  e.type = "f32";
  e.flops = 0;
  e.count = 100;  // 200 kB per call
  CHECK(std::string(position(e, m).bound) == "cache");
  CHECK(position(e, m).percent == doctest::Approx(10));
  CHECK(position(e, profile::machine_info{}).percent == 0);
}

TEST_CASE("profile: the file name selects the format") {
  using profile::format;
  CHECK(profile::format_of("a/b.json") == format::json);
  CHECK(profile::format_of("trace.json") == format::trace);
  CHECK(profile::format_of("trace/b.json") == format::json);
  CHECK(profile::format_of("x.html") == format::html);
  CHECK(profile::format_of("x.csv") == format::csv);
  CHECK(profile::format_of("x.folded") == format::folded);
  CHECK(profile::format_of("x.txt") == format::table);
  CHECK_THROWS_AS(profile::format_of("x.xml"), std::invalid_argument);
  CHECK_THROWS_AS(profile::format_of(".json"), std::invalid_argument);
  const temporary_folder folder;
  profile::write_file(folder.path + "/ä b.json", awkward_report());
  CHECK(json::accept(read_file(folder.path + "/ä b.json")));
  const std::filesystem::directory_iterator files(folder.path);
  CHECK(std::distance(begin(files), end(files)) == 1);  // nothing else is left
  CHECK_THROWS_WITH_AS(profile::write_file(folder.path + "/none/x.json", profile::report{}),
                       doctest::Contains("No such file or directory"), std::runtime_error);
  CHECK_THROWS_WITH_AS(profile::write_file("/dev/full", [](std::ostream& out) { out << "x"; }),
                       doctest::Contains("No space left"), std::runtime_error);
}

TEST_CASE("profile: a report neither follows links nor replaces a pipe") {
  const temporary_folder folder;
  const auto write_report = [](const std::string& path) {
    profile::write_file(path, [](std::ostream& out) { out << "report"; });
  };
  // Files and links exist under the name of the new file and under that of the report.
  const std::string victim = folder.path + "/victim", report = folder.path + "/p.json";
  std::ofstream(victim) << "precious";
  const std::string partial = profile::detail::partial_name(report, 0);
  for (const std::string& name : {report, report + ".partial", partial})
    REQUIRE(symlink(victim.c_str(), name.c_str()) == 0);
  std::ofstream(profile::detail::partial_name(report, 1)) << "of another process";
  write_report(report);
  CHECK(read_file(victim) == "precious");
  CHECK(read_file(report) == "report");
  CHECK(std::filesystem::symlink_status(report).type() == std::filesystem::file_type::regular);
  CHECK(read_file(profile::detail::partial_name(report, 1)) == "of another process");

  // A pipe, and the user's own link to a pipe, are written to.
  const std::string pipe = folder.path + "/pipe.json", link = folder.path + "/link.json";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(symlink("pipe.json", link.c_str()) == 0);
  for (const std::string& name : {pipe, link}) {
    const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    REQUIRE(reader >= 0);
    write_report(name);
    char text[16] = {};
    CHECK(read(reader, text, sizeof text) == 6);
    CHECK(std::string(text) == "report");
    close(reader);
  }
  CHECK(std::filesystem::status(pipe).type() == std::filesystem::file_type::fifo);
  CHECK(std::filesystem::is_symlink(link));
  CHECK_THROWS_WITH_AS(write_report(folder.path), doctest::Contains("Is a directory"),
                       std::runtime_error);
}

// SPDX-License-Identifier: Apache-2.0
// What is reported: quantiles against exact ones, the formats, the environment, forks.
#include "support/json_schema.hpp"
#include "support/sanitizer.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace profile = vecdet::profile;
using nlohmann::json;

namespace {

profile::entry record_all(const std::vector<std::int64_t>& durations) {
  profile::detail::interned_problem interned;
  profile::problem p;
  p.function = "recorded";
  interned.key = p;
  auto stats = std::make_unique<profile::detail::statistics>();
  stats->interned = &interned;
  for (const std::int64_t d : durations) stats->record(d, d);
  return profile::detail::read_statistics(*stats);
}

double exact_quantile(std::vector<std::int64_t> sorted, double q) {
  std::sort(sorted.begin(), sorted.end());
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<std::size_t>(rank);
  const auto next = std::min(i + 1, sorted.size() - 1);
  const double f = rank - static_cast<double>(i);
  return static_cast<double>(sorted[i]) * (1 - f) + static_cast<double>(sorted[next]) * f;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A folder that is removed at the end.
struct temporary_folder {
  std::string path = (std::filesystem::temp_directory_path() / "profile-test-XXXXXX").string();
  temporary_folder() { REQUIRE(mkdtemp(&path[0]) != nullptr); }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

/// A profile with all that may go wrong in names, in two nested scopes.
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

json schema() {
  return json::parse(read_file(VECDET_SOURCE_DIR "/bench/profile/profile.schema.json"));
}

struct program_result {
  int status;
  std::string output;
};

/// Runs the test case "profile: child program" in a process of its own.
program_result run_child(const std::string& environment) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  REQUIRE(length > 0);
  self[length] = '\0';
  const std::string command = "env " + environment + " '" + std::string(self) +
                              "' --no-skip --test-case='profile: child program' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  program_result result;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    result.output.append(buffer, n);
  }
  result.status = pclose(pipe);
  return result;
}

/// Memory that the process has, in bytes.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  REQUIRE(static_cast<bool>(file >> size >> resident));
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// Run by others, in a process of its own.
TEST_CASE("profile: child program" * doctest::skip()) {
  if (std::getenv("PROFILE_TEST_ENABLE") != nullptr) {
    std::atomic<int> ready{0}, uncalibrated{0};
    const auto enable = [&] {
      ready.fetch_add(1);
      while (ready.load() < 3) std::this_thread::yield();
      profile::enable();
      if (profile::detail::overhead.whole == 0) uncalibrated.fetch_add(1);
    };
    std::thread second(enable), third(enable);
    enable();
    second.join();
    third.join();
    CHECK(uncalibrated == 0);
  }
  if (std::getenv("PROFILE_TEST_NUMBERS") != nullptr) {
    const std::string first = profile::numbered_name("number", 0);
    CHECK(first == "number0");
    for (int i = 0; i < 20000; ++i) profile::numbered_name("number", i);
    CHECK(profile::detail::registry::get().strings.size() == profile::problems_kept);
    CHECK(profile::numbered_name("number", 20000) == std::string("number"));
    CHECK(profile::numbered_name("number", 0) == first);
  }
  if (std::getenv("PROFILE_TEST_WORK") != nullptr) VECDET_PROFILE_WORK("child's work", 1000, 2000);
  for (int i = 0; i < 4; ++i) VECDET_PROFILE_SCOPE("child's scope");
  if (std::getenv("PROFILE_TEST_MANY") != nullptr) {
    profile::reset();
    for (int round = 0; round < 2; ++round) {
      for (std::int64_t i = 1; i <= 20000; ++i) VECDET_PROFILE_WORK("many", 0, 0, i);
    }
  }
  if (std::getenv("PROFILE_TEST_MEMORY") != nullptr) {
    const double before = resident_bytes();
    constexpr int threads = 64;
    std::atomic<int> done{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&] {
        for (std::int64_t i = 1; i <= 70000; ++i) VECDET_PROFILE_WORK("many", 0, 0, i);
        done.fetch_add(1);  // alive until all have recorded
        while (done.load() < threads) std::this_thread::yield();
      });
    }
    while (done.load() < threads) std::this_thread::yield();
    const double grown = resident_bytes() - before;
    for (std::thread& thread : all) thread.join();
    CHECK(grown < (200 << 20) + threads * (64 << 10));
    std::uint64_t recorded = 0;
    for (const profile::entry& e : profile::snapshot().entries) recorded += e.count;
    CHECK(recorded >= threads * 70000);
  }
  if (std::getenv("PROFILE_TEST_STATIC") != nullptr) {
    struct recording_destructor {
      ~recording_destructor() {
        for (int i = 0; i < 3; ++i) VECDET_PROFILE_SCOPE("static destructor");
      }
    };
    static const recording_destructor object;
    static_cast<void>(object);
    if (std::getenv("PROFILE_TEST_STATIC") == std::string("thread"))
      std::thread([] { std::exit(0); }).join();
  }
  if (std::getenv("PROFILE_TEST_PRINT") != nullptr) {
    const auto record = [](const std::string& say, double seconds) {
      std::cerr << say << std::endl;
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds))
        VECDET_PROFILE_SCOPE("child's scope");
    };
    profile::print_every(1000);
    profile::enable();
    record("nothing is due", 0.1);
    profile::print_every(0.01);
    record("tables are due", 0.5);
    profile::print_every(0);
  }
  if (std::getenv("PROFILE_TEST_MACHINE") != nullptr) {
    std::ofstream("/proc/self/clear_refs") << 5;  // the most that was resident counts from here on
    const double before = resident_bytes();
    profile::measure_machine();
    std::ifstream file("/proc/self/status");
    double most = 0;
    for (std::string line; std::getline(file, line);)
      if (line.compare(0, 6, "VmHWM:") == 0) most = 1024 * std::strtod(line.c_str() + 6, nullptr);
    CHECK(most > 0);
    CHECK(most - before < (72 << 20));
  }
  if (std::getenv("PROFILE_TEST_FORK_WHILE_MEASURING") != nullptr) {
    VECDET_PROFILE_WORK("measured against the machine", 1000, 2000);
    std::thread measures([] { profile::measure_machine(); });
    std::mutex& mutex = profile::detail::the_machine().mutex;
    while (mutex.try_lock()) {  // until it is at it
      mutex.unlock();
      std::this_thread::yield();
    }
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);  // rather than hang
      { VECDET_PROFILE_WORK("measured against the machine", 1000, 2000); }
      const profile::machine_info m = profile::full_snapshot().machine;
      _exit(m.threads > 0 && profile::detail::known_machine().threads == m.threads ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    measures.join();
    CHECK(profile::detail::known_machine().threads > 0);
  }
  if (std::getenv("PROFILE_TEST_PATHS") != nullptr) {
    profile::reset();
    for (std::int64_t i = 1; i <= 300; ++i) {
      VECDET_PROFILE_WORK("outer", 0, 0, i);
      for (std::int64_t j = 1; j <= 300; ++j) VECDET_PROFILE_WORK("inner", 0, 0, j);
    }
  }
  if (std::getenv("PROFILE_TEST_SECOND") != nullptr) {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::seconds(1))
      VECDET_PROFILE_SCOPE("child's scope");
  }
  if (std::getenv("PROFILE_TEST_FORK") == nullptr) return;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 7; ++i) VECDET_PROFILE_SCOPE("fork's scope");
    std::exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("profile: buckets are consecutive and 1/32 wide at most") {
  for (int b = 0; b < profile::histogram_size - 1; ++b) {
    const double low = profile::histogram_lower_bound(b),
                 high = profile::histogram_lower_bound(b + 1);
    REQUIRE(profile::histogram_bucket(static_cast<std::int64_t>(low)) == b);
    REQUIRE(profile::histogram_bucket(static_cast<std::int64_t>(high) - 1) == b);
    REQUIRE(high > low);
    REQUIRE((high - low <= 1 || (high - low) / low <= 1.0 / 32));
  }
  CHECK(profile::histogram_bucket(INT64_MAX) == profile::histogram_size - 1);
  CHECK(profile::histogram_bucket(0) == 0);
}

TEST_CASE("profile: statistics of known distributions against exact ones") {
  std::mt19937_64 random(1);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  struct distribution {
    const char* name;
    std::vector<std::int64_t> values;
  };
  std::vector<distribution> all;
  for (const int size : {1, 2, 255, 256, 257, 100000}) {
    distribution constant{"constant", {}}, flat{"flat", {}}, exponential{"exponential", {}};
    distribution heavy{"heavy tail", {}}, two{"two peaks", {}};
    for (int i = 0; i < size; ++i) {
      constant.values.push_back(123456);
      flat.values.push_back(static_cast<std::int64_t>(1000 + 5000 * uniform()));
      exponential.values.push_back(static_cast<std::int64_t>(-20000 * std::log(1 - uniform())));
      heavy.values.push_back(static_cast<std::int64_t>(50 / std::pow(1 - uniform(), 1.2)));
      two.values.push_back(
          static_cast<std::int64_t>((uniform() < 0.7 ? 300 : 90000) * (1 + 0.01 * uniform())));
    }
    for (auto* d : {&constant, &flat, &exponential, &heavy, &two}) all.push_back(*d);
  }
  for (const distribution& d : all) {
    CAPTURE(d.name);
    CAPTURE(d.values.size());
    const profile::entry e = record_all(d.values);
    const auto n = static_cast<double>(d.values.size());
    double sum = 0, squares = 0;
    for (const std::int64_t v : d.values) sum += static_cast<double>(v);
    for (const std::int64_t v : d.values) {
      squares += (static_cast<double>(v) - sum / n) * (static_cast<double>(v) - sum / n);
    }
    CHECK(e.count == d.values.size());
    CHECK(e.total_ns == sum);
    CHECK(e.mean_ns() == doctest::Approx(sum / n));
    CHECK(e.stddev_ns() == doctest::Approx(std::sqrt(squares / n)).epsilon(1e-6));
    CHECK(e.min_ns == static_cast<double>(*std::min_element(d.values.begin(), d.values.end())));
    CHECK(e.max_ns == static_cast<double>(*std::max_element(d.values.begin(), d.values.end())));
    const double exactly = d.values.size() <= profile::samples_kept ? 1e-6 : 1.0 / 32;
    for (const double q : {0.0, 0.5, 0.9, 0.99, 1.0}) {
      CAPTURE(q);
      CHECK(e.quantile_ns(q) == doctest::Approx(exact_quantile(d.values, q)).epsilon(exactly));
    }
  }
}

TEST_CASE("profile: the samples kept are drawn evenly from all calls") {
  std::vector<std::int64_t> ramp;
  for (int i = 0; i < 200000; ++i) ramp.push_back(i);
  const profile::entry e = record_all(ramp);
  REQUIRE(e.samples.size() == profile::samples_kept);
  std::vector<float> sorted = e.samples;
  std::sort(sorted.begin(), sorted.end());
  // Kolmogorov-Smirnov against the flat distribution, at 1e-3.
  double distance = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double expected = static_cast<double>(sorted[i]) / 200000;
    distance = std::max(distance, std::fabs(expected - (static_cast<double>(i) + 0.5) / 256));
  }
  CHECK(distance < 1.95 / 16);
}

TEST_CASE("profile: merging keeps count, mean, variance and extremes") {
  std::vector<std::int64_t> a, b, both;
  for (int i = 0; i < 1000; ++i) {
    a.push_back(100 + i);
    b.push_back(5000 + 3 * i);
  }
  both = a;
  both.insert(both.end(), b.begin(), b.end());
  profile::entry merged = record_all(a);
  profile::detail::merge_entry(merged, record_all(b));
  const profile::entry expected = record_all(both);
  CHECK(merged.count == expected.count);
  CHECK(merged.total_ns == expected.total_ns);
  CHECK(merged.variance_ns2 == doctest::Approx(expected.variance_ns2));
  CHECK(merged.min_ns == expected.min_ns);
  CHECK(merged.max_ns == expected.max_ns);
  CHECK(merged.histogram == expected.histogram);
  CHECK(merged.samples.size() == profile::samples_kept);
  const auto low =
      std::count_if(merged.samples.begin(), merged.samples.end(), [](float s) { return s < 2000; });
  CHECK(low == 128);
}

TEST_CASE("profile: JSON keeps to its schema, whatever the names") {
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
  // The schema does bite.
  json broken = j;
  broken["entries"][0]["count"] = -1;
  CHECK(vecdet::test::schema_violation(schema(), broken) != "");
  broken = j;
  broken["entries"][0].erase("p99_ns");
  CHECK(vecdet::test::schema_violation(schema(), broken) != "");
  broken = j;
  broken["surprise"] = 1;
  CHECK(vecdet::test::schema_violation(schema(), broken) != "");
  // An empty profile keeps to it too.
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

TEST_CASE("profile: in the trace, scopes of one thread lie inside or beside each other") {
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
  // Each next one begins where the one before does, or later, and ends inside of it.
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

TEST_CASE("profile: CSV has a row a problem, quoted where needed") {
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

TEST_CASE("profile: folded stacks have a path and a number a line") {
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

TEST_CASE("profile: the page holds its data and nothing from elsewhere") {
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

TEST_CASE("profile: the table names every problem, on a line of its own") {
  const profile::report r = awkward_report();
  const std::string table = written([&](std::ostream& out) { write_table(out, r); });
  CHECK(contains(table, "nms/torchvision/f32/1000/avx2/threads:2"));
  CHECK(contains(table, "semicolon </script>  line\n"));
  CHECK(
      contains(written([&](std::ostream& out) { write_table(out, r, 1); }), "and 2 more problems"));
  CHECK(contains(written([&](std::ostream& out) { write_table(out, profile::report{}); }),
                 "no scope has ended"));
}

TEST_CASE("profile: what a process waits for others is told apart") {
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

TEST_CASE("profile: nothing in a report speaks to the terminal") {
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

TEST_CASE("profile: the position under the roofline") {
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
  e.count = 100;  // 200 kB a call
  CHECK(std::string(position(e, m).bound) == "cache");
  CHECK(position(e, m).percent == doctest::Approx(10));
  CHECK(position(e, profile::machine_info{}).percent == 0);
}

TEST_CASE("profile: files by name") {
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

TEST_CASE("profile: a report neither follows links nor takes a pipe's place") {
  const temporary_folder folder;
  const auto write_report = [](const std::string& path) {
    profile::write_file(path, [](std::ostream& out) { out << "report"; });
  };
  // Files and links where the new file, and where the report, comes to lie.
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

  // A pipe, and one's own link to a pipe, are written to.
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

TEST_CASE("profile: what VECDET_PROFILE may hold") {
  using profile::detail::parse_environment;
  CHECK(parse_environment("1").table);
  CHECK(parse_environment("on").table);
  for (const char* off : {"", "0", "off", ","}) {
    CHECK_FALSE(parse_environment(off).table);
    CHECK(parse_environment(off).files.empty());
    CHECK(parse_environment(off).mistakes.empty());
  }
  const auto several = parse_environment("a.json,trace.json,every:2.5,c.html");
  CHECK(several.files == std::vector<std::string>{"a.json", "trace.json", "c.html"});
  CHECK(several.every == 2.5);
  CHECK(parse_environment("every:x").mistakes.size() == 1);
  CHECK(parse_environment("every:-1").mistakes.size() == 1);
  CHECK(parse_environment("yes,report.xml").mistakes.size() == 2);
  using profile::detail::file_for_process;
  CHECK(file_for_process("a.json", 7, -1, false) == "a.json");
  CHECK(file_for_process("a.json", 7, 3, false) == "a.rank3.json");
  CHECK(file_for_process("a.%r.json", 7, 3, false) == "a.3.json");
  CHECK(file_for_process("a.%p.json", 7, 3, true) == "a.7.json");
  CHECK(file_for_process("a.json", 7, 3, true) == "a.rank3.pid7.json");
}

TEST_CASE("profile: VECDET_PROFILE alone gives each report") {
  const temporary_folder folder;
  const std::string f = folder.path + "/";
  const program_result ran = run_child("PROFILE_TEST_WORK=1 VECDET_PROFILE=1," + f + "r.json," + f +
                                       "r.html," + f + "r.csv," + f + "trace.json," + f +
                                       "r.folded," + f + "r.txt," + f + "none/x.json,nonsense");
  CHECK_MESSAGE(ran.status == 0, ran.output);
  CHECK(contains(ran.output, "child's scope"));
  CHECK(contains(ran.output, "cannot write \"" + f + "none/x.json\": No such file or directory"));
  CHECK(contains(ran.output, "\"nonsense\" is neither"));
  const json j = json::parse(read_file(f + "r.json"));
  CHECK(vecdet::test::schema_violation(schema(), j) == "");
  CHECK(j["entries"].size() == 2);
  for (const json& e : j["entries"]) {
    CHECK(e["count"] == (e["name"] == "child's work" ? 1 : 4));
    CHECK((e["roofline_percent"].get<double>() > 0) == (e["name"] == "child's work"));
  }
  CHECK(j["machine"]["memory_gbs"].get<double>() > 0);
  CHECK(contains(read_file(f + "r.html"), "child's scope"));
  CHECK(contains(read_file(f + "r.csv"), "child's scope"));
  CHECK(contains(read_file(f + "r.txt"), "child's scope"));
  CHECK(contains(read_file(f + "r.folded"), "child's scope "));
  CHECK(json::parse(read_file(f + "trace.json"))["traceEvents"].size() >= 4);
}

TEST_CASE("profile: several threads enable it first, and each finds it calibrated") {
  const program_result ran = run_child("PROFILE_TEST_ENABLE=1");
  CHECK_MESSAGE(ran.status == 0, ran.output);
}

TEST_CASE("profile: thousands of names with numbers, and then no more") {
  const program_result ran = run_child("PROFILE_TEST_NUMBERS=1");
  CHECK_MESSAGE(ran.status == 0, ran.output);
}

TEST_CASE("profile: thousands of problems, and then no more") {
  const temporary_folder folder;
  const program_result ran =
      run_child("PROFILE_TEST_MANY=1 VECDET_PROFILE=" + folder.path + "/r.json");
  CHECK_MESSAGE(ran.status == 0, ran.output);
  const json j = json::parse(read_file(folder.path + "/r.json"));
  CHECK(j["entries"].size() <= profile::problems_kept + 1);
  CHECK(j["entries"].size() > profile::problems_kept - 8);
  std::uint64_t all = 0, others = 0, first = 0;
  for (const json& e : j["entries"]) {
    const auto count = e["count"].get<std::uint64_t>();
    all += count;
    if (e["name"] == profile::other_problems) others = count;
    if (e["name"] == "many/1") first = count;
  }
  CHECK(all == 40000);
  CHECK(first == 2);
  CHECK(others >= 2 * (20000 - profile::problems_kept));
}

// Sanitizers take memory of their own, and start no threads in a fork of several.
#if !defined(TEST_UNDER_SANITIZER)
TEST_CASE("profile: a fork while another thread measures the machine") {
  const program_result ran = run_child("PROFILE_TEST_FORK_WHILE_MEASURING=1 VECDET_PROFILE=1");
  CHECK_MESSAGE(ran.status == 0, ran.output);
}

TEST_CASE("profile: measuring the machine takes 64 MiB at most") {
  if (access("/proc/self/clear_refs", W_OK) != 0) {
    MESSAGE("skipped: the kernel does not start counting memory anew");
    return;
  }
  const program_result ran = run_child("PROFILE_TEST_MACHINE=1");
  CHECK_MESSAGE(ran.status == 0, ran.output);
}

TEST_CASE("profile: however many problems on however many threads, memory is bounded") {
  const program_result ran = run_child("PROFILE_TEST_MEMORY=1 VECDET_PROFILE=every:1000");
  CHECK_MESSAGE(ran.status == 0, ran.output);
}
#endif

TEST_CASE("profile: what control groups leave") {
  const temporary_folder folder;
  const auto group = [&](const std::string& path, const char* limit_file, const char* limit,
                         const char* usage_file, double usage, const std::string& statistics) {
    const std::string in = folder.path + "/" + path;
    std::filesystem::create_directories(in);
    std::ofstream(in + "/" + limit_file) << limit << '\n';
    std::ofstream(in + "/" + usage_file) << std::fixed << usage << '\n';
    std::ofstream(in + "/memory.stat") << "cache 7\n" << statistics << '\n';
  };
  const auto second = [&](const std::string& path, const char* limit, double usage, double old) {
    group(path, "memory.max", limit, "memory.current", usage,
          "inactive_file " + std::to_string(old));
  };
  const auto room = [&](const std::string& self) {
    return profile::detail::control_group_memory(self, folder.path);
  };
  const double unlimited = std::numeric_limits<double>::infinity();
  CHECK(room("") == unlimited);
  CHECK(room("0::/no/such\n") == unlimited);
  CHECK(room("no colon\n:\n::\n") == unlimited);

  second("job", "1000000", 400000, 100000);
  second("job/step", "max", 300000, 0);
  second("job/tight", "250000", 240000, 90000);
  second("job/over", "250000", 300000, 0);
  CHECK(room("0::/job\n") == 700000);
  CHECK(room("0::/job/step\n") == 700000);  // of the group around it
  CHECK(room("0::/job/tight\n") == 100000);
  CHECK(room("0::/job/over\n") == 0);
  second("", "500000", 100000, 0);
  CHECK(room("0::/\n") == 400000);
  CHECK(room("0::/elsewhere/unseen\n") == 400000);  // a container's root is its own group
  CHECK(room("0::/job\n") == 400000);
  second("unified/job", "300000", 100000, 0);
  CHECK(room("0::/job\n") == 200000);

  group("memory/docker/x", "memory.limit_in_bytes", "90000", "memory.usage_in_bytes", 50000,
        "total_inactive_file 10000");
  group("memory", "memory.limit_in_bytes", "9223372036854771712", "memory.usage_in_bytes", 60000,
        "");
  CHECK(room("9:name=systemd:/docker/x\n4:memory:/docker/x\n") == 50000);
  CHECK(room("5:cpu,memory:/docker/x\n") == 50000);
  CHECK(room("5:cpu:/docker/x\n") == unlimited);
  CHECK(room("4:memory:/\n") > 9e18);
  CHECK(profile::detail::measurement_memory() > 0);
  CHECK(profile::detail::measurement_memory() <= (64 << 20));
}

TEST_CASE("profile: more paths than are kept") {
  const temporary_folder folder;
  const program_result ran =
      run_child("PROFILE_TEST_PATHS=1 VECDET_PROFILE=" + folder.path + "/r.json");
  CHECK_MESSAGE(ran.status == 0, ran.output);
  const json j = json::parse(read_file(folder.path + "/r.json"));
  CHECK(j["paths"].size() <= 65536);
  std::uint64_t in_entries = 0, in_paths = 0;
  for (const json& e : j["entries"]) in_entries += e["count"].get<std::uint64_t>();
  for (const json& p : j["paths"]) in_paths += p["count"].get<std::uint64_t>();
  CHECK(in_entries == 300 + 300 * 300);
  CHECK(in_paths == in_entries);
}

TEST_CASE("profile: a table every so often, while scopes end") {
  profile::enable();
  profile::reset();
  std::ostringstream captured;
  std::streambuf* const usual = std::cerr.rdbuf(captured.rdbuf());
  const auto tables = [&] {
    const std::string text = captured.str();
    int count = 0;
    for (std::size_t at = text.find("vecdet profile:"); at != std::string::npos;
         at = text.find("vecdet profile:", at + 1)) {
      ++count;
    }
    return count;
  };
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  profile::print_every(0.01);
  while (tables() < 3 && seconds() < 20) VECDET_PROFILE_SCOPE("again and again");
  profile::print_every(0);
  const double took = seconds();
  const std::string printed = captured.str();
  { VECDET_PROFILE_SCOPE("again and again"); }
  std::cerr.rdbuf(usual);
  profile::disable();
  profile::reset();
  CHECK(captured.str() == printed);
  CHECK(tables() >= 3);
  CHECK(took >= 0.03);
  CHECK(contains(printed, "again and again"));
}

TEST_CASE("profile: VECDET_PROFILE alone gives a table every so often, and one at the end") {
  const program_result ran = run_child("PROFILE_TEST_SECOND=1 VECDET_PROFILE=every:0.1");
  CHECK_MESSAGE(ran.status == 0, ran.output);
  int tables = 0;
  for (std::size_t at = 0; (at = ran.output.find("vecdet profile:", at)) != std::string::npos; ++at)
    ++tables;
  CHECK(tables >= 3);
  CHECK(tables <= 11);
}

TEST_CASE("profile: tables asked for before the profiler is on come when they are due") {
  const program_result ran = run_child("PROFILE_TEST_PRINT=1");
  CHECK_MESSAGE(ran.status == 0, ran.output);
  const std::size_t due = ran.output.find("tables are due");
  REQUIRE(due != std::string::npos);
  CHECK_MESSAGE(ran.output.find("vecdet profile:") > due, ran.output);
  CHECK(ran.output.find("vecdet profile:") != std::string::npos);
}

TEST_CASE("profile: destructors of static objects record, whichever thread ends the program") {
  for (const char* thread : {"main", "thread"}) {
    const temporary_folder folder;
    const program_result ran = run_child("PROFILE_TEST_STATIC=" + std::string(thread) +
                                         " VECDET_PROFILE=" + folder.path + "/r.json");
    CHECK_MESSAGE(ran.status == 0, ran.output);
    const json j = json::parse(read_file(folder.path + "/r.json"));
    std::uint64_t recorded = 0;
    for (const json& e : j["entries"])
      if (e["name"] == "static destructor") recorded += e["count"].get<std::uint64_t>();
    CHECK(recorded == 3);
  }
}

TEST_CASE("profile: nothing in the environment, no word at the end") {
  const program_result ran = run_child("VECDET_PROFILE=0");
  CHECK(ran.status == 0);
  CHECK_FALSE(contains(ran.output, "vecdet"));
}

TEST_CASE("profile: a fork begins afresh and writes a file of its own; so does a rank") {
  const temporary_folder folder;
  const program_result ran =
      run_child("PROFILE_TEST_FORK=1 RANK=2 VECDET_PROFILE=" + folder.path + "/r.json");
  CHECK_MESSAGE(ran.status == 0, ran.output);
  const json parent = json::parse(read_file(folder.path + "/r.rank2.json"));
  REQUIRE(parent["entries"].size() == 1);
  CHECK(parent["entries"][0]["name"] == "child's scope");
  CHECK(parent["processes"][0]["rank"] == 2);
  const std::size_t at = ran.output.find(".pid");
  REQUIRE(at != std::string::npos);
  const std::string pid = ran.output.substr(at, ran.output.find(".json", at) - at);
  const json child = json::parse(read_file(folder.path + "/r.rank2" + pid + ".json"));
  REQUIRE(child["entries"].size() == 1);
  CHECK(child["entries"][0]["name"] == "fork's scope");
  CHECK(child["entries"][0]["count"] == 7);
}

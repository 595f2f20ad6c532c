// SPDX-License-Identifier: Apache-2.0
// The profiler in processes: the settings in VECDET_PROFILE, forks, ranks, the end of a program,
// and the limits on memory, names and problems.
#include "support/report_files.hpp"
#include "support/sanitizer.hpp"
#include <vecdet/profile.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace profile = vecdet::profile;
using namespace vecdet::test;
using nlohmann::json;

namespace {

/// Runs the test case "profile: child program" in a separate process, which must succeed, and
/// returns its output.
std::string run_child(const std::string& environment) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  REQUIRE(length > 0);
  self[length] = '\0';
  const std::string command = "env " + environment + " '" + std::string(self) +
                              "' --no-skip --test-case='profile: child program' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  CHECK_MESSAGE(pclose(pipe) == 0, output);
  return output;
}

/// The resident memory of the process in bytes.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  REQUIRE(static_cast<bool>(file >> size >> resident));
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

// Run by the other cases in a separate process.
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
        done.fetch_add(1);  // all threads stay alive until all have recorded
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
    std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak of resident memory
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
    while (mutex.try_lock()) {  // until the measurement runs
      mutex.unlock();
      std::this_thread::yield();
    }
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);  // ends the child if it hangs
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

TEST_CASE("profile: values of VECDET_PROFILE") {
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
  CHECK(several.table_rows == profile::rows_of::problems);
  CHECK(parse_environment("1,by:function").table_rows == profile::rows_of::functions);
  CHECK(parse_environment("by:function").table);
  CHECK(parse_environment("by:type").mistakes ==
        std::vector<std::string>{"\"by:type\" should be by:function"});
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

TEST_CASE("profile: VECDET_PROFILE alone writes each kind of report") {
  const temporary_folder folder;
  const std::string f = folder.path + "/";
  const std::string output = run_child("PROFILE_TEST_WORK=1 VECDET_PROFILE=1," + f + "r.json," + f +
                                       "r.html," + f + "r.csv," + f + "trace.json," + f +
                                       "r.folded," + f + "r.txt," + f + "none/x.json,nonsense");
  CHECK(contains(output, "child's scope"));
  CHECK(contains(output, "cannot write \"" + f + "none/x.json\": No such file or directory"));
  CHECK(contains(output, "\"nonsense\" is neither"));
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

TEST_CASE("profile: several threads enable it at once, and each finds it calibrated") {
  run_child("PROFILE_TEST_ENABLE=1");
}

TEST_CASE("profile: thousands of names with numbers, up to a limit") {
  run_child("PROFILE_TEST_NUMBERS=1");
}

TEST_CASE("profile: thousands of problems, up to a limit") {
  const temporary_folder folder;
  run_child("PROFILE_TEST_MANY=1 VECDET_PROFILE=" + folder.path + "/r.json");
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

// Sanitizers take additional memory, and do not start threads in a fork of a threaded process.
#if !defined(TEST_UNDER_SANITIZER)
TEST_CASE("profile: a fork while another thread measures the machine") {
  run_child("PROFILE_TEST_FORK_WHILE_MEASURING=1 VECDET_PROFILE=1");
}

TEST_CASE("profile: measuring the machine takes at most 64 MiB") {
  if (access("/proc/self/clear_refs", W_OK) != 0) {
    MESSAGE("skipped: the kernel cannot reset the peak of resident memory");
    return;
  }
  run_child("PROFILE_TEST_MACHINE=1");
}

TEST_CASE("profile: memory is bounded for any number of problems and threads") {
  run_child("PROFILE_TEST_MEMORY=1 VECDET_PROFILE=every:1000");
}
#endif

TEST_CASE("profile: limits of control groups") {
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
  const auto memory_left = [&](const std::string& self) {
    return profile::detail::control_group_memory(self, folder.path);
  };
  const double unlimited = std::numeric_limits<double>::infinity();
  CHECK(memory_left("") == unlimited);
  CHECK(memory_left("0::/no/such\n") == unlimited);
  CHECK(memory_left("no colon\n:\n::\n") == unlimited);

  second("job", "1000000", 400000, 100000);
  second("job/step", "max", 300000, 0);
  second("job/tight", "250000", 240000, 90000);
  second("job/over", "250000", 300000, 0);
  CHECK(memory_left("0::/job\n") == 700000);
  CHECK(memory_left("0::/job/step\n") == 700000);  // of the group around it
  CHECK(memory_left("0::/job/tight\n") == 100000);
  CHECK(memory_left("0::/job/over\n") == 0);
  second("", "500000", 100000, 0);
  CHECK(memory_left("0::/\n") == 400000);
  CHECK(memory_left("0::/elsewhere/unseen\n") == 400000);  // a container's root is its own group
  CHECK(memory_left("0::/job\n") == 400000);
  second("unified/job", "300000", 100000, 0);
  CHECK(memory_left("0::/job\n") == 200000);

  group("memory/docker/x", "memory.limit_in_bytes", "90000", "memory.usage_in_bytes", 50000,
        "total_inactive_file 10000");
  group("memory", "memory.limit_in_bytes", "9223372036854771712", "memory.usage_in_bytes", 60000,
        "");
  CHECK(memory_left("9:name=systemd:/docker/x\n4:memory:/docker/x\n") == 50000);
  CHECK(memory_left("5:cpu,memory:/docker/x\n") == 50000);
  CHECK(memory_left("5:cpu:/docker/x\n") == unlimited);
  CHECK(memory_left("4:memory:/\n") > 9e18);
  CHECK(profile::detail::measurement_memory() > 0);
  CHECK(profile::detail::measurement_memory() <= (64 << 20));
}

TEST_CASE("profile: more paths than the limit") {
  const temporary_folder folder;
  run_child("PROFILE_TEST_PATHS=1 VECDET_PROFILE=" + folder.path + "/r.json");
  const json j = json::parse(read_file(folder.path + "/r.json"));
  CHECK(j["paths"].size() <= 65536);
  std::uint64_t in_entries = 0, in_paths = 0;
  for (const json& e : j["entries"]) in_entries += e["count"].get<std::uint64_t>();
  for (const json& p : j["paths"]) in_paths += p["count"].get<std::uint64_t>();
  CHECK(in_entries == 300 + 300 * 300);
  CHECK(in_paths == in_entries);
}

TEST_CASE("profile: a table at intervals, while scopes end") {
  profile::enable();
  profile::reset();
  std::ostringstream captured;
  std::streambuf* const stream = std::cerr.rdbuf(captured.rdbuf());
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
  std::cerr.rdbuf(stream);
  profile::disable();
  profile::reset();
  CHECK(captured.str() == printed);
  CHECK(tables() >= 3);
  CHECK(took >= 0.03);
  CHECK(contains(printed, "again and again"));
}

TEST_CASE("profile: VECDET_PROFILE alone prints a table at intervals and at the end") {
  const std::string output = run_child("PROFILE_TEST_SECOND=1 VECDET_PROFILE=every:0.1");
  int tables = 0;
  for (std::size_t at = 0; (at = output.find("vecdet profile:", at)) != std::string::npos; ++at)
    ++tables;
  CHECK(tables >= 3);
  CHECK(tables <= 11);
}

TEST_CASE("profile: tables requested before the profiler is on come when they are due") {
  const std::string output = run_child("PROFILE_TEST_PRINT=1");
  const std::size_t due = output.find("tables are due");
  REQUIRE(due != std::string::npos);
  CHECK_MESSAGE(output.find("vecdet profile:") > due, output);
  CHECK(output.find("vecdet profile:") != std::string::npos);
}

TEST_CASE("profile: destructors of static objects record on whichever thread ends the program") {
  for (const char* thread : {"main", "thread"}) {
    const temporary_folder folder;
    run_child("PROFILE_TEST_STATIC=" + std::string(thread) + " VECDET_PROFILE=" + folder.path +
              "/r.json");
    const json j = json::parse(read_file(folder.path + "/r.json"));
    std::uint64_t recorded = 0;
    for (const json& e : j["entries"])
      if (e["name"] == "static destructor") recorded += e["count"].get<std::uint64_t>();
    CHECK(recorded == 3);
  }
}

TEST_CASE("profile: no output at the end without VECDET_PROFILE") {
  const std::string output = run_child("VECDET_PROFILE=0");
  CHECK_FALSE(contains(output, "vecdet"));
}

TEST_CASE("profile: a fork starts empty and writes its own file; so does a rank") {
  const temporary_folder folder;
  const std::string output =
      run_child("PROFILE_TEST_FORK=1 RANK=2 VECDET_PROFILE=" + folder.path + "/r.json");
  const json parent = json::parse(read_file(folder.path + "/r.rank2.json"));
  REQUIRE(parent["entries"].size() == 1);
  CHECK(parent["entries"][0]["name"] == "child's scope");
  CHECK(parent["processes"][0]["rank"] == 2);
  const std::size_t at = output.find(".pid");
  REQUIRE(at != std::string::npos);
  const std::string pid = output.substr(at, output.find(".json", at) - at);
  const json child = json::parse(read_file(folder.path + "/r.rank2" + pid + ".json"));
  REQUIRE(child["entries"].size() == 1);
  CHECK(child["entries"][0]["name"] == "fork's scope");
  CHECK(child["entries"][0]["count"] == 7);
}

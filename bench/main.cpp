// SPDX-License-Identifier: Apache-2.0
// vecdet_bench: every kernel as a plain loop, as vecdet on each instruction set, and as the scalar
// reference. Accepts Google Benchmark's flags and those in `usage`.
#include "bench_nms.hpp"
#include "support/coco_scene.hpp"
#include "support/implementations.hpp"
#include "support/table_reporter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr const char* usage =
    "vecdet_bench [--all] [--check] [--scene=FILE] [--recorded=FOLDER] [Google Benchmark's flags]\n"
    "  Default: the problems of docs/figures.md, which take a few minutes.\n"
    "  --all          run every benchmark, which takes about 15 minutes\n"
    "  --check        compare the plain loops with vecdet and time nothing\n"
    "  --scene=FILE   take the labels from an image of this COCO annotation file instead of the "
    "built-in one\n"
    "  --recorded=FOLDER   add NMS of detections recorded from real detectors, which are in the "
    "tests' data\n"
    "Names are <function>/<variant>/<type>/<shape>/<implementation>/threads:<n>; implementations:\n"
    "reference, plain_<set>, baseline, avx2, avx512. The table goes to standard output;\n"
    "with --benchmark_format=json or csv, only Google Benchmark's output does.\n"
    "The environment variable VECDET_BENCH_PLOTS=FOLDER draws plots of /scaling/ benchmarks.\n"
    "Google Benchmark's flags, of which --benchmark_filter=REGEX is the most useful:\n";

/// Selects the problems of docs/figures.md, without the reference and peers.
std::string figures_filter() {
  std::string problems;
  for (const std::string& problem : vecdet::bench::figure_problems())
    problems += (problems.empty() ? "" : "|") + problem;
  return "--benchmark_filter=^(" + problems + ")/(plain_|baseline|avx)";
}

/// The text after `flag` in an argument that begins with it; null if it does not.
const char* value_of(const char* argument, const char* flag) {
  const std::size_t length = std::strlen(flag);
  return std::strncmp(argument, flag, length) == 0 ? argument + length : nullptr;
}

/// The arguments for Google Benchmark: without our own, and with the default selection unless
/// another is requested.
std::vector<char*> read_flags(int argc, char** argv) {
  std::vector<char*> kept{argv[0]};
  bool is_default = true;
  for (int i = 1; i < argc; ++i) {
    if (const char* file = value_of(argv[i], "--scene=")) {
      vecdet::bench::scene() = vecdet::bench::typical_picture(file);
    } else if (const char* folder = value_of(argv[i], "--recorded=")) {
      vecdet::bench::register_recorded_nms(folder);
      is_default = false;
    } else if (std::strcmp(argv[i], "--all") == 0) {
      is_default = false;
    } else {
      if (value_of(argv[i], "--benchmark_filter=")) is_default = false;
      kept.push_back(argv[i]);
    }
  }
  // Before the user's flags, which then take precedence.
  static std::string defaults[] = {figures_filter(), "--benchmark_min_time=0.05",
                                   "--benchmark_repetitions=3"};
  if (is_default)
    for (std::string& flag : defaults) kept.insert(kept.begin() + 1, flag.data());
  return kept;
}

/// Lets Google Benchmark parse its flags, followed by `last`.
void initialize(std::vector<char*> arguments, const char* last) {
  arguments.push_back(const_cast<char*>(last));
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) std::exit(EXIT_FAILURE);
}

/// The number of benchmarks that the filter selects: Google Benchmark lists one per line.
std::size_t count_benchmarks(const std::vector<char*>& arguments) {
  initialize(arguments, "--benchmark_list_tests=true");
  std::ostringstream list, complaint;
  benchmark::ConsoleReporter reporter;
  reporter.SetOutputStream(&list);
  reporter.SetErrorStream(&complaint);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  const std::string lines = list.str();
  return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
}

/// The last value given for a flag; "true" if it has none.
std::string flag_value(const std::vector<char*>& arguments, const std::string& flag) {
  std::string value;
  for (const char* argument : arguments) {
    if (argument == flag) value = "true";
    if (const char* given = value_of(argument, (flag + "=").c_str())) value = given;
  }
  return value;
}

/// Compares every plain loop with vecdet; throws at the first that differs.
void check_plain_loops() {
  for (const auto& check : vecdet::bench::plain_checks()) {
    check.second();
    std::cout << check.first << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0) std::cout << usage;
  }
  try {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--check") != 0) continue;
      check_plain_loops();
      return EXIT_SUCCESS;
    }
    const std::vector<char*> arguments = read_flags(argc, argv);
    const std::string lists = flag_value(arguments, "--benchmark_list_tests");
    const std::string format = flag_value(arguments, "--benchmark_format");
    const std::size_t chosen = count_benchmarks(arguments);
    if (chosen == 0) throw std::invalid_argument("no benchmark's name matches the filter");
    initialize(arguments, ("--benchmark_list_tests=" + (lists.empty() ? "false" : lists)).c_str());
    if (format.empty() || format == "console") {
      vecdet::bench::table_reporter table(chosen);
      benchmark::RunSpecifiedBenchmarks(&table);
    } else {
      benchmark::RunSpecifiedBenchmarks();  // only in the requested format
    }
  } catch (const std::exception& error) {
    std::cerr << "vecdet_bench: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

// SPDX-License-Identifier: Apache-2.0
// vecdet_bench: every kernel as a plain loop, as vecdet on each instruction set, and as the scalar
// reference. Accepts Google Benchmark's flags and those in `usage`.
#include "bench_nms.hpp"
#include "support/coco_scene.hpp"
#include "support/run.hpp"
#include <vecdet/keep_memory.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr const char* usage =
    "vecdet_bench [--all] [--check] [--scene=FILE] [--recorded=FOLDER] [Google Benchmark's flags]\n"
    "  Default: the problems nearest to those of README's table, in about a minute.\n"
    "  --all          run the problems of docs/figures.md, on each instruction set\n"
    "  --check        compare the plain loops with vecdet and time nothing\n"
    "  --scene=FILE   take the labels from an image of this COCO annotation file instead of the "
    "built-in one\n"
    "  --recorded=FOLDER   add NMS of detections recorded from real detectors, which are in the "
    "tests' data\n"
    "Names are <function>/<variant>/<type>/<shape>/<implementation>/threads:<n>; implementations:\n"
    "reference, plain_<set>, baseline, avx2, avx512. --benchmark_filter=. runs every benchmark.\n"
    "The table goes to standard output; with --benchmark_format=json or csv, only Google\n"
    "Benchmark's output does. Unless flags say otherwise, a benchmark has 3 repetitions of at\n"
    "least 0.05 s. A repetition has at least 5 calls. The exit status is 1 if a benchmark failed.\n"
    "The environment variable VECDET_BENCH_PLOTS=FOLDER draws plots of /scaling/ benchmarks.\n"
    "Google Benchmark's flags, of which --benchmark_filter=REGEX is the most useful:\n";

/// Selects implementations of problems, which are regular expressions.
std::string filter_of(const std::vector<std::string>& problems,
                      const std::string& implementations) {
  std::string any;
  for (const std::string& problem : problems) any += (any.empty() ? "" : "|") + problem;
  return "--benchmark_filter=^(" + any + ")/(" + implementations + ")/";
}

/// The text after `flag` in an argument that begins with it; null if it does not.
const char* value_of(const char* argument, const char* flag) {
  const std::size_t length = std::strlen(flag);
  return std::strncmp(argument, flag, length) == 0 ? argument + length : nullptr;
}

enum class selection { readme, figures, by_filter };

/// The last value given for a flag; "true" if it has none.
std::string flag_value(const std::vector<char*>& arguments, const std::string& flag) {
  std::string value;
  for (const char* argument : arguments) {
    if (argument == flag) value = "true";
    if (const char* given = value_of(argument, (flag + "=").c_str())) value = given;
  }
  return value;
}

/// The arguments for Google Benchmark: without our own, with our defaults, which the user's flags
/// override.
std::vector<char*> read_flags(int argc, char** argv, selection& chosen) {
  std::vector<char*> kept{argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (const char* file = value_of(argv[i], "--scene=")) {
      vecdet::bench::scene() = vecdet::bench::typical_picture(file);
    } else if (const char* folder = value_of(argv[i], "--recorded=")) {
      vecdet::bench::register_recorded_nms(folder);
      chosen = selection::by_filter;
    } else if (std::strcmp(argv[i], "--all") == 0) {
      if (chosen == selection::readme) chosen = selection::figures;
    } else {
      if (value_of(argv[i], "--benchmark_filter=")) chosen = selection::by_filter;
      kept.push_back(argv[i]);
    }
  }
  const std::string native = vecdet::isa_name(vecdet::detected_isa());
  static std::string filter, repetitions = "--benchmark_repetitions=3",
                             min_time = "--benchmark_min_time=0.05";
  if (chosen == selection::readme)
    filter = filter_of(vecdet::bench::readme_problems(), "plain_" + native + "|" + native);
  if (chosen == selection::figures)
    filter = filter_of(vecdet::bench::figure_problems(), "plain_[a-z0-9]+|baseline|avx[0-9]+");
  for (std::string* flag : {&filter, &repetitions, &min_time})
    if (!flag->empty()) kept.insert(kept.begin() + 1, flag->data());
  return kept;
}

/// Lets Google Benchmark parse its flags, followed by `last`.
void initialize(std::vector<char*> arguments, const char* last) {
  arguments.push_back(const_cast<char*>(last));
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) std::exit(EXIT_FAILURE);
}

/// Compares every plain loop with vecdet, except for those that take seconds; throws at the first
/// that differs.
void check_plain_loops() {
  for (const auto& check : vecdet::bench::plain_checks()) {
    if (check.second.takes_seconds) continue;
    check.second.run();
    std::cout << check.first << std::endl;
  }
}

/// "about 40 s" or "about 6 minutes", from the time that benchmarks took on an AMD EPYC (Zen 4).
std::string expected_time(std::size_t benchmarks, double repetitions, selection chosen) {
  const double each = chosen == selection::readme ? 0.6 : 0.2;  // seconds of a repetition
  const double seconds = each * repetitions * static_cast<double>(benchmarks);
  if (seconds < 100) return "about " + std::to_string(10 * std::lround(seconds / 10 + 0.5)) + " s";
  return "about " + std::to_string(std::lround(seconds / 60 + 0.5)) + " minutes";
}

/// Checks and times what the flags select, and shows the table.
void show_table(const std::vector<std::string>& names, double repetitions, selection chosen,
                bool memory_kept) {
  using clock = std::chrono::steady_clock;
  const std::string native = vecdet::isa_name(vecdet::detected_isa());
  std::cout << "vecdet on " << native
            << ", which it chooses on this processor, compared with plain loops that the same "
               "compiler built for\nthis processor with -O3 -march=native -ffast-math. "
            << names.size() << " benchmarks: " << expected_time(names.size(), repetitions, chosen)
            << "\n"
            << std::flush;
  const auto start = clock::now();
  const std::size_t loops = vecdet::bench::check_plain_loops_of(names);
  const auto seconds = [&] {
    return std::lround(std::chrono::duration<double>(clock::now() - start).count());
  };
  if (loops > 0)
    std::cout << "checked " << loops << " plain loops: they return what vecdet returns ("
              << seconds() << " s)\n";
  std::cout << (memory_kept
                    ? "malloc keeps freed memory\n"
                    : "malloc does not keep freed memory: large problems include what fresh "
                      "memory costs\n");
  std::string ending =
      "README's table compares with PyTorch, torchvision and ONNX Runtime instead: "
      "bench/peers.sh\n";
  if (chosen == selection::readme)
    ending += "More problems and instruction sets: --all. One of them: --benchmark_filter=REGEX\n";
  vecdet::bench::table_reporter table(names.size(), native, ending, chosen == selection::by_filter);
  benchmark::RunSpecifiedBenchmarks(&table);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0) std::cout << usage;
  }
  // Otherwise, large arrays have fresh pages, and timings include what the system does for them.
  const bool memory_kept = vecdet::keep_memory();
  try {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--check") != 0) continue;
      check_plain_loops();
      return EXIT_SUCCESS;
    }
    selection chosen = selection::readme;
    const std::vector<char*> arguments = read_flags(argc, argv, chosen);
    vecdet::bench::register_benchmarks();
    initialize(arguments, "--benchmark_list_tests=true");
    const std::vector<std::string> names = vecdet::bench::selected_benchmarks();
    if (names.empty()) throw std::invalid_argument("no benchmark's name matches the filter");
    if (chosen == selection::readme) vecdet::bench::check_readme_problems(names);
    const std::string lists = flag_value(arguments, "--benchmark_list_tests");
    const std::string format = flag_value(arguments, "--benchmark_format");
    initialize(arguments, ("--benchmark_list_tests=" + (lists.empty() ? "false" : lists)).c_str());
    if (!lists.empty() && lists != "false") {
      benchmark::RunSpecifiedBenchmarks();
    } else if (format.empty() || format == "console") {
      show_table(names, std::atof(flag_value(arguments, "--benchmark_repetitions").c_str()), chosen,
                 memory_kept);
    } else {
      vecdet::bench::check_plain_loops_of(names);
      benchmark::RunSpecifiedBenchmarks();  // only in the requested format
    }
  } catch (const std::exception& error) {
    std::cerr << "vecdet_bench: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return vecdet::bench::has_failure() ? EXIT_FAILURE : EXIT_SUCCESS;
}

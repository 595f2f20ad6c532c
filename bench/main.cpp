// SPDX-License-Identifier: Apache-2.0
// vecdet_bench: every kernel as the scalar reference, as a plain loop, and as vecdet on each
// instruction set. Takes Google Benchmark's flags, --scene=FILE and --recorded=FOLDER.
#include "bench_nms.hpp"
#include "support/coco_scene.hpp"
#include "support/table_reporter.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

namespace {

constexpr const char* usage =
    "vecdet_bench [--scene=FILE] [--recorded=FOLDER] [Google Benchmark's flags]\n"
    "  --scene=FILE   make labels from a picture of this COCO annotation file, not from the "
    "built-in one\n"
    "  --recorded=FOLDER   also NMS of detections recorded from real detectors, in the tests' "
    "data\n"
    "Google Benchmark's flags, --benchmark_filter=REGEX first among them:\n";

/// What follows `flag` in an argument that begins with it, else null.
const char* value_of(const char* argument, const char* flag) {
  const std::size_t length = std::strlen(flag);
  return std::strncmp(argument, flag, length) == 0 ? argument + length : nullptr;
}

/// Takes the flags that are not Google Benchmark's out of the arguments.
void read_flags(int& argc, char** argv) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (const char* file = value_of(argv[i], "--scene=")) {
      vecdet::bench::scene() = vecdet::bench::typical_picture(file);
    } else if (const char* folder = value_of(argv[i], "--recorded=")) {
      vecdet::bench::register_recorded_nms(folder);
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0) std::cout << usage;
  }
  try {
    read_flags(argc, argv);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
    vecdet::bench::table_reporter table;
    benchmark::RunSpecifiedBenchmarks(&table);
  } catch (const std::exception& error) {
    std::cerr << "vecdet_bench: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

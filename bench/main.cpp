// SPDX-License-Identifier: Apache-2.0
// vecdet_bench: every kernel as the scalar reference, as a plain loop, and as vecdet on each
// instruction set. Takes Google Benchmark's flags, and --scene=FILE.
#include "support/coco_scene.hpp"
#include "support/table_reporter.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

namespace {

constexpr const char* usage =
    "vecdet_bench [--scene=FILE] [Google Benchmark's flags]\n"
    "  --scene=FILE   make labels from a picture of this COCO annotation file, not from the "
    "built-in one\n"
    "Google Benchmark's flags, --benchmark_filter=REGEX first among them:\n";

/// Takes --scene out of the arguments.
void read_scene(int& argc, char** argv) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    constexpr const char* flag = "--scene=";
    if (std::strncmp(argv[i], flag, std::strlen(flag)) == 0) {
      vecdet::bench::scene() = vecdet::bench::typical_picture(argv[i] + std::strlen(flag));
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
    read_scene(argc, argv);
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

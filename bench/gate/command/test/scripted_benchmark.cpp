// SPDX-License-Identifier: Apache-2.0
// A program with the options and the JSON of Google Benchmark, whose times are scripted: the file
// <program>.times has a line "<name> <nanoseconds> [what]" per benchmark. `what` is
//   drift  each run of the program takes 5% longer than the one before, every 50th as long as the
//          first: a busy machine has pieces repeated, however often
//   crash  the program aborts in it
//   error  the benchmark reports an error
//   skip   it is skipped
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

int main(int, char** argv) {
  const std::string path = argv[0];
  std::map<std::string, std::string> options;
  for (char** argument = argv + 1; *argument != nullptr; ++argument) {
    const std::string text = *argument;
    options[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  std::cout << "any text\n";
  if (options.count("--benchmark_list_tests") > 0) return 0;
  int runs = 0;
  std::ifstream(path + ".runs") >> runs;
  std::ofstream(path + ".runs") << runs + 1;
  const std::regex filter(options["--benchmark_filter"], std::regex::extended);
  std::ifstream script(path + ".times");
  std::ofstream out(options["--benchmark_out"]);
  out << R"({"context": {"executable": "scripted"}, "benchmarks": [)";
  const char* comma = "";
  for (std::string line; std::getline(script, line);) {
    std::istringstream words(line);
    std::string name, what;
    double ns = 0;
    words >> name >> ns >> what;
    if (!options["--benchmark_filter"].empty() && !std::regex_search(name, filter)) continue;
    if (what == "crash") std::abort();
    if (what == "drift") ns *= std::pow(1.05, runs % 50);
    out << comma << R"({"name": ")" << name
        << R"(", "run_type": "iteration", "iterations": 1000, )";
    if (what == "error") out << R"("error_occurred": true, "error_message": "no such file", )";
    if (what == "skip") out << R"("skipped": true, "skip_message": "needs AVX-512", )";
    out << R"("real_time": 1, "cpu_time": )" << ns << R"(, "time_unit": "ns"})";
    comma = ", ";
  }
  out << "]}\n";
}

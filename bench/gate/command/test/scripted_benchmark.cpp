// SPDX-License-Identifier: Apache-2.0
// A program with the options and the JSON of Google Benchmark, whose times are scripted: the file
// <program>.times has a line "<name> <nanoseconds> [what]" per benchmark. The time is CPU time, or,
// if the name has a part "real_time" or "manual_time", real time; the other one is 1 ns. A "~" in a
// name stands for a space. `what` is
//   drift  each run of the program takes 5% longer than the one before, every 50th as long as the
//          first: a busy machine has pieces repeated, however often
//   crash  the program aborts in it
//   error  the benchmark reports an error; late_error: from the program's tenth run on
//   measured_error, measured_skip, measured_crash  error, skip, crash, but only if it is measured,
//          not in the first run with one iteration
//   flood  the program writes 300 MiB to its standard output
//   skip   it is skipped
//   nan    it has a counter that is not a number, which is not JSON
//   counter  it has a counter called "cpu_time"
//   aggregates  it reports only mean, median and standard deviation of 3 repetitions; mean: only
//          the mean
//   us     it reports its time in microseconds
#include <algorithm>
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
  out.precision(17);
  out << R"({"context": {"executable": "scripted"}, "benchmarks": [)";
  const char* comma = "";
  int family = -1;
  for (std::string line; std::getline(script, line);) {
    ++family;
    std::istringstream words(line);
    std::string name, what;
    double ns = 0;
    words >> name >> ns >> what;
    std::replace(name.begin(), name.end(), '~', ' ');
    if (what.rfind("measured_", 0) == 0)
      what = options["--benchmark_min_time"] == "0.001" ? what.substr(9) : "";
    if (!options["--benchmark_filter"].empty() && !std::regex_search(name, filter)) continue;
    if (what == "crash") std::abort();
    if (what == "flood") {
      const std::string mebibyte(1 << 20, 'x');
      for (int i = 0; i < 300; ++i) std::cout << mebibyte;
    }
    if (what == "drift") ns *= std::pow(1.05, runs % 50);
    const bool wall = std::regex_search(name, std::regex("/(real|manual)_time"));
    const bool is_error = what == "error" || (what == "late_error" && runs >= 10);
    const auto entry = [&](const std::string& kind, const std::string& suffix, double time) {
      out << comma << R"({"name": ")" << name << suffix << R"(", "family_index": )" << family
          << R"(, "per_family_instance_index": 0, "run_name": ")" << name << R"(", )" << kind
          << R"("iterations": 1000, "threads": 1, )";
      if (is_error) out << R"("error_occurred": true, "error_message": "no such file", )";
      if (what == "skip") out << R"("skipped": true, "skip_message": "needs AVX-512", )";
      if (what == "us") time /= 1000;
      out << R"("real_time": )" << (wall ? time : 1) << R"(, "cpu_time": )" << (wall ? 1 : time)
          << R"(, "time_unit": ")" << (what == "us" ? "us" : "ns") << '"';
      if (what == "nan") out << R"(, "rate": NaN, "other \"NaN": -Infinity)";
      if (what == "counter") out << R"(, "cpu_time": 7)";
      out << '}';
      comma = ", ";
    };
    if (what == "aggregates" || what == "mean") {
      entry(R"("run_type": "aggregate", "aggregate_name": "mean", )", "_mean", 2 * ns);
      if (what == "mean") continue;
      entry(R"("run_type": "aggregate", "aggregate_name": "median", )", "_median", ns);
      entry(R"("run_type": "aggregate", "aggregate_name": "stddev", )", "_stddev", 1);
    } else {
      entry(R"("run_type": "iteration", "repetitions": 1, "repetition_index": 0, )", "", ns);
    }
  }
  out << "]}\n";
}

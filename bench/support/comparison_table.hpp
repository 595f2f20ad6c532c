// SPDX-License-Identifier: Apache-2.0
// Benchmark results side by side, as text that is also a Markdown table of at most 120 columns, and
// their summary. Results are named
// `<function>/<variant>/<type>/<shape>/<implementation>/threads:<n>`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::bench {

/// The result of one benchmark.
struct measurement {
  double seconds = 0;        ///< per call: the median of the repetitions
  double copy_fraction = 0;  ///< of the machine's copy bandwidth; 0 if it is not known
  double spread = 1;         ///< the slowest repetition's time divided by the fastest one's

  /// Whether the repetitions differ by more than a third.
  bool is_unsteady() const { return spread > 4.0 / 3; }
};

/// The parts of a benchmark's name.
struct result_name {
  std::string problem;  ///< `<function>/<variant>/<type>/<shape>`
  std::string implementation;
  int threads = 0;  ///< 0: the name has another form
};

inline result_name parse_result_name(const std::string& name) {
  const std::size_t last = name.rfind('/');
  if (last == std::string::npos || name.compare(last, 9, "/threads:") != 0) return {};
  const std::size_t before = name.rfind('/', last - 1);
  if (before == std::string::npos) return {};
  return {name.substr(0, before), name.substr(before + 1, last - before - 1),
          std::atoi(name.c_str() + last + 9)};
}

/// "roi_align" of "roi_align/nhwc/f32/8x2".
inline std::string function_of(const std::string& problem) {
  return problem.substr(0, problem.find('/'));
}

/// Three significant digits and no exponent: "0.0271", "4.70", "123", "15600".
inline std::string three_digits(double value) {
  const int exponent = value > 0 ? static_cast<int>(std::floor(std::log10(value))) : 2;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", std::max(0, 2 - exponent), value);
  return text;
}

class comparison_table {
 public:
  void add(const std::string& name, const measurement& result) {
    const result_name parts = parse_result_name(name);
    if (parts.threads == 0) return;
    if (!results_.count(parts.problem)) order_.push_back(parts.problem);
    results_[parts.problem][parts.implementation][parts.threads] = result;
    if (parts.threads > 1) threads_ = parts.threads;
  }

  /// Notes that a benchmark has no result.
  void add_failure(const std::string& name) { failed_.push_back(name); }

  bool empty() const { return order_.empty(); }

  bool has(const std::string& name) const {
    const result_name parts = parse_result_name(name);
    return find(parts.problem, parts.implementation, parts.threads) != nullptr;
  }

  /// The problems, in the order in which they were added.
  const std::vector<std::string>& problems() const { return order_; }

  /// The table's first lines; `threads` is the number of a call on all threads.
  static std::string header(int threads) {
    const std::string all = threads > 1 ? std::to_string(threads) + " threads" : "";
    return line({"problem", "vecdet on", "plain, ms", "vecdet, ms", "faster", all, "of copy"}) +
           rule();
  }

  /// The line that begins the rows of a function.
  static std::string title(const std::string& function) { return line({function}); }

  /// The rows of a problem: one for each instruction set, then one for each other implementation.
  std::string rows(const std::string& problem) const {
    std::string text;
    for (const std::string& name : row_names(problem)) text += row(problem, name);
    return text;
  }

  /// All of the table.
  std::string text() const {
    std::string text = header(threads_), function;
    for (const std::string& problem : order_) {
      if (function_of(problem) != function) text += title(function = function_of(problem));
      text += rows(problem);
    }
    return text + legend();
  }

  /// What the columns and marks mean.
  std::string legend() const {
    std::string text =
        "\nMilliseconds per call, on one thread unless the column says otherwise. faster: the "
        "plain loop's time divided by\nvecdet's on one thread, where the plain loop was compiled "
        "for the same instruction set. of copy: bytes per second,\nrelative to a copy of as many "
        "bytes. <: slower than the plain loop. ~: repetitions differ by more than a third.\n";
    for (const auto& results : results_)
      for (const auto& result : results.second)
        if (!is_set(result.first) && result.first.rfind("plain_", 0) != 0)
          return text + "A name in parentheses is another implementation, in vecdet's place.\n";
    return text;
  }

  /// The speed-ups on the instruction set `set`, in seven lines, or eight if a benchmark failed.
  std::string summary(const std::string& set) const {
    std::vector<std::pair<double, std::string>> ratios;
    std::vector<double> by_threads;
    std::vector<std::string> slower, unsteady;
    for (const std::string& problem : order_) {
      const measurement *one = find(problem, set, 1), *all = find(problem, set, threads_);
      const measurement* plain = find(problem, "plain_" + set, 1);
      if (one && all && threads_ > 1) by_threads.push_back(one->seconds / all->seconds);
      if (one && plain) ratios.emplace_back(plain->seconds / one->seconds, problem);
      if (one && plain && one->seconds > plain->seconds) slower.push_back(problem);
      for (const measurement* each : {one, all, plain})
        if (each && each->is_unsteady() && (unsteady.empty() || unsteady.back() != problem))
          unsteady.push_back(problem);
    }
    if (ratios.empty()) return failed_.empty() ? "" : "Summary\n" + failed_line();
    std::sort(ratios.begin(), ratios.end());
    const auto ratio = [](const std::pair<double, std::string>& found) {
      return three_digits(found.first) + "x  " + found.second;
    };
    std::string text = "Summary of " + std::to_string(ratios.size()) +
                       (ratios.size() == 1 ? " problem" : " problems") + ": vecdet on " + set +
                       ", one thread, compared with plain loops\n";
    text += item("times faster, median", three_digits(ratios[(ratios.size() - 1) / 2].first) + "x");
    text += item("most", ratio(ratios.back())) + item("least", ratio(ratios.front()));
    text += item("slower (<)", listed(slower));
    if (!by_threads.empty()) {
      std::sort(by_threads.begin(), by_threads.end());
      text +=
          item(std::to_string(threads_) + " threads, median",
               three_digits(by_threads[(by_threads.size() - 1) / 2]) + "x as fast as one thread");
    }
    return text + item("unsteady (~)", listed(unsteady)) + failed_line();
  }

 private:
  using per_threads = std::map<int, measurement>;

  static bool is_set(const std::string& name) {
    return name == "avx512" || name == "avx2" || name == "baseline";
  }

  /// A line of the summary.
  static std::string item(const std::string& label, const std::string& value) {
    return "  " + label + std::string(26 - label.size(), ' ') + value + "\n";
  }

  /// The summary's line of benchmarks without a result; empty if all have one.
  std::string failed_line() const { return failed_.empty() ? "" : item("failed", listed(failed_)); }

  /// "none", or the number of problems and the first of them.
  static std::string listed(const std::vector<std::string>& problems) {
    if (problems.empty()) return "none";
    return std::to_string(problems.size()) + ": " + problems[0] +
           (problems.size() > 1 ? " and others" : "");
  }

  /// The instruction sets, best first, then the others in order of appearance.
  std::vector<std::string> row_names(const std::string& problem) const {
    const auto& results = results_.at(problem);
    std::vector<std::string> names;
    for (const char* set : {"avx512", "avx2", "baseline"})
      if (results.count(set) || results.count(std::string("plain_") + set)) names.push_back(set);
    for (const auto& result : results)
      if (result.first.rfind("plain_", 0) != 0 &&
          std::find(names.begin(), names.end(), result.first) == names.end())
        names.push_back(result.first);
    return names;
  }

  std::string row(const std::string& problem, const std::string& name) const {
    const measurement *one = find(problem, name, 1), *plain = find(problem, "plain_" + name, 1);
    const measurement* all = threads_ > 1 ? find(problem, name, threads_) : nullptr;
    const auto milliseconds = [](const measurement* result) {
      if (!result) return std::string();
      return three_digits(1e3 * result->seconds) + (result->is_unsteady() ? " ~" : "");
    };
    std::string faster;
    if (one && plain) {
      faster = three_digits(plain->seconds / one->seconds) + "x";
      if (one->seconds > plain->seconds) faster += " <";
    }
    const measurement* any = one ? one : all;
    const double fraction = any ? any->copy_fraction : 0;
    return line({"  " + problem.substr(std::min(problem.size(), function_of(problem).size() + 1)),
                 is_set(name) ? name : "(" + name + ")", milliseconds(plain), milliseconds(one),
                 faster, milliseconds(all),
                 fraction > 0 ? std::to_string(std::lround(100 * fraction)) + "%" : ""});
  }

  const measurement* find(const std::string& problem, const std::string& implementation,
                          int threads) const {
    const auto at = results_.find(problem);
    if (at == results_.end()) return nullptr;
    const auto entry = at->second.find(implementation);
    if (entry == at->second.end()) return nullptr;
    const auto result = entry->second.find(threads);
    return result == entry->second.end() ? nullptr : &result->second;
  }

  static constexpr std::size_t widths[] = {45, 9, 9, 10, 9, 9, 7};  // a line has 120

  /// A line of the table: the first two cells left-aligned, the others right-aligned.
  static std::string line(std::vector<std::string> cells) {
    cells.resize(std::size(widths));
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      std::string& cell = cells[c];
      if (cell.size() > widths[c]) cell = cell.substr(0, widths[c] - 2) + "..";
      const std::string padding(widths[c] - cell.size(), ' ');
      text += "| " + (c < 2 ? cell + padding : padding + cell) + " ";
    }
    return text + "|\n";
  }

  /// The line under the header.
  static std::string rule() {
    std::string text;
    for (std::size_t c = 0; c < std::size(widths); ++c)
      text += "|" + std::string(widths[c] + 1, '-') + (c < 2 ? "-" : ":");
    return text + "|\n";
  }

  std::vector<std::string> order_, failed_;
  std::map<std::string, std::map<std::string, per_threads>> results_;
  int threads_ = 1;
};

}  // namespace vecdet::bench

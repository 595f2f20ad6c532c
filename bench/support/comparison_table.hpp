// SPDX-License-Identifier: Apache-2.0
// Benchmark results side by side, as text that is also a Markdown table. Results are named
// `<function>/<variant>/<type>/<shape>/<implementation>/threads:<n>`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::bench {

/// The results of one benchmark; 0 for what it did not measure.
struct measurement {
  double seconds = 0;  ///< Per call.
  double ns_per_element = 0;
  double gigabytes_per_second = 0;
  double copy_fraction = 0;  ///< Fraction of the machine's copy bandwidth.
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
    const key at{parts.problem, parts.threads};
    if (!results_.count(at)) order_.push_back(at);
    results_[at][parts.implementation] = result;
  }

  bool empty() const { return order_.empty(); }

  bool has(const std::string& name) const {
    const result_name parts = parse_result_name(name);
    const auto at = results_.find({parts.problem, parts.threads});
    return at != results_.end() && at->second.count(parts.implementation) > 0;
  }

  /// One row per problem and number of threads, one column per implementation. Empty columns are
  /// left out.
  std::string text() const {
    const std::vector<std::string> implementations = columns();
    std::vector<std::string> ours;
    for (const std::string& name : implementations)
      if (is_vecdet(name) && is_among(implementations, "plain_" + name)) ours.push_back(name);

    std::vector<std::vector<std::string>> rows;
    rows.push_back({"problem", "threads", "unit"});
    rows[0].insert(rows[0].end(), implementations.begin(), implementations.end());
    for (const std::string& name : ours) rows[0].push_back(name + " / plain_" + name);
    rows[0].insert(rows[0].end(), {"GB/s", "of copy"});
    for (const key& at : order_) rows.push_back(row(at, implementations, ours));
    return aligned(rows) + note;
  }

 private:
  using key = std::pair<std::string, int>;
  using implementations_results = std::map<std::string, measurement>;

  static constexpr const char* note =
      "\nLess is better, except for GB/s. The last columns have vecdet's speed-up over the plain "
      "loop compiled for\nthe same instruction set (on all threads, over the plain loop on one); "
      "and the bandwidth of vecdet's fastest\nvariant, also relative to a copy of the same size.\n";

  static bool is_among(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  static bool is_vecdet(const std::string& name) {
    return name == "baseline" || name == "avx2" || name == "avx512";
  }

  /// Implementations in column order: the known ones, then peers in order of appearance.
  std::vector<std::string> columns() const {
    std::vector<std::string> names;
    for (const char* known : {"reference", "plain_baseline", "plain_avx2", "plain_avx512",
                              "baseline", "avx2", "avx512"})
      for (const key& at : order_)
        if (results_.at(at).count(known)) {
          names.push_back(known);
          break;
        }
    for (const key& at : order_)
      for (const auto& result : results_.at(at))
        if (std::find(names.begin(), names.end(), result.first) == names.end())
          names.push_back(result.first);
    return names;
  }

  std::vector<std::string> row(const key& at, const std::vector<std::string>& implementations,
                               const std::vector<std::string>& ours) const {
    const implementations_results& results = results_.at(at);
    const bool by_element = results.begin()->second.ns_per_element > 0;
    const auto one_thread = results_.find({at.first, 1});
    std::vector<std::string> cells = {at.first, std::to_string(at.second),
                                      by_element ? "ns/element" : "ms"};
    for (const std::string& name : implementations) {
      const measurement* result = find(results, name);
      cells.push_back(
          !result ? "" : three_digits(by_element ? result->ns_per_element : 1e3 * result->seconds));
    }
    const measurement* fastest = nullptr;
    for (const std::string& name : implementations) {
      const measurement* result = find(results, name);
      if (is_vecdet(name) && result && (!fastest || result->seconds < fastest->seconds))
        fastest = result;
    }
    for (const std::string& name : ours) {
      const measurement* result = find(results, name);
      const measurement* plain =
          one_thread == results_.end() ? nullptr : find(one_thread->second, "plain_" + name);
      cells.push_back(result && plain ? three_digits(plain->seconds / result->seconds) + "x" : "");
    }
    const bool known = fastest && fastest->gigabytes_per_second > 0;
    cells.push_back(known ? three_digits(fastest->gigabytes_per_second) : "");
    cells.push_back(known ? std::to_string(std::lround(100 * fastest->copy_fraction)) + "%" : "");
    return cells;
  }

  static const measurement* find(const implementations_results& results, const std::string& name) {
    const auto at = results.find(name);
    return at == results.end() ? nullptr : &at->second;
  }

  /// Columns of equal width, the first left-aligned, under a header.
  static std::string aligned(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths(rows[0].size());
    for (const auto& cells : rows)
      for (std::size_t c = 0; c < cells.size(); ++c)
        widths[c] = std::max(widths[c], cells[c].size());
    std::string out;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < widths.size(); ++c) {
        const std::string padding(widths[c] - rows[r][c].size(), ' ');
        out += c == 0 ? "| " + rows[r][c] + padding : " | " + padding + rows[r][c];
      }
      out += " |\n";
      if (r > 0) continue;
      for (std::size_t c = 0; c < widths.size(); ++c)
        out += "|" + std::string(widths[c] + 1, '-') + (c == 0 ? "-" : ":");
      out += "|\n";
    }
    return out;
  }

  std::vector<key> order_;
  std::map<key, implementations_results> results_;
};

}  // namespace vecdet::bench

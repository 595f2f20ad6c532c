// SPDX-License-Identifier: Apache-2.0
// oneDNN's verbose log (ONEDNN_VERBOSE=1), as versions 2 and 3 write it, as a report: an entry a
// problem. Lines look like
//   onednn_verbose[,v1][,<time stamp>][,primitive],exec,<engine>,<primitive>,<implementation>,
//     <propagation>,<memory descriptors>,<attributes>,<auxiliary>,<problem>,<milliseconds>
// Lines of other programs in the same file are passed over; malformed ones are counted.
#pragma once

#include <vecdet/profile.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vecdet {
namespace profile {

inline std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The whole text as a number; false when it is none, or not 0 or more.
inline bool parse_amount(const std::string& text, double& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() && std::isfinite(value) &&
         value >= 0;
}

/// Data types of a line's memory descriptors by tensor: "src_f32::blocked:ab:f0" before version
/// 3.3, "src:f32::blocked:ab::f0" since.
inline std::map<std::string, std::string> onednn_types(const std::string& descriptors) {
  std::map<std::string, std::string> types;
  for (const std::string& descriptor : split_text(descriptors, ' ')) {
    const std::vector<std::string> parts = split_text(descriptor, ':');
    const std::size_t underscore = parts[0].rfind('_');
    if (parts.size() > 1 && !parts[1].empty() &&
        (underscore == std::string::npos || parts[0].compare(0, 5, "diff_") == 0)) {
      types[parts[0]] = parts[1];
    } else if (underscore != std::string::npos) {
      types[parts[0].substr(0, underscore)] = parts[0].substr(underscore + 1);
    }
  }
  return types;
}

inline double onednn_type_size(const std::string& type) {
  static const std::map<std::string, double> sizes{
      {"f32", 4}, {"s32", 4},     {"f64", 8},  {"bf16", 2}, {"f16", 2},    {"s8", 1},
      {"u8", 1},  {"f8_e5m2", 1}, {"s4", 0.5}, {"u4", 0.5}, {"f8_e4m3", 1}};
  const auto found = sizes.find(type);
  return found != sizes.end() ? found->second : 0;
}

/// "64x56x56" as the product of its dimensions; 0 when it is not of that form.
inline double product_of(const std::string& dimensions) {
  double product = 1;
  for (const std::string& dimension : split_text(dimensions, 'x')) {
    double value = 0;
    if (!parse_amount(dimension, value)) return 0;
    product *= value;
  }
  return product;
}

/// "g32mb1_ic128oc128_ih56..." as numbers by name. A missing spatial dimension counts as 1.
inline std::map<std::string, double> onednn_dimensions(const std::string& problem) {
  std::map<std::string, double> found{{"g", 1},  {"mb", 1}, {"id", 1}, {"ih", 1},
                                      {"iw", 1}, {"od", 1}, {"oh", 1}, {"ow", 1},
                                      {"kd", 1}, {"kh", 1}, {"kw", 1}};
  for (std::size_t i = 0; i < problem.size();) {
    std::string key, digits;
    while (i < problem.size() && (problem[i] < '0' || problem[i] > '9')) {
      if (problem[i] != '_') key += problem[i];
      ++i;
    }
    while (i < problem.size() && problem[i] >= '0' && problem[i] <= '9') digits += problem[i++];
    double value = 0;
    if (!key.empty() && parse_amount(digits, value)) found[key] = value;
  }
  return found;
}

/// Operations and bytes of one execution, where the primitive is known; each tensor counts once.
inline void onednn_work(const std::string& primitive, const std::string& problem,
                        const std::map<std::string, std::string>& types, entry& e) {
  const auto size = [&](const char* tensor) {
    for (const char* prefix : {"", "diff_"}) {
      const auto found = types.find(prefix + std::string(tensor));
      if (found != types.end()) return onednn_type_size(found->second);
    }
    return 0.0;
  };
  if (primitive == "convolution" || primitive == "deconvolution" || primitive == "inner_product") {
    auto d = onednn_dimensions(problem);
    const double outputs = d["mb"] * d["oc"] * d["od"] * d["oh"] * d["ow"];
    const double kernel = d["ic"] / d["g"] * d["kd"] * d["kh"] * d["kw"];
    const bool dense = primitive == "inner_product";
    const double inputs = d["mb"] * d["ic"] * d["id"] * d["ih"] * d["iw"];
    const double weights = d["oc"] * (dense ? d["ic"] * d["id"] * d["ih"] * d["iw"] : kernel);
    e.flops = 2 * (dense ? d["mb"] * weights : outputs * kernel);
    if (primitive == "deconvolution")
      e.flops = 2 * inputs * d["oc"] / d["g"] * d["kd"] * d["kh"] * d["kw"];
    e.bytes = inputs * size("src") + weights * size("wei") + outputs * size("dst");
  } else if (primitive == "matmul") {
    const std::vector<std::string> operands = split_text(problem, ':');
    if (operands.size() < 2) return;
    const std::size_t last_x = operands[1].rfind('x');
    if (last_x == std::string::npos) return;
    double columns = 0;
    if (!parse_amount(operands[1].substr(last_x + 1), columns)) return;
    const double a = product_of(operands[0]), b = product_of(operands[1]);
    const std::size_t inner_x = operands[0].rfind('x');
    double inner = 0;
    if (inner_x == std::string::npos || !parse_amount(operands[0].substr(inner_x + 1), inner))
      return;
    if (inner <= 0) return;
    e.flops = 2 * a * columns;
    e.bytes = a * size("src") + b * size("wei") + a / inner * columns * size("dst");
  } else if (primitive == "reorder") {
    e.bytes = product_of(problem) * (size("src") + size("dst"));
  } else if (primitive == "eltwise") {
    // Version 2 and 3.0 name one tensor for both ends, later ones two.
    const double one = std::max(size("data"), size("src"));
    e.bytes = product_of(problem) * 2 * one;
  }
}

inline report import_onednn(const std::string& text) {
  detail::report_builder builder;
  process_info process;
  process.command = "oneDNN";
  int threads = 0;
  std::size_t malformed = 0, others = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    std::vector<std::string> f = split_text(line, ',');
    if (f[0] != "onednn_verbose" && f[0] != "dnnl_verbose" && f[0] != "mkldnn_verbose") {
      ++others;
      continue;
    }
    std::size_t at = 1;
    const auto field = [&](std::size_t i) { return i < f.size() ? f[i] : std::string(); };
    double number = 0;
    if (field(at) == "v0" || field(at) == "v1") ++at;
    if (parse_amount(field(at), number)) ++at;
    const bool primitive = field(at) == "primitive";
    if (primitive) ++at;
    if (field(at) == "info") {
      for (std::size_t i = at; i < f.size(); ++i) {
        if (f[i].compare(0, 5, "nthr:") == 0 && parse_amount(f[i].substr(5), number)) {
          threads = static_cast<int>(std::min(number, 1e6));
        }
      }
      continue;
    }
    if (field(at) != "exec") {
      // Creation of primitives, and what the graph component does as a whole, are not executions.
      const bool known = field(at).compare(0, 6, "create") == 0 || field(at) == "graph" ||
                         field(at) == "ukernel" || field(at) == "common" || field(at) == "error" ||
                         field(at) == "warn";
      if (!known) ++malformed;
      continue;
    }
    double milliseconds = 0;
    if (f.size() != at + 10 || !parse_amount(f.back(), milliseconds) || field(at + 2).empty()) {
      ++malformed;
      continue;
    }
    const auto types = onednn_types(f[at + 5]);
    entry e;
    e.function = f[at + 2];
    e.implementation = f[at + 3];
    e.variant = f[at + 4] == "undef" ? "" : f[at + 4];
    for (const char* tensor : {"src", "data", "src_0", "diff_src", "dst", "diff_dst"}) {
      const auto found = types.find(tensor);
      if (!e.type.empty() || found == types.end() || found->second == "undef") continue;
      e.type = found->second;
    }
    e.threads = threads;
    e.source = "onednn";
    e.name = problem_text(e.function, e.variant, e.type, f[at + 8], e.implementation, threads);
    const double ns = milliseconds * 1e6;
    e.count = 1;
    e.total_ns = e.inclusive_ns = e.self_ns = e.min_ns = e.max_ns = ns;
    e.seen_on_threads = 1;
    e.histogram[histogram_bucket(static_cast<std::int64_t>(std::min(ns, 9e15) + 0.5))] = 1;
    e.samples.push_back(static_cast<float>(ns));
    onednn_work(e.function, f[at + 8], types, e);
    process.wall_ns += ns;
    path p;
    p.entries = {builder.add(e)};
    builder.result.entries[p.entries[0]].seen_on_threads = 1;
    p.count = 1;
    p.total_ns = p.self_ns = ns;
    builder.add(p);
  }
  report r = std::move(builder.result);
  process.threads = 1;
  r.processes.push_back(process);
  if (malformed != 0) {
    r.warnings.push_back(std::to_string(malformed) +
                         " malformed lines of the oneDNN log, left out");
  }
  if (others != 0 && !r.entries.empty()) {
    r.warnings.push_back(std::to_string(others) +
                         " lines in the log that are not oneDNN's, passed over");
  }
  return r;
}

}  // namespace profile
}  // namespace vecdet

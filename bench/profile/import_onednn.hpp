// SPDX-License-Identifier: Apache-2.0
// Converts oneDNN's verbose log (onednn_log.hpp) to a report: one entry per problem. Other
// programs' lines in the same file are skipped; malformed ones are counted.
#pragma once

#include "onednn_log.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// Problems by the names of their entries.
using onednn_problems = std::map<std::string, onednn_problem>;

/// A log as a report, and the problems that its entries represent.
struct onednn_import {
  report recorded;
  onednn_problems problems;
};

/// Operations and bytes of one execution, if the primitive is known; each tensor counts once.
inline void onednn_work(const onednn_problem& p, entry& e) {
  const auto size = [&](const char* name) {
    for (const std::string prefix : {"", "diff_"}) {
      const onednn_tensor* const tensor = p.find((prefix + name).c_str());
      if (tensor != nullptr) return onednn_type_size(tensor->type);
    }
    return 0.0;
  };
  const auto product = [](const std::vector<std::int64_t>& dimensions) {
    double all = dimensions.empty() ? 0 : 1;
    for (const std::int64_t dimension : dimensions) all *= static_cast<double>(dimension);
    return all;
  };
  if (p.primitive == "convolution" || p.primitive == "deconvolution" ||
      p.primitive == "inner_product") {
    const std::map<std::string, std::int64_t> sizes = onednn_sizes(p.shapes);
    // A missing group, image or spatial dimension counts as 1.
    const auto d = [&](const char* name) {
      const auto found = sizes.find(name);
      const bool is_channels = name[1] == 'c';
      return found != sizes.end() ? static_cast<double>(found->second) : is_channels ? 0 : 1;
    };
    const double outputs = d("mb") * d("oc") * d("od") * d("oh") * d("ow");
    const double kernel = d("g") > 0 ? d("ic") / d("g") * d("kd") * d("kh") * d("kw") : 0;
    const bool dense = p.primitive == "inner_product";
    const double inputs = d("mb") * d("ic") * d("id") * d("ih") * d("iw");
    const double weights = d("oc") * (dense ? d("ic") * d("id") * d("ih") * d("iw") : kernel);
    e.flops = 2 * (dense ? d("mb") * weights : outputs * kernel);
    if (p.primitive == "deconvolution") e.flops = 2 * inputs * d("oc") / d("ic") * kernel;
    if (!(e.flops >= 0)) e.flops = 0;
    e.bytes = inputs * size("src") + weights * size("wei") + outputs * size("dst");
  } else if (p.primitive == "matmul") {
    const std::vector<std::string> operands = split_text(p.shapes, ':');
    if (operands.size() < 2) return;
    const std::vector<std::int64_t> left = onednn_dimensions(operands[0]);
    const std::vector<std::int64_t> right = onednn_dimensions(operands[1]);
    if (left.empty() || right.empty() || left.back() <= 0) return;
    const double a = product(left), columns = static_cast<double>(right.back());
    e.flops = 2 * a * columns;
    e.bytes = a * size("src") + product(right) * size("wei") +
              a / static_cast<double>(left.back()) * columns * size("dst");
  } else if (p.primitive == "reorder") {
    e.bytes = product(onednn_dimensions(p.shapes)) * (size("src") + size("dst"));
  } else if (p.primitive == "eltwise") {
    // Version 2 and 3.0 use one tensor for both ends, later versions two.
    e.bytes = product(onednn_dimensions(p.shapes)) * 2 * std::max(size("data"), size("src"));
  }
}

/// The entry of one execution. Layouts, algorithms and attributes distinguish problems. Layouts
/// that oneDNN chose are part of the implementation, which --across ignores.
inline entry onednn_entry(const onednn_problem& p) {
  entry e;
  e.function = p.primitive;
  e.variant = p.propagation;
  const auto add = [](std::string& text, const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : ",") + part;
  };
  for (const std::string& part : split_text(p.auxiliary, ' ')) {
    if (part == "alg:convolution_direct" || part == "alg:deconvolution_direct") continue;
    if (part == "alpha:0" || part == "beta:0") continue;
    add(e.variant, starts_with(part, "alg:") ? part.substr(4) : part);
  }
  for (const std::string& part : split_text(p.attributes, ' ')) {
    if (!starts_with(part, "attr-scratchpad:")) add(e.variant, part);
  }
  for (const char* tensor : {"src", "data", "src_0", "diff_src", "dst", "diff_dst"}) {
    const onednn_tensor* const found = p.find(tensor);
    if (e.type.empty() && found != nullptr) e.type = found->type;
  }
  std::string layouts;
  for (const onednn_tensor& tensor : p.tensors) {
    // Dense vectors have only one layout.
    if (tensor.name == "bia" || tensor.name == "stats") continue;
    add(layouts, (tensor.type != e.type ? tensor.type + ":" : "") +
                     (tensor.layout.empty() ? tensor.format : tensor.layout) +
                     (tensor.strides.empty() ? "" : ":" + tensor.strides));
  }
  if (p.find("bia") != nullptr) add(layouts, "bias");
  e.implementation = p.implementation + (layouts.empty() ? "" : "," + layouts);
  e.threads = p.threads;
  e.source = "onednn";
  e.name = problem_text(e.function, e.variant, e.type, p.shapes, e.implementation, e.threads);
  return e;
}

/// One execution in the log.
struct onednn_execution {
  entry one;  ///< with the time and the work of this call
  onednn_problem problem;
  std::optional<double> stamp_ms;
};

/// The lines of a log that are not executions.
struct onednn_others {
  std::size_t malformed = 0, foreign = 0;
};

/// Calls visit(execution) for each execution in the log, in its order.
template <class Visit>
onednn_others for_each_execution(const std::string& text, const Visit& visit) {
  onednn_others others;
  int threads = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string one = text.substr(begin, end - begin);
    begin = end + 1;
    if (!one.empty() && one.back() == '\r') one.pop_back();
    if (one.empty()) continue;
    onednn_line line = parse_onednn_line(one);
    if (line.what == onednn_line::kind::foreign) ++others.foreign;
    if (line.what == onednn_line::kind::malformed) ++others.malformed;
    if (line.what == onednn_line::kind::threads) threads = line.problem.threads;
    if (line.what != onednn_line::kind::execution) continue;
    line.problem.threads = threads;
    entry e = onednn_entry(line.problem);
    const double ns = line.milliseconds * 1e6;
    e.count = 1;
    e.total_ns = e.inclusive_ns = e.self_ns = e.min_ns = e.max_ns = ns;
    e.seen_on_threads = 1;
    e.histogram[histogram_bucket(static_cast<std::int64_t>(std::min(ns, 9e15) + 0.5))] = 1;
    e.samples.push_back(static_cast<float>(ns));
    onednn_work(line.problem, e);
    visit(onednn_execution{std::move(e), std::move(line.problem), line.stamp_ms});
  }
  return others;
}

inline onednn_import import_onednn(const std::string& text) {
  detail::report_builder builder;
  onednn_import imported;
  process_info process;
  process.command = "oneDNN";
  double first_ms = 0, last_ms = 0;
  const onednn_others others = for_each_execution(text, [&](onednn_execution execution) {
    const double ns = execution.one.total_ns;
    process.wall_ns += ns;
    if (execution.stamp_ms) {
      if (first_ms <= 0) first_ms = *execution.stamp_ms;
      last_ms = *execution.stamp_ms + ns / 1e6;
    }
    imported.problems.emplace(execution.one.name, std::move(execution.problem));
    path p;
    p.entries = {builder.add(execution.one)};
    builder.result.entries[p.entries[0]].seen_on_threads = 1;
    p.count = 1;
    p.total_ns = p.self_ns = ns;
    builder.add(p);
  });
  report& r = imported.recorded;
  r = std::move(builder.result);
  process.threads = 1;
  process.wall_ns = std::max(process.wall_ns, 1e6 * (last_ms - first_ms));
  r.processes.push_back(process);
  if (others.malformed != 0) {
    r.warnings.push_back(std::to_string(others.malformed) +
                         " malformed lines of the oneDNN log, left out");
  }
  if (others.foreign != 0 && !r.entries.empty()) {
    r.warnings.push_back(std::to_string(others.foreign) +
                         " lines in the log that are not oneDNN's, passed over");
  }
  return imported;
}

}  // namespace vecdet::profile

// SPDX-License-Identifier: Apache-2.0
// Parses one line of oneDNN's verbose log (ONEDNN_VERBOSE=1, DNNL_VERBOSE=1). Lines look like
//   onednn_verbose[,v1][,<time stamp>][,primitive],exec,<engine>,<primitive>,<implementation>,
//     <propagation>,<memory descriptors>,<attributes>,<auxiliary>,<problem>,<milliseconds>
// and a memory descriptor, of which the problem has the dimensions, like
//   <tensor>_<type>:<properties>:<format kind>:<layout>:f<flags>              2.6 to 3.0
//   <tensor>_<type>:<properties>:<format kind>:<layout>:<strides>:f<flags>    3.1 to 3.5
//   <tensor>:<type>:<properties>:<format kind>:<layout>:<strides>:f<flags>    since
#pragma once

#include <vecdet/profile/problem.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {

inline std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

inline bool starts_with(const std::string& text, const char* prefix) {
  return text.rfind(prefix, 0) == 0;
}

/// Parses the whole text as a number; false if it is not a nonnegative number.
inline bool parse_amount(const std::string& text, double& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() && std::isfinite(value) &&
         value >= 0;
}

/// Parses the whole text as a size; false if it is not a number or larger than any tensor.
inline bool parse_size(const std::string& text, std::int64_t& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() && value >= 0 &&
         value <= std::int64_t{1} << 40;
}

/// Bytes of an element; 0 for an unknown type.
inline double onednn_type_size(const std::string& type) {
  static const std::map<std::string, double> sizes{
      {"f32", 4}, {"s32", 4},     {"f64", 8},  {"bf16", 2}, {"f16", 2},    {"s8", 1},
      {"u8", 1},  {"f8_e5m2", 1}, {"s4", 0.5}, {"u4", 0.5}, {"f8_e4m3", 1}};
  const auto found = sizes.find(type);
  return found != sizes.end() ? found->second : 0;
}

/// A memory descriptor. Fields that do not apply are empty.
struct onednn_tensor {
  std::string name;    ///< src, wei, bia, dst, data, diff, ws, ...
  std::string type;    ///< f32, bf16, ...
  std::string format;  ///< blocked, wino, any, ...
  std::string layout;  ///< aBcd16b: dimensions from the outermost, then blocks
  std::string strides;
  std::string extra;  ///< flags other than f0, such as the compensation stored in integer weights
  int mask = -1;      ///< the dimensions of a matmul's bias
};

/// What identifies a primitive: the whole line except its time and duration.
struct onednn_problem {
  std::string primitive, implementation, propagation;
  std::vector<onednn_tensor> tensors;  ///< those that are defined
  std::string attributes, auxiliary, shapes;
  int threads = 0;  ///< 0: oneDNN's default

  /// The first tensor of that name, or nullptr.
  const onednn_tensor* find(const char* name) const {
    for (const onednn_tensor& tensor : tensors) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
};

struct onednn_line {
  enum class kind { execution, creation, threads, other, foreign, malformed };
  kind what = kind::other;
  std::string engine;
  onednn_problem problem;
  double milliseconds = 0;
  std::optional<double> stamp_ms;  ///< start time, if the log has time stamps
};

inline std::optional<onednn_tensor> parse_onednn_tensor(const std::string& text) {
  const std::vector<std::string> parts = split_text(text, ':');
  onednn_tensor tensor;
  const std::size_t underscore = parts[0].rfind('_');
  std::size_t at = 1;
  if (parts.size() > 1 && (parts[1] == "undef" || onednn_type_size(parts[1]) > 0)) {
    tensor.name = parts[0];
    tensor.type = parts[at++];
  } else if (underscore != std::string::npos) {
    tensor.name = parts[0].substr(0, underscore);
    tensor.type = parts[0].substr(underscore + 1);
  }
  if (tensor.name.empty() || tensor.type.empty()) return std::nullopt;
  ++at;  // properties: padding follows from the layout
  const auto part = [&](std::size_t i) { return i < parts.size() ? parts[i] : std::string(); };
  tensor.format = part(at++);
  tensor.layout = part(at++);
  const auto is_flags = [](const std::string& s) {
    return s.size() > 1 && s[0] == 'f' && s[1] >= '0' && s[1] <= '9';
  };
  if (!is_flags(part(at))) tensor.strides = part(at++);
  for (; at < parts.size(); ++at) {
    std::string flags = parts[at];
    const std::size_t mask = flags.find("_mask");
    std::int64_t value = 0;
    if (mask != std::string::npos && parse_size(flags.substr(mask + 5), value)) {
      tensor.mask = static_cast<int>(std::min<std::int64_t>(value, 1 << 20));
      flags.resize(mask);
    }
    if (flags.empty() || flags == "f0") continue;
    tensor.extra += (tensor.extra.empty() ? "" : ":") + flags;
  }
  return tensor;
}

/// The tensors in a field of memory descriptors, except those that are "undef".
inline std::vector<onednn_tensor> parse_onednn_tensors(const std::string& descriptors) {
  std::vector<onednn_tensor> tensors;
  for (const std::string& descriptor : split_text(descriptors, ' ')) {
    std::optional<onednn_tensor> tensor = parse_onednn_tensor(descriptor);
    if (tensor && tensor->type != "undef") tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

/// Parses a line without its line end. `foreign`: written by another program. `other`: written by
/// oneDNN, but not about a primitive. `threads`: states the number of threads.
inline onednn_line parse_onednn_line(const std::string& text) {
  onednn_line line;
  const std::vector<std::string> f = split_text(text, ',');
  if (f[0] != "onednn_verbose" && f[0] != "dnnl_verbose" && f[0] != "mkldnn_verbose") {
    line.what = onednn_line::kind::foreign;
    return line;
  }
  std::size_t at = 1;
  const auto field = [&](std::size_t i) { return i < f.size() ? f[i] : std::string(); };
  double number = 0;
  if (field(at) == "v0" || field(at) == "v1") ++at;
  if (parse_amount(field(at), number)) {
    line.stamp_ms = number;
    ++at;
  }
  const bool named_primitive = field(at) == "primitive";
  if (named_primitive) ++at;
  if (field(at) == "info") {
    for (std::size_t i = at; i < f.size(); ++i) {
      if (!starts_with(f[i], "nthr:") || !parse_amount(f[i].substr(5), number)) continue;
      line.what = onednn_line::kind::threads;
      line.problem.threads = static_cast<int>(std::min(number, 1e6));
    }
    return line;
  }
  const bool creation = starts_with(field(at), "create");
  if (field(at) != "exec" && !creation) {
    // The graph component logs whole graphs, which are not primitives.
    for (const char* known : {"graph", "ukernel", "common", "error", "warn"})
      if (field(at) == known) return line;
    line.what = onednn_line::kind::malformed;
    return line;
  }
  line.what = onednn_line::kind::malformed;
  if (f.size() != at + 10 || !parse_amount(f.back(), line.milliseconds) || f[at + 2].empty())
    return line;
  line.what = creation ? onednn_line::kind::creation : onednn_line::kind::execution;
  line.engine = f[at + 1];
  line.problem.primitive = f[at + 2];
  line.problem.implementation = f[at + 3];
  line.problem.propagation = f[at + 4] == "undef" ? "" : f[at + 4];
  line.problem.tensors = parse_onednn_tensors(f[at + 5]);
  line.problem.attributes = f[at + 6];
  line.problem.auxiliary = f[at + 7];
  line.problem.shapes = f[at + 8];
  return line;
}

/// Parses "64x56x56" as dimensions; empty if it has another form.
inline std::vector<std::int64_t> onednn_dimensions(const std::string& text) {
  std::vector<std::int64_t> dimensions;
  for (const std::string& part : split_text(text, 'x')) {
    std::int64_t value = 0;
    if (!parse_size(part, value)) return {};
    dimensions.push_back(value);
  }
  return dimensions;
}

/// Parses "g32mb1_ic128oc128_ih56..." as sizes by name; empty if it has another form. Underscores
/// separate groups.
inline std::map<std::string, std::int64_t> onednn_sizes(const std::string& text) {
  std::map<std::string, std::int64_t> found;
  for (std::size_t i = 0; i < text.size();) {
    std::string key, digits;
    while (i < text.size() && ((text[i] >= 'a' && text[i] <= 'z') || text[i] == '_')) {
      if (text[i] != '_') key += text[i];
      ++i;
    }
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') digits += text[i++];
    std::int64_t value = 0;
    if (key.empty() || !parse_size(digits, value)) return {};
    found[key] = value;
  }
  return found;
}

}  // namespace vecdet::profile

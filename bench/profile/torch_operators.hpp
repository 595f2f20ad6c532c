// SPDX-License-Identifier: Apache-2.0
// Converts a trace's operators to problems, with the names that the profiler's bridge gives them
// (vecdet/torch/profile.hpp) and with their work:
//   aten::convolution/s1,p1,d1,g1/f32/1x256x100x100,256x256x3x3,256
// Inputs that are not dense carry their strides: aten::copy_/f32/8x16,8x16:1x8.
#pragma once

#include "onednn_log.hpp"
#include "trace_events.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vecdet::profile {

using tensor_sizes = std::vector<std::int64_t>;

/// The kinds of scopes in a trace.
enum class scope_kind { operator_call, annotation, python };

/// All calls of one operator with the same inputs, or one scope of Python.
struct torch_operator {
  std::string name;
  scope_kind kind = scope_kind::operator_call;
  bool has_shapes = false;
  std::vector<trace_input> inputs;

  /// The sizes of an input tensor; empty if there is none, or one without dimensions.
  const tensor_sizes& sizes(std::size_t i) const {
    static const tensor_sizes none;
    return i < inputs.size() && inputs[i].sizes.size() == 1 ? inputs[i].sizes[0] : none;
  }
  std::string concrete(std::size_t i) const {
    return i < inputs.size() ? inputs[i].concrete : std::string();
  }
};

/// "f32" for "float"; the type itself if it has no shorter name.
inline std::string short_type(const std::string& type) {
  static const std::map<std::string, std::string> names{
      {"float", "f32"},      {"double", "f64"}, {"c10::Half", "f16"},   {"c10::BFloat16", "bf16"},
      {"long int", "i64"},   {"long", "i64"},   {"int", "i32"},         {"short int", "i16"},
      {"signed char", "i8"}, {"char", "i8"},    {"unsigned char", "u8"}};
  const auto found = names.find(type);
  return found != names.end() ? found->second : type;
}

inline double type_bytes(const std::string& type) {
  static const std::map<std::string, double> sizes{{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2},
                                                   {"i64", 8}, {"i32", 4}, {"i16", 2}, {"i8", 1},
                                                   {"u8", 1},  {"bool", 1}};
  const auto found = sizes.find(type);
  return found != sizes.end() ? found->second : 0;
}

inline double count_of(const tensor_sizes& sizes) {
  double count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<double>(size);
  return count;
}

/// Whether the strides are those of a contiguous tensor; `channels_last`, of one in NHWC.
inline bool are_dense(const tensor_sizes& sizes, const tensor_sizes& strides,
                      bool channels_last = false) {
  if (strides.size() != sizes.size()) return !channels_last;  // not recorded
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sizes.size(); ++i) order.push_back(i);
  if (channels_last) {
    if (sizes.size() != 4) return false;
    order = {0, 2, 3, 1};
  }
  std::int64_t expected = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t size = sizes[order[i]];
    if (size == 0) return true;
    if (size != 1 && strides[order[i]] != expected) return false;
    if (size < 0 || expected > (std::int64_t{1} << 40) / std::max<std::int64_t>(size, 1))
      return false;  // larger than any tensor
    expected *= size;
  }
  return true;
}

inline std::string joined(const tensor_sizes& numbers, char separator = 'x') {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : std::string(1, separator)) + std::to_string(number);
  return text;
}

/// The numbers of "[1, 1]"; empty for other texts.
inline tensor_sizes concrete_list(const std::string& text) {
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return {};
  tensor_sizes numbers;
  for (std::string part : split_text(text.substr(1, text.size() - 2), ',')) {
    part.erase(0, std::min(part.find_first_not_of(' '), part.size()));
    std::int64_t number = 0;
    if (!parse_size(part, number)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

inline bool is_forward_convolution(const torch_operator& o) {
  return o.name == "aten::convolution";
}
inline bool is_convolution(const torch_operator& o) {
  return is_forward_convolution(o) || o.name == "aten::convolution_backward";
}

/// A convolution's strides, padding and so on, as in the bridge's records: "s2,p3,d1,g1". Empty if
/// the trace lacks them: versions before 2.1 do not record them.
inline std::string recorded_window(const torch_operator& o) {
  const bool forward = is_forward_convolution(o);
  const std::size_t first = forward ? 3 : 4;
  std::string text;
  const char* const letters[] = {"s", "p", "d"};
  for (std::size_t i = 0; i < 3; ++i) {
    const tensor_sizes sizes = concrete_list(o.concrete(first + i));
    if (sizes.empty()) return {};
    const bool same = std::count(sizes.begin(), sizes.end(), sizes[0]) ==
                      static_cast<std::ptrdiff_t>(sizes.size());
    text += (i > 0 ? "," : "") + std::string(letters[i]) +
            (same ? std::to_string(sizes[0]) : joined(sizes));
  }
  std::int64_t groups = 0;
  if (!parse_size(o.concrete(first + 5), groups)) return {};
  text += ",g" + std::to_string(groups);
  if (o.concrete(first + 3) == "True")
    text += ",transposed,o" + joined(concrete_list(o.concrete(first + 4)));
  return text;
}

/// An assumption, for traces that do not record the window: the smallest stride with the usual
/// padding that gives a result of this size, without dilation. Empty if none does.
inline std::string assumed_window(const tensor_sizes& source, const tensor_sizes& weights,
                                  const tensor_sizes& result) {
  const std::size_t rank = source.size();
  if (rank < 3 || rank > 5 || weights.size() != rank || result.size() != rank) return {};
  if (weights[1] < 1 || source[1] < weights[1] || source[1] % weights[1] != 0) return {};
  if (result[0] != source[0] || result[1] != weights[0]) return {};
  tensor_sizes strides, padding;
  for (std::size_t d = 2; d < rank; ++d) {
    const std::int64_t in = source[d], kernel = weights[d], out = result[d];
    if (in < 1 || kernel < 1 || kernel > 64 || out < 1 || in > 1 << 30) return {};
    const auto matches = [&](std::int64_t s, std::int64_t p) {
      return in + 2 * p >= kernel && (in + 2 * p - kernel) / s + 1 == out;
    };
    bool found = false;
    for (std::int64_t s = 1; s <= 32 && !found; ++s) {
      for (std::int64_t p = -1; p < kernel && !found; ++p) {
        const std::int64_t usual = p < 0 ? (kernel - 1) / 2 : p;
        if (!matches(s, usual)) continue;
        strides.push_back(s), padding.push_back(usual);
        found = true;
      }
    }
    if (!found) return {};
  }
  const auto text = [](const tensor_sizes& each) {
    const bool same =
        std::count(each.begin(), each.end(), each[0]) == static_cast<std::ptrdiff_t>(each.size());
    return same ? std::to_string(each[0]) : joined(each);
  };
  return "s" + text(strides) + ",p" + text(padding) + ",d1,g" +
         std::to_string(source[1] / weights[1]);
}

/// The gradients that a backward convolution computes, as "grads110". If they were not recorded,
/// all are assumed, except the gradient of an image: a source with at most 3 channels.
inline std::string gradients_of(const torch_operator& o, bool has_bias) {
  const std::string wanted = o.concrete(10);
  if (wanted.empty()) {
    const tensor_sizes& source = o.sizes(1);
    return std::string("grads") + (source.size() > 1 && source[1] <= 3 ? '0' : '1') + '1' +
           (has_bias ? '1' : '0');
  }
  std::string text = "grads";
  for (const std::string& each : split_text(wanted, ','))
    text += each.find("True") != std::string::npos ? '1' : '0';
  return text;
}

/// What else distinguishes a call's cost: arguments of RoIAlign and NMS, as far as recorded.
inline std::string recorded_arguments(const torch_operator& o) {
  if (o.name == "torchvision::roi_align" && !o.concrete(6).empty()) {
    return "scale" + o.concrete(2) + "," + o.concrete(3) + "x" + o.concrete(4) + ",sampling" +
           o.concrete(5) + (o.concrete(6) == "True" ? ",aligned" : "");
  }
  if (o.name == "torchvision::nms" && !o.concrete(2).empty()) return "iou" + o.concrete(2);
  return {};
}

/// Bytes of operators that pass over tensors once: inputs, and a result of the largest one's size.
inline double elementwise_bytes(const torch_operator& o) {
  static const std::set<std::string> known{"add",
                                           "add_",
                                           "sub",
                                           "sub_",
                                           "mul",
                                           "mul_",
                                           "div",
                                           "div_",
                                           "relu",
                                           "relu_",
                                           "sigmoid",
                                           "sigmoid_",
                                           "copy_",
                                           "clamp",
                                           "clamp_min",
                                           "threshold_backward",
                                           "sigmoid_backward",
                                           "pow",
                                           "exp",
                                           "log",
                                           "neg",
                                           "where",
                                           "maximum",
                                           "minimum",
                                           "silu",
                                           "gelu",
                                           "gelu_backward",
                                           "cat",
                                           "native_batch_norm",
                                           "native_batch_norm_backward",
                                           "rsub",
                                           "sqrt",
                                           "_softmax"};
  constexpr const char* prefix = "aten::";
  if (!starts_with(o.name, prefix) || known.count(o.name.substr(6)) == 0) return 0;
  double bytes = 0, largest = 0;
  for (const trace_input& input : o.inputs) {
    for (const tensor_sizes& sizes : input.sizes) {
      const double one = sizes.empty() ? 0 : count_of(sizes) * type_bytes(short_type(input.type));
      bytes += one;
      largest = std::max(largest, one);
    }
  }
  // copy_ only reads its second input and only writes its first.
  return o.name == "aten::copy_" ? bytes : bytes + largest;
}

/// Operations and bytes of one call, where they are known.
inline void torch_work(const torch_operator& o, const std::string& type, const tensor_sizes& result,
                       entry& e) {
  const double each = type_bytes(type);
  const auto matrices = [&](std::size_t a, std::size_t b) {
    const tensor_sizes &left = o.sizes(a), &right = o.sizes(b);
    if (left.size() < 2 || right.size() < 2) return;
    const double outputs = count_of(left) /
                           static_cast<double>(std::max<std::int64_t>(left.back(), 1)) *
                           static_cast<double>(right.back());
    e.flops = 2 * outputs * static_cast<double>(left.back());
    e.bytes = each * (count_of(left) + count_of(right) + outputs);
  };
  if (o.name == "aten::mm" || o.name == "aten::bmm") return matrices(0, 1);
  if (o.name == "aten::addmm" || o.name == "aten::baddbmm") return matrices(1, 2);
  if (!is_convolution(o)) {
    e.bytes = elementwise_bytes(o);
    return;
  }
  const std::size_t first = is_forward_convolution(o) ? 0 : 1;
  const tensor_sizes &source = o.sizes(first), &weights = o.sizes(first + 1);
  if (result.empty() || weights.size() < 3 || source.empty()) return;
  e.flops = 2 * count_of(result) * count_of(weights) /
            static_cast<double>(std::max<std::int64_t>(weights[0], 1));
  e.bytes = each * (count_of(source) + count_of(weights) + count_of(result));
  if (first == 0) return;
  // Each of the gradients of source and weights costs as much as the forward pass.
  const std::size_t at = e.variant.find("grads");
  if (at == e.variant.npos || at + 7 > e.variant.size()) return;
  const double wanted = (e.variant[at + 5] == '1') + (e.variant[at + 6] == '1');
  e.flops *= wanted;
  e.bytes *= wanted;
}

/// The entry of one call. For a convolution, `variant` is its window and `result` the size of its
/// result, which the operator itself may lack.
inline entry operator_entry(const torch_operator& o, std::string variant,
                            const tensor_sizes& result) {
  constexpr std::size_t most_tensors = 16;
  entry e;
  e.function = o.name;
  e.source = "torch";
  std::string shapes;
  std::size_t tensors = 0;
  bool channels_last = false;
  for (const trace_input& input : o.inputs) {
    // Scalars have no sizes, and their types are not those of tensors.
    const bool is_tensor = !input.type.empty() && !starts_with(input.type, "Scalar");
    for (std::size_t i = 0; i < input.sizes.size(); ++i) {
      const tensor_sizes& sizes = input.sizes[i];
      if (is_tensor && input.type != "TensorList" && e.type.empty())
        e.type = short_type(input.type);
      if (sizes.empty() || ++tensors > most_tensors) continue;
      shapes += (shapes.empty() ? "" : ",") + joined(sizes);
      const tensor_sizes none;
      const tensor_sizes& strides = i < input.strides.size() ? input.strides[i] : none;
      if (are_dense(sizes, strides)) continue;
      const bool is_nhwc = are_dense(sizes, strides, true);
      channels_last |= is_nhwc && tensors == (o.name == "aten::convolution_backward" ? 2u : 1u);
      if (!is_convolution(o)) shapes += ":" + (is_nhwc ? "nhwc" : joined(strides));
    }
  }
  if (tensors > most_tensors) shapes += ",...";
  if (channels_last && is_convolution(o) && !variant.empty()) {
    const std::size_t gradients = variant.find(",grads");
    variant.insert(std::min(gradients, variant.size()), ",channels_last");
  }
  e.variant = variant.empty() ? recorded_arguments(o) : variant;
  e.implementation = shapes;
  e.name = problem_text(e.function, e.variant, e.type, "", e.implementation, 0);
  torch_work(o, e.type, result, e);
  return e;
}

/// A convolution's result for its window; empty if they do not fit.
inline tensor_sizes convolution_result(const tensor_sizes& source, const tensor_sizes& weights,
                                       const std::string& window) {
  tensor_sizes strides, padding, dilation;
  for (const std::string& word : split_text(window, ',')) {
    if (word == "transposed") return {};
    if (word.size() < 2) return {};
    if (word[0] == 's') strides = onednn_dimensions(word.substr(1));
    if (word[0] == 'p') padding = onednn_dimensions(word.substr(1));
    if (word[0] == 'd') dilation = onednn_dimensions(word.substr(1));
  }
  if (strides.empty() || padding.empty() || dilation.empty() || source.size() < 3 ||
      weights.size() != source.size())
    return {};
  tensor_sizes result{source[0], weights[0]};
  for (std::size_t d = 2; d < source.size(); ++d) {
    const auto of = [&](const tensor_sizes& each) {
      return each[std::min(d - 2, each.size() - 1)];
    };
    for (const std::int64_t size : {source[d], weights[d], of(strides), of(padding), of(dilation)})
      if (size < 0 || size > 1 << 30) return {};
    if (of(strides) < 1) return {};
    const std::int64_t room = source[d] + 2 * of(padding) - of(dilation) * (weights[d] - 1) - 1;
    result.push_back(room < 0 ? 0 : room / of(strides) + 1);
  }
  return result;
}

}  // namespace vecdet::profile

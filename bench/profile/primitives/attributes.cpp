// SPDX-License-Identifier: Apache-2.0
// Parses attributes, algorithms and directions in a log.
#include "parts.hpp"

#include <charconv>
#include <cmath>

namespace vecdet::profile::primitives {
namespace {

const std::map<std::string, dnnl::algorithm>& algorithms() {
  using a = dnnl::algorithm;
  static const std::map<std::string, a> all{
      {"convolution_direct", a::convolution_direct},
      {"convolution_winograd", a::convolution_winograd},
      {"convolution_auto", a::convolution_auto},
      {"deconvolution_direct", a::deconvolution_direct},
      {"deconvolution_winograd", a::deconvolution_winograd},
      {"eltwise_relu", a::eltwise_relu},
      {"eltwise_tanh", a::eltwise_tanh},
      {"eltwise_elu", a::eltwise_elu},
      {"eltwise_square", a::eltwise_square},
      {"eltwise_abs", a::eltwise_abs},
      {"eltwise_sqrt", a::eltwise_sqrt},
      {"eltwise_linear", a::eltwise_linear},
      {"eltwise_soft_relu", a::eltwise_soft_relu},
      {"eltwise_logistic", a::eltwise_logistic},
      {"eltwise_exp", a::eltwise_exp},
      {"eltwise_gelu_tanh", a::eltwise_gelu_tanh},
      {"eltwise_gelu_erf", a::eltwise_gelu_erf},
      {"eltwise_swish", a::eltwise_swish},
      {"eltwise_log", a::eltwise_log},
      {"eltwise_clip", a::eltwise_clip},
      {"eltwise_clip_v2", a::eltwise_clip_v2},
      {"eltwise_pow", a::eltwise_pow},
      {"eltwise_round", a::eltwise_round},
      {"eltwise_mish", a::eltwise_mish},
      {"eltwise_hardswish", a::eltwise_hardswish},
      {"eltwise_relu_use_dst_for_bwd", a::eltwise_relu_use_dst_for_bwd},
      {"eltwise_tanh_use_dst_for_bwd", a::eltwise_tanh_use_dst_for_bwd},
      {"eltwise_elu_use_dst_for_bwd", a::eltwise_elu_use_dst_for_bwd},
      {"eltwise_sqrt_use_dst_for_bwd", a::eltwise_sqrt_use_dst_for_bwd},
      {"eltwise_logistic_use_dst_for_bwd", a::eltwise_logistic_use_dst_for_bwd},
      {"eltwise_exp_use_dst_for_bwd", a::eltwise_exp_use_dst_for_bwd},
      {"eltwise_clip_v2_use_dst_for_bwd", a::eltwise_clip_v2_use_dst_for_bwd},
      {"pooling_max", a::pooling_max},
      {"pooling_avg_include_padding", a::pooling_avg_include_padding},
      {"pooling_avg_exclude_padding", a::pooling_avg_exclude_padding},
      {"binary_add", a::binary_add},
      {"binary_sub", a::binary_sub},
      {"binary_mul", a::binary_mul},
      {"binary_div", a::binary_div},
      {"binary_max", a::binary_max},
      {"binary_min", a::binary_min},
      {"softmax_accurate", a::softmax_accurate},
      {"softmax_log", a::softmax_log}};
  return all;
}

dnnl::algorithm algorithm_named(const std::string& name) {
  const auto found = algorithms().find(name);
  if (found == algorithms().end()) cannot("the algorithm " + name + " is not known to replay");
  return found->second;
}

float number_of(const std::string& text) {
  float value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    cannot("\"" + text + "\" is not a number");
  return value;
}

/// Parses "sum:1", "eltwise_relu:0:0:1" or "binary_add:f32:2:abcd" from a list.
void add_post_operation(dnnl::post_ops& list, const std::string& text, const dims& output) {
  const std::vector<std::string> parts = split_text(text, ':');
  const auto number = [&](std::size_t i, float without) {
    return i < parts.size() ? number_of(parts[i]) : without;
  };
  if (parts[0] == "sum" && parts.size() <= 2) {
    list.append_sum(number(1, 1.0f));
  } else if (starts_with(parts[0], "eltwise_") && number(3, 1.0f) == 1.0f) {
    const dnnl::algorithm algorithm = algorithm_named(parts[0]);
#if DNNL_VERSION_MAJOR >= 3
    list.append_eltwise(algorithm, number(1, 0.0f), number(2, 0.0f));
#else
    list.append_eltwise(1.0f, algorithm, number(1, 0.0f), number(2, 0.0f));
#endif
  } else if (starts_with(parts[0], "binary_") && parts.size() >= 3) {
    std::int64_t mask = 0;
    if (!parse_size(parts[2], mask)) cannot("\"" + parts[2] + "\" is no mask");
    dims operand = output;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      if ((mask >> d & 1) == 0) operand[d] = 1;
    }
    onednn_tensor tensor;
    tensor.name = "second operand";
    tensor.type = parts[1];
    tensor.layout = parts.size() > 3 && parts[3] != "any"
                        ? parts[3]
                        : std::string("abcdefghijkl").substr(0, output.size());
    list.append_binary(algorithm_named(parts[0]), descriptor_of(tensor, operand));
  } else {
    cannot("the post-operation " + text + " is not known to replay");
  }
}

}  // namespace

dnnl::primitive_attr attributes_of(const onednn_problem& problem, const dims& output) {
  dnnl::primitive_attr attributes;
  for (const std::string& word : split_text(problem.attributes, ' ')) {
    const std::size_t colon = word.find(':');
    const std::string name = word.substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : word.substr(colon + 1);
    if (name.empty()) continue;
    if (name == "attr-scratchpad" && value == "user") {
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    } else if (name == "attr-fpmath_mode" || name == "attr-fpmath") {
      using mode = dnnl::fpmath_mode;
      static const std::map<std::string, mode> modes{
          {"strict", mode::strict}, {"bf16", mode::bf16}, {"f16", mode::f16}, {"any", mode::any}};
      const std::string prefix = "fpmath_mode_";  // in version 2
      const auto found =
          modes.find(starts_with(value, prefix.c_str()) ? value.substr(prefix.size()) : value);
      if (found == modes.end()) cannot("the attribute " + word + " is not known to replay");
      attributes.set_fpmath_mode(found->second);
    } else if (name == "attr-post-ops") {
      const std::vector<std::string> operations = split_text(value, '+');
      if (operations.size() > most_post_operations) cannot("it has too many post-operations");
      dnnl::post_ops list;
      for (const std::string& operation : operations) add_post_operation(list, operation, output);
      attributes.set_post_ops(list);
    } else {
      cannot("the attribute " + word + " is not known to replay");
    }
  }
  return attributes;
}

dnnl::prop_kind propagation_of(const onednn_problem& problem) {
  using kind = dnnl::prop_kind;
  static const std::map<std::string, kind> kinds{
      {"forward_training", kind::forward_training}, {"forward_inference", kind::forward_inference},
      {"forward_scoring", kind::forward_inference}, {"backward", kind::backward},
      {"backward_data", kind::backward_data},       {"backward_weights", kind::backward_weights}};
  const auto found = kinds.find(problem.propagation);
  if (found == kinds.end())
    cannot("the direction \"" + problem.propagation + "\" is not known to replay");
  return found->second;
}

std::string auxiliary_of(const onednn_problem& problem, const std::string& word) {
  for (const std::string& part : split_text(problem.auxiliary, ' ')) {
    if (starts_with(part, (word + ":").c_str())) return part.substr(word.size() + 1);
  }
  return {};
}

dnnl::algorithm algorithm_of(const onednn_problem& problem) {
  return algorithm_named(auxiliary_of(problem, "alg"));
}

}  // namespace vecdet::profile::primitives

// SPDX-License-Identifier: Apache-2.0
// Pooling, normalisation, elementwise functions, softmax, sums, concatenations and reorders.
#include "parts.hpp"

namespace vecdet::profile::primitives {
namespace {

bool is_backward(dnnl::prop_kind direction) {
  return direction == dnnl::prop_kind::backward || direction == dnnl::prop_kind::backward_data ||
         direction == dnnl::prop_kind::backward_weights;
}

/// "mb1ic64ih56iw56", "1x64x56x56" or, for a vector, "x64".
dims tensor_dimensions(const std::string& text) {
  if (!text.empty() && text[0] == 'x') return dimensions_of(text.substr(1));
  const std::map<std::string, std::int64_t> sizes = onednn_sizes(text);
  if (sizes.empty()) return dimensions_of(text);
  dims found;
  for (const char* name : {"mb", "ic", "id", "ih", "iw"}) {
    const auto size = sizes.find(name);
    if (size != sizes.end()) found.push_back(size->second);
  }
  if (found.size() != sizes.size()) cannot("its shape \"" + text + "\" is not known to replay");
  return found;
}

dnnl::normalization_flags flags_of(const onednn_problem& problem) {
  auto flags = dnnl::normalization_flags::none;
  for (const char letter : auxiliary_of(problem, "flags")) {
    switch (letter) {
      case 'G':
        flags |= dnnl::normalization_flags::use_global_stats;
        break;
      case 'C':
        flags |= dnnl::normalization_flags::use_scale;
        break;
      case 'H':
        flags |= dnnl::normalization_flags::use_shift;
        break;
      case 'R':
        flags |= dnnl::normalization_flags::fuse_norm_relu;
        break;
      case 'S':
#if DNNL_VERSION_MAJOR >= 3
        flags |= dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
#else
        flags |= dnnl::normalization_flags::use_scale_shift;
#endif
        break;
      default:
        cannot(std::string("the flag ") + letter + " is not known to replay");
    }
  }
  return flags;
}

/// The first tensor with one of these names; version 3.6 renamed data to src.
const onednn_tensor& data_of(const onednn_problem& problem) {
  return tensor_of(problem, problem.find("data") != nullptr ? "data" : "src");
}

/// The gradient of that tensor.
const onednn_tensor& gradient_of(const onednn_problem& problem) {
  for (const char* name : {"diff", "diff_src"}) {
    if (const onednn_tensor* const found = problem.find(name)) return *found;
  }
  return data_of(problem);
}

/// Batch and layer normalisation take the same arguments.
template <class Forward, class Backward>
dnnl::primitive_desc_base normalization(const onednn_problem& problem) {
  const dims dimensions = tensor_dimensions(problem.shapes);
  const descriptor data = descriptor_of(data_of(problem), dimensions);
  const settings with = settings_of(problem, dimensions);
  const dnnl::normalization_flags flags = flags_of(problem);
  const dnnl::prop_kind direction = propagation_of(problem);
  constexpr float epsilon = 1e-5f;
  const auto forward = [&](dnnl::prop_kind kind, const settings& how) {
#if DNNL_VERSION_MAJOR >= 3
    return make_descriptor<Forward>(how, kind, data, data, epsilon, flags);
#else
    return make_descriptor<Forward>(how, kind, data, epsilon, flags);
#endif
  };
  if (!is_backward(direction)) return forward(direction, with);
  const descriptor gradient = descriptor_of(gradient_of(problem), dimensions);
  const auto before = forward(dnnl::prop_kind::forward_training, {});
#if DNNL_VERSION_MAJOR >= 3
  return make_backward<Backward>(with, before, direction, gradient, gradient, data, epsilon, flags);
#else
  return make_backward<Backward>(with, before, direction, gradient, data, epsilon, flags);
#endif
}

float parameter_of(const onednn_problem& problem, const char* name) {
  const std::string text = auxiliary_of(problem, name);
  try {
    return text.empty() ? 0.0f : std::stof(text);
  } catch (const std::exception&) {
    cannot("its " + std::string(name) + " \"" + text + "\" is not a number");
  }
}

int axis_of(const onednn_problem& problem, std::size_t dimensions) {
  std::int64_t axis = 0;
  if (!parse_size(auxiliary_of(problem, "axis"), axis) ||
      axis >= static_cast<std::int64_t>(dimensions))
    cannot("its axis is not known to replay");
  return static_cast<int>(axis);
}

/// The operands of sums and concatenations, which all have the same name.
std::vector<descriptor> sources_of(const onednn_problem& problem,
                                   const std::vector<dims>& dimensions) {
  std::vector<descriptor> sources;
  for (const onednn_tensor& tensor : problem.tensors) {
    if (tensor.name != "src") continue;
    if (sources.size() == most_sources || sources.size() == dimensions.size())
      cannot("it has more operands than are known to replay");
    sources.push_back(descriptor_of(tensor, dimensions[sources.size()]));
  }
  if (sources.empty()) cannot("the log names no tensor \"src\" of it");
  return sources;
}

}  // namespace

dnnl::primitive_desc_base pooling(const onednn_problem& problem) {
#if DNNL_VERSION_MAJOR >= 3
  using forward = dnnl::pooling_forward;
  using backward = dnnl::pooling_backward;
#else
  using forward = dnnl::pooling_v2_forward;
  using backward = dnnl::pooling_v2_backward;
#endif
  const std::map<std::string, std::int64_t> sizes = onednn_sizes(problem.shapes);
  if (sizes.count("mb") == 0 || sizes.count("ic") == 0)
    cannot("its shape \"" + problem.shapes + "\" is not known to replay");
  const window w = window_of(sizes, false);
  dims source{sizes.at("mb"), sizes.at("ic")}, result = source;
  source.insert(source.end(), w.in.begin(), w.in.end());
  result.insert(result.end(), w.out.begin(), w.out.end());
  const descriptor src = descriptor_of(tensor_of(problem, "src"), source);
  const descriptor dst = descriptor_of(tensor_of(problem, "dst"), result);
  const dnnl::prop_kind direction = propagation_of(problem);
  const dnnl::algorithm algorithm = algorithm_of(problem);
  const settings with = settings_of(problem, result);
  const auto ahead = [&](dnnl::prop_kind kind, const settings& how) {
    return make_descriptor<forward>(how, kind, algorithm, src, dst, w.strides, w.kernel, w.dilates,
                                    w.padding_left, w.padding_right);
  };
  if (!is_backward(direction)) return ahead(direction, with);
  return make_backward<backward>(with, ahead(dnnl::prop_kind::forward_training, {}), algorithm, src,
                                 dst, w.strides, w.kernel, w.dilates, w.padding_left,
                                 w.padding_right);
}

dnnl::primitive_desc_base batch_normalization(const onednn_problem& problem) {
  return normalization<dnnl::batch_normalization_forward, dnnl::batch_normalization_backward>(
      problem);
}

dnnl::primitive_desc_base layer_normalization(const onednn_problem& problem) {
  return normalization<dnnl::layer_normalization_forward, dnnl::layer_normalization_backward>(
      problem);
}

dnnl::primitive_desc_base eltwise(const onednn_problem& problem) {
  const dims dimensions = dimensions_of(problem.shapes);
  const descriptor data = descriptor_of(data_of(problem), dimensions);
  const settings with = settings_of(problem, dimensions);
  const dnnl::algorithm algorithm = algorithm_of(problem);
  const float alpha = parameter_of(problem, "alpha"), beta = parameter_of(problem, "beta");
  const dnnl::prop_kind direction = propagation_of(problem);
  const auto forward = [&](dnnl::prop_kind kind, const settings& how) {
#if DNNL_VERSION_MAJOR >= 3
    return make_descriptor<dnnl::eltwise_forward>(how, kind, algorithm, data, data, alpha, beta);
#else
    return make_descriptor<dnnl::eltwise_forward>(how, kind, algorithm, data, alpha, beta);
#endif
  };
  if (!is_backward(direction)) return forward(direction, with);
  const descriptor gradient = descriptor_of(gradient_of(problem), dimensions);
  const auto before = forward(dnnl::prop_kind::forward_training, {});
#if DNNL_VERSION_MAJOR >= 3
  return make_backward<dnnl::eltwise_backward>(with, before, algorithm, gradient, gradient, data,
                                               alpha, beta);
#else
  return make_backward<dnnl::eltwise_backward>(with, before, algorithm, gradient, data, alpha,
                                               beta);
#endif
}

dnnl::primitive_desc_base binary(const onednn_problem& problem) {
  const std::vector<std::string> shapes = split_text(problem.shapes, ':');
  std::vector<const onednn_tensor*> operands;
  for (const onednn_tensor& tensor : problem.tensors) {
    if (tensor.name == "src") operands.push_back(&tensor);
  }
  if (shapes.size() != 2 || operands.size() != 2) cannot("it has not two operands");
  const dims first = dimensions_of(shapes[0]);
  return make_descriptor<dnnl::binary>(settings_of(problem, first), algorithm_of(problem),
                                       descriptor_of(*operands[0], first),
                                       descriptor_of(*operands[1], dimensions_of(shapes[1])),
                                       descriptor_of(tensor_of(problem, "dst"), first));
}

dnnl::primitive_desc_base softmax(const onednn_problem& problem) {
#if DNNL_VERSION_MAJOR >= 3
  using forward = dnnl::softmax_forward;
  using backward = dnnl::softmax_backward;
#else
  using forward = dnnl::softmax_v2_forward;
  using backward = dnnl::softmax_v2_backward;
#endif
  const dims dimensions = dimensions_of(problem.shapes);
  const int axis = axis_of(problem, dimensions.size());
  const descriptor src = descriptor_of(tensor_of(problem, "src"), dimensions);
  const descriptor dst = descriptor_of(tensor_of(problem, "dst"), dimensions);
  // In version 2, the logarithm is a separate primitive.
  const dnnl::algorithm algorithm = problem.primitive == "logsoftmax" ? dnnl::algorithm::softmax_log
                                    : auxiliary_of(problem, "alg").empty()
                                        ? dnnl::algorithm::softmax_accurate
                                        : algorithm_of(problem);
  const dnnl::prop_kind direction = propagation_of(problem);
  const settings with = settings_of(problem, dimensions);
  if (!is_backward(direction))
    return make_descriptor<forward>(with, direction, algorithm, src, dst, axis);
  const descriptor gradient = descriptor_of(tensor_of(problem, "diff_dst"), dimensions);
  const auto before =
      make_descriptor<forward>({}, dnnl::prop_kind::forward_training, algorithm, src, dst, axis);
  return make_backward<backward>(with, before, algorithm, src, gradient, dst, axis);
}

dnnl::primitive_desc_base sum(const onednn_problem& problem) {
  const dims dimensions = dimensions_of(problem.shapes);
  const std::vector<descriptor> sources =
      sources_of(problem, std::vector<dims>(most_sources, dimensions));
  // A log does not contain the factors.
  const std::vector<float> factors(sources.size(), 1.0f);
  const descriptor dst = descriptor_of(tensor_of(problem, "dst"), dimensions);
  const settings with = settings_of(problem, dimensions);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::sum::primitive_desc(cpu(), dst, factors, sources, with.attributes);
#else
  return dnnl::sum::primitive_desc(dst, factors, sources, cpu(), with.attributes);
#endif
}

dnnl::primitive_desc_base concat(const onednn_problem& problem) {
  std::vector<dims> dimensions;
  for (const std::string& text : split_text(problem.shapes, ':'))
    dimensions.push_back(dimensions_of(text));
  const std::vector<descriptor> sources = sources_of(problem, dimensions);
  if (sources.size() != dimensions.size()) cannot("its operands are not those of its shapes");
  const int axis = axis_of(problem, dimensions[0].size());
  dims output = dimensions[0];
  for (std::size_t i = 1; i < dimensions.size(); ++i) {
    if (dimensions[i].size() != output.size()) cannot("its operands differ in dimensions");
    output[static_cast<std::size_t>(axis)] += dimensions[i][static_cast<std::size_t>(axis)];
  }
  const descriptor dst = descriptor_of(tensor_of(problem, "dst"), output);
  const settings with = settings_of(problem, output);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::concat::primitive_desc(cpu(), dst, axis, sources, with.attributes);
#else
  return dnnl::concat::primitive_desc(dst, axis, sources, cpu(), with.attributes);
#endif
}

dnnl::primitive_desc_base reorder(const onednn_problem& problem) {
  const dims dimensions = dimensions_of(problem.shapes);
  return dnnl::reorder::primitive_desc(cpu(), descriptor_of(tensor_of(problem, "src"), dimensions),
                                       cpu(), descriptor_of(tensor_of(problem, "dst"), dimensions),
                                       attributes_of(problem, dimensions));
}

}  // namespace vecdet::profile::primitives

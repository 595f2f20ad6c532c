// SPDX-License-Identifier: Apache-2.0
// Convolutions, deconvolutions and matrix products, and convolutions between tensors of other
// layouts.
#include "parts.hpp"

#include <algorithm>
#include <utility>

namespace vecdet::profile {
namespace primitives {
namespace {

std::int64_t size_of(const std::map<std::string, std::int64_t>& sizes, const char* name) {
  const auto found = sizes.find(name);
  if (found == sizes.end()) cannot("its problem lacks " + std::string(name));
  return found->second;
}

/// The operands of a convolution.
struct convolution_shape {
  bool upwards, grouped;
  window w;
  dims source, weights, bias, result;

  explicit convolution_shape(const onednn_problem& problem)
      : upwards(problem.primitive == "deconvolution") {
    const std::map<std::string, std::int64_t> sizes = onednn_sizes(problem.shapes);
    if (sizes.empty()) cannot("its shape \"" + problem.shapes + "\" is not known to replay");
    grouped = sizes.count("g") != 0;
    const std::int64_t groups = grouped ? size_of(sizes, "g") : 1;
    const std::int64_t in = size_of(sizes, "ic"), out = size_of(sizes, "oc");
    if (groups < 1 || in % groups != 0 || out % groups != 0)
      cannot("its groups do not divide its channels");
    w = window_of(sizes, upwards);
    source = {size_of(sizes, "mb"), in};
    result = {size_of(sizes, "mb"), out};
    weights = {out / groups, in / groups};
    if (grouped) weights.insert(weights.begin(), groups);
    bias = {out};
    source.insert(source.end(), w.in.begin(), w.in.end());
    result.insert(result.end(), w.out.begin(), w.out.end());
    weights.insert(weights.end(), w.kernel.begin(), w.kernel.end());
  }
};

struct operands {
  descriptor source, weights, bias, result;
};

template <class Forward, class Data, class Weights>
dnnl::primitive_desc_base convolution_of(const convolution_shape& shape, const operands& on,
                                         const onednn_problem& problem) {
  const settings with = settings_of(problem, shape.result);
  const dnnl::algorithm algorithm = algorithm_of(problem);
  const window& w = shape.w;
  const auto forward = [&](const operands& o, dnnl::prop_kind direction, const settings& how) {
    return make_descriptor<Forward>(how, direction, algorithm, o.source, o.weights, o.bias,
                                    o.result, w.strides, w.dilates, w.padding_left,
                                    w.padding_right);
  };
  const dnnl::prop_kind direction = propagation_of(problem);
  if (direction == dnnl::prop_kind::forward_training ||
      direction == dnnl::prop_kind::forward_inference)
    return forward(on, direction, with);
  // The forward pass that a backward one refers to: same types, in oneDNN's layouts.
  const auto type = type_of(direction == dnnl::prop_kind::backward_data ? on.result : on.source);
  const auto any = [&](const dims& dimensions) {
    return descriptor(dimensions, type, dnnl::memory::format_tag::any);
  };
  const operands free{any(shape.source), any(shape.weights), descriptor(), any(shape.result)};
  const auto before = forward(free, dnnl::prop_kind::forward_training, {});
  if (direction == dnnl::prop_kind::backward_data)
    return make_backward<Data>(with, before, algorithm, on.source, on.weights, on.result, w.strides,
                               w.dilates, w.padding_left, w.padding_right);
  return make_backward<Weights>(with, before, algorithm, on.source, on.weights, on.bias, on.result,
                                w.strides, w.dilates, w.padding_left, w.padding_right);
}

dnnl::primitive_desc_base convolution_on(const convolution_shape& shape, const operands& on,
                                         const onednn_problem& problem) {
  return shape.upwards
             ? convolution_of<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
                              dnnl::deconvolution_backward_weights>(shape, on, problem)
             : convolution_of<dnnl::convolution_forward, dnnl::convolution_backward_data,
                              dnnl::convolution_backward_weights>(shape, on, problem);
}

/// Plain, or channels last. Weights are laid out as in PyTorch, where a deconvolution's channels
/// are swapped.
std::string outer_layout(const convolution_shape& shape, bool channels_last, bool for_weights) {
  const std::size_t spatial = shape.w.in.size();
  std::string letters = std::string("abcdefgh").substr(0, spatial + 2);
  const bool grouped = for_weights && shape.grouped;
  std::string head = letters.substr(0, 2), tail = letters.substr(2);
  if (for_weights && shape.upwards) std::swap(head[0], head[1]);
  if (channels_last) {
    tail += head[1];
    head.pop_back();
  }
  letters = head + tail;
  if (!grouped) return letters;
  for (char& letter : letters) ++letter;
  return "a" + letters;
}

/// Reorders before and after a primitive.
class chain {
 public:
  void add(const dnnl::primitive_desc_base& made,
           const std::map<int, std::shared_ptr<region>>& given) {
    units_.push_back(std::make_shared<execution_unit>(made, given));
  }
  void add_reorder(const descriptor& from, const std::shared_ptr<region>& source,
                   const descriptor& to, const std::shared_ptr<region>& result) {
    add(dnnl::reorder::primitive_desc(cpu(), from, cpu(), to),
        {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, result}});
  }
  runnable_primitive finish() const {
    runnable_primitive result;
    for (const auto& unit : units_)
      result.implementation += (result.implementation.empty() ? "" : "+") + unit->implementation();
    result.run = [units = units_] {
      for (const auto& unit : units) unit->run();
    };
    result.drop_output_pages = [units = units_] {
      for (const auto& unit : units) unit->drop_output_pages();
    };
    return result;
  }

 private:
  std::vector<std::shared_ptr<execution_unit>> units_;
};

std::shared_ptr<region> memory_of(const descriptor& tensor) {
  return std::make_shared<region>(tensor.get_size(), type_of(tensor));
}

}  // namespace

dnnl::primitive_desc_base convolution_like(const onednn_problem& problem) {
  const convolution_shape shape(problem);
  const operands on{descriptor_of(tensor_of(problem, "src"), shape.source),
                    descriptor_of(tensor_of(problem, "wei"), shape.weights),
                    problem.find("bia") != nullptr
                        ? descriptor_of(tensor_of(problem, "bia"), shape.bias)
                        : descriptor(),
                    descriptor_of(tensor_of(problem, "dst"), shape.result)};
  return convolution_on(shape, on, problem);
}

dnnl::primitive_desc_base inner_product(const onednn_problem& problem) {
  const std::map<std::string, std::int64_t> sizes = onednn_sizes(problem.shapes);
  dims source{size_of(sizes, "mb"), size_of(sizes, "ic")};
  for (const char* name : {"id", "ih", "iw"}) {
    if (sizes.count(name) != 0) source.push_back(size_of(sizes, name));
  }
  dims weights = source;
  weights[0] = size_of(sizes, "oc");
  const dims output{source[0], weights[0]};
  const descriptor src = descriptor_of(tensor_of(problem, "src"), source);
  const descriptor wei = descriptor_of(tensor_of(problem, "wei"), weights);
  const descriptor dst = descriptor_of(tensor_of(problem, "dst"), output);
  const onednn_tensor* const bias_tensor = problem.find("bia");
  const descriptor bias =
      bias_tensor != nullptr ? descriptor_of(*bias_tensor, {weights[0]}) : descriptor();
  const settings with = settings_of(problem, output);
  const dnnl::prop_kind direction = propagation_of(problem);
  if (direction != dnnl::prop_kind::backward_data && direction != dnnl::prop_kind::backward_weights)
    return make_descriptor<dnnl::inner_product_forward>(with, direction, src, wei, bias, dst);
  const std::string type =
      tensor_of(problem, direction == dnnl::prop_kind::backward_data ? "dst" : "src").type;
  const auto before = make_descriptor<dnnl::inner_product_forward>(
      {}, dnnl::prop_kind::forward_training, any_layout(type, source), any_layout(type, weights),
      any_layout(type, output));
  if (direction == dnnl::prop_kind::backward_data)
    return make_backward<dnnl::inner_product_backward_data>(with, before, src, wei, dst);
  return make_backward<dnnl::inner_product_backward_weights>(with, before, src, wei, bias, dst);
}

dnnl::primitive_desc_base matmul(const onednn_problem& problem) {
  const std::vector<std::string> shapes = split_text(problem.shapes, ':');
  if (shapes.size() < 2) cannot("its shape \"" + problem.shapes + "\" is not known to replay");
  const dims left = dimensions_of(shapes[0]), right = dimensions_of(shapes[1]);
  if (left.size() != right.size() || left.size() < 2) cannot("its operands differ in dimensions");
  dims output;
  for (std::size_t d = 0; d < left.size(); ++d) output.push_back(std::max(left[d], right[d]));
  output[left.size() - 2] = left[left.size() - 2];
  output.back() = right.back();
  descriptor bias;
  if (const onednn_tensor* const with = problem.find("bia")) {
    dims bias_dims = output;
    for (std::size_t d = 0; d < bias_dims.size(); ++d) {
      if (with->mask >= 0 && (with->mask >> d & 1) == 0) bias_dims[d] = 1;
    }
    bias = descriptor_of(*with, bias_dims);
  }
  return make_descriptor<dnnl::matmul>(settings_of(problem, output),
                                       descriptor_of(tensor_of(problem, "src"), left),
                                       descriptor_of(tensor_of(problem, "wei"), right), bias,
                                       descriptor_of(tensor_of(problem, "dst"), output));
}

}  // namespace primitives

runnable_primitive make_convolution_within(const onednn_problem& recorded,
                                           const surroundings& around) {
  using namespace primitives;
  onednn_problem problem = recorded;
  problem.implementation.clear();  // any, in these layouts
  const convolution_shape shape(problem);
  const bool channels_last = around.layout == "channels_last", blocked = around.layout == "blocked";
  if (!channels_last && !blocked && around.layout != "nchw")
    cannot("the layout " + around.layout + " is not nchw, channels_last or blocked");
  onednn_tensor outer;
  outer.type = around.type;
  outer.layout = outer_layout(shape, channels_last, false);
  const descriptor outer_source = descriptor_of(outer, shape.source);
  const descriptor outer_result = descriptor_of(outer, shape.result);
  outer.type = "f32";
  outer.layout = outer_layout(shape, channels_last, true);
  const descriptor outer_weights = descriptor_of(outer, shape.weights);
  outer.type = around.type;
  outer.layout = "a";
  const bool has_bias = problem.find("bia") != nullptr;
  const operands on{channels_last ? outer_source : any_layout(around.type, shape.source),
                    any_layout(around.type, shape.weights),
                    has_bias ? descriptor_of(outer, shape.bias) : descriptor(),
                    channels_last ? outer_result : any_layout(around.type, shape.result)};
  const dnnl::primitive_desc_base made = convolution_on(shape, on, problem);

  // For each operand: its form outside, in the surrounding layout, and its form inside the
  // primitive.
  struct operand {
    int argument;
    descriptor outside, inside;
    bool is_output, is_free;
  };
  const auto md = [&](int argument) { return made.query_md(dnnl::query::exec_arg_md, argument); };
  const bool forward = starts_with(problem.propagation, "forward");
  const bool wants_data_gradient = problem.propagation == "backward_data";
  const int source = wants_data_gradient ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
  const int weights = forward || wants_data_gradient ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS;
  const int result = forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
  const std::vector<operand> all{
      {source, outer_source, md(source), wants_data_gradient, blocked},
      {weights, outer_weights, md(weights), !forward && !wants_data_gradient, false},
      {result, outer_result, md(result), forward, blocked}};
  chain steps;
  std::map<int, std::shared_ptr<region>> given;
  for (const operand& o : all) {
    if (o.is_free || o.inside == o.outside) continue;
    given[o.argument] = memory_of(o.inside);
    if (!o.is_output)
      steps.add_reorder(o.outside, memory_of(o.outside), o.inside, given[o.argument]);
  }
  steps.add(made, given);
  for (const operand& o : all) {
    if (o.is_output && given.count(o.argument) != 0)
      steps.add_reorder(o.inside, given[o.argument], o.outside, memory_of(o.outside));
  }
  return steps.finish();
}

}  // namespace vecdet::profile

// SPDX-License-Identifier: Apache-2.0
// Helpers for the builders of oneDNN's primitives. make_descriptor hides a difference between
// versions: version 2 creates a primitive's descriptor from an operation's descriptor.
#pragma once

#include "../primitives.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

namespace vecdet::profile::primitives {

using dims = dnnl::memory::dims;
using descriptor = dnnl::memory::desc;

/// Separate memory in whole pages, filled like operands.
class region {
 public:
  region(std::size_t bytes, dnnl::memory::data_type type);
  ~region();
  region(const region&) = delete;
  region& operator=(const region&) = delete;
  void* data() const { return data_; }
  void drop_pages() const;

 private:
  std::size_t bytes_;
  void* data_;
};

/// A primitive and the memory of its arguments.
class execution_unit {
 public:
  /// Arguments in `given` use that memory; all others get separate memory.
  explicit execution_unit(const dnnl::primitive_desc_base& made,
                          const std::map<int, std::shared_ptr<region>>& given = {});
  void run();
  void drop_output_pages() const;
  const std::string& implementation() const { return implementation_; }

 private:
  dnnl::primitive primitive_;
  std::string implementation_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::vector<std::shared_ptr<region>> regions_, outputs_;
};

dnnl::engine& cpu();

/// More are not asked of a primitive.
constexpr int most_sources = 64;
constexpr int most_post_operations = 8;

[[noreturn]] inline void cannot(const std::string& what) { throw std::runtime_error(what); }

/// The tensor of that name; throws if the log has none.
const onednn_tensor& tensor_of(const onednn_problem& problem, const char* name);
dnnl::memory::data_type type_of(const std::string& name);
dnnl::memory::data_type type_of(const descriptor& tensor);
/// The descriptor of a tensor with such dimensions; throws for an unsupported layout.
descriptor descriptor_of(const onednn_tensor& tensor, const dims& dimensions);
/// A descriptor of that type, with the layout that oneDNN chooses.
descriptor any_layout(const std::string& type, const dims& dimensions);
/// Parses "1x64x56x56"; throws if a dimension is known only at run time.
dims dimensions_of(const std::string& text);

dnnl::primitive_attr attributes_of(const onednn_problem& problem, const dims& output);

/// Further inputs for creating a primitive.
struct settings {
  dnnl::primitive_attr attributes;
  std::string implementation;  ///< empty for oneDNN's choice
};
inline settings settings_of(const onednn_problem& problem, const dims& output) {
  return {attributes_of(problem, output), problem.implementation};
}

dnnl::prop_kind propagation_of(const onednn_problem& problem);
/// "alg:eltwise_relu" among the words of the auxiliary field.
dnnl::algorithm algorithm_of(const onednn_problem& problem);
/// The value of a word such as "axis:1"; empty if missing.
std::string auxiliary_of(const onednn_problem& problem, const std::string& word);

dnnl::primitive_desc_base convolution_like(const onednn_problem& problem);
dnnl::primitive_desc_base inner_product(const onednn_problem& problem);
dnnl::primitive_desc_base matmul(const onednn_problem& problem);
dnnl::primitive_desc_base pooling(const onednn_problem& problem);
dnnl::primitive_desc_base batch_normalization(const onednn_problem& problem);
dnnl::primitive_desc_base layer_normalization(const onednn_problem& problem);
dnnl::primitive_desc_base eltwise(const onednn_problem& problem);
dnnl::primitive_desc_base binary(const onednn_problem& problem);
dnnl::primitive_desc_base softmax(const onednn_problem& problem);
dnnl::primitive_desc_base sum(const onednn_problem& problem);
dnnl::primitive_desc_base concat(const onednn_problem& problem);
dnnl::primitive_desc_base reorder(const onednn_problem& problem);

/// The dimensions along which convolutions and poolings slide, outermost first.
struct window {
  dims in, out, kernel, strides, dilates, padding_left, padding_right;
};
/// Parses "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw..."; throws if a size is missing. `upwards` is for
/// deconvolutions.
window window_of(const std::map<std::string, std::int64_t>& sizes, bool upwards);

/// The implementation with that name if this processor and version have it, else oneDNN's first.
/// The search advances in place, so the first is created once more.
template <class Make>
auto implementation_named(const std::string& wanted, const Make& make) {
  auto tried = make();
  if (wanted.empty()) return tried;
  while (wanted != tried.impl_info_str()) {
    if (!tried.next_impl()) return make();
  }
  return tried;
}

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc make_descriptor(const settings& with,
                                                   const Arguments&... arguments) {
  using made = typename Primitive::primitive_desc;
#if DNNL_VERSION_MAJOR >= 3
  return implementation_named(with.implementation,
                              [&] { return made(cpu(), arguments..., with.attributes); });
#else
  // Queried again at each step to another implementation.
  const typename Primitive::desc operation(arguments...);
  return implementation_named(with.implementation,
                              [&] { return made(operation, with.attributes, cpu()); });
#endif
}

template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc make_backward(const settings& with, const Forward& forward,
                                                 const Arguments&... arguments) {
  using made = typename Primitive::primitive_desc;
#if DNNL_VERSION_MAJOR >= 3
  return implementation_named(with.implementation,
                              [&] { return made(cpu(), arguments..., forward, with.attributes); });
#else
  const typename Primitive::desc operation(arguments...);
  return implementation_named(with.implementation,
                              [&] { return made(operation, with.attributes, cpu(), forward); });
#endif
}

}  // namespace vecdet::profile::primitives

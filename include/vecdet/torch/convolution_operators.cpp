// SPDX-License-Identifier: Apache-2.0
// The operators of convolutions and of memory.
//
// backward() calls a separate operator for the gradients.
#include <vecdet/impl/torch/autocast.hpp>
#include <vecdet/impl/torch/conv3x3.hpp>
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/keep_memory.hpp>
#include <vecdet/torch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace {

/// The data of a call that backward() needs.
struct conv3x3_context : torch::CustomClassHolder {
  std::vector<at::Tensor> inputs, outputs;  ///< empty after forward()
  at::Tensor weight;
  at::ScalarType bias_type = at::kFloat;
  bool relu = false, has_bias = false;
  std::size_t levels = 0;
};

/// An autograd node; backward() computes the gradients. The pointer hides tensors from autograd.
struct convolved : torch::autograd::Function<convolved> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static list forward(context* ctx, at::TensorList inputs, const at::Tensor& /*weight*/,
                      const optional_tensor& /*bias*/,
                      const c10::intrusive_ptr<conv3x3_context>& call) {
    list saved = std::move(call->inputs), outputs = std::move(call->outputs);
    saved.push_back(std::move(call->weight));
    if (call->relu) saved.insert(saved.end(), outputs.begin(), outputs.end());
    ctx->save_for_backward(std::move(saved));
    call->inputs.clear();
    call->outputs.clear();
    call->levels = inputs.size();
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return outputs;
  }

  static list backward(context* ctx, const list& upstreams) {
    static const auto op = find_operator("vecdet::_conv3x3_grad", &meta::conv3x3_grad);
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const auto& call = static_cast<const conv3x3_context&>(*capsule);
    const std::size_t levels = call.levels;
    const list saved = ctx->get_saved_variables();
    const at::TensorList all = saved;
    bool needs_inputs = false;
    for (std::size_t l = 0; l < levels; ++l)
      needs_inputs = needs_inputs || ctx->needs_input_grad(l);
    const bool needs_weight = ctx->needs_input_grad(levels);
    const bool needs_bias = call.has_bias && ctx->needs_input_grad(levels + 1);
    // ATen's gradients can be differentiated again, and transformed.
    const bool is_atens = at::GradMode::is_enabled() || is_transformed(at::TensorList(upstreams));
    const auto compute = [&](const auto&... arguments) {
      return is_atens ? aten_conv3x3_grad(arguments...) : op.call(arguments...);
    };
    auto [grads, weight_grad, bias_grad] =
        compute(at::TensorList(upstreams), all.slice(levels + 1), all.slice(0, levels), all[levels],
                needs_inputs, needs_weight, needs_bias);
    list result(levels);
    std::move(grads.begin(), grads.end(), result.begin());
    result.push_back(needs_weight ? weight_grad : at::Tensor());
    result.push_back(needs_bias ? bias_grad.to(call.bias_type) : at::Tensor());
    result.emplace_back();
    return result;
  }
};

/// Whether vecdet can convolve these tensors: not in forward mode or under a transform of
/// torch.func.
bool is_ours(at::TensorList inputs, const at::Tensor& weight, const optional_tensor& bias) {
  const at::ScalarType type = inputs[0].scalar_type();
  const auto fits = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || tensor.is_meta()) &&
           !is_transformed(tensor);
  };
  const auto is_map = [&](const at::Tensor& tensor) {
    return tensor.scalar_type() == type && fits(tensor);
  };
  const auto is_parameter = [&](const at::Tensor& tensor) {
    return (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == type) && fits(tensor);
  };
  return (type == at::kFloat || type == at::kBFloat16) &&
         std::all_of(inputs.begin(), inputs.end(), is_map) && is_parameter(weight) &&
         (!bias.has_value() || !bias->defined() || is_parameter(*bias));
}

/// The convolution of tensors for which is_ours() is true, with its gradient.
std::vector<at::Tensor> our_conv3x3(at::TensorList inputs, const at::Tensor& weight,
                                    const optional_tensor& bias, bool relu) {
  static const auto op = find_operator("vecdet::_conv3x3", &meta::conv3x3);
  const bool trains_weight = needs_gradient(weight);
  const bool has_bias = bias.has_value() && bias->defined();
  const std::vector<at::Tensor> outputs = op.call(inputs, weight, bias, relu, !trains_weight);
  if (!trains_weight && !needs_gradient(inputs) && !(has_bias && needs_gradient(*bias)))
    return outputs;
  auto call = c10::make_intrusive<conv3x3_context>();
  call->inputs = inputs.vec();
  call->outputs = outputs;
  call->weight = weight;
  call->relu = relu;
  call->has_bias = has_bias;
  if (has_bias) call->bias_type = bias->scalar_type();
  return convolved::apply(inputs, weight, bias, call);
}

}  // namespace

// The public operators with a gradient.
namespace differentiable {

std::vector<at::Tensor> conv3x3_levels(at::TensorList inputs, const at::Tensor& weight,
                                       const optional_tensor& bias, bool relu) {
  translated([&] { check_conv3x3(inputs, weight, bias); });
  // Tensors of another device may be under its autocast, which converts their types.
  if (!c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU) ||
      !(weight.is_cpu() || weight.is_meta()))
    return aten_conv3x3(inputs, weight, bias, relu);
  translated([&] { check_conv3x3_types(inputs, weight, bias); });
  return is_ours(inputs, weight, bias) ? our_conv3x3(inputs, weight, bias, relu)
                                       : aten_conv3x3(inputs, weight, bias, relu);
}

at::Tensor conv3x3(const at::Tensor& input, const at::Tensor& weight, const optional_tensor& bias,
                   bool relu) {
  return conv3x3_levels(input, weight, bias, relu)[0];
}

}  // namespace differentiable

// The same under autocast: inputs get its type, as those of conv2d(). vecdet reads weight and bias
// of float32 as they are; otherwise conv2d() converts them.
namespace under_autocast {

std::vector<at::Tensor> conv3x3_levels(at::TensorList inputs, const at::Tensor& weight,
                                       const optional_tensor& bias, bool relu) {
  translated([&] { check_conv3x3(inputs, weight, bias); });
  const at::ScalarType type =
      at::autocast::get_lower_precision_fp_from_device_type(c10::DeviceType::CPU);
  std::vector<at::Tensor> cast;
  for (const at::Tensor& input : inputs)
    cast.push_back(at::autocast::cached_cast(type, input, c10::DeviceType::CPU));
  if (!is_ours(cast, weight, bias)) return aten_conv3x3(cast, weight, bias, relu);
  const below_autocast once;
  return our_conv3x3(cast, weight, bias, relu);
}

at::Tensor conv3x3(const at::Tensor& input, const at::Tensor& weight, const optional_tensor& bias,
                   bool relu) {
  return conv3x3_levels(input, weight, bias, relu)[0];
}

}  // namespace under_autocast
}  // namespace aten
}  // namespace detail

namespace ops {

using detail::aten::find_operator;
using detail::aten::optional_tensor;
using detail::aten::to_argument;
namespace differentiable = detail::aten::differentiable;

at::Tensor conv3x3(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                   bool relu) {
  static const auto op = find_operator("vecdet::conv3x3", &differentiable::conv3x3);
  return op.call(input, weight, to_argument<optional_tensor>(bias), relu);
}

std::vector<at::Tensor> conv3x3_levels(at::TensorList inputs, const at::Tensor& weight,
                                       const at::Tensor& bias, bool relu) {
  static const auto op = find_operator("vecdet::conv3x3_levels", &differentiable::conv3x3_levels);
  return op.call(inputs, weight, to_argument<optional_tensor>(bias), relu);
}

std::int64_t free_cached_memory() {
  return static_cast<std::int64_t>(detail::aten::gradient_buffers::get().free() +
                                   detail::aten::kept_weights::get().free());
}

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def("conv3x3(Tensor input, Tensor weight, Tensor? bias=None, bool relu=False) -> Tensor",
        &aten::differentiable::conv3x3);
  m.def(
      "conv3x3_levels(Tensor[] inputs, Tensor weight, Tensor? bias=None, bool relu=False) -> "
      "Tensor[]",
      &aten::differentiable::conv3x3_levels);
  m.def(
      "_conv3x3(Tensor[] inputs, Tensor weight, Tensor? bias, bool relu, bool keeps_weights) -> "
      "Tensor[]");
  m.def(
      "_conv3x3_grad(Tensor[] upstream, Tensor[] relu_outputs, Tensor[] inputs, Tensor weight, "
      "bool needs_inputs, bool needs_weight, bool needs_bias) -> (Tensor[], Tensor, Tensor)");
  m.def("_free_cached_memory() -> int", &vecdet::ops::free_cached_memory);
  m.def("_keep_memory() -> bool", [] { return vecdet::keep_memory(); });
}

TORCH_LIBRARY_IMPL(vecdet, AutocastCPU, m) {
  m.impl("conv3x3", &aten::under_autocast::conv3x3);
  m.impl("conv3x3_levels", &aten::under_autocast::conv3x3_levels);
}

TORCH_LIBRARY_IMPL(vecdet, CPU, m) {
  m.impl("_conv3x3", &aten::cpu::conv3x3);
  m.impl("_conv3x3_grad", &aten::cpu::conv3x3_grad);
}

TORCH_LIBRARY_IMPL(vecdet, Meta, m) {
  m.impl("_conv3x3", &aten::meta::conv3x3);
  m.impl("_conv3x3_grad", &aten::meta::conv3x3_grad);
}

TORCH_LIBRARY_IMPL(vecdet, Autograd, m) {
  aten::backward_only<&aten::cpu::conv3x3>::define(m, "_conv3x3");
  m.impl("_conv3x3_grad", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace

/// Frees the transformed weights of the tensor whose data is at the address. It is not an operator,
/// because that would be dispatched to modes that happen to be active when a module ends.
extern "C" __attribute__((visibility("default"))) void vecdet_torch_free_transformed_weights(
    const void* address) {
  aten::kept_weights::get().free_of(address);
}

// SPDX-License-Identifier: Apache-2.0
// Operators: how they are found, and what becomes of their tensors under autocast.
#pragma once

#include <vecdet/impl/torch/tensor.hpp>

#include <cstddef>
#include <string>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The operator of a name whose kernels are functions like `kernel`.
template <class Result, class... Args>
c10::TypedOperatorHandle<Result(Args...)> find_operator(const char* name,
                                                        Result (* /*kernel*/)(Args...)) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Result(Args...)>();
}

/// An absent tensor is undefined in C++, and None in an operator.
inline optional_tensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? optional_tensor(tensor) : optional_tensor();
}

/// Whether autocast calls: losses are of float32 then, whatever their logits are.
inline bool& is_autocast() {
  static thread_local bool value = false;
  return value;
}

/// Calls an operator below autocast.
inline void call_below_autocast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::AutocastCPU);
  struct guard {
    bool before = is_autocast();
    guard() { is_autocast() = true; }
    ~guard() { is_autocast() = before; }
  } const now;
  op.callBoxed(stack);
}

inline c10::IValue as_float(const c10::IValue& value) {
  const auto cast = [](const at::Tensor& tensor) {
    return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CPU);
  };
  if (value.isTensor()) return cast(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(cast(tensor));
  return list;
}

inline bool is_bfloat16(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().scalar_type() == at::kBFloat16;
  for (const at::Tensor& tensor : value.toTensorVector())
    if (tensor.scalar_type() != at::kBFloat16) return false;
  return true;
}

// Kernels of Autocast. They make float32 of floating tensors, as torchvision's do, but where the
// same numbers come of bfloat16 as it is.

/// Any operator.
inline void cast_to_float(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (std::size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    (*stack)[i] = as_float((*stack)[i]);
  call_below_autocast(op, stack);
}

/// A loss: where it is one number, its logits, or deltas, are read as they are.
inline void cast_losses(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  bool is_kept = is_bfloat16((*stack)[first]);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "deltas") is_kept = is_kept && is_bfloat16((*stack)[first + i]);
    if (arguments[i].name() == "reduction")
      is_kept = is_kept && (*stack)[first + i].toInt() != at::Reduction::None;
  }
  if (is_kept)
    call_below_autocast(op, stack);
  else
    cast_to_float(op, stack);
}

/// What takes outputs of a head, boxes of which are in `anchors`; its results become float32.
inline void cast_but_outputs(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  bool are_kept = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (arguments[i].name() == "anchors")
      value = as_float(value);
    else if (value.isTensor())
      are_kept = are_kept && is_bfloat16(value);
  }
  if (!are_kept) return cast_to_float(op, stack);
  call_below_autocast(op, stack);
  for (std::size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
    if (is_bfloat16((*stack)[i])) (*stack)[i] = (*stack)[i].toTensor().to(at::kFloat);
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Forward-mode differentiation (torch.func.jvp, jacfwd, torch.autograd.forward_ad) and the other
// transforms of torch.func, which vecdet does not compute.
#pragma once

#include <vecdet/impl/torch/operator.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

// The tangent of a tensor is its derivative in forward mode. Other arguments have none.

template <class T>
bool has_tangent(const T&) {
  return false;
}
inline bool has_tangent(const at::Tensor& tensor) {
  return tensor.defined() && tensor._fw_grad(/*level=*/0).defined();
}
inline bool has_tangent(const optional_tensor& tensor) {
  return tensor.has_value() && has_tangent(*tensor);
}
inline bool has_tangent(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return has_tangent(tensor); });
}

/// Whether the tensor has a tangent, or is an argument of a function that torch.func transforms.
/// The operators below autograd see only the values of such a tensor.
inline bool is_transformed(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  const c10::DispatchKeySet keys = tensor.key_set();
  return has_tangent(tensor) || keys.has(c10::DispatchKey::FuncTorchGradWrapper) ||
         keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::Batched);
}
inline bool is_transformed(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return is_transformed(tensor); });
}

/// The autograd kernel of the operator whose kernel on the CPU is `Function`, if its caller
/// attaches the gradient. It throws for tangents, because those of the results would silently be
/// missing, which means 0. A caller cannot do so itself: with nested transforms, only this kernel
/// sees the tensors of the outer ones.
template <auto Function>
class without_tangents;
template <class Result, class... Args, Result (*Function)(Args...)>
class without_tangents<Function> {
 public:
  /// @param name of the operator, which begins with an underscore
  static void define(torch::Library& m, const std::string& name) {
    operator_name() = name;
    m.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Autograd, &call));
  }

 private:
  static std::string& operator_name() {
    static std::string value;
    return value;
  }

  static Result call(c10::DispatchKeySet keys, operator_type<Args>... args) {
    static const auto op =
        find_operator<Result(operator_type<Args>...)>("vecdet::" + operator_name());
    std::size_t i = 0;
    const auto look_at = [&](const auto& argument) {
      TORCH_CHECK_NOT_IMPLEMENTED(
          !has_tangent(argument), "vecdet::", operator_name().substr(1), ": ",
          op.schema().arguments()[i].name(),
          " has a tangent, expected a tensor without one: this operator does not support forward "
          "AD (torch.func.jvp, torch.autograd.forward_ad), only backward()");
      ++i;
    };
    (look_at(args), ...);
    return op.redispatch(keys & c10::after_autograd_keyset, args...);
  }
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

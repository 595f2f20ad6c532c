// SPDX-License-Identifier: Apache-2.0
// Which tensors are differentiated. vecdet computes gradients for one backward(), but no
// derivatives in forward mode (torch.func.jvp, jacfwd, torch.autograd.forward_ad) and none for
// nested transforms of torch.func.
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

// Whether backward() needs the gradient with respect to an argument. Only tensors have one.

template <class T>
bool needs_gradient(const T&) {
  return false;
}
inline bool needs_gradient(const at::Tensor& tensor) {
  return at::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
}
inline bool needs_gradient(const optional_tensor& tensor) {
  return tensor.has_value() && needs_gradient(*tensor);
}
inline bool needs_gradient(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return needs_gradient(tensor); });
}

// Whether an argument has a tangent, its derivative in forward mode.

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

/// Whether the tensor has a tangent, or is inside a function that torch.func transforms. The
/// operators below autograd see only the values of such a tensor.
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
/// attaches the gradient. Under nested transforms of torch.func, it runs once for each, the
/// innermost first; the caller saw only the innermost. It throws for all derivatives that the
/// caller does not attach, because they would silently be missing, which means 0: tangents, and
/// gradients of outer transforms.
template <auto Function>
class backward_only;
template <class Result, class... Args, Result (*Function)(Args...)>
class backward_only<Function> {
 public:
  /// @param name of the operator: that of its caller after an underscore
  static void define(torch::Library& m, const std::string& name) {
    operator_name() = name;
    m.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Autograd, &call));
  }

 private:
  static std::string& operator_name() {
    static std::string value;
    return value;
  }

  /// The number of calls on this thread that have not returned.
  class depth {
   public:
    depth() { ++count(); }
    ~depth() { --count(); }
    depth(const depth&) = delete;
    depth& operator=(const depth&) = delete;

    bool is_outer() const { return count() > 1; }

   private:
    static int& count() {
      static thread_local int value = 0;
      return value;
    }
  };

  static Result call(c10::DispatchKeySet keys, operator_type<Args>... args) {
    static const auto op =
        find_operator<Result(operator_type<Args>...)>("vecdet::" + operator_name());
    const depth transforms;
    std::size_t i = 0;
    const auto look_at = [&](const auto& argument) {
      if (has_tangent(argument))
        refuse(i, "has a tangent",
               "this operator does not support forward AD (torch.func.jvp, "
               "torch.autograd.forward_ad), only backward()");
      if (transforms.is_outer() && needs_gradient(argument))
        refuse(i, "requires a gradient of an outer transform",
               "this operator does not support nested transforms of torch.func");
      ++i;
    };
    (look_at(args), ...);
    return op.redispatch(keys & c10::after_autograd_keyset, args...);
  }

  [[noreturn]] static void refuse(std::size_t argument, const char* what, const char* reason) {
    const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow(("vecdet::" + operator_name()).c_str(), "");
    TORCH_CHECK_NOT_IMPLEMENTED(false, "vecdet::", operator_name().substr(1), ": ",
                                op.schema().arguments()[argument].name(), " ", what,
                                ", expected a tensor without one: ", reason);
  }
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

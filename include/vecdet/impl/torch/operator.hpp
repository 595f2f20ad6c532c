// SPDX-License-Identifier: Apache-2.0
// Operators without a gradient, defined from a CPU function and its schema.
#pragma once

#include <vecdet/impl/torch/autocast.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The type of an operator's argument: PyTorch passes enumerators as integers.
template <class T>
using operator_type = std::conditional_t<std::is_enum<T>::value, std::int64_t, T>;

/// Converts `value` to an argument of type `To`: an enumerator from or to its number, a tensor from
/// or to an optional tensor, which is undefined in C++ and None in an operator.
template <class To, class From>
decltype(auto) to_argument(const From& value) {
  if constexpr (std::is_enum<From>::value) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::is_enum<To>::value) {
    return enumerator_of<To>(value);
  } else if constexpr (std::is_same<std::decay_t<To>, optional_tensor>::value &&
                       std::is_same<From, at::Tensor>::value) {
    return value.defined() ? optional_tensor(value) : optional_tensor();
  } else {
    return (value);
  }
}

/// Wraps a function as the kernel of an operator.
template <auto Function>
struct kernel;
template <class Result, class... Args, Result (*Function)(Args...)>
struct kernel<Function> {
  static Result call(operator_type<Args>... args) { return Function(to_argument<Args>(args)...); }
};

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").typed<Signature>();
}

template <class Result, class... Args>
c10::TypedOperatorHandle<Result(Args...)> find_operator(const char* name,
                                                        Result (* /*kernel*/)(Args...)) {
  return find_operator<Result(Args...)>(name);
}

template <std::size_t I, std::size_t... Others>
inline constexpr bool is_among = ((I == Others) || ...);

/// The operator whose kernel on the CPU is `Function`.
template <auto Function>
class plain_operator;
template <class Result, class... Args, Result (*Function)(Args...)>
class plain_operator<Function> {
 public:
  /// Calls the operator through the dispatcher.
  template <class... Values>
  static Result call(const Values&... values) {
    return handle().call(to_argument<operator_type<Args>>(values)...);
  }

  /// Defines the operator. It has no gradient: backward() through its results is an error.
  static void define(torch::Library& m, const char* schema) {
    name() = schema;
    name().resize(name().find('('));
    m.def(schema);
    m.impl(name().c_str(), torch::dispatch(c10::DispatchKey::CPU, &kernel<Function>::call));
    m.impl(name().c_str(), torch::dispatch(c10::DispatchKey::Autograd,
                                           torch::autograd::autogradNotImplementedFallback()));
  }

  /// Defines the operator's results for tensors without data.
  template <auto Meta>
  static void define_shapes(torch::Library& m) {
    m.impl(name().c_str(), torch::dispatch(c10::DispatchKey::Meta, &kernel<Meta>::call));
  }

  /// Defines the operator under autocast: floating-point tensors become float32, as for
  /// torchvision's operators. Only the arguments at the indices `Read`, outputs of a head, stay
  /// bfloat16 if all of them are, because the float32 results are the same.
  template <std::size_t... Read>
  static void define_autocast(torch::Library& m) {
    m.impl(name().c_str(),
           torch::dispatch(c10::DispatchKey::AutocastCPU, &call_under_autocast<Read...>));
  }

 private:
  static std::string& name() {
    static std::string value;
    return value;
  }
  static const c10::TypedOperatorHandle<Result(operator_type<Args>...)>& handle() {
    static const auto op = find_operator<Result(operator_type<Args>...)>("vecdet::" + name());
    return op;
  }

  template <std::size_t... Read>
  static Result call_under_autocast(operator_type<Args>... args) {
    const below_autocast once;
    [[maybe_unused]] const auto given = std::forward_as_tuple(args...);
    if (sizeof...(Read) == 0 || !(is_bfloat16(std::get<Read>(given)) && ...))
      return handle().call(as_float(args)...);
    return call_reading<Read...>(std::index_sequence_for<Args...>(), args...);
  }
  template <std::size_t... Read, std::size_t... I>
  static Result call_reading(std::index_sequence<I...>, const operator_type<Args>&... args) {
    Result result = handle().call(as_float_unless<is_among<I, Read...>>(args)...);
    widen(result);
    return result;
  }
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

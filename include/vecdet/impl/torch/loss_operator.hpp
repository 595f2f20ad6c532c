// SPDX-License-Identifier: Apache-2.0
// Losses as operators, each built from its CPU function and its schema.
//
// The CPU function takes the arguments of the schema and two flags: whether gradients are needed,
// and whether the loss must be float32 or wider. It returns one or two losses, then their
// gradients: that of the first loss with respect to the first argument, that of the second with
// respect to the second. From this, two operators are built. The public one checks whether a
// gradient is needed, refuses gradients of all other arguments, and attaches the gradients to the
// losses. The one with an underscore computes losses and gradients; torch.compile sees it, and it
// refuses other derivatives.
#pragma once

#include <vecdet/impl/torch/autocast.hpp>
#include <vecdet/impl/torch/derivatives.hpp>
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/loss_tensors.hpp>
#include <vecdet/impl/torch/operator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The parsed schema of a loss.
struct loss_schema {
  std::string name;
  std::vector<std::string> arguments;  ///< type and name, without default
  std::vector<std::string> names;      ///< of the arguments

  loss_schema() = default;
  explicit loss_schema(const std::string& text) {
    const std::size_t begin = text.find('('), end = text.find(") ->");
    name = text.substr(0, begin);
    for (std::size_t at = begin + 1; at < end;) {
      const std::size_t next = std::min(text.find(", ", at), end);
      std::string argument = text.substr(at, next - at);
      argument.resize(std::min(argument.find('='), argument.size()));
      names.push_back(argument.substr(argument.rfind(' ') + 1));
      arguments.push_back(std::move(argument));
      at = next + 2;
    }
  }

  /// The schema of the operator that computes `losses` losses and their gradients.
  std::string computing(std::size_t losses) const {
    std::string text = '_' + name + '(';
    for (const std::string& argument : arguments) text += argument + ", ";
    text += "bool needs_grad, bool float_loss) -> (Tensor";
    for (std::size_t i = 1; i < losses; ++i) text += ", Tensor";
    for (std::size_t i = 0; i < losses; ++i)
      text += ", " + arguments[i].substr(0, arguments[i].find(' '));
    return text + ')';
  }
};

/// Creates losses and gradients for tensors without data.
struct loss_shapes {
  loss_shape shape;
  bool is_reduced, needs_grad, float_loss;

  at::Tensor loss(const at::Tensor& input) const {
    const at::Tensor loss = is_reduced                     ? at::empty({}, input.options())
                            : shape == loss_shape::rows    ? new_without_last(input)
                            : shape == loss_shape::samples ? new_without_ends(input)
                                                           : new_like(input);
    return loss.to(loss_type(input, float_loss));
  }
  at::Tensor loss(at::TensorList levels) const { return loss(levels[0]); }

  at::Tensor gradient(const at::Tensor& input) const {
    return shape == loss_shape::matrix || shape == loss_shape::samples
               ? new_gradient_like(input, needs_grad)
               : new_gradient(input, needs_grad);
  }
  std::vector<at::Tensor> gradient(at::TensorList levels) const {
    std::vector<at::Tensor> grads;
    for (const at::Tensor& level : levels)
      if (needs_grad) grads.push_back(at::empty_like(level));
    return grads;
  }
};

/// The operators of a loss. `Args` are the CPU function's arguments without the last two.
template <auto Function, loss_shape Shape, class Result, class Args>
class loss_operator_of;
template <auto Function, loss_shape Shape, class Result, class... Args>
class loss_operator_of<Function, Shape, Result, std::tuple<Args...>> {
  static constexpr std::size_t losses = std::tuple_size<Result>::value / 2;
  static_assert(losses == 1 || losses == 2, "a loss, or two");
  using public_result =
      std::conditional_t<losses == 1, at::Tensor, std::tuple<at::Tensor, at::Tensor>>;

 public:
  /// Calls the public operator through the dispatcher.
  template <class... Values>
  static public_result call(const Values&... values) {
    return handle().call(to_argument<operator_type<Args>>(values)...);
  }

  /// Defines both operators.
  static void define(torch::Library& m, const char* text) {
    schema() = loss_schema(text);
    m.def(text, &differentiate);
    m.impl(schema().name.c_str(),
           torch::dispatch(c10::DispatchKey::AutocastCPU, &call_under_autocast));
    const std::string computing = '_' + schema().name;
    m.def(schema().computing(losses).c_str());
    m.impl(computing.c_str(), torch::dispatch(c10::DispatchKey::CPU, &kernel<Function>::call));
    m.impl(computing.c_str(), torch::dispatch(c10::DispatchKey::Meta, &shapes));
    backward_only<Function>::define(m, computing);
  }

 private:
  static loss_schema& schema() {
    static loss_schema value;
    return value;
  }
  static const c10::TypedOperatorHandle<public_result(operator_type<Args>...)>& handle() {
    static const auto op =
        find_operator<public_result(operator_type<Args>...)>("vecdet::" + schema().name);
    return op;
  }

  static public_result differentiate(operator_type<Args>... args) {
    static const auto op =
        find_operator<Result(operator_type<Args>..., bool, bool)>("vecdet::_" + schema().name);
    bool is_needed = false;
    std::size_t i = 0;
    const auto look_at = [&](const auto& argument) {
      const bool is_tracked = needs_gradient(argument);
      if (i < losses)
        is_needed = is_needed || is_tracked;
      else if (is_tracked)
        refuse_gradient(schema().name, schema().names[i]);
      ++i;
    };
    (look_at(args), ...);
    const Result computed = op.call(args..., is_needed, is_autocast());
    const auto inputs = std::forward_as_tuple(args...);
    if constexpr (losses == 1) {
      return with_gradients(std::get<0>(inputs), std::get<0>(computed), std::get<1>(computed));
    } else {
      return {with_gradients(std::get<0>(inputs), std::get<0>(computed), std::get<2>(computed)),
              with_gradients(std::get<1>(inputs), std::get<1>(computed), std::get<3>(computed))};
    }
  }

  /// Whether the losses are single numbers.
  static bool is_reduced(const operator_type<Args>&... args) {
    std::int64_t reduction = at::Reduction::Sum;
    const auto look_at = [&](auto is_reduction, const auto& argument) {
      if constexpr (decltype(is_reduction)::value) reduction = argument;
    };
    (look_at(std::is_same<Args, loss_reduction>(), args), ...);
    return reduction != at::Reduction::None;
  }

  /// The inputs, logits or deltas, stay bfloat16 if all of them are and the losses are single
  /// numbers: the losses, in float32, are the same. Otherwise floating tensors become float32, as
  /// for torchvision's operators.
  static public_result call_under_autocast(operator_type<Args>... args) {
    const below_autocast once;
    bool is_read = is_reduced(args...);
    std::size_t i = 0;
    ((is_read = is_read && (i++ >= losses || is_bfloat16(args))), ...);
    return is_read ? handle().call(args...) : handle().call(as_float(args)...);
  }

  static Result shapes(operator_type<Args>... args, bool needs_grad, bool float_loss) {
    const loss_shapes known{Shape, is_reduced(args...), needs_grad, float_loss};
    const auto inputs = std::forward_as_tuple(args...);
    if constexpr (losses == 1) {
      return {known.loss(std::get<0>(inputs)), known.gradient(std::get<0>(inputs))};
    } else {
      return {known.loss(std::get<0>(inputs)), known.loss(std::get<1>(inputs)),
              known.gradient(std::get<0>(inputs)), known.gradient(std::get<1>(inputs))};
    }
  }
};

/// The arguments of a CPU function without the last two.
template <class Indices, class... Args>
struct without_flags;
template <std::size_t... I, class... Args>
struct without_flags<std::index_sequence<I...>, Args...> {
  using type = std::tuple<std::tuple_element_t<I, std::tuple<Args...>>...>;
};

/// The operators of the loss that `Function` computes on the CPU. `Shape` is the shape of unreduced
/// losses.
template <auto Function, loss_shape Shape>
class loss_operator;
template <class Result, class... Args, Result (*Function)(Args...), loss_shape Shape>
class loss_operator<Function, Shape>
    : public loss_operator_of<
          Function, Shape, Result,
          typename without_flags<std::make_index_sequence<sizeof...(Args) - 2>, Args...>::type> {};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

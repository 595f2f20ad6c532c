// SPDX-License-Identifier: Apache-2.0
// Functions on tensors as kernels of operators, and their registration.
#pragma once

#include <vecdet/impl/torch/aten.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace stable {

// The arguments of kernels. Each takes what its value on the stack owns.

/// Numbers, bool and enumerators, which PyTorch passes as integers.
template <class T>
struct argument {
  T get;

  explicit argument(value from) {
    std::conditional_t<std::is_enum<T>::value, std::int64_t, T> number;
    std::memcpy(&number, &from, sizeof(number));
    if constexpr (std::is_enum<T>::value)
      get = aten::enumerator_of<T>(number);
    else
      get = number;
  }
};

template <>
struct argument<at::Tensor> {
  at::Tensor get;

  explicit argument(value from) : get(at::taken(from)) {}
};

template <>
struct argument<aten::optional_tensor> {
  aten::optional_tensor get;

  explicit argument(value from) {
    if (from == at::absent) return;
    auto* const place = reinterpret_cast<value*>(from);
    get = at::taken(*place);
    if (torch.torch_delete_stable_ivalue != nullptr)
      checked(torch.torch_delete_stable_ivalue(place));
    else
      delete place;
  }
};

template <class T>
struct argument<at::ArrayRef<T>> {
  std::vector<T> list;
  at::ArrayRef<T> get;

  explicit argument(value from) {
    struct free_list {
      void operator()(list_handle handle) const { torch.torch_delete_list(handle); }
    };
    const std::unique_ptr<std::remove_pointer_t<list_handle>, free_list> handle(
        reinterpret_cast<list_handle>(from));
    const auto size = stable::get<std::size_t>(torch.torch_list_size, handle.get());
    list.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      list.push_back(
          argument<T>(stable::get<value>(torch.torch_list_get_item, handle.get(), i)).get);
    }
    get = list;
  }
  argument(const argument&) = delete;
  argument& operator=(const argument&) = delete;
};

// The results.

inline value as_result(std::vector<at::Tensor>&& list) {
  return at::as_value(at::TensorList(list));
}
template <class T>
value as_result(T&& one) {
  return at::as_value(std::forward<T>(one));
}
template <class Result>
void put(value* stack, Result&& result) {
  stack[0] = as_result(std::move(result));
}
template <class... Results>
void put(value* stack, std::tuple<Results...>&& results) {
  std::apply([&](auto&... each) { ((*stack++ = as_result(std::move(each))), ...); }, results);
}

/// The kernel that calls `Function`. Its exceptions pass through libtorch to Python.
template <auto Function>
struct boxed;
template <class Result, class... Args, Result (*Function)(Args...)>
struct boxed<Function> {
  static void call(value* stack, std::uint64_t, std::uint64_t) {
    run(stack, std::index_sequence_for<Args...>());
  }

 private:
  template <std::size_t... I>
  static void run(value* stack, std::index_sequence<I...>) {
    // All arguments are taken before one of them is found to be invalid.
    const std::tuple<argument<std::decay_t<Args>>...> given(stack[I]...);
    put(stack, Function(std::get<I>(given).get...));
  }
};

/// The operators of namespace vecdet. They are removed with the object.
class library {
 public:
  library()
      : definitions_(stable::get<library_handle>(torch.aoti_torch_library_init_def, "vecdet",
                                                 __FILE__, std::uint32_t{__LINE__})),
        on_cpu_(stable::get<library_handle>(torch.aoti_torch_library_init_impl, "vecdet", "CPU",
                                            __FILE__, std::uint32_t{__LINE__})) {}

  /// Defines an operator that Python computes.
  void define(const char* schema) {
    checked(torch.aoti_torch_library_def(definitions_.get(), schema));
  }
  /// Defines an operator that `kernel` computes.
  void define(const char* schema, boxed_kernel* kernel) {
    define(schema);
    const std::string name(schema, std::strchr(schema, '('));
    checked(torch.torch_library_impl(on_cpu_.get(), name.c_str(), kernel, abi_version));
  }

 private:
  struct remove {
    void operator()(library_handle handle) const { torch.aoti_torch_delete_library_object(handle); }
  };

  std::unique_ptr<TorchLibraryOpaque, remove> definitions_, on_cpu_;
};

// Each defines the operators of a family; generated/F.cpp has most of them.
void define_assignment(library&);
void define_attention(library&);
void define_box_losses(library&);
void define_boxes(library&);
void define_class_losses(library&);
void define_convolutions(library&);
void define_ctc_loss(library&);
void define_detections(library&);
void define_head_losses(library&);
void define_masks(library&);
void define_grouped_convolution(library&);
void define_normalization(library&);
void define_pooling(library&);
void define_queries(library&);
void define_roi_align(library&);
void define_softmax_losses(library&);
void define_two_stage(library&);

}  // namespace stable
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

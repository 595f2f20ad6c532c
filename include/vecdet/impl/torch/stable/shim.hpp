// SPDX-License-Identifier: Apache-2.0
// The C functions of PyTorch's stable ABI, found in the libtorch that the process has loaded.
//
// No header of PyTorch is included and no symbol of it is linked: names and types of the functions
// are the ABI, which PyTorch promises to keep for two years after a release. The library thus loads
// without PyTorch, and with each version of it from 2.10 on. The promise does not cover operators
// that are called by name (copy_, resize_, permute, empty_like, relu, conv2d, le, where,
// convolution_backward), which PyTorch seldom changes. test/torch/stable_abi.cpp compares the
// types with PyTorch's headers.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <dlfcn.h>
#include <link.h>

// Opaque types of the ABI; their names are only compared with PyTorch's in the test.
struct AtenTensorOpaque;
struct TorchLibraryOpaque;
struct StableListOpaque;

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace stable {

using tensor_handle = AtenTensorOpaque*;
using library_handle = TorchLibraryOpaque*;
using list_handle = StableListOpaque*;
/// A value on the stack of a kernel: a handle, a number or its bits.
using value = std::uint64_t;
using status = std::int32_t;
using boxed_kernel = void(value*, std::uint64_t, std::uint64_t);

/// The version of the ABI's conventions that vecdet follows: 2.10.
constexpr std::uint64_t abi_version = 0x020A000000000000;

// clang-format off
// Name and type of each function.
#define VECDET_SHIM_FUNCTIONS(each)                                                               \
  each(aoti_torch_delete_tensor_object, status(tensor_handle))                                    \
  each(aoti_torch_new_tensor_handle, status(tensor_handle, tensor_handle*))                       \
  each(aoti_torch_new_uninitialized_tensor, status(tensor_handle*))                               \
  each(aoti_torch_is_defined, status(tensor_handle, bool*))                                       \
  each(aoti_torch_get_dim, status(tensor_handle, std::int64_t*))                                  \
  each(aoti_torch_get_numel, status(tensor_handle, std::int64_t*))                                \
  each(aoti_torch_get_sizes, status(tensor_handle, std::int64_t**))                               \
  each(aoti_torch_get_strides, status(tensor_handle, std::int64_t**))                             \
  each(aoti_torch_get_dtype, status(tensor_handle, std::int32_t*))                                \
  each(aoti_torch_get_device_type, status(tensor_handle, std::int32_t*))                          \
  each(aoti_torch_get_layout, status(tensor_handle, std::int32_t*))                               \
  each(aoti_torch_is_contiguous, status(tensor_handle, bool*))                                    \
  each(torch_get_mutable_data_ptr, status(tensor_handle, void**))                                 \
  each(aoti_torch_empty_strided, status(std::int64_t, const std::int64_t*, const                  \
       std::int64_t*, std::int32_t, std::int32_t, std::int32_t, tensor_handle*))                  \
  each(aoti_torch_aten_subtract_Tensor, status(tensor_handle, tensor_handle, double,              \
       tensor_handle*))                                                                           \
  each(aoti_torch_dtype_uint8, std::int32_t())                                                    \
  each(aoti_torch_dtype_int8, std::int32_t())                                                     \
  each(aoti_torch_dtype_int16, std::int32_t())                                                    \
  each(aoti_torch_dtype_int32, std::int32_t())                                                    \
  each(aoti_torch_dtype_int64, std::int32_t())                                                    \
  each(aoti_torch_dtype_float16, std::int32_t())                                                  \
  each(aoti_torch_dtype_float32, std::int32_t())                                                  \
  each(aoti_torch_dtype_float64, std::int32_t())                                                  \
  each(aoti_torch_dtype_float8_e5m2, std::int32_t())                                              \
  each(aoti_torch_dtype_float8_e4m3fn, std::int32_t())                                            \
  each(aoti_torch_dtype_float8_e5m2fnuz, std::int32_t())                                          \
  each(aoti_torch_dtype_float8_e4m3fnuz, std::int32_t())                                          \
  each(aoti_torch_dtype_complex32, std::int32_t())                                                \
  each(aoti_torch_dtype_complex64, std::int32_t())                                                \
  each(aoti_torch_dtype_complex128, std::int32_t())                                               \
  each(aoti_torch_dtype_bool, std::int32_t())                                                     \
  each(aoti_torch_dtype_bfloat16, std::int32_t())                                                 \
  each(aoti_torch_dtype_uint16, std::int32_t())                                                   \
  each(aoti_torch_dtype_uint32, std::int32_t())                                                   \
  each(aoti_torch_dtype_uint64, std::int32_t())                                                   \
  each(aoti_torch_device_type_cpu, std::int32_t())                                                \
  each(aoti_torch_device_type_meta, std::int32_t())                                               \
  each(aoti_torch_layout_strided, std::int32_t())                                                 \
  each(aoti_torch_grad_mode_is_enabled, bool())                                                   \
  each(aoti_torch_grad_mode_set_enabled, void(bool))                                              \
  each(aoti_torch_library_init_def, status(const char*, const char*, std::uint32_t,               \
       library_handle*))                                                                          \
  each(aoti_torch_library_init_impl, status(const char*, const char*, const char*,                \
       std::uint32_t, library_handle*))                                                           \
  each(aoti_torch_library_def, status(library_handle, const char*))                               \
  each(aoti_torch_delete_library_object, status(library_handle))                                  \
  each(torch_library_impl, status(library_handle, const char*, boxed_kernel*,                     \
       std::uint64_t))                                                                            \
  each(torch_call_dispatcher, status(const char*, const char*, value*, std::uint64_t))            \
  each(torch_new_list_reserve_size, status(std::size_t, list_handle*))                            \
  each(torch_list_size, status(list_handle, std::size_t*))                                        \
  each(torch_list_get_item, status(list_handle, std::size_t, value*))                             \
  each(torch_list_push_back, status(list_handle, value))                                          \
  each(torch_delete_list, status(list_handle))                                                    \
  each(torch_parallel_for, status(std::int64_t, std::int64_t, std::int64_t, void                  \
       (*)(std::int64_t, std::int64_t, void*), void*))                                            \
  each(torch_get_num_threads, status(std::uint32_t*))
// The same for functions that came after 2.10; null if they are missing.
#define VECDET_SHIM_NEWER_FUNCTIONS(each)                                                         \
  each(torch_from_blob, status(void*, std::int64_t, const std::int64_t*, const                    \
       std::int64_t*, std::int64_t, std::int32_t, std::int32_t, std::int32_t,                     \
       tensor_handle*, std::int32_t, const std::uint8_t*, std::int64_t, void (*)(void*,           \
       void*), void*))                                                                            \
  each(torch_new_stable_ivalue, status(value**))                                                  \
  each(torch_delete_stable_ivalue, status(value*))                                                \
  each(torch_exception_get_what_without_backtrace, const char*())
// clang-format on

/// The functions by their names.
struct shim {
#define VECDET_DECLARE(name, type) std::add_pointer_t<type> name = nullptr;
  VECDET_SHIM_FUNCTIONS(VECDET_DECLARE)
  VECDET_SHIM_NEWER_FUNCTIONS(VECDET_DECLARE)
#undef VECDET_DECLARE

  /// Finds the functions.
  /// @throws std::runtime_error if there is no libtorch in the process, or one older than 2.10
  void find() {
    std::string path;
    dl_iterate_phdr(&find_torch, &path);
    void* const torch = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (torch == nullptr) throw std::runtime_error("the process has loaded no libtorch_cpu.so");
    const char* missing = nullptr;
    const auto look_up = [&](auto& function, const char* name, bool is_needed) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(torch, name));
      if (is_needed && function == nullptr && missing == nullptr) missing = name;
    };
#define VECDET_FIND(name, type) look_up(name, #name, true);
#define VECDET_TRY(name, type) look_up(name, #name, false);
    VECDET_SHIM_FUNCTIONS(VECDET_FIND)
    VECDET_SHIM_NEWER_FUNCTIONS(VECDET_TRY)
#undef VECDET_FIND
#undef VECDET_TRY
    if (missing != nullptr)
      throw std::runtime_error(path + " has no function " + missing +
                               ": vecdet needs PyTorch 2.10 or newer");
  }

 private:
  static int find_torch(dl_phdr_info* info, std::size_t, void* found) {
    const char* const slash = std::strrchr(info->dlpi_name, '/');
    const char* const file = slash == nullptr ? info->dlpi_name : slash + 1;
    constexpr char name[] = "libtorch_cpu.so";  // a version may follow
    if (std::strncmp(file, name, sizeof(name) - 1) != 0) return 0;
    *static_cast<std::string*>(found) = info->dlpi_name;
    return 1;
  }
};

/// The functions that the library uses, found when it is registered.
inline shim torch;

/// Throws unless a function of the ABI has succeeded.
inline void checked(status result) {
  if (result == 0) return;
  const auto what = torch.torch_exception_get_what_without_backtrace;
  const char* const text = what == nullptr ? nullptr : what();
  throw std::runtime_error(text != nullptr && *text != '\0'
                               ? text
                               : "vecdet: a function of PyTorch failed; its error is on stderr");
}

/// The result of a function that writes it to the address in its last argument.
template <class Result, class Function, class... Args>
Result get(Function function, Args... args) {
  Result result{};
  checked(function(args..., &result));
  return result;
}

}  // namespace stable
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Tensors for the functions that compute operators. In a build against libtorch they are
// libtorch's. With VECDET_TORCH_STABLE they are those of stable/tensor.hpp, in namespaces
// vecdet::at and vecdet::c10, which inside namespace vecdet hide the global ones.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>
#include <utility>

#if defined(VECDET_TORCH_STABLE)
#include <vecdet/impl/torch/stable/convolution.hpp>
#include <vecdet/impl/torch/stable/tensor.hpp>
#else
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#if AT_PARALLEL_OPENMP && !defined(_OPENMP)
#error "this libtorch has OpenMP: compile with -fopenmp, or at::parallel_for runs on one thread"
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// std::optional, or c10::optional in versions of libtorch for C++14.
using optional_tensor = decltype(std::declval<c10::IValue>().toOptional<at::Tensor>());

/// Whether tensors can own memory that was allocated here.
inline bool can_adopt_memory() { return true; }

/// A symbolic size as a number: that of the example from which a compiler works.
inline std::int64_t known_size(const c10::SymInt& size) {
  return size.guard_int(__FILE__, __LINE__);
}

/// Tells whether a tensor's memory is gone. A weak reference to the tensor would do so too, but
/// torch.utils.swap_tensors() refuses tensors that have one.
class watched_memory {
 public:
  explicit watched_memory(const at::Tensor& tensor)
      : storage_(tensor.storage().getWeakStorageImpl()) {}
  bool is_gone() const { return storage_.expired(); }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The enumerator with this number. A number beyond the range of the enumeration's type becomes one
/// that no enumerator has; a conversion alone could wrap it around to a valid one.
template <class Enum>
Enum enumerator_of(std::int64_t number) {
  const auto made = static_cast<Enum>(number);
  return static_cast<std::int64_t>(made) == number ? made : static_cast<Enum>(-1);
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

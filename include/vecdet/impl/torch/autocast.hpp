// SPDX-License-Identifier: Apache-2.0
// What becomes of an operator's tensors under autocast.
#pragma once

#include <vecdet/impl/torch/tensor.hpp>

#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Whether the call came by autocast: losses are then of float32, whatever their logits are.
inline bool& is_autocast() {
  static thread_local bool value = false;
  return value;
}

/// While it lives, operators are called below autocast.
class below_autocast {
 public:
  below_autocast() { is_autocast() = true; }
  ~below_autocast() { is_autocast() = before_; }
  below_autocast(const below_autocast&) = delete;
  below_autocast& operator=(const below_autocast&) = delete;

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKey::AutocastCPU};
  bool before_ = is_autocast();
};

template <class T>
const T& as_float(const T& value) {
  return value;
}
inline at::Tensor as_float(const at::Tensor& tensor) {
  return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CPU);
}
inline optional_tensor as_float(const optional_tensor& tensor) {
  return tensor.has_value() ? optional_tensor(as_float(*tensor)) : tensor;
}
inline std::vector<at::Tensor> as_float(at::TensorList tensors) {
  std::vector<at::Tensor> cast;
  for (const at::Tensor& tensor : tensors) cast.push_back(as_float(tensor));
  return cast;
}

template <bool IsKept, class T>
decltype(auto) as_float_unless(const T& value) {
  if constexpr (IsKept)
    return (value);
  else
    return as_float(value);
}

/// Whether all tensors of an argument are of bfloat16.
template <class T>
bool is_bfloat16(const T&) {
  return true;
}
inline bool is_bfloat16(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBFloat16; }
inline bool is_bfloat16(const optional_tensor& tensor) {
  return !tensor.has_value() || is_bfloat16(*tensor);
}
inline bool is_bfloat16(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors)
    if (!is_bfloat16(tensor)) return false;
  return true;
}

/// Results in float32.
inline void widen(at::Tensor& tensor) {
  if (is_bfloat16(tensor)) tensor = tensor.to(at::kFloat);
}
template <class... Tensors>
void widen(std::tuple<Tensors...>& tensors) {
  std::apply([](auto&... each) { (widen(each), ...); }, tensors);
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

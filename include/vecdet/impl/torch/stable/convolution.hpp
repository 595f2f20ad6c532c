// SPDX-License-Identifier: Apache-2.0
// The operators of ATen that conv3x3_aten.hpp calls.
#pragma once

#include <vecdet/impl/torch/stable/tensor.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace at {

/// While it exists, operators of ATen record nothing for backward().
class AutoDispatchBelowADInplaceOrView {
 public:
  AutoDispatchBelowADInplaceOrView() { torch.aoti_torch_grad_mode_set_enabled(false); }
  ~AutoDispatchBelowADInplaceOrView() { torch.aoti_torch_grad_mode_set_enabled(before_); }
  AutoDispatchBelowADInplaceOrView(const AutoDispatchBelowADInplaceOrView&) = delete;
  AutoDispatchBelowADInplaceOrView& operator=(const AutoDispatchBelowADInplaceOrView&) = delete;

 private:
  bool before_ = torch.aoti_torch_grad_mode_is_enabled();
};

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return Tensor(stable::get<stable::tensor_handle>(torch.aoti_torch_aten_subtract_Tensor,
                                                   a.handle(), b.handle(), -1.0));
}
inline Tensor relu(const Tensor& input) { return call("aten::relu", "", as_value(input)); }
inline Tensor conv2d(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                     std::int64_t stride, std::int64_t padding) {
  const bool has_bias = bias.has_value() && bias->defined();
  return call("aten::conv2d", "", as_value(input), as_value(weight),
              has_bias ? as_present(*bias) : absent, as_value(IntArrayRef({stride, stride})),
              as_value(IntArrayRef({padding, padding})), as_value(IntArrayRef({1, 1})),
              as_value(std::int64_t{1}));
}
/// Writes to `grad` those elements of `upstream` where `output` is above 0 or NaN, and 0 elsewhere.
/// All have the same dense layout; `grad` may be `upstream`.
template <class T>
void relu_gradient(const Tensor& upstream, const Tensor& output, const Tensor& grad) {
  constexpr std::int64_t some_microseconds = 1 << 15;
  const auto* const from = static_cast<const T*>(upstream.data_ptr());
  const auto* const of = static_cast<const T*>(output.data_ptr());
  auto* const to = static_cast<T*>(grad.data_ptr());
  const auto is_off = [](T value) {
    if constexpr (std::is_same<T, std::uint16_t>::value) {  // the bits of bfloat16
      constexpr T minus_zero = 0x8000, minus_infinity = 0xff80;
      return value == 0 || (value >= minus_zero && value <= minus_infinity);
    } else {
      return value <= 0;
    }
  };
  parallel_for(0, output.numel(), some_microseconds, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) to[i] = is_off(of[i]) ? T{0} : from[i];
  });
}

/// `upstream` where `output` is above 0 (the only threshold in use) or NaN, 0 elsewhere. The ABI
/// cannot pass the Scalar of aten::threshold_backward, and aten::where takes eight times as long.
inline Tensor threshold_backward(const Tensor& upstream, const Tensor& output, double) {
  const ScalarType type = output.scalar_type();
  const bool is_dense = output.is_contiguous() || output.is_contiguous(MemoryFormat::ChannelsLast);
  if (!is_dense || (type != kFloat && type != kBFloat16)) {
    const Tensor is_off =
        call("aten::le", "Tensor", as_value(output), as_value(zeros({}, output.options())));
    return call("aten::where", "self", as_value(is_off), as_value(zeros({}, upstream.options())),
                as_value(upstream));
  }
  const Tensor grad = empty_like(output);
  const bool is_like = upstream.strides() == output.strides();
  if (!is_like) grad.copy_(upstream);
  (type == kFloat ? relu_gradient<float> : relu_gradient<std::uint16_t>)(is_like ? upstream : grad,
                                                                         output, grad);
  return grad;
}
inline std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& upstream, const Tensor& input, const Tensor& weight, IntArrayRef bias_sizes,
    IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool is_transposed,
    IntArrayRef output_padding, std::int64_t groups, const std::array<bool, 3>& mask) {
  stable::value stack[] = {as_value(upstream),
                           as_value(input),
                           as_value(weight),
                           as_present(bias_sizes),
                           as_value(stride),
                           as_value(padding),
                           as_value(dilation),
                           as_value(is_transposed),
                           as_value(output_padding),
                           as_value(groups),
                           as_value(ArrayRef<bool>(mask))};
  stable::checked(
      torch.torch_call_dispatcher("aten::convolution_backward", "", stack, stable::abi_version));
  return {taken(stack[0]), taken(stack[1]), taken(stack[2])};
}

}  // namespace at
}  // namespace VECDET_ABI
}  // namespace vecdet

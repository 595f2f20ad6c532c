// SPDX-License-Identifier: Apache-2.0
// The operators of ATen that conv3x3_aten.hpp calls.
#pragma once

#include <vecdet/impl/torch/stable/tensor.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

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
/// `upstream` where `output` is above 0 (the only threshold in use) or NaN, 0 elsewhere.
inline Tensor threshold_backward(const Tensor& upstream, const Tensor& output, double) {
  const Tensor is_off =
      call("aten::le", "Tensor", as_value(output), as_value(zeros({}, output.options())));
  return call("aten::where", "self", as_value(is_off), as_value(zeros({}, upstream.options())),
              as_value(upstream));
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

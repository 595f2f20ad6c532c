// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions of maps that share their weights, and the gradients.
//
// Every call chooses between vecdet and ATen. ATen computes types other than float32 and bfloat16,
// and sizes for which is_conv3x3_faster() is false. Weight and bias of bfloat16 maps are widened to
// float, and their gradients are computed in float.
#pragma once

#include <vecdet/conv3x3.hpp>
#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/channels_last.hpp>
#include <vecdet/impl/torch/conv3x3_aten.hpp>
#include <vecdet/impl/torch/conv3x3_rule.hpp>
#include <vecdet/impl/torch/conv3x3_weights.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Maps as the levels of a head, in one layout.
template <class T>
class conv3x3_maps {
 public:
  static constexpr at::ScalarType type =
      std::is_same<value_of<T>, bfloat16>::value ? at::kBFloat16 : at::kFloat;

  /// Has no maps.
  conv3x3_maps() = default;
  /// For maps that are read. Maps in another layout are copied.
  conv3x3_maps(const char* argument, at::TensorList maps, index_t channels)
      : is_nhwc_(are_channels_last(maps)), channels_(channels) {
    for (const at::Tensor& map : maps)
      maps_.push_back(contiguous(argument, map, type, feature_format(is_nhwc_)));
    list();
  }
  /// For maps that are written.
  conv3x3_maps(std::vector<at::Tensor> maps, index_t channels, bool is_nhwc)
      : maps_(std::move(maps)), is_nhwc_(is_nhwc), channels_(channels) {
    list();
  }

  head_view<T> view() const {
    return maps_.empty() ? head_view<T>()
                         : head_view<T>(levels_, maps_[0].size(0), 1, channels_,
                                        is_nhwc_ ? head_layout::nhwc : head_layout::nchw);
  }
  bool is_nhwc() const { return is_nhwc_; }
  const std::vector<at::Tensor>& tensors() const { return maps_; }

 private:
  void list() {
    for (const at::Tensor& map : maps_)
      levels_.push_back({static_cast<T*>(map.data_ptr()), map.size(2), map.size(3)});
  }

  std::vector<at::Tensor> maps_;
  std::vector<head_level<T>> levels_;
  bool is_nhwc_ = false;
  index_t channels_ = 0;
};

namespace cpu {

/// Calls use(T()) with the element type of the maps.
template <class Use>
auto with_map(at::TensorList inputs, const Use& use) {
  const at::ScalarType type = inputs[0].scalar_type();
  check(type == at::kFloat || type == at::kBFloat16, "conv3x3", "input.dtype", c10::toString(type),
        "float32 or bfloat16");
  return type == at::kBFloat16 ? use(bfloat16()) : use(float());
}

/// @param keeps_weights whether the transformed weights are kept for the next call
inline std::vector<at::Tensor> conv3x3(at::TensorList inputs, const at::Tensor& weight,
                                       const optional_tensor& bias, bool relu, bool keeps_weights) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return translated([&] {
    check_conv3x3(inputs, weight, bias);
    check_conv3x3_types(inputs, weight, bias);
    if (!is_conv3x3_faster(inputs, weight, !keeps_weights))
      return aten_conv3x3(inputs, weight, bias, relu);
    return with_map(inputs, [&](auto element) {
      using T = decltype(element);
      const conv3x3_maps<const T> read("input", inputs, weight.size(1));
      std::vector<at::Tensor> outputs;
      for (const at::Tensor& input : inputs) {
        outputs.push_back(at::empty({input.size(0), weight.size(0), input.size(2), input.size(3)},
                                    input.options(), feature_format(read.is_nhwc())));
      }
      const conv3x3_maps<T> written(outputs, weight.size(0), read.is_nhwc());
      conv3x3_params<float> params;
      at::Tensor read_bias;
      if (bias.has_value() && bias->defined()) {
        read_bias = contiguous("bias", *bias, at::kFloat);
        params.bias = vector<const float>(read_bias);
      }
      params.relu = relu;
      const transformed_weights transformed(weight, conv3x3_use::forward, keeps_weights);
      vecdet::conv3x3<const T>(read.view(), transformed.get(), written.view(), params,
                               thread_workspace<conv3x3_workspace>(), threads());
      return outputs;
    });
  });
}

/// The gradients of inputs, weight and bias. Those that are not needed are empty. The bias's has
/// summed_type(weight), because the bias may have another type than the weight.
/// @param relu_outputs the outputs if ReLU was fused; otherwise empty
inline conv3x3_grads conv3x3_grad(at::TensorList upstream, at::TensorList relu_outputs,
                                  at::TensorList inputs, const at::Tensor& weight,
                                  bool needs_inputs, bool needs_weight, bool needs_bias) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return translated([&] {
    constexpr const char* function = "conv3x3_grad";
    check_conv3x3(inputs, weight, {});
    check_conv3x3_types(inputs, weight, {});
    check_size(function, "upstream.size()", static_cast<index_t>(upstream.size()),
               static_cast<index_t>(inputs.size()), "the number of inputs");
    if (!is_conv3x3_faster(inputs, weight, needs_weight)) {
      return aten_conv3x3_grad(upstream, relu_outputs, inputs, weight, needs_inputs, needs_weight,
                               needs_bias);
    }
    return with_map(inputs, [&](auto element) {
      using T = decltype(element);
      const index_t channels = weight.size(0);
      conv3x3_grads grads;
      auto& [input_grads, weight_grad, bias_grad] = grads;
      weight_grad = at::empty({0}, weight.options());
      bias_grad = at::empty({0}, weight.options());
      const conv3x3_maps<const T> arriving("upstream", upstream, channels);
      conv3x3_maps<const T> outputs;
      if (!relu_outputs.empty())
        outputs = conv3x3_maps<const T>("relu_output", relu_outputs, channels);
      auto& workspace = thread_workspace<conv3x3_workspace>();
      if (needs_inputs) {
        const bool is_nhwc = are_channels_last(inputs);
        for (const at::Tensor& input : inputs) {
          input_grads.push_back(
              gradient_of(input.sizes(), input.scalar_type(), feature_format(is_nhwc)));
        }
        const conv3x3_maps<T> written(input_grads, weight.size(1), is_nhwc);
        const transformed_weights transformed(weight, conv3x3_use::input_grad, !needs_weight);
        vecdet::conv3x3_input_grad<const T>(arriving.view(), outputs.view(), transformed.get(),
                                            written.view(), workspace, threads());
      }
      if (needs_weight || needs_bias) {
        const conv3x3_maps<const T> read("input", inputs, weight.size(1));
        const at::Tensor weight_out =
            gradient_of(weight.sizes(), at::kFloat, feature_format(is_nhwc_weight(weight)));
        if (needs_bias) bias_grad = at::empty({channels}, weight_out.options());
        vecdet::conv3x3_weight_grad<const T>(
            read.view(), arriving.view(), outputs.view(),
            {weight_view<float>(weight_out),
             needs_bias ? vector<float>(bias_grad) : vector_view<float>()},
            workspace, threads());
        if (needs_weight) weight_grad = weight_out.to(weight.scalar_type());
      }
      return grads;
    });
  });
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline std::vector<at::Tensor> conv3x3(at::TensorList inputs, const at::Tensor& weight,
                                       const optional_tensor& bias, bool, bool) {
  translated([&] {
    check_conv3x3(inputs, weight, bias);
    check_conv3x3_types(inputs, weight, bias);
  });
  const at::MemoryFormat format = feature_format(are_channels_last(inputs));
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& input : inputs) {
    const std::vector<c10::SymInt> sizes{input.sym_size(0), weight.sym_size(0), input.sym_size(2),
                                         input.sym_size(3)};
    outputs.push_back(at::empty_symint(sizes, input.options(), format));
  }
  return outputs;
}

inline conv3x3_grads conv3x3_grad(at::TensorList, at::TensorList, at::TensorList inputs,
                                  const at::Tensor& weight, bool needs_inputs, bool needs_weight,
                                  bool needs_bias) {
  conv3x3_grads grads;
  auto& [input_grads, weight_grad, bias_grad] = grads;
  const at::MemoryFormat format = feature_format(are_channels_last(inputs));
  for (const at::Tensor& input : inputs) {
    if (needs_inputs)
      input_grads.push_back(at::empty_symint(input.sym_sizes(), input.options(), format));
  }
  const at::MemoryFormat weight_format = feature_format(is_nhwc_weight(weight));
  weight_grad = needs_weight ? at::empty_symint(weight.sym_sizes(), weight.options(), weight_format)
                             : at::empty({0}, weight.options());
  bias_grad = needs_bias ? at::empty_symint({weight.sym_size(0)},
                                            weight.options().dtype(summed_type(weight)))
                         : at::empty({0}, weight.options());
  return grads;
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

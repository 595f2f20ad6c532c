// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient.
#pragma once

#include <vecdet/impl/torch/aten.hpp>
#include <vecdet/impl/torch/channels_last.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/max_pool.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// max_pool_size(), with errors that name the operator.
inline grid_size outputs_of(grid_size map, const max_pool_params& params) {
  const pool_windows windows = check_pool_params("max_pool", map, params);
  return {windows.y.outputs, windows.x.outputs};
}

/// Throws if no window fits into the maps.
inline void check_windows(const at::Tensor& input, grid_size size) {
  check_shape(size.height > 0 && size.width > 0, "max_pool", "input", input,
              "maps that are as large as a window, with their padding");
}

/// The parameters as one list, and back.
inline std::vector<std::int64_t> listed(const max_pool_params& p) {
  return {p.window_height,   p.window_width,   p.stride_height,
          p.stride_width,    p.padding_height, p.padding_width,
          p.dilation_height, p.dilation_width, p.ceil_mode ? 1 : 0};
}
inline max_pool_params params_of_list(at::IntArrayRef list) {
  check_size("max_pool_grad", "params.size()", static_cast<index_t>(list.size()), 9,
             "the number of parameters");
  max_pool_params p;
  p.window_height = list[0];
  p.window_width = list[1];
  p.stride_height = list[2];
  p.stride_width = list[3];
  p.padding_height = list[4];
  p.padding_width = list[5];
  p.dilation_height = list[6];
  p.dilation_width = list[7];
  p.ceil_mode = list[8] != 0;
  return p;
}

namespace cpu {

/// The maxima, and their positions in the windows, which are empty unless they are wanted.
inline std::tuple<at::Tensor, at::Tensor> max_pool(const at::Tensor& input,
                                                   const max_pool_params& params,
                                                   bool has_positions) {
  constexpr const char* function = "max_pool";
  return translated([&] {
    check_dense(function, "input", input);
    check_shape(input.dim() == 4, function, "input", input, "[images, channels, height, width]");
    const at::ScalarType type = computed_type(function, "input", input);
    const bool channels_last = are_channels_last(input);
    const at::MemoryFormat format = feature_format(channels_last);
    const at::Tensor read = contiguous("input", input, type, format);
    const grid_size size = outputs_of({input.size(2), input.size(3)}, params);
    check_windows(input, size);
    const std::vector<std::int64_t> shape{input.size(0), input.size(1), size.height, size.width};
    const at::Tensor output = at::empty(shape, read.options(), format);
    const at::Tensor positions = has_positions
                                     ? at::empty(shape, read.options().dtype(at::kByte), format)
                                     : at::empty({0}, read.options().dtype(at::kByte));
    with_element(type, [&](auto element) {
      using T = decltype(element);
      const auto from = features_of<const T>(read, channels_last);
      const auto to = features_of<T>(output, channels_last);
      auto& workspace = thread_workspace<max_pool_workspace>();
      if (has_positions)
        vecdet::max_pool(from, to, features_of<std::uint8_t>(positions, channels_last), params,
                         workspace, threads());
      else
        vecdet::max_pool(from, to, params, workspace, threads());
    });
    return std::make_tuple(output.to(input.scalar_type()), positions);
  });
}

/// @param height, width of the gradient
inline at::Tensor max_pool_grad(const at::Tensor& upstream, const at::Tensor& positions,
                                std::int64_t height, std::int64_t width,
                                const max_pool_params& params, bool channels_last) {
  constexpr const char* function = "max_pool_grad";
  return translated([&] {
    check_shape(upstream.dim() == 4, function, "upstream", upstream,
                "[images, channels, height, width]");
    check_shape(positions.dim() == 4, function, "positions", positions,
                "[images, channels, height, width]");
    const at::ScalarType type = computed_type(function, "upstream", upstream);
    const at::MemoryFormat format = feature_format(channels_last);
    const at::Tensor arriving = contiguous("upstream", upstream, type, format);
    const at::Tensor bytes = contiguous("positions", positions, at::kByte, format);
    const at::Tensor grad =
        gradient_of({upstream.size(0), upstream.size(1), height, width}, type, format);
    with_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::max_pool_grad(features_of<const T>(arriving, channels_last),
                            features_of<const std::uint8_t>(bytes, channels_last),
                            features_of<T>(grad, channels_last), params,
                            thread_workspace<max_pool_workspace>(), threads());
    });
    return grad.to(upstream.scalar_type());
  });
}

inline at::Tensor max_pool_grad_of_list(const at::Tensor& upstream, const at::Tensor& positions,
                                        std::int64_t height, std::int64_t width,
                                        at::IntArrayRef params, bool channels_last) {
  return max_pool_grad(upstream, positions, height, width,
                       translated([&] { return params_of_list(params); }), channels_last);
}

}  // namespace cpu

// The same for tensors without data. Symbolic sizes become those of the example.
namespace meta {

inline std::tuple<at::Tensor, at::Tensor> max_pool(const at::Tensor& input,
                                                   const max_pool_params& params,
                                                   bool has_positions) {
  return translated([&] {
    check_shape(input.dim() == 4, "max_pool", "input", input, "[images, channels, height, width]");
    const auto side = [&](int dimension) { return known_size(input.sym_size(dimension)); };
    const grid_size size = outputs_of({side(2), side(3)}, params);
    check_windows(input, size);
    const std::vector<c10::SymInt> shape{input.sym_size(0), input.sym_size(1), size.height,
                                         size.width};
    const at::MemoryFormat format = feature_format(are_channels_last(input));
    const at::TensorOptions bytes = input.options().dtype(at::kByte);
    return std::make_tuple(
        at::empty_symint(shape, input.options(), format),
        has_positions ? at::empty_symint(shape, bytes, format) : at::empty({0}, bytes));
  });
}

inline at::Tensor max_pool_grad_of_list(const at::Tensor& upstream, const at::Tensor&,
                                        std::int64_t height, std::int64_t width, at::IntArrayRef,
                                        bool channels_last) {
  const std::vector<c10::SymInt> sizes{upstream.sym_size(0), upstream.sym_size(1), height, width};
  return at::empty_symint(sizes, upstream.options(), feature_format(channels_last));
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

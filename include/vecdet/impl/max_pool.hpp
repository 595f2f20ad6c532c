// SPDX-License-Identifier: Apache-2.0
// The functions of max_pool.hpp: checks, the profiler's scope, bands of rows.
#pragma once

#include <vecdet/args/max_pool.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/max_pool.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/max_pool/max_pool.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Throws unless the parameters of both axes are in range. The result has no channels.
inline pool_windows check_pool_params(const char* function, grid_size map,
                                      const max_pool_params& params) {
  constexpr index_t most = 0x7fffffff;
  const auto check_number = [&](const char* name, index_t value, index_t least) {
    check_member(value >= least && value <= most, function, "params", name, value,
                 least == 0 ? "0 to 2^31 - 1" : "1 to 2^31 - 1");
  };
  check_number("window_height", params.window_height, 1);
  check_number("window_width", params.window_width, 1);
  check_number("stride_height", params.stride_height, 1);
  check_number("stride_width", params.stride_width, 1);
  check_number("padding_height", params.padding_height, 0);
  check_number("padding_width", params.padding_width, 0);
  check_number("dilation_height", params.dilation_height, 1);
  check_number("dilation_width", params.dilation_width, 1);
  check_member(params.window_height <= 256 && params.window_width <= 256 &&
                   params.window_height * params.window_width <= 256,
               function, "params", "window_height * window_width",
               params.window_height * params.window_width, "at most 256 positions");
  const auto axis = [&](const char* name, index_t inputs, index_t size, index_t stride,
                        index_t padding, index_t dilation) {
    pool_axis windows{inputs, 0, size, stride, padding, dilation};
    const index_t reach = windows.reach(), half = (reach + 1) / 2;
    if (padding > half)
      check_member(false, function, "params", name, padding,
                   ("at most " + std::to_string(half) + ", half of the window's reach").c_str());
    // How far the first window can move.
    const index_t distance = inputs + 2 * padding - reach - 1;
    if (inputs == 0 || distance < 0) return windows;
    windows.outputs = distance / stride + 1;
    if (params.ceil_mode && distance % stride != 0 && windows.outputs * stride < inputs + padding)
      ++windows.outputs;
    return windows;
  };
  return {axis("padding_height", map.height, params.window_height, params.stride_height,
               params.padding_height, params.dilation_height),
          axis("padding_width", map.width, params.window_width, params.stride_width,
               params.padding_width, params.dilation_width),
          0};
}

template <class A, class B>
void check_same_maps(const char* function, const char* name, const feature_view<A>& map,
                     const char* model, const feature_view<B>& like, index_t height,
                     index_t width) {
  // Texts are made only for errors: a call allocates no memory.
  const auto check_as = [&](const char* member, index_t value, index_t expected, const char* source,
                            const char* of) {
    if (value != expected)
      check_member(false, function, name, member, value,
                   (std::to_string(expected) + source + of).c_str());
  };
  check_as("images()", map.images(), like.images(), ", as in ", model);
  check_as("channels()", map.channels(), like.channels(), ", as in ", model);
  check_as("height()", map.height(), height, ", the output's height by max_pool_size()", "");
  check_as("width()", map.width(), width, ", the output's width by max_pool_size()", "");
  const auto layout = [](bool is_nhwc) { return is_nhwc ? "nhwc" : "nchw"; };
  const bool is_nhwc = like.layout() == feature_layout::nhwc;
  if (map.layout() != like.layout())
    check_member(false, function, name, "layout()", layout(!is_nhwc),
                 (std::string(layout(is_nhwc)) + ", as in " + model).c_str());
}

/// A call whose arguments have been checked. T is the type of the maps.
template <class T>
class max_pool_call {
 public:
  max_pool_call(const char* function, pool_windows windows, index_t images, index_t channels,
                bool is_nhwc, max_pool_workspace& workspace, threading policy)
      : function_(function),
        windows_(windows),
        images_(images),
        channels_(channels),
        is_nhwc_(is_nhwc),
        scratch_(workspace_access::buffers(workspace).scratch),
        policy_(policy) {
    windows_.channels = is_nhwc ? channels : 1;
  }

  void run(const T* input, T* output, std::uint8_t* positions) {
    const auto& kernels = detail::kernels<max_pool_kernels<T>>(target_);
    const max_pool_args<T> args{windows_, input, output, positions};
    const profile::scope timing(
        [&] { return problem(positions != nullptr, windows_.y.size * windows_.x.size); });
    by_rows(
        windows_.y.outputs, windows_.x.outputs * windows_.y.size * windows_.x.size,
        [&](index_t) { return kernels.scratch_size(windows_); },
        [&](index_t image, index_t first, index_t last, compute_type<T>* scratch) {
          kernels.run(args, image, first, last, scratch);
        });
  }

  void run_grad(const T* upstream, const std::uint8_t* positions, T* grad) {
    const auto& kernels = detail::kernels<max_pool_kernels<T>>(target_);
    const max_pool_grad_args<T> args{windows_, upstream, positions, grad};
    const profile::scope timing([&] { return problem(true, 1); });
    constexpr index_t input_cost = 8;  // clearing and writing a sum, and adding to it
    by_rows(
        windows_.y.inputs, windows_.x.inputs * input_cost,
        [&](index_t rows) { return kernels.grad_scratch_size(windows_, rows); },
        [&](index_t image, index_t first, index_t last, compute_type<T>* scratch) {
          kernels.grad(args, image, first, last, scratch);
        });
  }

 private:
  /// Calls work(map, first, last, scratch) for bands of the `rows` of each map: an image in NHWC, a
  /// plane in NCHW. Neighbouring bands both read the rows at their border, so bands have at least
  /// 16 rows; on several threads, half of a thread's share is enough if that is 4 rows or more.
  /// They also have at least as many as take some ten microseconds.
  /// @param row_cost of one channel, in comparisons
  template <class Size, class Work>
  void by_rows(index_t rows, index_t row_cost, const Size& scratch_size, const Work& work) {
    const index_t maps = is_nhwc_ ? images_ : images_ * channels_;
    if (maps == 0 || rows == 0 || windows_.channels == 0) return;
    constexpr index_t least_rows = 4, enough_rows = 16, least_cost = 1 << 18;
    const index_t cost = std::max(row_cost * windows_.channels, index_t{1});
    const index_t threads = usable_threads(policy_);
    const index_t half_of_thread = (maps * rows + 2 * threads - 1) / (2 * threads);
    const index_t least =
        threads == 1 ? enough_rows : std::clamp(half_of_thread, least_rows, enough_rows);
    const chunking chunks(maps * rows, std::max(least, (least_cost + cost - 1) / cost));
    const index_t most_rows = std::min(rows, chunks.size);
    const index_t lines = lines_for<compute_type<T>>(scratch_size(most_rows));
    const auto run = [&](index_t first, index_t last, cache_line* memory) {
      while (first < last) {
        const index_t map = first / rows, begin = map * rows;
        const index_t end = std::min(last, begin + rows);
        work(map, first - begin, end - begin, reinterpret_cast<compute_type<T>*>(memory));
        first = end;
      }
    };
    for_each_chunk_with_memory(policy_, chunks, scratch_, lines, run);
  }

  /// Images x channels x height x width x the rows from one window to the next.
  /// @param operations per output: comparisons or additions
  profile::problem problem(bool has_positions, index_t operations) const {
    profile::problem p;
    p.function = function_;
    p.variant = profile::numbered_name(is_nhwc_ ? "nhwc_window" : "window",
                                       static_cast<double>(windows_.y.size));
    p.type = dtype_name<T>();
    const index_t planes = images_ * channels_;
    p.shape = {images_, channels_, windows_.y.inputs, windows_.x.inputs, windows_.y.stride};
    p.implementation = isa_name(target_);
    p.threads = policy_.threads();
    const index_t outputs = planes * windows_.y.outputs * windows_.x.outputs;
    p.bytes = (planes * windows_.y.inputs * windows_.x.inputs + outputs) * index_t{sizeof(T)} +
              (has_positions ? outputs : 0);
    p.flops = outputs * operations;
    return p;
  }

  const char* function_;
  pool_windows windows_;
  index_t images_, channels_;
  bool is_nhwc_;
  aligned_vector<cache_line>& scratch_;
  threading policy_;
  isa target_ = active_isa();
};

template <class T>
void run_max_pool(const feature_view<const T>& input, const feature_view<T>& output,
                  const feature_view<std::uint8_t>* positions, const max_pool_params& params,
                  max_pool_workspace& workspace, threading policy) {
  constexpr const char* function = "max_pool";
  const pool_windows windows = check_pool_params(function, {input.height(), input.width()}, params);
  check_same_maps(function, "output", output, "input", input, windows.y.outputs, windows.x.outputs);
  check_apart(function, "output", output, "input", input);
  if (positions != nullptr) {
    check_same_maps(function, "positions", *positions, "input", input, windows.y.outputs,
                    windows.x.outputs);
    check_apart(function, "positions", *positions, "input", input);
    check_apart(function, "positions", *positions, "output", output);
  }
  max_pool_call<T>(function, windows, input.images(), input.channels(),
                   input.layout() == feature_layout::nhwc, workspace, policy)
      .run(input.data(), output.data(), positions == nullptr ? nullptr : positions->data());
}

}  // namespace detail

inline grid_size max_pool_size(grid_size map, const max_pool_params& params) {
  constexpr const char* function = "max_pool_size";
  constexpr index_t most = 0x7fffffff;
  detail::check(map.height >= 0 && map.height <= most, function, "map.height", map.height,
                "0 to 2^31 - 1");
  detail::check(map.width >= 0 && map.width <= most, function, "map.width", map.width,
                "0 to 2^31 - 1");
  const detail::pool_windows windows = detail::check_pool_params(function, map, params);
  return {windows.y.outputs, windows.x.outputs};
}

template <class T>
void max_pool(feature_view<T> input, feature_view<value_of<T>> output,
              const max_pool_params& params, max_pool_workspace& workspace, threading policy) {
  detail::run_max_pool<value_of<T>>(input, output, nullptr, params, workspace, policy);
}
template <class T>
void max_pool(feature_view<T> input, feature_view<value_of<T>> output,
              feature_view<std::uint8_t> positions, const max_pool_params& params,
              max_pool_workspace& workspace, threading policy) {
  detail::run_max_pool<value_of<T>>(input, output, &positions, params, workspace, policy);
}

template <class T>
void max_pool_grad(feature_view<T> upstream, feature_view<const std::uint8_t> positions,
                   feature_view<value_of<T>> grad, const max_pool_params& params,
                   max_pool_workspace& workspace, threading policy) {
  constexpr const char* function = "max_pool_grad";
  const detail::pool_windows windows =
      detail::check_pool_params(function, {grad.height(), grad.width()}, params);
  detail::check_same_maps(function, "upstream", upstream, "grad", grad, windows.y.outputs,
                          windows.x.outputs);
  detail::check_same_maps(function, "positions", positions, "grad", grad, windows.y.outputs,
                          windows.x.outputs);
  detail::check_apart(function, "grad", grad, "upstream", upstream);
  detail::check_apart(function, "grad", grad, "positions", positions);
  detail::max_pool_call<value_of<T>>(function, windows, grad.images(), grad.channels(),
                                     grad.layout() == feature_layout::nhwc, workspace, policy)
      .run_grad(upstream.data(), positions.data(), grad.data());
}

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Max pooling with its gradient: the test, the fuzzer, the benchmarks and the catalogue make it
// from a shape. The maps have the layout of the shape.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/max_pool.hpp>
#include <vecdet/reference/max_pool.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet::test {

/// Makes views of the arrays.
struct max_pool_shape {
  index_t images, channels, height, width;
  max_pool_params params;
  feature_layout layout = feature_layout::nchw;
  threading policy = threading::sequential;

  std::string name() const {
    const auto text = [](index_t value) { return std::to_string(value) + " "; };
    return text(images) + text(channels) + text(height) + text(width) +
           (layout == feature_layout::nchw ? "nchw, window " : "nhwc, window ") +
           text(params.window_height) + text(params.window_width) + "stride " +
           text(params.stride_height) + text(params.stride_width) + "padding " +
           text(params.padding_height) + text(params.padding_width) + "dilation " +
           text(params.dilation_height) + text(params.dilation_width) +
           (params.ceil_mode ? "ceil" : "");
  }
  grid_size size() const { return max_pool_size({height, width}, params); }
  index_t inputs() const { return images * channels * height * width; }
  index_t outputs() const { return images * channels * size().height * size().width; }
  template <class U>
  feature_view<U> in(U* data) const {
    return {data, images, channels, height, width, layout};
  }
  template <class U>
  feature_view<U> out(U* data) const {
    return {data, images, channels, size().height, size().width, layout};
  }
};

/// Equal if all bits are.
template <class T, template <class> class Vector = in_heap>
struct max_pool_results {
  Vector<T> output, alone, grad;  ///< alone: the output without positions
  Vector<std::uint8_t> positions;

  bool operator==(const max_pool_results& other) const {
    return same_bits(output, other.output) && same_bits(alone, other.alone) &&
           same_bits(grad, other.grad) && positions == other.positions;
  }
};

template <class T, template <class> class Vector = in_heap>
struct max_pool_problem : max_pool_shape {
  using results = max_pool_results<T, Vector>;
  Vector<T> input, upstream;
  Vector<std::uint8_t> grad_positions;  ///< if empty, the gradient gets those of the output

  explicit max_pool_problem(const max_pool_shape& s) : max_pool_shape(s) {}

  /// Few different numbers, so that many are equal, with some infinities and NaN.
  void make(std::uint64_t seed) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    random_generator random(seed);
    input.resize(static_cast<std::size_t>(inputs()));
    upstream.resize(static_cast<std::size_t>(outputs()));
    for (T& x : input) {
      const index_t kind = random.below(60);
      x = kind == 0   ? to<T>(std::nan(""))
          : kind == 1 ? to<T>(infinity)
          : kind < 6  ? to<T>(-infinity)
          : kind < 10 ? to<T>(kind % 2 == 0 ? 0.0 : -0.0)
                      : to<T>(static_cast<double>(random.below(20)) - 10);
    }
    for (T& x : upstream) x = to<T>(random.normal());
  }
  results room() const {
    const Vector<T> maxima(upstream.size(), to<T>(7));
    return {maxima, maxima, Vector<T>(input.size(), to<T>(7)),
            Vector<std::uint8_t>(upstream.size(), 77)};
  }

  void forward(results& to, max_pool_workspace& workspace, threading on) const {
    max_pool(in(input.data()), out(to.output.data()), out(to.positions.data()), params, workspace,
             on);
  }
  void backward(results& to, max_pool_workspace& workspace, threading on) const {
    const auto& from = grad_positions.empty() ? to.positions : grad_positions;
    max_pool_grad(out(upstream.data()), out<const std::uint8_t>(from.data()), in(to.grad.data()),
                  params, workspace, on);
  }
  results run() const {
    results r = room();
    max_pool_workspace workspace;
    forward(r, workspace, policy);
    max_pool(in(input.data()), out(r.alone.data()), params, workspace, policy);
    backward(r, workspace, policy);
    return r;
  }

  /// Its gradients are in exact_grad().
  results exact() const {
    results r = room();
    reference::max_pool(in(input.data()), out(r.output.data()), out(r.positions.data()), params);
    r.alone = r.output;
    return r;
  }
  /// @param magnitudes whether to add the magnitudes of the upstream gradients
  std::vector<double> exact_grad(const Vector<std::uint8_t>& positions,
                                 bool magnitudes = false) const {
    std::vector<double> arriving, grad(input.size());
    for (const T& x : upstream) {
      const auto g = static_cast<double>(x);
      arriving.push_back(magnitudes ? std::abs(g) : g);
    }
    const auto& from = grad_positions.empty() ? positions : grad_positions;
    reference::max_pool_grad(out<const double>(arriving.data()),
                             out<const std::uint8_t>(from.data()), in(grad.data()), params);
    return grad;
  }
  /// The largest error of a gradient as a part of what sums of up to 25 terms may have. Sums that
  /// may overflow are passed over.
  double grad_error(const results& actual, const std::vector<double>& exact,
                    const std::vector<double>& sizes) const {
    const double unit = std::is_same<T, double>::value ? 1e-14 : 2e-6;
    const double rounding = std::is_same<T, bfloat16>::value ? 0x1p-8 : 0;
    double worst = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (!(sizes[i] < 1e30)) continue;
      const double off = std::abs(static_cast<double>(actual.grad[i]) - exact[i]);
      const double most = unit * sizes[i] + rounding * std::abs(exact[i]) + 1e-36;
      if (!(off <= most * worst)) worst = off / most;  // a NaN stays
    }
    return worst;
  }
};

}  // namespace vecdet::test

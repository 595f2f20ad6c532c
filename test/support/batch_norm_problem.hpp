// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with its gradients: the test, the fuzzer, the benchmarks and the catalogue
// make it from a shape. The maps have the layout of the shape.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/batch_norm.hpp>
#include <vecdet/reference/batch_norm.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet::test {

/// Makes views of the maps.
struct batch_norm_shape {
  index_t images, channels, height, width;
  batch_norm_activation activation = batch_norm_activation::silu;
  feature_layout layout = feature_layout::nchw;
  double epsilon = batch_norm_params().epsilon;
  threading policy = threading::sequential;

  index_t size() const { return images * channels * height * width; }
  batch_norm_params params() const {
    batch_norm_params p;
    p.activation = activation;
    p.epsilon = epsilon;
    return p;
  }
  std::string name() const {
    std::string text = layout == feature_layout::nchw ? "nchw" : "nhwc";
    for (const index_t n : {images, channels, height, width}) text += " " + std::to_string(n);
    return text + " activation " + std::to_string(static_cast<int>(activation));
  }
  template <class U>
  feature_view<U> map(U* data) const {
    return {data, images, channels, height, width, layout};
  }
};

/// Equal if all bits are.
template <class T, template <class> class Vector = in_heap>
struct batch_norm_results {
  Vector<double> statistics;
  Vector<T> output, inferred, grad;
  Vector<compute_type<T>> weight_grad, bias_grad;

  bool operator==(const batch_norm_results& other) const {
    return same_bits(statistics, other.statistics) && same_bits(output, other.output) &&
           same_bits(inferred, other.inferred) && same_bits(grad, other.grad) &&
           same_bits(weight_grad, other.weight_grad) && same_bits(bias_grad, other.bias_grad);
  }
};

template <class T, template <class> class Vector = in_heap>
struct batch_norm_problem : batch_norm_shape {
  using real = compute_type<T>;
  using results = batch_norm_results<T, Vector>;
  struct exact_results {
    std::vector<double> statistics, output, grad, weight_grad, bias_grad;
  };
  Vector<T> input, upstream;
  Vector<real> weight, bias;  ///< may be empty

  explicit batch_norm_problem(const batch_norm_shape& s) : batch_norm_shape(s) {}

  /// Calls fill(array, size) for each input.
  template <class Fill>
  void make_with(const Fill& fill, bool has_weight = true, bool has_bias = true) {
    fill(input, size());
    fill(upstream, size());
    fill(weight, has_weight ? channels : 0);
    fill(bias, has_bias ? channels : 0);
  }
  /// Channels have different means and deviations.
  /// @param mean the magnitude of the channels' means
  void make(std::uint64_t seed, double mean = 3, bool has_weight = true, bool has_bias = true) {
    random_generator random(seed);
    make_with(
        [&](auto& values, index_t count) {
          values.resize(static_cast<std::size_t>(count));
          for (auto& x : values) x = to<std::decay_t<decltype(x)>>(random.normal());
        },
        has_weight, has_bias);
    const auto inputs = map(input.data());
    for (index_t c = 0; c < channels; ++c) {
      const double center = mean * random.normal(), deviation = 0.3 + random.uniform();
      reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
        reference::feature_at(inputs, n, c, y, x) = to<T>(center + deviation * random.normal());
      });
    }
  }
  results room() const {
    const auto count = static_cast<std::size_t>(channels);
    const Vector<T> maps(input.size(), to<T>(7));
    return {Vector<double>(2 * count, 7), maps, maps, maps, Vector<real>(count, real(7)),
            Vector<real>(count, real(7))};
  }

  void forward(results& to, batch_norm_workspace& workspace, threading on) const {
    batch_norm(map(input.data()), vector_view<const real>(weight), vector_view<const real>(bias),
               map(to.output.data()), to.statistics, params(), workspace, on);
  }
  void backward(results& to, batch_norm_workspace& workspace, threading on) const {
    batch_norm_grad(map(upstream.data()), map(input.data()), vector_view<const real>(weight),
                    vector_view<const real>(bias), to.statistics, map(to.grad.data()),
                    to.weight_grad, to.bias_grad, params(), workspace, on);
  }
  results run() const {
    results r = room();
    batch_norm_workspace workspace;
    forward(r, workspace, policy);
    batch_norm_inference(map(input.data()), vector_view<const real>(weight),
                         vector_view<const real>(bias), r.statistics, map(r.inferred.data()),
                         params(), workspace, policy);
    backward(r, workspace, policy);
    return r;
  }

  exact_results exact() const {
    const auto count = static_cast<std::size_t>(channels);
    exact_results r{std::vector<double>(2 * count), std::vector<double>(input.size()),
                    std::vector<double>(input.size()), std::vector<double>(count),
                    std::vector<double>(count)};
    const auto in = map(input.data());
    const real* const gamma = weight.empty() ? nullptr : weight.data();
    const real* const beta = bias.empty() ? nullptr : bias.data();
    reference::batch_statistics(in, r.statistics.data());
    reference::batch_norm(in, gamma, beta, r.statistics.data(), map(r.output.data()), params());
    reference::batch_norm_grad(map(upstream.data()), in, gamma, beta, r.statistics.data(),
                               map(r.grad.data()), r.weight_grad.data(), r.bias_grad.data(),
                               params());
    return r;
  }
  /// Weight and bias of a channel, which are 1 and 0 if there are none.
  double gamma(std::size_t c) const { return weight.empty() ? 1 : static_cast<double>(weight[c]); }
  double beta(std::size_t c) const { return bias.empty() ? 0 : static_cast<double>(bias[c]); }
};

}  // namespace vecdet::test

// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of maps of any sizes, layouts, activations and numbers. With ordinary
// numbers, results are the reference's within the bounds. With any bits, a NaN or an infinity in
// one channel must not change the results of another. AVX2 and AVX-512 must agree.
#include "fuzz_input.hpp"
#include <vecdet/batch_norm.hpp>
#include <vecdet/reference/batch_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  using real = compute_type<T>;
  const index_t images = in.integer(1, 3);
  const index_t channels = in.one_of<index_t>({1, 3, 16, 17, 33, 0});
  const index_t height = in.integer(1, 9), width = in.one_of<index_t>({2, 5, 16, 33, 40});
  const feature_layout layout = in.flag() ? feature_layout::nchw : feature_layout::nhwc;
  const threading policy = in.flag() ? threading::parallel : threading::sequential;
  batch_norm_params params;
  params.activation = static_cast<batch_norm_activation>(in.integer(0, 2));
  params.epsilon = in.one_of<double>({1e-5, 1e-3, 1});
  const bool has_weight = in.flag(), has_bias = in.flag();
  const index_t size = images * channels * height * width;
  const auto from = in.numbers<T>(size), upstream = in.numbers<T>(size);
  const auto weight = in.numbers<real>(has_weight ? channels : 0);
  const auto bias = in.numbers<real>(has_bias ? channels : 0);
  const fuzz::tensor<T> output(size), inferred(size), grad(size);
  const fuzz::tensor<double> statistics(2 * channels);
  const fuzz::tensor<real> weight_grad(channels), bias_grad(channels);
  const auto map = [&](auto* data) {
    return feature_view<std::remove_pointer_t<decltype(data)>>(data, images, channels, height,
                                                               width, layout);
  };
  const feature_view<const T> inputs = map(from.data()), arriving = map(upstream.data());
  const vector_view<const real> weights(weight.data(), has_weight ? channels : 0),
      biases(bias.data(), has_bias ? channels : 0);
  std::vector<double> exact_statistics(static_cast<std::size_t>(2 * channels)),
      exact(static_cast<std::size_t>(size)), exact_grad(exact.size()), plain(exact.size()),
      exact_weight_grad(static_cast<std::size_t>(channels)),
      exact_bias_grad(exact_weight_grad.size());
  const real* const weight_or_null = has_weight ? weight.data() : nullptr;
  const real* const bias_or_null = has_bias ? bias.data() : nullptr;
  reference::batch_statistics(inputs, exact_statistics.data());
  reference::batch_norm(inputs, weight_or_null, bias_or_null, exact_statistics.data(),
                        map(exact.data()), params);
  batch_norm_params without_activation;
  without_activation.epsilon = params.epsilon;
  reference::batch_norm(inputs, weight_or_null, bias_or_null, exact_statistics.data(),
                        map(plain.data()), without_activation);
  reference::batch_norm_grad(arriving, inputs, weight_or_null, bias_or_null,
                             exact_statistics.data(), map(exact_grad.data()),
                             exact_weight_grad.data(), exact_bias_grad.data(), params);
  const auto count_of_channel = static_cast<double>(images * height * width);
  batch_norm_workspace workspace;
  const auto within = [](double magnitude) {
    return (std::is_same<T, bfloat16>::value ? 0x1p-7
            : std::is_same<T, float>::value  ? 0x1p-18
                                             : 1e-9) *
           magnitude;
  };
  fuzz::on_every_isa("batch norm", [&](fuzz::results& results) {
    batch_norm(inputs, weights, biases, map(output.data()),
               vector_view<double>(statistics.data(), 2 * channels), params, workspace, policy);
    batch_norm_inference(inputs, weights, biases,
                         vector_view<const double>(statistics.data(), 2 * channels),
                         map(inferred.data()), params, workspace, policy);
    batch_norm_grad(arriving, inputs, weights, biases,
                    vector_view<const double>(statistics.data(), 2 * channels), map(grad.data()),
                    vector_view<real>(weight_grad.data(), channels),
                    vector_view<real>(bias_grad.data(), channels), params, workspace, policy);
    for (index_t c = 0; c < channels; ++c) {
      const auto k = static_cast<std::size_t>(c), second = static_cast<std::size_t>(channels + c);
      const double mean = exact_statistics[k];
      const double variance = exact_statistics[second];
      const double inverse = 1 / std::sqrt(variance + params.epsilon);
      const double scale = std::abs(has_weight ? static_cast<double>(weight[k]) : 1) * inverse;
      const double shift = std::abs(has_bias ? static_cast<double>(bias[k]) : 0);
      // What the errors of the statistics, in standard deviations, do to an output.
      const double of_statistics = 1e-12 * count_of_channel * scale * std::sqrt(variance);
      // Sums of what the gradients add, with all signs positive.
      double sum = 0, weighted = 0;
      const auto at = [&](const auto& of, index_t n, index_t y, index_t x) {
        return static_cast<double>(reference::feature_at(of, n, c, y, x));
      };
      const auto distance = [&](index_t n, index_t y, index_t x) {
        return std::abs(at(inputs, n, y, x) - mean);
      };
      const auto term = [&](index_t n, index_t y, index_t x) {
        return std::abs(at(arriving, n, y, x)) * (1 + scale * distance(n, y, x) + shift);
      };
      reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
        sum += term(n, y, x);
        weighted += term(n, y, x) * distance(n, y, x) * inverse;
      });
      // Numbers of any size over- and underflow float, and the reference loses digits of the
      // variance if the mean is much larger. Those are only compared across instruction sets.
      const bool is_ordinary = std::isfinite(variance) && variance < 1e30 &&
                               std::abs(mean) * inverse < 1e5 && std::abs(mean) < 1e15 &&
                               scale < 1e15 && scale > 1e-15 && shift < 1e15 && sum < 1e15 &&
                               weighted < 1e15;
      if (!std::isfinite(mean) && !std::isnan(statistics[k])) fuzz::fail("a mean is not NaN");
      if (!is_ordinary) continue;
      fuzz::expect_near([] { return "the mean"; }, statistics[k], mean, 0,
                        1e-12 * (std::sqrt(variance) + std::abs(mean)));
      fuzz::expect_near([] { return "the variance"; }, statistics[second], variance, 0,
                        1e-9 * variance + 1e-300);
      bool has_jump = false;
      reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
        const double error =
            within(scale * distance(n, y, x) + shift + scale * std::abs(mean) * 0x1p-22) +
            of_statistics;
        fuzz::expect_near([] { return "an output"; }, at(map(output.data()), n, y, x),
                          at(map(exact.data()), n, y, x), 0, error + 1e-30);
        has_jump = has_jump || std::abs(at(map(plain.data()), n, y, x)) <= error;
      });
      // The slope of ReLU jumps at 0, and with it the means in all gradients.
      if (params.activation == batch_norm_activation::relu && has_jump) continue;
      reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
        const double size_here =
            scale * (term(n, y, x) + sum / count_of_channel +
                     distance(n, y, x) * inverse * weighted / count_of_channel);
        fuzz::expect_near([] { return "a gradient"; }, at(map(grad.data()), n, y, x),
                          at(map(exact_grad.data()), n, y, x), 0,
                          (1 + of_statistics * 1e9) * within(size_here) + 1e-25);
      });
    }
    results.add(output);
    results.add(inferred);
    results.add(grad);
    results.add(statistics);
    results.add(weight_grad);
    results.add(bias_grad);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}

// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of maps of any sizes, layouts, activations and numbers. With ordinary
// numbers, results are the reference's within the bounds. With any bits, a NaN or an infinity in
// one channel must not change the results of another. AVX2 and AVX-512 must agree.
#include "fuzz_input.hpp"
#include "support/batch_norm_problem.hpp"

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  test::batch_norm_shape shape{};
  shape.images = in.integer(1, 3);
  shape.channels = in.one_of<index_t>({1, 3, 16, 17, 33, 0});
  shape.height = in.integer(1, 9);
  shape.width = in.one_of<index_t>({2, 5, 16, 33, 40});
  shape.layout = in.flag() ? feature_layout::nchw : feature_layout::nhwc;
  shape.policy = in.flag() ? threading::parallel : threading::sequential;
  shape.activation = static_cast<batch_norm_activation>(in.integer(0, 2));
  shape.epsilon = in.one_of<double>({1e-5, 1e-3, 1});
  const bool has_weight = in.flag(), has_bias = in.flag();
  test::batch_norm_problem<T, fuzz::guarded> p(shape);
  p.make_with([&](auto& values, index_t count) { in.fill(values, count); }, has_weight, has_bias);
  auto without_activation = p;
  without_activation.activation = batch_norm_activation::none;
  const auto exact = p.exact();
  const std::vector<double> plain = without_activation.exact().output;
  const feature_view<const T> inputs = p.template map<const T>(p.input.data());
  const auto count_of_channel = static_cast<double>(p.images * p.height * p.width);
  const auto within = [](double magnitude) {
    return (std::is_same<T, bfloat16>::value ? 0x1p-7
            : std::is_same<T, float>::value  ? 0x1p-18
                                             : 1e-9) *
           magnitude;
  };
  fuzz::on_every_isa("batch norm", [&](fuzz::results& results) {
    const auto found = p.run();
    for (index_t c = 0; c < p.channels; ++c) {
      const auto k = static_cast<std::size_t>(c), second = static_cast<std::size_t>(p.channels + c);
      const double mean = exact.statistics[k];
      const double variance = exact.statistics[second];
      const double inverse = 1 / std::sqrt(variance + p.epsilon);
      const double scale = std::abs(p.gamma(k)) * inverse;
      const double shift = std::abs(p.beta(k));
      // What the errors of the statistics, in standard deviations, do to an output.
      const double of_statistics = 1e-12 * count_of_channel * scale * std::sqrt(variance);
      // Sums of what the gradients add, with all signs positive.
      double sum = 0, weighted = 0;
      const auto at = [&](const auto& of, index_t n, index_t y, index_t x) {
        return static_cast<double>(reference::feature_at(p.map(of.data()), n, c, y, x));
      };
      const auto distance = [&](index_t n, index_t y, index_t x) {
        return std::abs(at(p.input, n, y, x) - mean);
      };
      const auto term = [&](index_t n, index_t y, index_t x) {
        return std::abs(at(p.upstream, n, y, x)) * (1 + scale * distance(n, y, x) + shift);
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
      if (!std::isfinite(mean) && !std::isnan(found.statistics[k])) fuzz::fail("a mean is not NaN");
      if (!is_ordinary) continue;
      fuzz::expect_near([] { return "the mean"; }, found.statistics[k], mean, 0,
                        1e-12 * (std::sqrt(variance) + std::abs(mean)));
      fuzz::expect_near([] { return "the variance"; }, found.statistics[second], variance, 0,
                        1e-9 * variance + 1e-300);
      bool has_jump = false;
      reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
        const double error =
            within(scale * distance(n, y, x) + shift + scale * std::abs(mean) * 0x1p-22) +
            of_statistics;
        fuzz::expect_near([] { return "an output"; }, at(found.output, n, y, x),
                          at(exact.output, n, y, x), 0, error + 1e-30);
        has_jump = has_jump || std::abs(at(plain, n, y, x)) <= error;
      });
      // The slope of ReLU jumps at 0, and with it the means in all gradients.
      if (p.activation == batch_norm_activation::relu && has_jump) continue;
      reference::for_each_location(inputs, [&](index_t n, index_t y, index_t x) {
        const double size_here =
            scale * (term(n, y, x) + sum / count_of_channel +
                     distance(n, y, x) * inverse * weighted / count_of_channel);
        fuzz::expect_near([] { return "a gradient"; }, at(found.grad, n, y, x),
                          at(exact.grad, n, y, x), 0,
                          (1 + of_statistics * 1e9) * within(size_here) + 1e-25);
      });
    }
    results.add(found.output);
    results.add(found.inferred);
    results.add(found.grad);
    results.add(found.statistics);
    results.add(found.weight_grad);
    results.add(found.bias_grad);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}

// SPDX-License-Identifier: Apache-2.0
// Deformable attention of any points, weights and values on levels of any shape, forward and
// backward, against the reference.
#include "fuzz_input.hpp"
#include <vecdet/deformable_attention.hpp>
#include <vecdet/reference/deformable_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  using real = compute_type<T>;
  std::vector<attention_level> levels;
  for (index_t l = in.integer(0, 3); l > 0; --l)
    levels.push_back(
        {in.integer(0, 6), in.one_of<index_t>({5, 1, 8, 0}), in.one_of<index_t>({4, 1, 2, 0, 17})});
  attention_shape shape;
  shape.images = in.integer(0, 2);
  shape.queries = in.one_of<index_t>({3, 1, 70, 0});
  shape.heads = in.one_of<index_t>({2, 1, 3});
  shape.channels = in.one_of<index_t>({32, 1, 16, 19, 33});
  shape.levels = levels;
  const index_t outputs = shape.images * shape.queries * shape.heads;
  const index_t point_count = outputs * shape.points();
  std::vector<real> coordinates;
  for (index_t i = 0; i < 2 * point_count; ++i)
    coordinates.push_back(in.byte() < 24 ? in.number<real>()
                                         : static_cast<real>(in.tame(-0.25, 1.25)));
  const fuzz::tensor<real> points(coordinates);
  const auto weights = in.numbers<real>(point_count);
  const auto value = in.numbers<T>(shape.images * shape.locations() * shape.heads * shape.channels);
  const auto upstream = in.numbers<T>(outputs * shape.channels);
  const fuzz::tensor<T> out(upstream.size()), value_grad(value.size());
  const fuzz::tensor<real> point_grad(points.size()), weight_grad(weights.size());
  const int threads = in.one_of({1, 2, 9});

  const auto view = [](const auto& numbers) {
    using number = std::remove_reference_t<decltype(numbers[0])>;
    return vector_view<const std::remove_const_t<number>>(numbers.data(), numbers.size());
  };
  const auto zeros = [](const auto& like) {
    return std::vector<double>(static_cast<std::size_t>(like.size()));
  };
  std::vector<double> exact = zeros(out), size = exact;
  std::vector<double> by_value = zeros(value), by_value_size = by_value;
  std::vector<double> by_points = zeros(points), by_points_size = by_points;
  std::vector<double> by_weights = zeros(weights), by_weights_size = by_weights;
  for (const bool magnitudes : {false, true}) {
    reference::deformable_attention(shape, view(value), view(points), view(weights),
                                    vector_view<double>(magnitudes ? size : exact), magnitudes);
    reference::deformable_attention_grad(
        shape, view(upstream), view(value), view(points), view(weights),
        vector_view<double>(magnitudes ? by_value_size : by_value),
        vector_view<double>(magnitudes ? by_points_size : by_points),
        vector_view<double>(magnitudes ? by_weights_size : by_weights), magnitudes);
  }

  // Sums near the end of float's range may overflow.
  const double most = 1e30;
  // Weights of corners may underflow before a large number multiplies them. A query has at most 18
  // points with four corners each, and an image has at most 70 queries.
  const auto largest = [](const auto& numbers) {
    double found = 0;
    for (index_t i = 0; i < numbers.size(); ++i) {
      const double x = std::fabs(static_cast<double>(numbers.data()[i]));
      if (std::isfinite(x)) found = std::max(found, x);
    }
    return found;
  };
  const double underflow = 70 * 18 * 4 * 0x1p-149;
  const double of_values = underflow * largest(value), of_upstream = underflow * largest(upstream);
  const double of_products = of_values * largest(upstream) * 33 * 17;
  // Products of some factors may overflow although another factor is 0: 0 times infinity is NaN.
  const bool may_overflow =
      std::max(largest(value), 1.0) * std::max(largest(upstream), 1.0) * 33 > most ||
      largest(weights) > most;
  const auto check = [&](const char* what, const auto& actual, const std::vector<double>& expected,
                         const std::vector<double>& sum, double lost) {
    using number = std::remove_cv_t<std::remove_reference_t<decltype(actual[0])>>;
    const double within = std::is_same<number, double>::value  ? 1e-9
                          : std::is_same<number, float>::value ? 4e-5
                                                               : 0x1p-7;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!(sum[i] < most)) continue;
      if (may_overflow && !std::isfinite(static_cast<double>(actual[i]))) continue;
      fuzz::expect_near([&] { return what; }, static_cast<double>(actual[i]), expected[i], 0,
                        within * sum[i] + 1e-34 + lost);
    }
  };
  deformable_attention_workspace workspace;
  const auto loop = [](index_t count, const task& work) {
    for (index_t i = count; i-- > 0;) work(i);
  };
  const threading policy = threading::on(loop, threads);
  fuzz::on_every_isa("deformable attention", [&](fuzz::results& results) {
    deformable_attention(view(value), view(points), view(weights),
                         vector_view<T>(out.data(), out.size()), shape, workspace, policy);
    check("deformable attention", out, exact, size, of_values);
    results.add(out);
    deformable_attention_grads<T> grads;
    grads.value = vector_view<T>(value_grad.data(), value_grad.size());
    grads.points = vector_view<real>(point_grad.data(), point_grad.size());
    grads.weights = vector_view<real>(weight_grad.data(), weight_grad.size());
    deformable_attention_grad(view(upstream), view(value), view(points), view(weights), grads,
                              shape, workspace, policy);
    check("the gradient with respect to the value", value_grad, by_value, by_value_size,
          of_upstream);
    check("the gradient with respect to points", point_grad, by_points, by_points_size,
          of_products);
    check("the gradient with respect to weights", weight_grad, by_weights, by_weights_size,
          of_products);
    results.add(value_grad);
    results.add(point_grad);
    results.add(weight_grad);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}

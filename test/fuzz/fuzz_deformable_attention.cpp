// SPDX-License-Identifier: Apache-2.0
// Deformable attention of any points, weights and values on levels of any shape, forward and
// backward, against the reference.
#include "fuzz_input.hpp"
#include "support/attention_problem.hpp"
#include "support/loops.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  using real = compute_type<T>;
  test::attention_problem<T, fuzz::guarded> p;
  p.levels.clear();
  for (index_t l = in.integer(0, 3); l > 0; --l)
    p.levels.push_back(
        {in.integer(0, 6), in.one_of<index_t>({5, 1, 8, 0}), in.one_of<index_t>({4, 1, 2, 0, 17})});
  p.images = in.integer(0, 2);
  p.queries = in.one_of<index_t>({3, 1, 70, 0});
  p.heads = in.one_of<index_t>({2, 1, 3});
  p.channels = in.one_of<index_t>({32, 1, 16, 19, 33});
  p.points = fuzz::guarded<real>(static_cast<std::size_t>(2 * p.point_count()));
  for (real& x : p.points)
    x = in.byte() < 24 ? in.number<real>() : static_cast<real>(in.tame(-0.25, 1.25));
  in.fill(p.weights, p.point_count());
  in.fill(p.value, p.images * p.shape().locations() * p.heads * p.channels);
  in.fill(p.upstream, p.images * p.queries * p.heads * p.channels);
  p.policy = threading::on(test::backwards, in.one_of({1, 2, 9}));
  const auto exact = p.exact(), size = p.exact(true);
  const auto grads = p.exact_grads(), grad_size = p.exact_grads(true);

  // Sums near the end of float's range may overflow.
  const double most = 1e30;
  // Weights of corners may underflow before a large number multiplies them. A query has at most 18
  // points with four corners each, and an image has at most 70 queries.
  const auto largest = [](const auto& numbers) {
    double found = 0;
    for (const auto& number : numbers) {
      const double x = std::fabs(static_cast<double>(number));
      if (std::isfinite(x)) found = std::max(found, x);
    }
    return found;
  };
  const double underflow = 70 * 18 * 4 * 0x1p-149;
  const double of_values = underflow * largest(p.value),
               of_upstream = underflow * largest(p.upstream);
  const double of_products = of_values * largest(p.upstream) * 33 * 17;
  // Products of some factors may overflow although another factor is 0: 0 times infinity is NaN.
  const bool may_overflow =
      std::max(largest(p.value), 1.0) * std::max(largest(p.upstream), 1.0) * 33 > most ||
      largest(p.weights) > most;
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
  fuzz::on_every_isa("deformable attention", [&](fuzz::results& results) {
    const auto out = p.forward(workspace);
    check("deformable attention", out, exact, size, of_values);
    const auto found = p.backward(workspace);
    check("the gradient with respect to the value", found.value, grads.value, grad_size.value,
          of_upstream);
    check("the gradient with respect to points", found.points, grads.points, grad_size.points,
          of_products);
    check("the gradient with respect to weights", found.weights, grads.weights, grad_size.weights,
          of_products);
    results.add(out);
    results.add(found.value);
    results.add(found.points);
    results.add(found.weights);
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}

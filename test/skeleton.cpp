// SPDX-License-Identifier: Apache-2.0
// A new function from the formula to its test, in one file: half the squared error of N numbers,
// and its gradient. CONTRIBUTING.md, "A new function", says into which file of a family each part
// goes.
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

// include/vecdet/args/X.hpp: the arguments of a call, and what the kernels provide. Only pointers
// and numbers: the host's code and the kernels are compiled with different flags.
namespace vecdet {
namespace detail {
template <class T>
struct squared_error_args {
  const T *predictions, *targets;
  T* grad;
};
template <class T>
struct squared_error_kernels {
  double (*run)(const squared_error_args<T>&, index_t first, index_t last);
};
}  // namespace detail

// include/vecdet/kernels/X/X.hpp: an equation on packs. A row has 16 numbers on every instruction
// set, and lane_sums adds them in one order, so the results are the same bit for bit.
namespace VECDET_TARGET {
template <class T>
double squared_error(const detail::squared_error_args<T>& a, index_t first, index_t last) {
  using row = row_pack<compute_type<T>>;  // of float for bfloat16, else of T
  constexpr int N = row::batches;
  lane_sums sums;
  const auto run_row = [&](const T* x, const T* t, T* grad) VECDET_INLINE_LAMBDA {
    const row d = load_pack<N>(x) - load_pack<N>(t);
    store_pack<N>(grad, d);
    sums.add(row(compute_type<T>(0.5)) * d * d);
  };
  index_t i = first;
  for (; i + row_lanes <= last; i += row_lanes)
    run_row(a.predictions + i, a.targets + i, a.grad + i);
  if (i < last) {  // the last row is padded with zeros, never read or written past the end
    T x[row_lanes] = {}, t[row_lanes] = {}, grad[row_lanes];
    for (index_t k = i; k < last; ++k) x[k - i] = a.predictions[k], t[k - i] = a.targets[k];
    run_row(x, t, grad);
    for (index_t k = i; k < last; ++k) a.grad[k] = grad[k - i];
  }
  return sums.total();
}
template <class T>
struct kernels_of<detail::squared_error_kernels<T>> {
  static constexpr detail::squared_error_kernels<T> get() { return {squared_error<T>}; }
};
}  // namespace VECDET_TARGET
}  // namespace vecdet
VECDET_KERNELS_OF_ALL_TYPES(squared_error_kernels)

// include/vecdet/X.hpp declares it, and include/vecdet/impl/X.hpp has the body: check everything,
// open a scope of the profiler, divide into chunks.
template <class T>
double squared_error_and_grad(vecdet::vector_view<const T> predictions,
                              vecdet::vector_view<const T> targets, vecdet::vector_view<T> grad,
                              vecdet::threading policy = vecdet::threading::parallel) {
  using namespace vecdet;
  constexpr const char* function = "squared_error_and_grad";
  const index_t count = predictions.size();
  detail::check_size(function, "targets.size()", targets.size(), count, "that of predictions");
  detail::check_size(function, "grad.size()", grad.size(), count, "that of predictions");
  if (count == 0) return 0;
  const isa target = active_isa();
  const index_t bytes = 3 * count * index_t{sizeof(T)}, operations = 4 * count;
  const profile::scope timing([&] {
    return profile::problem{function,         "",    dtype_name<T>(), {count}, isa_name(target),
                            policy.threads(), bytes, operations};
  });
  const detail::squared_error_args<T> args{predictions.data(), targets.data(), grad.data()};
  const auto& kernels = detail::kernels<detail::squared_error_kernels<T>>(target);
  const detail::chunking chunks(count, 4096, 16);  // whole rows, about 10 us each
  return detail::sum_over_chunks(
      policy, chunks, [&](index_t first, index_t last) { return kernels.run(args, first, last); });
}

// test/test_X.cpp: against the reference, the formula in double, at every length around a row.
int main() {
  bool is_right = true;
  for (const int count : {0, 1, 15, 16, 17, 10001}) {
    std::vector<float> x, t, grad(static_cast<std::size_t>(count));
    double expected = 0, error = 0;
    for (int i = 0; i < count; ++i) {
      x.push_back(static_cast<float>(std::sin(i))),
          t.push_back(static_cast<float>(std::cos(3 * i)));
      expected += 0.5 * std::pow(double{x.back()} - t.back(), 2);
    }
    const double sum = squared_error_and_grad<float>(x, t, grad);
    for (std::size_t i = 0; i < x.size(); ++i)
      error = std::max(error, std::fabs(grad[i] - (double{x[i]} - t[i])));
    std::printf("%d numbers: %.9g, expected %.9g; gradient within %.2g\n", count, sum, expected,
                error);
    is_right = is_right && std::fabs(sum - expected) <= 1e-7 * expected && error <= 0x1p-23;
  }
  return !is_right;
}

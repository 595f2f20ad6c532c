// SPDX-License-Identifier: Apache-2.0
// The kernels of query_matching.hpp.
#pragma once

#include <vecdet/args/query_matching.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/query_matching/assignment.hpp>
#include <vecdet/kernels/query_matching/costs.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
struct kernels_of<detail::query_cost_kernels<T>> {
  static constexpr detail::query_cost_kernels<T> get() {
    detail::query_cost_kernels<T> kernels{};
    kernels.compute = query_costs<T>;
    return kernels;
  }
};

template <class T>
struct kernels_of<detail::assignment_kernels<T>> {
  static constexpr detail::assignment_kernels<T> get() {
    detail::assignment_kernels<T> kernels{};
    kernels.assign = assign_rows<T>;
    kernels.copy = copy_costs<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(query_cost_kernels<float>)
VECDET_KERNELS(query_cost_kernels<bfloat16>)
VECDET_KERNELS(assignment_kernels<float>)
VECDET_KERNELS(assignment_kernels<double>)

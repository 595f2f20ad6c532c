// SPDX-License-Identifier: Apache-2.0
// How losses scale their sums.
#pragma once

#include <vecdet/detail/check.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// scale * sum, where a scale of 0 wins over an infinite sum.
inline double scaled(double scale, double sum) {
  return is_equal(scale, 0) && !is_nan(sum) ? 0 : scale * sum;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

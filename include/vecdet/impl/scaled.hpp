// SPDX-License-Identifier: Apache-2.0
// The scaling of losses' sums.
#pragma once

#include <vecdet/detail/check.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// scale * sum, but 0 if the scale is 0, even if the sum is infinite.
inline double scaled(double scale, double sum) {
  return is_equal(scale, 0) && !is_nan(sum) ? 0 : scale * sum;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Sums of many terms and products with weights, used by all references.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// a * b, but 0 * infinity is 0, which is the limit in all cases here.
inline double vanishing_product(double a, double b) {
  return (a == 0 && !std::isnan(b)) || (b == 0 && !std::isnan(a)) ? 0 : a * b;
}

/// Neumaier's compensated sum: the error does not grow with the number of terms. Infinities and NaN
/// propagate as in a plain sum.
class compensated_sum {
 public:
  void add(double term) {
    const double sum = sum_ + term;
    lost_ += std::abs(sum_) >= std::abs(term) ? (sum_ - sum) + term : (term - sum) + sum_;
    sum_ = sum;
  }
  double value() const { return std::isfinite(sum_) ? sum_ + lost_ : sum_; }

 private:
  double sum_ = 0;
  double lost_ = 0;
};

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

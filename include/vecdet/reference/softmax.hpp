// SPDX-License-Identifier: Apache-2.0
// The logarithm of the softmax of a row in plain scalar double.
#pragma once

#include <vecdet/views.hpp>

#include <cmath>
#include <limits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// log(softmax(x)_c) = (x_c - greatest) - log_sum. All are NaN if an x is NaN or +infinity, or if
/// all x are -infinity.
class log_softmax {
 public:
  explicit log_softmax(vector_view<const float> x) : x_(x) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    greatest_ = -infinity;
    for (const float number : x) greatest_ = std::fmax(greatest_, static_cast<double>(number));
    double sum = 0;
    for (const float number : x) sum += std::exp(static_cast<double>(number) - greatest_);
    log_sum_ = std::log(sum);
  }
  double operator[](index_t c) const {
    return std::isnan(log_sum_) ? log_sum_ : (static_cast<double>(x_[c]) - greatest_) - log_sum_;
  }

 private:
  vector_view<const float> x_;
  double greatest_, log_sum_;
};

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// A matrix of quantised numbers: 8-bit integers q, with one scale and zero point.
//
//   number = (q - zero_point) * scale        in float, as in ONNX's DequantizeLinear
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// A non-owning view of rows x cols integers with their scale and zero point. T is std::int8_t or
/// std::uint8_t. There is no default for the scale, because integers without one mean nothing.
/// Throws std::invalid_argument if the scale, rounded to float, is not from 2^-126 to 2^120, so
/// that all numbers are normal floats or 0, or if the zero point is not a value of T.
template <class T>
class quantised_matrix {
  static_assert(std::is_same<T, std::int8_t>::value || std::is_same<T, std::uint8_t>::value,
                "quantised numbers are std::int8_t or std::uint8_t");

 public:
  /// The scale must be a floating-point number and the zero point an integer other than bool, so
  /// that they cannot be exchanged.
  template <class Scale, class ZeroPoint,
            std::enable_if_t<std::is_floating_point<Scale>::value, int> = 0,
            detail::require_sizes<ZeroPoint> = 0,
            std::enable_if_t<!std::is_same<ZeroPoint, bool>::value, int> = 0>
  quantised_matrix(const matrix_view<const T>& stored, Scale scale, ZeroPoint zero_point)
      : stored_(stored),
        scale_(detail::rounded(static_cast<float>(scale))),
        zero_point_(static_cast<int>(zero_point)) {
    constexpr index_t least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    detail::check(detail::is_within(static_cast<double>(scale_), 0x1p-126, 0x1p120),
                  "quantised_matrix", "scale", static_cast<double>(scale),
                  "a positive number from 2^-126 to 2^120");
    // A great unsigned number would be negative as index_t. The plus prints characters as numbers.
    const auto zero = static_cast<index_t>(zero_point);
    const bool is_exact = zero >= 0 || std::is_signed<ZeroPoint>::value;
    detail::check(is_exact && zero >= least && zero <= most, "quantised_matrix", "zero_point",
                  +zero_point,
                  least < 0 ? "-128 to 127, because the numbers are int8"
                            : "0 to 255, because the numbers are uint8");
  }

  const matrix_view<const T>& stored() const noexcept { return stored_; }
  float scale() const noexcept { return scale_; }
  int zero_point() const noexcept { return zero_point_; }

  index_t rows() const noexcept { return stored_.rows(); }
  index_t cols() const noexcept { return stored_.cols(); }
  index_t size() const noexcept { return stored_.size(); }
  bool empty() const noexcept { return stored_.empty(); }
  /// The number that an integer stands for.
  float number(int q) const noexcept {
    return detail::rounded(static_cast<float>(q - zero_point_) * scale_);
  }
  float operator()(index_t i, index_t j) const noexcept { return number(stored_(i, j)); }

 private:
  matrix_view<const T> stored_;
  float scale_;
  int zero_point_;
};

template <class T, class Scale, class ZeroPoint>
quantised_matrix(const matrix_view<T>&, Scale, ZeroPoint) -> quantised_matrix<value_of<T>>;

}  // namespace VECDET_ABI
}  // namespace vecdet

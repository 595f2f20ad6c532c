// SPDX-License-Identifier: Apache-2.0
// Shared by tests of box kernels: outputs between marks that must survive, and comparisons.
#pragma once

#include "ulp.hpp"
#include "values.hpp"
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <bench/support/planes.hpp>
#include <doctest/doctest.h>

namespace vecdet::test {

/// `size` elements that start `offset` elements after an aligned address, with marks around them.
template <class T>
class marked {
 public:
  explicit marked(index_t size, index_t offset = 0)
      : size_(size),
        offset_(offset),
        memory_(static_cast<std::size_t>(offset + size + 65), mark_) {}
  marked(const std::vector<T>& values, index_t offset)
      : marked(static_cast<index_t>(values.size()), offset) {
    std::copy(values.begin(), values.end(), data());
  }

  T* data() { return memory_.data() + offset_; }
  const T* data() const { return memory_.data() + offset_; }
  index_t size() const { return size_; }
  T operator[](index_t i) const { return data()[i]; }
  boxes_view<T> boxes() { return {data(), size_ / 4}; }
  boxes_view<const T> boxes() const { return {data(), size_ / 4}; }
  vector_view<T> each() { return {data(), size_}; }
  /// The same memory as four arrays, one per coordinate.
  boxes_soa_view<T> planes() {
    const index_t n = size_ / 4;
    return {data(), data() + n, data() + 2 * n, data() + 3 * n, n};
  }

  bool marks_untouched() const {
    for (index_t i = 0; i < static_cast<index_t>(memory_.size()); ++i)
      if ((i < offset_ || i >= offset_ + size_) && !is_mark(i)) return false;
    return true;
  }
  /// Whether all memory is the same, that around the elements too.
  bool operator==(const marked& other) const { return same_bits(memory_, other.memory_); }

 private:
  bool is_mark(index_t i) const {
    return std::memcmp(&memory_[static_cast<std::size_t>(i)], &mark_, sizeof(T)) == 0;
  }

  T mark_ = to<T>(-12345);
  index_t size_, offset_;
  std::vector<T> memory_;
};

using bench::as_planes;

/// Whether the error of `actual` is at most `ulp` ulp. The unit is that of `scale` if it is larger
/// than `exact`: pass the largest of the numbers that cancel in `exact`. In double, 64 times as
/// much is allowed, because the reference is no better. A bfloat16 must be the rounding of such a
/// float.
inline bool is_close(float actual, double exact, double ulp, double scale = 0) {
  if (ulp_distance(actual, exact) <= ulp) return true;
  return std::abs(static_cast<double>(actual) - exact) <= ulp * ulp_of<float>(scale);
}
inline bool is_close(double actual, double exact, double ulp, double scale = 0) {
  if (ulp_distance(actual, exact) <= 64 * ulp) return true;
  return std::abs(actual - exact) <= 64 * ulp * ulp_of<double>(scale);
}
inline bool is_close(bfloat16 actual, double exact, double ulp, double scale = 0) {
  if (!std::isfinite(exact)) return ulp_distance(actual, exact) == 0;
  const double slack = ulp * ulp_of<float>(std::max(std::abs(exact), std::abs(scale)));
  const float low = bfloat16(static_cast<float>(exact - slack));
  const float high = bfloat16(static_cast<float>(exact + slack));
  return low <= static_cast<float>(actual) && static_cast<float>(actual) <= high;
}

/// Compares a softmax's loss or gradient, to within the size of what cancels in it.
inline void check_number(float actual, double exact, double scale) {
  // The difference of two logits may overflow.
  if (std::isinf(actual) && std::abs(exact) > 3.4e38) return;
  if (std::isnan(exact) || std::isinf(exact)) {
    CHECK(((std::isnan(actual) && std::isnan(exact)) || static_cast<double>(actual) == exact));
    return;
  }
  if (!(std::abs(static_cast<double>(actual) - exact) <= 4e-7 * (std::abs(exact) + scale) + 1e-36))
    FAIL_CHECK("is " << actual << ", exact " << exact);
}

/// The allowed relative error of a loss and of a sum of losses, by the type of the computation.
template <class T>
constexpr double loss_within = std::is_same<T, double>::value ? 1e-12 : 1e-6;

/// Whether a loss times `factor` is within this error. A bfloat16 must be the rounding of such a
/// float.
template <class T>
bool is_close_loss(T actual, double exact, double factor) {
  const double slack = loss_within<T> * std::abs(factor);
  if (!std::is_same<T, bfloat16>::value)
    return std::abs(static_cast<double>(actual) - exact) <= slack;
  const T low = to<T>(exact - slack), high = to<T>(exact + slack);
  return static_cast<double>(low) <= static_cast<double>(actual) &&
         static_cast<double>(actual) <= static_cast<double>(high);
}

/// Checks weights that are infinite or 0, and products beyond float's range: 0 times infinity is 0,
/// whether the weight or the loss is 0; only NaN gives NaN; and no box affects another.
/// results(first, weights, scale) returns the losses or gradients of the boxes from `first` on, one
/// per weight, `width` numbers per box.
template <class T, class Results>
void check_special_weights(index_t boxes, index_t width, const Results& results) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const auto is_nan = [](T x) { return std::isnan(static_cast<double>(x)); };
  const std::vector<T> unweighted =
      results(0, std::vector<float>(static_cast<std::size_t>(boxes), 1.0f), 1.0);
  for (const double scale : {1.0, -1.0, 0.0, 3e38}) {
    for (int shift = 0; shift < 3; ++shift) {
      const float kinds[] = {1, inf, 0, -inf, 3e38f, 1, 1e-42f, 0.7f, 0x1p-63f, 0x1.fffffep64f};
      std::vector<float> weights;
      for (index_t i = 0; i < boxes; ++i) weights.push_back(kinds[(i / 2 + shift) % 10]);
      const std::vector<T> together = results(0, weights, scale);
      for (index_t k = 0; k < boxes * width; ++k) {
        const index_t box = k / width;
        const float weight = weights[static_cast<std::size_t>(box)];
        const std::vector<T> alone = results(box, std::vector<float>{weight}, scale);
        const auto one = static_cast<double>(unweighted[static_cast<std::size_t>(k)]);
        const T actual = together[static_cast<std::size_t>(k)];
        const T same = alone[static_cast<std::size_t>(k % width)];
        INFO("number ", k % width, " of box ", box, ", ", one, " with weight 1, is ",
             static_cast<double>(actual), " with weight ", weight, " and scale ", scale,
             " and alone ", static_cast<double>(same));
        REQUIRE(is_nan(actual) == std::isnan(one));
        REQUIRE((std::memcmp(&actual, &same, sizeof(T)) == 0 || (is_nan(actual) && is_nan(same))));
        if (std::isnan(one)) continue;
        const auto value = static_cast<double>(actual);
        if (one == 0 || weight == 0 || scale == 0) {
          REQUIRE(value == 0);
        } else if (std::isinf(weight)) {
          REQUIRE(value == one * static_cast<double>(weight) * scale);
        }
      }
    }
  }
}

}  // namespace vecdet::test

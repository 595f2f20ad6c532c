// SPDX-License-Identifier: Apache-2.0
// Distances in the weights of 3x3 convolutions.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Distances between neighbouring output channels, input channels and taps, in elements.
struct conv3x3_steps {
  index_t output, input, tap;
};

template <class T>
conv3x3_steps conv3x3_steps_of(const feature_view<T>& weights) noexcept {
  const index_t inputs = weights.channels();
  if (weights.layout() == feature_layout::nhwc) return {9 * inputs, 1, inputs};
  return {9 * inputs, 9, 1};
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

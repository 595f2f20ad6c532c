// SPDX-License-Identifier: Apache-2.0
// The documented bounds of the errors of 3x3 convolution in float, as factors of M (conv3x3.hpp).
#pragma once

#include <vecdet/conv3x3_tile.hpp>
#include <vecdet/views.hpp>

namespace vecdet::test {

/// Of an output, or of the gradient of the input, for a sum over `channels`.
inline double conv3x3_error_bound(conv3x3_tile tile, index_t channels) {
  const auto terms = static_cast<double>(channels);
  return (tile == conv3x3_tile::f4x4 ? 440 * (terms + 18) : 33 * (terms + 9)) * 0x1p-23;
}

/// Of the gradient of the weights, for a sum over `tiles`.
inline double conv3x3_weight_grad_error_bound(conv3x3_tile tile, index_t tiles) {
  const auto terms = static_cast<double>(tiles);
  return (tile == conv3x3_tile::f4x4 ? 630 * (terms + 19) : 19 * (terms + 8)) * 0x1p-23;
}

}  // namespace vecdet::test

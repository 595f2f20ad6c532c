// SPDX-License-Identifier: Apache-2.0
// Which recorded operators vecdet.torch computes because it is faster than PyTorch. docs/pytorch.md
// has the measurements. Tests compare these rules and those of the Python package with one table,
// test/data/torch_rules.txt.
#pragma once

#include <vecdet/profile.hpp>

#include <cstdint>

namespace vecdet::profile {

/// A 3x3 convolution of float maps with padding 1 and without dilation.
struct conv_layer {
  std::int64_t inputs, outputs;  ///< channels of all groups
  std::int64_t groups, stride;
  bool is_channels_last;
  double locations;  ///< of the output, in all images; traces may have any sizes
};

/// Whether conv3x3() can compute it. conv3x3_is_faster() says for which sizes it does.
inline bool is_for_conv3x3(const conv_layer& c) { return c.groups == 1 && c.stride == 1; }

/// Whether grouped_conv3x3() can compute it, and is faster than PyTorch: the rule of
/// _is_grouped_faster() in python/vecdet/torch/_convolutions.py.
inline bool is_for_grouped_conv3x3(const conv_layer& c) {
  if (c.groups < 1 || c.stride < 1 || c.stride > 2 || is_for_conv3x3(c)) return false;
  if (c.inputs % c.groups != 0 || c.outputs % c.groups != 0) return false;
  const std::int64_t inputs = c.inputs / c.groups, outputs = c.outputs / c.groups;
  if (c.groups == 1) {
    if (inputs < 32) return false;
    if (outputs >= 16 && c.locations >= 640) return true;
    return outputs <= 256 && (inputs <= 64 || (inputs <= 128 && c.locations >= 400));
  }
  if (inputs == 4 || inputs == 8) return outputs == inputs;
  return (inputs == 16 || inputs == 32) && outputs % 16 == 0 &&
         (c.stride == 2 || c.is_channels_last);
}

/// Whether batch_norm(), followed by ReLU or SiLU, is faster than PyTorch's in training: the rule
/// of _is_faster() in python/vecdet/torch/_normalization.py.
inline bool is_for_batch_norm(std::int64_t numbers, std::int64_t channels, bool is_channels_last,
                              bool is_f32, bool is_silu) {
  if (is_channels_last && channels < 16) return false;
  const bool is_fast = !is_channels_last && is_f32;
  return numbers >= std::int64_t{1} << (is_fast ? 18 : is_silu ? 20 : 21);
}

}  // namespace vecdet::profile

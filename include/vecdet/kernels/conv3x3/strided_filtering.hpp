// SPDX-License-Identifier: Apache-2.0
// Minimal filtering for 3x3 convolutions with stride 2, in tiles of 4 x 4 outputs.
//
// Along one axis, output y reads inputs 2 y - 1, 2 y and 2 y + 1 with weights w0, w1 and w2. Odd
// inputs are thus filtered with two taps, w0 and w2, for which F(4, 2) takes five multiplications
// per four outputs. Its points are 0, 1, -1, 2 and infinity. Even inputs have one tap, w1, which
// takes four multiplications. Their products are added to those of the odd inputs before the
// output's transform. That transform's columns for the points 0, 1, -1 and infinity are an
// invertible matrix, whose inverse transforms the even inputs. Both axes take 81 multiplications
// per tile and pair of channels, where a direct convolution takes 144.
//
// In the gradient of the input, even and odd locations both read the transformed upstream gradient.
// The gradients of four even locations follow from the points 0, 1, -1 and 2.
//
// For the points and matrices see minimal_filtering.hpp. Every entry of A and B is exact in float,
// except for the sixths in the gradient of the input.
#pragma once

#include <vecdet/kernels/conv3x3/minimal_filtering.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// G for the odd numbers, and a row for the even ones.
struct strided_weights {
  static constexpr float at[6][3] = {
      {1, 0, 0}, {-0.5f, 0, -0.5f}, {-1.0f / 6, 0, 1.0f / 6}, {1.0f / 6, 0, 1.0f / 3},
      {0, 0, 1}, {0, 1, 0}};
};

/// The convolution, and the gradient of the weights.
struct strided_filtering {
  static constexpr int source_tile = 8, target_tile = 4, before = 1;
  static constexpr axis_product products[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4},
                                              {5, 5, 0}, {6, 5, 1}, {7, 5, 2}, {8, 5, 4}};
  /// Columns are odd and even inputs in turn; B^T comes first, then the inverse for even inputs.
  struct input {
    static constexpr float at[9][9] = {{1, 0, -0.5f, 0, -1, 0, 0.5f, 0, 0},  //
                                       {0, 0, -2, 0, -1, 0, 1, 0, 0},        //
                                       {0, 0, 2, 0, -3, 0, 1, 0, 0},         //
                                       {0, 0, -1, 0, 0, 0, 1, 0, 0},         //
                                       {0, 0, 2, 0, -1, 0, -2, 0, 1},        //
                                       {0, 1, 0, 0, 0, -1, 0, 0, 0},         //
                                       {0, 0, 0, 0.5f, 0, 0.5f, 0, 0, 0},    //
                                       {0, 0, 0, -0.5f, 0, 0.5f, 0, 0, 0},   //
                                       {0, 0, 0, -1, 0, 0, 0, 1, 0}};
  };
  using weights = strided_weights;
  struct output {                                         ///< A^T
    static constexpr float at[4][5] = {{1, 1, 1, 1, 0},   //
                                       {0, 1, -1, 2, 0},  //
                                       {0, 1, 1, 4, 0},   //
                                       {0, 1, -1, 8, 1}};
  };
};

/// The gradient of the input.
struct strided_grad_filtering {
  static constexpr int source_tile = 4, target_tile = 8, before = 0;
  static constexpr axis_product products[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4},
                                              {0, 5, 5}, {1, 5, 6}, {2, 5, 7}, {3, 5, 8}};
  struct input {  ///< B^T
    static constexpr float at[5][5] = {{1, -0.5f, -1, 0.5f, 0},
                                       {0, -2, -1, 1, 0},
                                       {0, 2, -3, 1, 0},
                                       {0, -1, 0, 1, 0},
                                       {0, 2, -1, -2, 1}};
  };
  using weights = strided_weights;
  /// Rows are even and odd locations in turn; the columns for odd ones, A^T, come first.
  struct output {
    static constexpr float at[8][9] = {{0, 0, 0, 0, 0, 1, -0.5f, -1.0f / 6, 1.0f / 6},  //
                                       {1, 1, 1, 1, 0, 0, 0, 0, 0},                     //
                                       {0, 0, 0, 0, 0, 0, -0.5f, 1.0f / 6, 2.0f / 6},   //
                                       {0, 1, -1, 2, 0, 0, 0, 0, 0},                    //
                                       {0, 0, 0, 0, 0, 0, -0.5f, -1.0f / 6, 4.0f / 6},  //
                                       {0, 1, 1, 4, 0, 0, 0, 0, 0},                     //
                                       {0, 0, 0, 0, 0, 0, -0.5f, 1.0f / 6, 8.0f / 6},   //
                                       {0, 1, -1, 8, 1, 0, 0, 0, 0}};
  };
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

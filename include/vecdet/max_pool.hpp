// SPDX-License-Identifier: Apache-2.0
// Max pooling of feature maps, and its gradient.
//
//   output[n, c, y, x] = max over i, j of
//       input[n, c, y stride - padding + i dilation, x stride - padding + j dilation]
//
// over the positions (i, j) of the window that lie within the map. If none does, which a dilation
// makes possible, the output is -infinity and the position 0. The sizes of the output are those of
// torch.nn.MaxPool2d: max_pool_size().
//
//   input, grad                   images x channels x height x width of float, bfloat16 or double,
//                                 NCHW or NHWC
//   output, upstream, positions   images x channels x output height x output width, all in the
//                                 input's layout
//
// A position is one byte, i times the window's width plus j, where PyTorch stores an index of eight
// bytes. A window therefore has at most 256 positions.
//
// The largest number wins. Of equal numbers the first wins, in the order of rows and then columns;
// 0 and -0 are equal. A NaN wins over every number, and the last NaN over the others. An output is
// a copy of the input that wins, bit by bit, and that is the one that PyTorch copies.
//
// The gradient of an input is the sum of the upstream gradients of the windows in which it won.
// They are added in the order of the outputs, in float if the maps are bfloat16. Bytes that are no
// position within the map are ignored. Results are bit-identical on any number of threads, in both
// layouts, and on every instruction set.
//
// Every function throws std::invalid_argument, and writes nothing, if shapes or layouts differ, an
// output shares memory with an input or another output, or a parameter is out of range.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/max_pool_buffers.hpp>
#include <vecdet/max_pool_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// The height and width of the output for maps of height x width: 1 + the number of whole strides
/// by which the first window can move until it reaches the end of the padding. In ceil_mode, one
/// more if a part of a stride is left and that window begins within the map or the padding before
/// it. 0 if the window is larger than the padded map.
/// @throws std::invalid_argument if a parameter is out of range
grid_size max_pool_size(grid_size map, const max_pool_params& params);

/// Scratch memory for max_pool() and max_pool_grad(). It grows to the needs of the largest call and
/// is reused. Only one call at a time may use it.
class max_pool_workspace {
  friend detail::workspace_access;
  detail::max_pool_buffers buffers_;
};

template <class T>
void max_pool(feature_view<T> input, feature_view<value_of<T>> output,
              const max_pool_params& params, max_pool_workspace& workspace,
              threading policy = threading::parallel);

/// The same, and writes where in its window each maximum is, for max_pool_grad().
template <class T>
void max_pool(feature_view<T> input, feature_view<value_of<T>> output,
              feature_view<std::uint8_t> positions, const max_pool_params& params,
              max_pool_workspace& workspace, threading policy = threading::parallel);

/// Writes the gradient with respect to the input.
template <class T>
void max_pool_grad(feature_view<T> upstream, feature_view<const std::uint8_t> positions,
                   feature_view<value_of<T>> grad, const max_pool_params& params,
                   max_pool_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/max_pool.hpp>

// SPDX-License-Identifier: Apache-2.0
// Max pooling: what the functions and their kernels agree on.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The windows along one axis. That of output o covers inputs o * stride - padding + i * dilation
/// for i in [0, size), without those outside [0, inputs).
struct pool_axis {
  index_t inputs, outputs, size, stride, padding, dilation;

  index_t begin(index_t output) const { return output * stride - padding; }
  /// The distance from a window's first input to its last.
  index_t reach() const { return (size - 1) * dilation; }
  /// The first i of a window that lies within the inputs, and the end of those that do. If none
  /// does, they are equal.
  index_t first_inside(index_t output) const {
    const index_t at = begin(output);
    const index_t i = at < 0 ? (-at + dilation - 1) / dilation : 0;
    return i < size ? i : size;
  }
  index_t end_inside(index_t output) const {
    const index_t left = inputs - 1 - begin(output);
    const index_t end = left < 0 ? 0 : left / dilation + 1, first = first_inside(output);
    return end < first ? first : end < size ? end : size;
  }
};

/// Maps of images x rows x columns x channels. A plane of NCHW is a map with one channel.
struct pool_windows {
  pool_axis y, x;
  index_t channels;
};

template <class T>
struct max_pool_args {
  pool_windows windows;
  const T* input;
  T* output;
  std::uint8_t* positions;  ///< null: not wanted
};

template <class T>
struct max_pool_grad_args {
  pool_windows windows;
  const T* upstream;
  const std::uint8_t* positions;
  T* grad;
};

template <class T>
struct max_pool_kernels {
  /// The scratch memory of run(), and that of grad() for this many rows, in numbers.
  index_t (*scratch_size)(const pool_windows&);
  index_t (*grad_scratch_size)(const pool_windows&, index_t rows);
  /// Computes rows [first, last) of the output of one image. `scratch` is aligned to 64 bytes.
  void (*run)(const max_pool_args<T>&, index_t image, index_t first, index_t last,
              compute_type<T>* scratch);
  /// Computes rows [first, last) of the gradient of one image.
  void (*grad)(const max_pool_grad_args<T>&, index_t image, index_t first, index_t last,
               compute_type<T>* scratch);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling. A ring has the sums of the rows that windows still add to; each row
// of the gradient is written once, after the last of them. Upstream gradients are added in the
// order of the outputs, one number at a time.
#pragma once

#include <vecdet/args/max_pool.hpp>
#include <vecdet/kernels/max_pool/planes.hpp>
#include <vecdet/simd/transpose.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

/// The number of rows in the ring.
inline index_t pool_grad_slots(const detail::pool_windows& windows, index_t rows) {
  return at_most(windows.y.reach() + 1, rows);
}
/// Where the memory begins that takes what belongs nowhere: behind the ring, and above the offset
/// of every position.
inline index_t pool_grad_nowhere(const detail::pool_windows& windows, index_t rows) {
  return (pool_grad_slots(windows, rows) * windows.x.inputs + windows.x.reach()) * windows.channels;
}
inline index_t pool_grad_scratch_size(const detail::pool_windows& windows, index_t rows) {
  return pool_grad_nowhere(windows, rows) + windows.x.inputs * windows.channels;
}

/// Adds the upstream gradients of one window, one per channel. offset[p] is the distance of the
/// sums of position p from `sums`.
template <class T>
VECDET_INLINE void add_upstream(const T* upstream, const std::uint8_t* positions,
                                const index_t* offset, index_t channels, compute_type<T>* sums) {
  for (index_t c = 0; c < channels; ++c)
    sums[offset[positions[c]] + c] += static_cast<compute_type<T>>(upstream[c]);
}

template <class T>
void pool_grad(const detail::max_pool_grad_args<T>& a, index_t image, index_t first, index_t last,
               compute_type<T>* scratch) {
  using real = compute_type<T>;
  const detail::pool_axis &y = a.windows.y, &x = a.windows.x;
  const index_t channels = a.windows.channels, row = x.inputs * channels;
  const index_t slots = pool_grad_slots(a.windows, last - first);
  T* const grad = a.grad + image * y.inputs * row;
  for (index_t i = 0; i < slots * row; ++i) scratch[i] = 0;
  index_t written = first;
  const auto write_until = [&](index_t end) {
    for (; written < end; ++written) {
      real* const sums = scratch + written % slots * row;
      convert_back(sums, row, grad + written * row);
      for (index_t i = 0; i < row; ++i) sums[i] = 0;
    }
  };
  // The column of each position in a window, and where its sums are in a row of windows. Bytes that
  // are no position get a column outside the map.
  const index_t nowhere = pool_grad_nowhere(a.windows, last - first);
  index_t offset[256], column[256];
  for (index_t p = 0; p < 256; ++p) {
    offset[p] = nowhere;
    column[p] = p < y.size * x.size ? p % x.size * x.dilation : x.inputs + x.padding;
  }
  const auto is_within = [&](index_t left) { return left >= 0 && left + x.reach() < x.inputs; };
  // The columns of windows that lie within the map: those from `begin` to `end`.
  index_t begin = 0, end = x.outputs;
  while (begin < end && x.begin(begin) < 0) ++begin;
  while (end > begin && !is_within(x.begin(end - 1))) --end;
  // The first window that reaches the band.
  const index_t before = first + y.padding - y.reach();
  for (index_t o = before <= 0 ? 0 : (before + y.stride - 1) / y.stride;
       o < y.outputs && y.begin(o) < last; ++o) {
    write_until(at_most(y.begin(o), last));
    for (index_t i = 0; i < y.size; ++i) {
      const index_t at = y.begin(o) + i * y.dilation;
      const bool is_inside = at >= first && at < last;
      for (index_t j = 0; j < x.size; ++j)
        offset[i * x.size + j] = is_inside ? at % slots * row + j * x.dilation * channels : nowhere;
    }
    const index_t out = (image * y.outputs + o) * x.outputs * channels;
    const T* const upstream = a.upstream + out;
    const std::uint8_t* const positions = a.positions + out;
    const auto add_at_border = [&](index_t p) {
      const index_t left = x.begin(p);
      for (index_t c = 0; c < channels; ++c) {
        const std::uint8_t position = positions[p * channels + c];
        const index_t to = left + column[position];
        if (to >= 0 && to < x.inputs && offset[position] != nowhere)
          scratch[offset[position] + left * channels + c] +=
              static_cast<real>(upstream[p * channels + c]);
      }
    };
    for (index_t p = 0; p < begin; ++p) add_at_border(p);
    if (channels == 1) {  // with a constant, there is no inner loop
      for (index_t p = begin; p < end; ++p)
        add_upstream(upstream + p, positions + p, offset, 1, scratch + x.begin(p));
    } else {
      for (index_t p = begin; p < end; ++p)
        add_upstream(upstream + p * channels, positions + p * channels, offset, channels,
                     scratch + x.begin(p) * channels);
    }
    for (index_t p = end; p < x.outputs; ++p) add_at_border(p);
  }
  write_until(last);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

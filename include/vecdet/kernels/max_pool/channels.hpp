// SPDX-License-Identifier: Apache-2.0
// Max pooling of maps whose channels are neighbours, with channels in lanes.
#pragma once

#include <vecdet/args/max_pool.hpp>
#include <vecdet/kernels/channels.hpp>
#include <vecdet/kernels/max_pool/wins.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T, bool HasPositions>
void pool_channels(const detail::max_pool_args<T>& a, index_t image, index_t first, index_t last) {
  using real = compute_type<T>;
  constexpr int N = row_pack<real>::batches;
  const detail::pool_axis &y = a.windows.y, &x = a.windows.x;
  const index_t channels = a.windows.channels;
  const T* const input = a.input + image * y.inputs * x.inputs * channels;
  for (index_t o = first; o < last; ++o) {
    const index_t top = y.first_inside(o), bottom = y.end_inside(o);
    for (index_t p = 0; p < x.outputs; ++p) {
      const index_t left = x.first_inside(p), right = x.end_inside(p);
      const T* columns[256];
      real numbers[256];
      index_t count = 0;
      for (index_t i = top; i < bottom; ++i)
        for (index_t j = left; j < right; ++j, ++count) {
          columns[count] =
              input +
              ((y.begin(o) + i * y.dilation) * x.inputs + x.begin(p) + j * x.dilation) * channels;
          numbers[count] = static_cast<real>(i * x.size + j);
        }
      const row_pack<real> first_inside(count > 0 ? numbers[0] : real(0));
      const index_t out = ((image * y.outputs + o) * x.outputs + p) * channels;
      const auto pool = [&](const auto& load) VECDET_INLINE_LAMBDA {
        pool_sixteens<HasPositions, T>(
            channels, [&](index_t) VECDET_INLINE_LAMBDA { return first_inside; }, count, numbers,
            load, a.output + out, HasPositions ? a.positions + out : nullptr);
      };
      if (channels >= row_lanes) {
        pool([&](index_t k, index_t at)
                 VECDET_INLINE_LAMBDA { return load_pack<N>(columns[k] + at); });
      } else {
        pool([&](index_t k, index_t)
                 VECDET_INLINE_LAMBDA { return load_channels<N, false>(columns[k], channels); });
      }
    }
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient. A plane of NCHW is a map with one channel.
#pragma once

#include <vecdet/args/max_pool.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/max_pool/channels.hpp>
#include <vecdet/kernels/max_pool/grad.hpp>
#include <vecdet/kernels/max_pool/planes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
index_t max_pool_scratch_size(const detail::pool_windows& windows) {
  return windows.channels > 1 ? 0 : pool_plane_scratch_size<T>(windows);
}

template <class T>
void max_pool(const detail::max_pool_args<T>& a, index_t image, index_t first, index_t last,
              compute_type<T>* scratch) {
  const bool has_positions = a.positions != nullptr;
  if (a.windows.channels > 1)
    (has_positions ? pool_channels<T, true> : pool_channels<T, false>)(a, image, first, last);
  else
    (has_positions ? pool_plane<T, true> : pool_plane<T, false>)(a, image, first, last, scratch);
}

template <class T>
struct kernels_of<detail::max_pool_kernels<T>> {
  static constexpr detail::max_pool_kernels<T> get() {
    detail::max_pool_kernels<T> kernels{};
    kernels.scratch_size = max_pool_scratch_size<T>;
    kernels.grad_scratch_size = pool_grad_scratch_size;
    kernels.run = max_pool<T>;
    kernels.grad = pool_grad<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(max_pool_kernels)

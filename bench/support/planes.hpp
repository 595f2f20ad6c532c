// SPDX-License-Identifier: Apache-2.0
// Boxes with one array per coordinate, in one vector.
#pragma once

#include <vecdet/views.hpp>

#include <cstddef>
#include <vector>

namespace vecdet::bench {

/// The coordinates of `boxes`, N x 4, one array after the other.
template <class T>
std::vector<T> as_planes(const std::vector<T>& boxes) {
  std::vector<T> planes;
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = k; i < boxes.size(); i += 4) planes.push_back(boxes[i]);
  return planes;
}

/// A view of such a vector.
template <class T>
boxes_soa_view<T> planes_view(T* x1, std::size_t numbers) {
  const auto size = static_cast<index_t>(numbers / 4);
  return {x1, x1 + size, x1 + 2 * size, x1 + 3 * size, size};
}
template <class T>
boxes_soa_view<T> planes(std::vector<T>& numbers) {
  return planes_view(numbers.data(), numbers.size());
}
template <class T>
boxes_soa_view<const T> planes(const std::vector<T>& numbers) {
  return planes_view(numbers.data(), numbers.size());
}

}  // namespace vecdet::bench

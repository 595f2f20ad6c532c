// SPDX-License-Identifier: Apache-2.0
// An element of a feature map.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// An element of a map in either layout.
template <class T>
T& feature_at(const feature_view<T>& map, index_t n, index_t c, index_t y, index_t x) {
  return map.layout() == feature_layout::nchw
             ? map.data()[((n * map.channels() + c) * map.height() + y) * map.width() + x]
             : map.data()[((n * map.height() + y) * map.width() + x) * map.channels() + c];
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Arguments that may be left out.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The elements, or null where there are none: the memory of an empty container need not be null.
template <class T>
constexpr T* data_or_null(const vector_view<T>& view) noexcept {
  return view.empty() ? nullptr : view.data();
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Optional arguments.
#pragma once

#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The data of a view, or null if it is empty. The data of an empty container need not be null.
template <class T>
constexpr T* data_or_null(const vector_view<T>& view) noexcept {
  return view.empty() ? nullptr : view.data();
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The value type of a view's elements.
#pragma once

#include <vecdet/detail/target.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// T without const: float for views of float and of const float.
template <class T>
using value_of = std::remove_const_t<T>;

}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The library's exceptions as those of torch.
#pragma once

#include <vecdet/detail/target.hpp>

#include <stdexcept>

#include <c10/util/Exception.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// body(), with std::invalid_argument as TORCH_CHECK's exception.
template <class Body>
auto translated(const Body& body) {
  try {
    return body();
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Translates the library's exceptions to those of torch.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/impl/torch/aten.hpp>

#include <stdexcept>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Calls body() and translates std::invalid_argument to the exception of TORCH_CHECK.
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

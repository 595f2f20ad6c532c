// SPDX-License-Identifier: Apache-2.0
// Plain loops that compilers vectorise on their own, even at -O2.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Calls body(i) for every i in [first, last). At -O2, GCC 12 vectorises only loops with a constant
/// number of iterations, as the inner one here.
template <class Body>
VECDET_INLINE void for_each_by_sixteens(index_t first, index_t last, const Body& body) {
  index_t i = first;
  for (; i + 16 <= last; i += 16)
    for (int k = 0; k < 16; ++k) body(i + k);
  for (; i < last; ++i) body(i);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet

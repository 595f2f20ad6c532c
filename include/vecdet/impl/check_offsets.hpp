// SPDX-License-Identifier: Apache-2.0
// The check of offsets, by which the images of a batch have each a part of one array.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Throws unless the offsets, of which there is at least one, ascend from 0 to `size`, which
/// messages call `size_name`.
inline void check_offsets(const char* function, const char* name,
                          const vector_view<const index_t>& offsets, index_t size,
                          const char* size_name) {
  check_element(offsets[0] == 0, function, name, 0, offsets[0], "0");
  for (index_t k = 1; k < offsets.size(); ++k)
    if (offsets[k] < offsets[k - 1]) {
      throw_invalid_argument(function, element(name, k), offsets[k],
                             std::to_string(offsets[k - 1]) + ", the element before it, or more");
    }
  const index_t last = offsets.size() - 1;
  if (offsets[last] != size) {
    throw_invalid_argument(function, element(name, last), offsets[last],
                           std::to_string(size) + ", " + size_name);
  }
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// A parallel search for the first bad element, which error messages name.
#pragma once

#include <vecdet/parallel.hpp>

#include <atomic>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The smallest index that find(first, last) returns for a chunk. `none`, which is above all
/// indices, means that nothing was found.
template <class Find>
index_t find_first(const chunking& chunks, index_t none, threading policy, const Find& find) {
  std::atomic<index_t> least{none};
  for_each_chunk(policy, chunks, [&](index_t, index_t first, index_t last) {
    const index_t found = find(first, last);
    index_t known = least.load();
    while (found < known && !least.compare_exchange_weak(known, found)) {
    }
  });
  return least;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

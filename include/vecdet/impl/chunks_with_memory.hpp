// SPDX-License-Identifier: Apache-2.0
// Loops whose chunks need scratch memory.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/chunks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Calls work(begin, end, memory) for every chunk, with `lines` cache lines that no other chunk
/// uses meanwhile. `buffer` holds as many of them as chunks run at the same time. `work` must not
/// throw, because it would keep its lines.
template <class Work>
void for_each_chunk_with_memory(threading policy, const chunking& chunks,
                                aligned_vector<cache_line>& buffer, index_t lines,
                                const Work& work) {
  slot_pool slots(std::min(usable_threads(policy), chunks.count));
  cache_line* const all = grown_scratch(buffer, slots.count() * lines);
  for_each_chunk(policy, chunks, [&](index_t, index_t begin, index_t end) {
    const index_t slot = slots.take();
    work(begin, end, all + slot * lines);
    slots.give_back(slot);
  });
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// The functions of matching.hpp: builds blocks of anchors and distributes images over threads.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/image_matching.hpp>
#include <vecdet/impl/match_call.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/matching/matching.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline void check_anchor_count(const char* function, index_t anchors) {
  check(anchors <= index_t{0xffffffff} - 2 * tile_anchors + 1, function, "anchors.size()", anchors,
        "at most 2^32 - 8192");
}

/// Fills the buffers with blocks of these anchors.
inline void build_blocks(boxes_view<const float> anchors, anchor_buffers& to, isa target,
                         threading policy) {
  to.anchor_count = anchors.size();
  const index_t tiles = to.tile_count();
  grown(to.blocks, tiles * blocks_in_tile);
  grown(to.areas, tiles * blocks_in_tile);
  grown(to.groups, tiles * groups_in_tile);
  grown(to.tiles, tiles);
  grown(to.typical_areas, tiles);
  std::uint32_t* const exceptional = grown(to.exceptional, anchors.size());
  const mutable_anchor_blocks blocks = to.mutable_view();
  index_t exceptional_in_chunk[chunking::max_count];
  const chunking chunks(tiles, 4);
  for_each_chunk(policy, chunks, [&](index_t chunk, index_t first, index_t last) {
    exceptional_in_chunk[chunk] = kernels<matching_kernels>(target).build(
        anchors.data(), blocks, first, last, exceptional + first * tile_anchors);
  });
  to.exceptional_count = 0;
  for (index_t c = 0; c < chunks.count; ++c) {
    const std::uint32_t* const from = exceptional + chunks.begin(c) * tile_anchors;
    std::memmove(exceptional + to.exceptional_count, from,
                 static_cast<std::size_t>(exceptional_in_chunk[c]) * sizeof *from);
    to.exceptional_count += exceptional_in_chunk[c];
  }
}

/// Whether threads share each image, rather than take an image each. A few threads share an image
/// well if its loops are long enough. Images take different times, so with few of them per thread,
/// some threads would wait.
inline bool divides_images(index_t images, index_t anchors, index_t threads) {
  constexpr index_t few_threads = 4, few_images = 2, many_anchors = 65536;  // 0.1 ms and more
  const bool are_few = threads <= few_threads && images < few_images * threads;
  return images < threads || (are_few && anchors >= many_anchors);
}

inline index_t run_match(const match_call& call, const char* variant, match_buffers& buffers,
                         threading policy) {
  call.check_arguments();
  const index_t images = call.images();
  const profile::scope timing([&] { return call.problem(variant, policy.threads()); });
  index_t* const foreground = grown(buffers.foreground, images);
  const index_t threads = usable_threads(policy);
  if (threads == 1 || divides_images(images, call.anchors.anchor_count, threads)) {
    if (buffers.images.empty()) buffers.images.resize(1);
    reserve_for(buffers.images[0], call, threads);
    for (index_t k = 0; k < images; ++k)
      foreground[k] = image_matching(call, buffers.images[0], k, policy).run();
  } else {
    if (static_cast<index_t>(buffers.images.size()) < threads)
      buffers.images.resize(static_cast<std::size_t>(threads));
    for (index_t k = 0; k < threads; ++k)
      reserve_for(buffers.images[static_cast<std::size_t>(k)], call, 1);
    slot_pool slots(threads);
    for_each_chunk(policy, chunking(images, 1), [&](index_t, index_t first, index_t last) {
      const index_t slot = slots.take();
      match_image_buffers& slot_buffers = buffers.images[static_cast<std::size_t>(slot)];
      for (index_t k = first; k < last; ++k)
        foreground[k] = image_matching(call, slot_buffers, k, threading::sequential).run();
      slots.give_back(slot);
    });
  }
  index_t total = 0;
  for (index_t k = 0; k < images; ++k) {
    if (!call.results.foreground.empty()) call.results.foreground[k] = foreground[k];
    total += foreground[k];
  }
  return total;
}

}  // namespace detail

inline anchor_index::anchor_index(boxes_view<const float> anchors, threading policy) {
  detail::check_anchor_count("anchor_index", anchors.size());
  detail::build_blocks(anchors, buffers_, active_isa(), policy);
}

inline index_t match_anchors(const anchor_index& anchors, const ground_truth& truth,
                             const match_results& results, const matcher_params& params,
                             match_workspace& workspace, threading policy) {
  return detail::run_match(
      {detail::workspace_access::buffers(anchors), truth, results, params, active_isa()}, "indexed",
      detail::workspace_access::buffers(workspace), policy);
}

inline index_t match_anchors(boxes_view<const float> anchors, const ground_truth& truth,
                             const match_results& results, const matcher_params& params,
                             match_workspace& workspace, threading policy) {
  detail::check_anchor_count("match_anchors", anchors.size());
  const isa target = active_isa();
  detail::match_buffers& buffers = detail::workspace_access::buffers(workspace);
  detail::build_blocks(anchors, buffers.anchors, target, policy);
  return detail::run_match({buffers.anchors, truth, results, params, target}, "boxes", buffers,
                           policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

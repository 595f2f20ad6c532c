// SPDX-License-Identifier: Apache-2.0
// The function of mask_nms.hpp: checks, the profiler's scope, and what nms_call needs of the masks.
#pragma once

#include <vecdet/impl/mask_bits.hpp>
#include <vecdet/impl/nms.hpp>
#include <vecdet/mask_nms.hpp>
#include <vecdet/value_of.hpp>

#include <algorithm>
#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The masks of a call of NMS. S is the stored type of scores.
template <class S>
class pixel_nms {
 public:
  using element = S;

  pixel_nms(const mask_strips* strips, index_t count, const nms_params& params, isa target)
      : strips_(strips),
        count_(count),
        overlap_(params.overlap == nms_overlap::smaller_area ? mask_overlap::smaller_area
                                                             : mask_overlap::iou),
        least_(least_overlap<double>(params)),
        max_kept_(std::min({params.max_per_class, params.max_per_image, params.max_total})),
        kernels_(kernels<mask_bits_kernels>(target)) {}

  index_t size() const { return count_; }
  /// The masks, kept ones first, the places of those that are left in the order, and whether a kept
  /// mask suppresses them.
  index_t scratch_bytes(index_t count) const {
    return count * index_t{sizeof(mask_strips) + sizeof(index_t) + 1};
  }
  void prepare(nms_buffers&, index_t) const {}

  index_t drop_degenerate(nms_record* records, index_t count) const {
    return std::remove_if(records, records + count,
                          [&](nms_record r) { return strips_[index_of(r)].area == 0; }) -
           records;
  }

  index_t least_in_task(index_t) const { return least_task_masks(strips_, count_); }

  /// Compares each kept mask with all that are left, in chunks of them. If few may be kept, the
  /// masks are compared in windows, because those after the last kept one need no comparison.
  index_t suppress(nms_buffers&, index_t, nms_state& state, threading policy) const {
    const profile::scope timing([&] { return nms_step<S>("nms.compare", size()); });
    auto* const masks = static_cast<mask_strips*>(state.scratch);  // at the front, the kept ones
    auto* const places = reinterpret_cast<index_t*>(masks + state.count);
    auto* const is_out = reinterpret_cast<std::uint8_t*>(places + state.count);
    index_t words = 0;
    for (index_t i = 0; i < state.count; ++i) {
      masks[i] = strips_[index_of(state.order[i])];
      places[i] = i;
      words += masks[i].size();
    }
    // Removes the masks of [first, end) that a kept one suppresses. Returns the new end. The kept
    // mask is a copy, because the compiler cannot know that no write changes it.
    const auto remove_suppressed = [&](const mask_strips own, index_t first, index_t end) {
      const index_t others = end - first;
      // At most all words of the kept mask are compared with each, and at most all of theirs.
      const index_t cost = 8 * std::min(others * own.size(), words) + others;
      for_each_chunk(policy, chunks_of_cost(others, cost, least_mask_bytes),
                     [&](index_t, index_t begin, index_t stop) {
                       find_suppressed(own, masks + first, begin, stop, is_out + first);
                     });
      index_t to = first;
      while (to < end && is_out[to] == 0) ++to;
      for (index_t i = to; i < end; ++i) {
        if (is_out[i] != 0) continue;
        masks[to] = masks[i];
        places[to++] = places[i];
      }
      return to;
    };
    const index_t window = max_kept_ < state.count / 4 ? 2 * max_kept_ + 64 : state.count;
    index_t kept = 0;
    for (index_t begin = 0; begin < state.count && kept < max_kept_; begin += window) {
      index_t first = begin, end = std::min(begin + window, state.count);
      for (index_t k = 0; k < kept; ++k) end = remove_suppressed(masks[k], first, end);
      while (first < end && kept < max_kept_) {
        masks[kept] = masks[first];
        state.kept[kept++] = state.order[places[first++]];
        if (kept < max_kept_) end = remove_suppressed(masks[kept - 1], first, end);
      }
    }
    return kept;
  }

 private:
  /// Writes whether the kept mask suppresses each of `masks` [begin, end).
  void find_suppressed(const mask_strips& kept, const mask_strips* masks, index_t begin,
                       index_t end, std::uint8_t* is_out) const {
    constexpr index_t block = 8;
    index_t common[block];
    for (index_t i = begin; i < end; i += block) {
      const index_t size = std::min(block, end - i);
      kernels_.common(kept, masks + i, size, common);
      for (index_t j = 0; j < size; ++j)
        is_out[i + j] =
            mask_ratio(common[j], masks[i + j].area, kept.area, overlap_) >= least_ ? 1 : 0;
    }
  }

  const mask_strips* strips_;
  index_t count_;
  mask_overlap overlap_;
  double least_;
  index_t max_kept_;
  const mask_bits_kernels& kernels_;
};

}  // namespace detail

template <class T>
vector_view<const index_t> mask_nms(const masks_view& masks, vector_view<T> given_scores,
                                    const nms_groups& groups, const nms_params& params,
                                    mask_nms_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "mask_nms";
  const vector_view<const stored> scores = given_scores;
  auto& buffers = detail::workspace_access::buffers(workspace);
  const index_t count = masks.size();
  detail::check_masks(function, "masks", masks);
  detail::check_size(function, "scores.size()", scores.size(), count, "the number of masks");
  detail::check(count <= detail::most_nms_boxes, function, "masks.size()", count,
                "at most 2^32 - 1");
  detail::check(params.format == nms_format::corners, function, "params.format",
                static_cast<int>(params.format), "the default: masks have no format");
  detail::check(params.overlap != nms_overlap::jaccard, function, "params.overlap", "jaccard",
                "plain, positive_area or smaller_area");
  detail::check(params.overlap == nms_overlap::plain ||
                    params.overlap == nms_overlap::positive_area ||
                    params.overlap == nms_overlap::smaller_area,
                function, "params.overlap", static_cast<int>(params.overlap), "an nms_overlap");
  detail::check(!params.plus_one, function, "params.plus_one", "true", "false");
  detail::check_nms_params(function, params);
  detail::check_groups(function, groups, count, "the number of masks");
  detail::check_nms_classes(function, groups, count, params, buffers.nms, "mask");
  detail::look_at_scores(function, "scores", scores, [](index_t) { return true; });
  const isa target = active_isa();
  const profile::scope timing([&] {
    profile::problem p = detail::mask_bits_problem(function, masks, policy.threads());
    p.type = dtype_name<stored>();
    p.bytes += count * index_t{sizeof(stored)};
    return p;
  });
  const detail::mask_strips* const strips =
      detail::make_strips(masks, nullptr, buffers.masks, policy);
  const detail::pixel_nms<stored> pixels(strips, count, params, target);
  return detail::nms_call<detail::pixel_nms<stored>, stored>(pixels, scores, params, buffers.nms,
                                                             target, policy)
      .run(groups);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

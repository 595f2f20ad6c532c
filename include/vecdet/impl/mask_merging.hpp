// SPDX-License-Identifier: Apache-2.0
// The function of mask_merging.hpp: checks, the profiler's scope, groups of masks.
#pragma once

#include <vecdet/impl/mask_bits.hpp>
#include <vecdet/impl/merged_groups.hpp>
#include <vecdet/impl/nms.hpp>
#include <vecdet/mask_merging.hpp>
#include <vecdet/value_of.hpp>

#include <algorithm>
#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The smallest rectangle around two; a mask without pixels has none.
inline void widen_strips(mask_strips& to, const mask_strips& other) {
  if (other.area == 0) return;
  const bool is_first = to.x1 == to.x2;
  to.x1 = is_first ? other.x1 : std::min(to.x1, other.x1);
  to.y1 = is_first ? other.y1 : std::min(to.y1, other.y1);
  to.x2 = is_first ? other.x2 : std::max(to.x2, other.x2);
  to.y2 = is_first ? other.y2 : std::max(to.y2, other.y2);
}

/// The number of pixels of the smallest rectangle around all rectangles that are not empty.
inline index_t pixels_around(const masks_view& masks) {
  mask_strips all{};
  for (index_t i = 0; i < masks.size(); ++i) {
    const index_t* const box = masks.boxes[i];
    widen_strips(all,
                 {box[0], box[1], box[2], box[3], (box[2] - box[0]) * (box[3] - box[1]), nullptr});
  }
  return (all.x2 - all.x1) * (all.y2 - all.y1);
}

/// A call of group_masks whose arguments have been checked. S is the stored type of scores.
template <class S>
class group_masks_call {
 public:
  group_masks_call(const mask_strips* strips, const vector_view<const S>& scores,
                   mask_overlap overlap, double threshold, mask_merging_buffers& buffers,
                   isa target)
      : strips_(strips),
        scores_(scores),
        overlap_(overlap),
        threshold_(threshold),
        buffers_(buffers),
        masks_kernels_(kernels<mask_bits_kernels>(target)),
        scores_kernels_(kernels<nms_kernels<S>>(target)) {}

  mask_groups run(const nms_groups& groups, threading policy) {
    nms_buffers& own = buffers_.groups;
    const index_t count = begin_merged_groups(scores_, groups, scores_kernels_, buffers_, policy);
    std::fill_n(grown(own.owners, count), count, 0u);
    grown(buffers_.unions, usable_threads(policy));
    suppress_groups(
        own, policy, least_task_masks(strips_, scores_.size()),
        [](index_t) { return index_t{sizeof(cache_line)}; },
        [&](index_t begin, index_t end, cache_line* scratch) {  // one line per concurrent task
          return group(begin, end,
                       buffers_.unions[static_cast<std::size_t>(scratch - own.scratch.data())]);
        });
    const index_t found = gather_kept(own);
    scores_kernels_.sort_any(scores_.data(), own.records.data(), own.spare.data(), found);
    list_members(buffers_, count, found, policy, [](index_t, const index_t*, index_t) {});
    return {{buffers_.members.data(), count}, {buffers_.offsets.data(), found + 1}};
  }

 private:
  index_t common(const mask_strips& a, const mask_strips& b) const {
    index_t pixels = 0;
    masks_kernels_.common(a, &b, 1, &pixels);
    return pixels;
  }

  /// Groups the records [begin, end) of a class and image. Writes those that begin groups to kept,
  /// and the members to sequence. Returns the number of groups.
  index_t group(index_t begin, index_t end, aligned_vector<cache_line>& memory) {
    nms_buffers& own = buffers_.groups;
    nms_record* const order = own.records.data() + begin;
    const index_t count = end - begin;
    scores_kernels_.sort(scores_.data(), order, own.spare.data() + begin, count);
    std::uint32_t* const is_taken = own.owners.data() + begin;
    index_t* const sequence = buffers_.sequence.data() + begin;
    index_t taken = 0, groups = 0;
    for (index_t i = 0; i < count; ++i) {
      if (is_taken[i] != 0) continue;
      const index_t first = taken;
      sequence[taken++] = index_of(order[i]);
      mask_strips whole = strips_[sequence[first]];
      for (;;) {
        const index_t before = taken;
        for (index_t j = i + 1; j < count; ++j) {
          const mask_strips& other = strips_[index_of(order[j])];
          if (is_taken[j] != 0 ||
              mask_ratio(common(whole, other), other.area, whole.area, overlap_) < threshold_)
            continue;
          is_taken[j] = 1;
          sequence[taken++] = index_of(order[j]);
        }
        if (taken == before) break;
        // The union's rectangle is that around its members, not around all masks, which may be far
        // apart.
        mask_strips around{};
        for (index_t m = first; m < taken; ++m) widen_strips(around, strips_[sequence[m]]);
        around.words = reinterpret_cast<std::uint64_t*>(
            grown_scratch(memory, lines_for<std::uint64_t>(around.size())));
        std::fill_n(around.words, around.size(), std::uint64_t{0});
        for (index_t m = first; m < taken; ++m)
          if (strips_[sequence[m]].area > 0) masks_kernels_.unite(strips_[sequence[m]], around);
        whole = around;
        whole.area = common(whole, whole);
      }
      own.kept.data()[begin + groups++] = order[i];
      buffers_.first_member.data()[sequence[first]] = begin + first;
      buffers_.sizes.data()[sequence[first]] = taken - first;
    }
    return groups;
  }

  const mask_strips* strips_;
  vector_view<const S> scores_;
  mask_overlap overlap_;
  double threshold_;
  mask_merging_buffers& buffers_;
  const mask_bits_kernels& masks_kernels_;
  const nms_kernels<S>& scores_kernels_;
};

}  // namespace detail

template <class T>
mask_groups group_masks(const masks_view& masks, vector_view<T> given_scores,
                        const nms_groups& groups, mask_overlap overlap, double match_threshold,
                        mask_merging_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "group_masks";
  const vector_view<const stored> scores = given_scores;
  auto& buffers = detail::workspace_access::buffers(workspace);
  const index_t count = masks.size();
  detail::check_masks(function, "masks", masks);
  detail::check_size(function, "scores.size()", scores.size(), count, "the number of masks");
  detail::check(count <= detail::most_nms_boxes, function, "masks.size()", count,
                "at most 2^32 - 1");
  detail::check_mask_overlap(function, overlap);
  detail::check(detail::is_within(match_threshold, 0, 1), function, "match_threshold",
                match_threshold, "a number in [0, 1]");
  detail::check_groups(function, groups, count, "the number of masks");
  const index_t pixels = detail::pixels_around(masks);
  detail::check(pixels < index_t{1} << 40, function,
                "the number of pixels in the rectangle around masks.boxes", pixels,
                "less than 2^40");
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
  return detail::group_masks_call<stored>(strips, scores, overlap, match_threshold, buffers, target)
      .run(groups, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

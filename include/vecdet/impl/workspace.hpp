// SPDX-License-Identifier: Apache-2.0
// What workspaces hold: buffers that only grow.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/args/nms.hpp>
#include <vecdet/args/roi_align.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The memory of a vector, of `size` elements at least.
template <class T, class Allocator>
T* grown(std::vector<T, Allocator>& memory, index_t size) {
  if (static_cast<index_t>(memory.size()) < size) memory.resize(static_cast<std::size_t>(size));
  return memory.data();
}

/// The buffers of a workspace, which its user does not see.
struct workspace_access {
  template <class Workspace>
  static auto& buffers(Workspace& workspace) noexcept {
    return workspace.buffers_;
  }
};

struct alignas(64) cache_line {
  unsigned char bytes[64];
};

/// Consecutive groups that run one after the other.
struct nms_task {
  index_t first_group, last_group;
  index_t largest;  ///< boxes of the largest group
};

struct nms_buffers {
  std::vector<nms_record> records, spare, kept;
  std::vector<index_t> group_begin, group_kept, counters, result;
  std::vector<std::uint32_t> group_of, group_image;
  std::vector<nms_task> tasks;
  aligned_vector<cache_line> scratch;
  index_t groups = 0, images = 0;
};

template <class Real>
struct soft_nms_buffers {
  nms_buffers groups;
  std::vector<Real> rescored, scores;
};

struct filter_topk_buffers {
  std::vector<std::uint64_t> records, spare;
  std::vector<index_t> found, elements, offsets;
  std::vector<float> logits;
};

struct assigner_buffers {
  std::vector<float> points, axes, values, planes, metrics, greatest, widest, ranks;
  std::vector<index_t> chosen, counts, positives;
  std::vector<point_level> levels;
};

struct hard_negative_buffers {
  std::vector<std::uint32_t> keys;
  std::vector<index_t> rows, counts;
};

struct roi_align_buffers {
  std::vector<roi_plan> plans;
  std::vector<index_t> group_of, group_begin;
  std::vector<std::int32_t> is_touched;
  aligned_vector<cache_line> tables, memory;
};

struct balanced_sample_buffers {
  std::vector<index_t> indices, offsets, positives, counts;
};

struct postprocess_buffers {
  /// Of one image: boxes that are still deltas and anchors, and then decoded.
  struct candidates {
    filter_topk_buffers search;
    std::vector<float> anchors, boxes, scores;
    std::vector<index_t> labels, per_class;
    index_t count = 0;
  };
  std::vector<candidates> images;
  std::vector<float> boxes, scores, kept_boxes, kept_scores;
  std::vector<index_t> labels, offsets, kept_labels, kept_offsets;
  nms_buffers nms;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

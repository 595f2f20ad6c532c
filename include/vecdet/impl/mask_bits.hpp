// SPDX-License-Identifier: Apache-2.0
// The functions of mask_bits.hpp: checks, copies of masks as strips, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/mask_bits.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/chunks_of_cost.hpp>
#include <vecdet/impl/mask_checks.hpp>
#include <vecdet/impl/mask_overlaps.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/mask_bits.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstdint>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/mask_bits/mask_bits.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline stored_mask stored_at(const masks_view& masks, index_t i) {
  const index_t* const box = masks.boxes[i];
  return {masks.pixels.data() + masks.offsets[i],
          box[0],
          box[1],
          box[2] - box[0],
          box[3] - box[1],
          masks.row_bytes(i),
          masks.kind};
}

inline bool are_same(const masks_view& a, const masks_view& b) {
  return a.boxes.data() == b.boxes.data() && a.offsets.data() == b.offsets.data() &&
         a.pixels.data() == b.pixels.data() && a.size() == b.size() && a.kind == b.kind;
}

/// What the profiler knows of a call on masks. The shape ends with the size of the smallest picture
/// that has all rectangles.
inline profile::problem mask_bits_problem(const char* function, const masks_view& masks,
                                          int threads) {
  index_t height = 0, width = 0;
  for (index_t i = 0; i < masks.size(); ++i) {
    width = std::max(width, masks.boxes(i, 2));
    height = std::max(height, masks.boxes(i, 3));
  }
  profile::problem p;
  p.function = function;
  p.variant = masks.kind == mask_pixels::bits ? "bits" : "bytes";
  p.type = "u8";
  p.shape = {profile::rounded_count(masks.size()), height, width};
  p.implementation = isa_name(active_isa());
  p.threads = threads;
  p.bytes = masks.pixels.size();
  return p;
}

constexpr index_t least_mask_bytes = 1 << 16;  ///< of a chunk: some ten microseconds

/// Calls use(kernels, i) for each mask, on several threads.
template <class Use>
void for_each_mask(const masks_view& masks, threading policy, const Use& use) {
  const auto& own = kernels<mask_bits_kernels>(active_isa());
  for_each_chunk(policy, chunks_of_cost(masks.size(), masks.pixels.size(), least_mask_bytes),
                 [&](index_t, index_t first, index_t last) {
                   for (index_t i = first; i < last; ++i) use(own, i);
                 });
}

/// Finds the rectangles of masks.
inline void measure_strips(const masks_view& masks, mask_strips* strips, threading policy) {
  for_each_mask(masks, policy, [&](const mask_bits_kernels& own, index_t i) {
    index_t box[4];
    own.box(stored_at(masks, i), box);
    strips[i] = {box[0], box[1], box[2], box[3], 0, nullptr};
  });
}
/// Copies the masks whose rectangles are known.
inline void fill_all_strips(const masks_view& masks, mask_strips* strips, threading policy) {
  for_each_mask(masks, policy, [&](const mask_bits_kernels& own, index_t i) {
    if (strips[i].x1 < strips[i].x2) own.fill(stored_at(masks, i), strips[i]);
  });
}

/// The strips of two lists of masks, `rows` before `cols`; of one list if cols is null.
inline mask_strips* make_strips(const masks_view& rows, const masks_view* cols,
                                mask_bits_buffers& buffers, threading policy) {
  const index_t count = rows.size() + (cols == nullptr ? 0 : cols->size());
  mask_strips* const strips = grown(buffers.strips, count);
  measure_strips(rows, strips, policy);
  if (cols != nullptr) measure_strips(*cols, strips + rows.size(), policy);
  index_t words = 0;
  for (index_t i = 0; i < count; ++i) words += strips[i].size();  // whole cache lines each
  auto* next = reinterpret_cast<std::uint64_t*>(
      grown_scratch(buffers.words, lines_for<std::uint64_t>(words)));
  for (index_t i = 0; i < count; ++i) {
    strips[i].words = next;
    next += strips[i].size();
  }
  fill_all_strips(rows, strips, policy);
  if (cols != nullptr) fill_all_strips(*cols, strips + rows.size(), policy);
  return strips;
}

/// The fewest of these masks whose comparison takes longer than starting a task.
inline index_t least_task_masks(const mask_strips* strips, index_t count) {
  index_t words = 0;
  for (index_t i = 0; i < count; ++i) words += strips[i].size();
  return chunks_of_cost(count, 8 * words, least_mask_bytes).size;
}

}  // namespace detail

inline void mask_areas(const masks_view& masks, vector_view<index_t> areas, threading policy) {
  constexpr const char* function = "mask_areas";
  detail::check_masks(function, "masks", masks);
  detail::check_size(function, "areas.size()", areas.size(), masks.size(), "the number of masks");
  detail::check_apart_from_masks(function, "areas", areas, "masks", masks);
  const profile::scope timing(
      [&] { return detail::mask_bits_problem(function, masks, policy.threads()); });
  detail::for_each_mask(masks, policy, [&](const detail::mask_bits_kernels& own, index_t i) {
    areas[i] = own.area(detail::stored_at(masks, i));
  });
}

inline void mask_boxes(const masks_view& masks, boxes_view<index_t> boxes, threading policy) {
  constexpr const char* function = "mask_boxes";
  detail::check_masks(function, "masks", masks);
  detail::check_size(function, "boxes.size()", boxes.size(), masks.size(), "the number of masks");
  detail::check_apart_from_masks(function, "boxes", boxes, "masks", masks);
  const profile::scope timing(
      [&] { return detail::mask_bits_problem(function, masks, policy.threads()); });
  detail::for_each_mask(masks, policy, [&](const detail::mask_bits_kernels& own, index_t i) {
    own.box(detail::stored_at(masks, i), boxes[i]);
  });
}

inline void mask_iou(const masks_view& a, const masks_view& b, mask_overlap overlap,
                     vector_view<const std::uint8_t> is_crowd, matrix_view<double> overlaps,
                     mask_bits_workspace& workspace, threading policy) {
  constexpr const char* function = "mask_iou";
  const index_t rows = a.size(), cols = b.size();
  detail::check_mask_overlap(function, overlap);
  detail::check_masks(function, "a", a);
  detail::check_masks(function, "b", b);
  detail::check_optional_size(function, "is_crowd.size()", is_crowd.size(), cols,
                              "the number of masks in b");
  detail::check_size(function, "overlaps.rows()", overlaps.rows(), rows,
                     "the number of masks in a");
  detail::check_size(function, "overlaps.cols()", overlaps.cols(), cols,
                     "the number of masks in b");
  detail::check_apart_from_masks(function, "overlaps", overlaps, "a", a);
  detail::check_apart_from_masks(function, "overlaps", overlaps, "b", b);
  detail::check_apart(function, "overlaps", overlaps, "is_crowd", is_crowd);
  if (rows == 0 || cols == 0) return;
  const isa target = active_isa();
  const profile::scope timing([&] {
    const profile::problem of_b = detail::mask_bits_problem(function, b, policy.threads());
    profile::problem p = detail::mask_bits_problem(function, a, policy.threads());
    p.shape = {p.shape[0], of_b.shape[0], std::max(p.shape[1], of_b.shape[1]),
               std::max(p.shape[2], of_b.shape[2])};
    p.bytes += of_b.bytes;
    return p;
  });

  auto& buffers = detail::workspace_access::buffers(workspace);
  const bool is_one = detail::are_same(a, b);
  const detail::mask_strips* const of_a =
      detail::make_strips(a, is_one ? nullptr : &b, buffers, policy);
  const detail::mask_strips* const of_b = is_one ? of_a : of_a + rows;
  index_t words = 0;
  for (index_t k = 0; k < cols; ++k) words += of_b[k].size();
  const auto& kernels = detail::kernels<detail::mask_bits_kernels>(target);
  const auto divide = [&](index_t i, index_t k, index_t pixels) {
    const bool by_area = !is_crowd.empty() && is_crowd[k] != 0;
    overlaps(i, k) = by_area ? detail::mask_share(pixels, of_a[i].area)
                             : detail::mask_ratio(pixels, of_a[i].area, of_b[k].area, overlap);
  };
  // Tiles of pairs. Their 16 masks stay in a second-level cache of 1 MB up to some 700 x 700
  // pixels. Of one list of masks, only the pairs of a mask with itself and those after it are
  // counted.
  constexpr index_t side = 8;
  const index_t tile_cols = (cols + side - 1) / side;
  const index_t tiles = (rows + side - 1) / side * tile_cols;
  detail::for_each_chunk(
      policy, detail::chunks_of_cost(tiles, rows * words / 4, detail::least_mask_bytes),
      [&](index_t, index_t first, index_t last) {
        for (index_t tile = first; tile < last; ++tile) {
          const index_t row = tile / tile_cols * side, col = tile % tile_cols * side;
          const index_t end = std::min(col + side, cols);
          for (index_t i = row; i < std::min(row + side, rows); ++i) {
            const index_t begin = is_one ? std::max(i, col) : col;
            if (begin >= end) break;
            index_t common[side];
            kernels.common(of_a[i], of_b + begin, end - begin, common);
            for (index_t k = begin; k < end; ++k) {
              divide(i, k, common[k - begin]);
              if (is_one && k > i) divide(k, i, common[k - begin]);
            }
          }
        }
      });
}

}  // namespace VECDET_ABI
}  // namespace vecdet

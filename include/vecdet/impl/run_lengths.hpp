// SPDX-License-Identifier: Apache-2.0
// The functions of run_lengths.hpp that read run lengths only: areas, boxes, overlaps and merged
// masks.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/mask_overlaps.hpp>
#include <vecdet/impl/run_lengths_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/run_lengths.hpp>

#include <algorithm>
#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The box of runs that are visited in ascending order.
struct run_box {
  index_t height;
  index_t x1 = 0, x2 = 0, y1 = 0, y2 = 0;

  void add(index_t begin, index_t end) noexcept {
    const index_t first = begin / height, last = (end - 1) / height;
    if (x2 == 0) {
      x1 = first;
      y1 = height;
    }
    x2 = last + 1;
    // A run that goes on in the next column has the last row of one and the first of the other.
    y1 = std::min(y1, first == last ? begin % height : 0);
    y2 = std::max(y2, first == last ? (end - 1) % height + 1 : height);
  }
  void write(index_t* to) const noexcept {
    to[0] = x1;
    to[1] = y1;
    to[2] = x2;
    to[3] = y2;
  }
};

/// Measures a mask; its bounds are written from `bounds` on.
inline void measure_mask(const vector_view<const std::uint32_t>& counts, index_t height,
                         std::uint32_t* bounds, measured_mask& to) {
  run_box box{height};
  to.runs = to.area = 0;
  for_each_run(counts, [&](index_t begin, index_t end) {
    box.add(begin, end);
    to.area += end - begin;
    bounds[2 * to.runs] = static_cast<std::uint32_t>(begin);
    bounds[2 * to.runs + 1] = static_cast<std::uint32_t>(end);
    ++to.runs;
  });
  box.write(to.box);
}

/// The first of `runs` that ends after `position`.
inline index_t first_after(const std::uint32_t* bounds, index_t runs, index_t position) {
  index_t low = 0, high = runs;
  while (low < high) {
    const index_t middle = low + (high - low) / 2;
    if (index_t{bounds[2 * middle + 1]} <= position)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// The number of common pixels.
inline index_t common_pixels(const measured_mask& a, const measured_mask& b,
                             const std::uint32_t* bounds, index_t height) {
  const index_t left = std::max(a.box[0], b.box[0]), right = std::min(a.box[2], b.box[2]);
  if (left >= right || std::max(a.box[1], b.box[1]) >= std::min(a.box[3], b.box[3])) return 0;
  const std::uint32_t* const own = bounds + a.first;
  const std::uint32_t* const other = bounds + b.first;
  index_t i = first_after(own, a.runs, left * height);
  index_t k = first_after(other, b.runs, left * height);
  const index_t end = right * height;
  index_t sum = 0;
  while (i < a.runs && k < b.runs) {
    const index_t begins[] = {own[2 * i], other[2 * k]},
                  ends[] = {own[2 * i + 1], other[2 * k + 1]};
    const index_t from = std::max(begins[0], begins[1]);
    if (from >= end) break;
    sum += std::max(std::min(ends[0], ends[1]) - from, index_t{0});
    i += ends[0] <= ends[1];
    k += ends[1] <= ends[0];
  }
  return sum;
}

}  // namespace detail

inline void mask_areas(const run_lengths_view& runs, vector_view<index_t> areas) {
  constexpr const char* function = "mask_areas";
  detail::check_runs(function, "runs", runs);
  detail::check_size(function, "areas.size()", areas.size(), runs.size(), "the number of masks");
  detail::check_apart_from_runs(function, "areas", areas, "runs", runs);
  const profile::scope timing([&] { return detail::run_lengths_problem(function, runs); });
  for (index_t i = 0; i < runs.size(); ++i) {
    index_t area = 0;
    detail::for_each_run(runs[i], [&](index_t begin, index_t end) { area += end - begin; });
    areas[i] = area;
  }
}

inline void mask_boxes(const run_lengths_view& runs, boxes_view<index_t> boxes) {
  constexpr const char* function = "mask_boxes";
  detail::check_runs(function, "runs", runs);
  detail::check_size(function, "boxes.size()", boxes.size(), runs.size(), "the number of masks");
  detail::check_apart_from_runs(function, "boxes", boxes, "runs", runs);
  const profile::scope timing([&] { return detail::run_lengths_problem(function, runs); });
  for (index_t i = 0; i < runs.size(); ++i) {
    detail::run_box box{runs.sizes[i].height};
    detail::for_each_run(runs[i], [&](index_t begin, index_t end) { box.add(begin, end); });
    box.write(boxes[i]);
  }
}

inline void mask_iou(const run_lengths_view& a, const run_lengths_view& b, mask_overlap overlap,
                     vector_view<const std::uint8_t> is_crowd, matrix_view<double> ious,
                     run_lengths_workspace& workspace, threading policy) {
  constexpr const char* function = "mask_iou";
  const index_t rows = a.size(), cols = b.size();
  detail::check_mask_overlap(function, overlap);
  detail::check_runs(function, "a", a);
  detail::check_runs(function, "b", b);
  detail::check_optional_size(function, "is_crowd.size()", is_crowd.size(), cols,
                              "the number of masks in b");
  detail::check_size(function, "ious.rows()", ious.rows(), rows, "the number of masks in a");
  detail::check_size(function, "ious.cols()", ious.cols(), cols, "the number of masks in b");
  detail::check_apart_from_runs(function, "ious", ious, "a", a);
  detail::check_apart_from_runs(function, "ious", ious, "b", b);
  detail::check_apart(function, "ious", ious, "is_crowd", is_crowd);
  if (rows == 0 || cols == 0) return;
  const grid_size size = a.sizes[0];
  detail::check_same_size(function, "a", a, size);
  detail::check_same_size(function, "b", b, size);
  const index_t all = rows + cols, counts = a.counts.size() + b.counts.size();
  const profile::scope timing([&] {
    profile::problem p = detail::run_lengths_problem(
        function, nullptr, rows, size, counts * index_t{sizeof(std::uint32_t)}, policy.threads());
    p.shape = {profile::rounded_count(rows), profile::rounded_count(cols), size.height, size.width};
    return p;
  });

  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::measured_mask* const measured = detail::grown(buffers.measured, all);
  std::uint32_t* const bounds = detail::grown(buffers.bounds, counts);
  constexpr index_t least_cost = 1 << 15;  // counts: some ten microseconds
  detail::for_each_chunk(policy, detail::chunks_of_cost(all, counts, least_cost),
                         [&](index_t, index_t first, index_t last) {
                           for (index_t i = first; i < last; ++i) {
                             const bool is_row = i < rows;
                             const run_lengths_view& own = is_row ? a : b;
                             const index_t k = is_row ? i : i - rows;
                             measured[i].first = own.offsets[k] + (is_row ? 0 : a.counts.size());
                             detail::measure_mask(own[k], size.height, bounds + measured[i].first,
                                                  measured[i]);
                           }
                         });
  const index_t cost = a.counts.size() * cols + b.counts.size() * rows;
  detail::for_each_chunk(
      policy, detail::chunks_of_cost(rows, cost, least_cost),
      [&](index_t, index_t first, index_t last) {
        for (index_t i = first; i < last; ++i)
          for (index_t k = 0; k < cols; ++k) {
            const detail::measured_mask &one = measured[i], &other = measured[rows + k];
            const index_t common = detail::common_pixels(one, other, bounds, size.height);
            const bool by_area = !is_crowd.empty() && is_crowd[k] != 0;
            ious(i, k) = by_area ? detail::mask_share(common, one.area)
                                 : detail::mask_ratio(common, one.area, other.area, overlap);
          }
      });
}

inline run_lengths_view merge_masks(const run_lengths_view& runs, mask_merging merging,
                                    run_lengths_workspace& workspace) {
  constexpr const char* function = "merge_masks";
  auto& buffers = detail::workspace_access::buffers(workspace);
  detail::check(runs.size() > 0, function, "runs.size()", runs.size(), "1 or more");
  detail::check(merging == mask_merging::any || merging == mask_merging::every, function, "merging",
                static_cast<int>(merging), "a mask_merging");
  detail::check_runs(function, "runs", runs);
  detail::check_same_size(function, "runs", runs, runs.sizes[0]);
  detail::check_apart_from_results(function, "runs.sizes", runs.sizes, buffers);
  detail::check_apart_from_results(function, "runs.offsets", runs.offsets, buffers);
  detail::check_apart_from_results(function, "runs.counts", runs.counts, buffers);
  const profile::scope timing([&] { return detail::run_lengths_problem(function, runs); });

  // Begins and ends of runs: the position, and in the lowest bit whether a run begins.
  std::uint64_t* const changes = detail::grown(buffers.changes, runs.counts.size() + runs.size());
  index_t count = 0;
  for (index_t i = 0; i < runs.size(); ++i)
    detail::for_each_run(runs[i], [&](index_t begin, index_t end) {
      changes[count++] = static_cast<std::uint64_t>(begin) * 2 + 1;
      changes[count++] = static_cast<std::uint64_t>(end) * 2;
    });
  std::sort(changes, changes + count);
  const grid_size size = runs.sizes[0];
  const index_t least = merging == mask_merging::any ? 1 : runs.size();
  const index_t pixels = detail::pixels_of(size);
  std::uint32_t* const counts = detail::grown(buffers.counts, count + 1);
  index_t written = 0, depth = 0;
  for (index_t k = 0; k < count;) {
    const std::uint64_t position = changes[k] / 2;
    const bool was_inside = depth >= least;
    for (; k < count && changes[k] / 2 == position; ++k) depth += changes[k] % 2 == 1 ? 1 : -1;
    if ((depth >= least) != was_inside && static_cast<index_t>(position) < pixels)
      counts[written++] = static_cast<std::uint32_t>(position);
  }
  detail::make_counts(counts, written, pixels);
  index_t* const offsets = detail::grown(buffers.offsets, 2);
  offsets[0] = 0;
  offsets[1] = written + 1;
  detail::grown(buffers.sizes, 1)[0] = size;
  return {{buffers.sizes.data(), 1}, {offsets, 2}, {counts, written + 1}};
}

}  // namespace VECDET_ABI
}  // namespace vecdet

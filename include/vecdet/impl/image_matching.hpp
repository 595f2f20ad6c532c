// SPDX-License-Identifier: Apache-2.0
// The matching of one image in steps: find the anchors that take part, the best box of each anchor,
// the best anchor of each box, and write the results.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/box_coding.hpp>
#include <vecdet/impl/match_call.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/matching/matching.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Divides the tiles of one image into chunks for threads.
inline chunking tile_chunks(index_t tiles, index_t threads) {
  const index_t parts = threads == 1 ? 1 : std::min(4 * threads, index_t{chunking::max_count});
  return chunking(tiles, std::max<index_t>(1, (tiles + parts - 1) / parts));
}

/// Grows the buffers to the needs of the call's largest image on `threads` threads.
inline void reserve_for(match_image_buffers& buffers, const match_call& call, index_t threads) {
  index_t truths = 0, regions = 0;
  for (index_t k = 0; k < call.images(); ++k) {
    truths = std::max(truths, call.image_truth(k).size());
    regions = std::max(regions, call.image_regions(k).size());
  }
  const index_t tiles = call.anchors.tile_count(), blocks = tiles * blocks_in_tile;
  grown(buffers.lanes, blocks);
  grown(buffers.block_ious, tiles * groups_in_tile);
  grown(buffers.group_ious, tiles);
  if (!call.results.deltas.empty() && call.results.matches.empty())
    grown(buffers.matches, call.anchors.anchor_count);
  grown(buffers.classes, truths);
  grown(buffers.truth, truths);
  buffers.exceptional_truth.reserve(static_cast<std::size_t>(truths));
  grown(buffers.summaries, tile_chunks(tiles, threads).count * truths);
  grown(buffers.tops, truths);
  grown(buffers.first_nan, truths);
  grown(buffers.best_anchor, truths);
  if (regions == 0) return;
  grown(buffers.regions, regions);
  grown(buffers.ignored, blocks);
  if (call.params.ignore_matched) grown(buffers.areas, blocks);
}

/// The matching of one image.
class image_matching {
 public:
  image_matching(const match_call& call, match_image_buffers& buffers, index_t image,
                 threading policy)
      : call_(call),
        buffers_(buffers),
        kernels_(kernels<matching_kernels>(call.target)),
        policy_(policy),
        anchors_(call.anchors.anchor_count),
        first_result_(image * anchors_),
        first_truth_(first_image_box(call.truth, image)),
        truth_(call.image_truth(image)),
        regions_(call.image_regions(image)),
        truths_(truth_.size()) {}

  /// Returns the number of matched anchors.
  index_t run() {
    prepare();
    find_ignored();
    compare();
    find_nan();
    keep_best();
    force_best();
    return finish();
  }

 private:
  void prepare() {
    const matcher_params& params = call_.params;
    const match_results& results = call_.results;
    args_.anchors = call_.anchors.view();
    args_.areas = args_.anchors.areas;
    args_.lanes = buffers_.lanes.data();
    args_.block_ious = buffers_.block_ious.data();
    args_.group_ious = buffers_.group_ious.data();
    args_.low = static_cast<float>(params.low_threshold);
    args_.high = static_cast<float>(params.high_threshold);
    args_.first_truth = first_truth_;
    args_.background = params.background;
    args_.ignore = params.ignore;
    args_.ignore_matched = params.ignore_matched;
    if (!results.matches.empty()) args_.matches = results.matches.data() + first_result_;
    if (!results.deltas.empty() && results.matches.empty()) args_.matches = buffers_.matches.data();
    if (!results.labels.empty()) args_.labels = results.labels.data() + first_result_;
    if (!results.best_ious.empty()) args_.best_ious = results.best_ious.data() + first_result_;
    // Without boxes, all anchors are background for any threshold.
    if (truths_ == 0) args_.low = std::numeric_limits<float>::infinity();

    index_t* const classes = buffers_.classes.data();
    match_truth* const truth = buffers_.truth.data();
    buffers_.exceptional_truth.clear();
    for (index_t j = 0; j < truths_; ++j) {
      classes[j] = call_.truth.classes.size() > 0 ? call_.truth.classes[first_truth_ + j] : 0;
      const match_truth t = truth_of(truth_[j], j);
      if (!is_finite(t.area) || t.area < 0) {
        buffers_.exceptional_truth.push_back(t);
      } else if (t.x1 < t.x2 && t.y1 < t.y2) {
        truth[args_.truth_count++] = t;
      }
    }
    std::sort(truth, truth + args_.truth_count, [](const match_truth& a, const match_truth& b) {
      return a.area < b.area || (!(b.area < a.area) && a.index < b.index);
    });
    args_.classes = classes;
    args_.truth = truth;
  }

  chunking chunks_of_tiles() const {
    return tile_chunks(args_.anchors.tile_count, usable_threads(policy_));
  }

  void find_ignored() {
    if (regions_.empty()) return;
    match_truth* const regions = buffers_.regions.data();
    for (index_t k = 0; k < regions_.size(); ++k) {
      const match_truth region = truth_of(regions_[k], k);
      if (region.x1 < region.x2 && region.y1 < region.y2) regions[args_.region_count++] = region;
    }
    args_.regions = regions;
    args_.region_threshold = static_cast<float>(call_.params.region_threshold);
    args_.ignored_out = buffers_.ignored.data();
    if (call_.params.ignore_matched) args_.areas_out = buffers_.areas.data();
    for_each_chunk(policy_, chunks_of_tiles(), [&](index_t, index_t first, index_t last) {
      kernels_.find_ignored(args_, first, last);
    });
    args_.ignored = args_.ignored_out;
    if (call_.params.ignore_matched) args_.areas = args_.areas_out;
  }

  /// Finds the best box of every anchor and the greatest IoU of every box. The last chunks go
  /// first, regardless of the policy's order: their coarse levels give bounds that spare the other
  /// chunks most of their work. Results do not depend on the order.
  void compare() {
    const chunking chunks = chunks_of_tiles();
    truth_summary* const summaries = buffers_.summaries.data();
    args_.tops = buffers_.tops.data();
    std::fill(args_.tops, args_.tops + args_.truth_count, 0.0f);
    std::atomic<index_t> left{chunks.count};
    for_each_chunk(policy_, chunks, [&](index_t, index_t, index_t) {
      const index_t chunk = left.fetch_sub(1, std::memory_order_relaxed) - 1;
      kernels_.compare(args_, chunks.begin(chunk), chunks.end(chunk),
                       summaries + chunk * args_.truth_count);
    });
  }

  void find_nan() {
    std::uint32_t* const first_nan = buffers_.first_nan.data();
    std::fill(first_nan, first_nan + truths_, no_anchor);
    if (call_.params.empty == empty_iou::zero) return;
    for (const match_truth& exceptional : buffers_.exceptional_truth)
      first_nan[exceptional.index] = kernels_.find_nan(args_, exceptional, false);
    if (args_.anchors.exceptional_count == 0) return;
    for (index_t j = 0; j < truths_; ++j) {
      const match_truth t = truth_of(truth_[j], j);
      if (first_nan[j] == no_anchor) first_nan[j] = kernels_.find_nan(args_, t, true);
    }
    for (index_t k = 0; k < args_.truth_count; ++k)
      if (first_nan[args_.truth[k].index] != no_anchor) args_.tops[k] = -1;
  }

  /// Adds low-quality matches, or forced matches of each box's best anchor.
  void keep_best() {
    const matcher_params& params = call_.params;
    if (!params.allow_low_quality && !params.force_best) return;
    const chunking chunks = chunks_of_tiles();
    truth_summary* const summaries = buffers_.summaries.data();
    for_each_chunk(policy_, chunks, [&](index_t chunk, index_t first, index_t last) {
      kernels_.mark(args_, first, last, summaries + chunk * args_.truth_count,
                    params.allow_low_quality);
    });
    std::uint32_t* const best = buffers_.best_anchor.data();
    if (params.skip_untouched) {  // a NaN IoU does not count as touching
      std::fill(best, best + truths_, no_anchor);
    } else {
      std::copy(buffers_.first_nan.data(), buffers_.first_nan.data() + truths_, best);
    }
    for (index_t k = 0; k < args_.truth_count; ++k) {
      for (index_t c = 0; c < chunks.count; ++c) {
        std::uint32_t& first = best[args_.truth[k].index];
        first = std::min(first, summaries[c * args_.truth_count + k].first);
      }
    }
    if (params.skip_untouched || anchors_ == 0) return;
    // For boxes that touch no anchor, all anchors tie with an IoU of 0.
    const std::uint32_t first = first_that_takes_part();
    for (index_t j = 0; j < truths_; ++j) {
      if (best[j] != no_anchor) continue;
      best[j] = first;
      args_.all_keep_best = params.allow_low_quality;
    }
  }

  std::uint32_t first_that_takes_part() const {
    if (args_.ignored == nullptr || !args_.ignore_matched) return 0;
    for (index_t i = 0; i < anchors_; ++i) {
      if (((args_.ignored[i / block_anchors] >> (i % block_anchors)) & 1) == 0)
        return static_cast<std::uint32_t>(i);
    }
    return no_anchor;
  }

  void force_best() {
    if (!call_.params.force_best) return;
    for (index_t j = 0; j < truths_; ++j) {
      const std::uint32_t anchor = buffers_.best_anchor[static_cast<std::size_t>(j)];
      if (anchor == no_anchor) continue;
      args_.lanes[anchor / block_anchors].best[anchor % block_anchors] =
          static_cast<std::int32_t>(j) | keeps_best;
    }
  }

  index_t finish() {
    constexpr index_t smallest_chunk = 8192;
    const chunking chunks(anchors_, smallest_chunk, block_anchors);
    index_t foreground[chunking::max_count];
    for_each_chunk(policy_, chunks, [&](index_t chunk, index_t first, index_t last) {
      foreground[chunk] = kernels_.finish(args_, first, last);
      if (!call_.results.deltas.empty() && foreground[chunk] > 0) encode(first, last);
    });
    index_t total = 0;
    for (index_t c = 0; c < chunks.count; ++c) total += foreground[c];
    return total;
  }

  /// Writes the deltas of the matched anchors among [first, last).
  void encode(index_t first, index_t last) const {
    constexpr index_t capacity = 64;
    float targets[4 * capacity], anchors[4 * capacity], deltas[4 * capacity];
    index_t encoded[capacity], count = 0;
    box_coding_args<float> args = coding_args<float>(call_.params.coder);
    args.in = targets;
    args.anchors = anchors;
    args.out = deltas;
    const auto flush = [&] {
      coding_kernels<float>::encode(call_.target)(args, 0, count);
      for (index_t k = 0; k < count; ++k)
        std::copy(deltas + 4 * k, deltas + 4 * k + 4,
                  call_.results.deltas[first_result_ + encoded[k]]);
      count = 0;
    };
    for (index_t i = first; i < last; ++i) {
      const index_t match = args_.matches[i];
      if (match < 0) continue;
      const float* const box = call_.truth.boxes[match];
      std::copy(box, box + 4, targets + 4 * count);
      const box_rows& rows = args_.anchors.blocks[i / block_anchors];
      const float* const from[4] = {rows.x1, rows.y1, rows.x2, rows.y2};
      for (int k = 0; k < 4; ++k) anchors[4 * count + k] = from[k][i % block_anchors];
      encoded[count++] = i;
      if (count == capacity) flush();
    }
    if (count > 0) flush();
  }

  const match_call& call_;
  match_image_buffers& buffers_;
  const matching_kernels& kernels_;
  threading policy_;
  index_t anchors_, first_result_;
  index_t first_truth_;
  boxes_view<const float> truth_, regions_;
  index_t truths_;
  match_args args_{};
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

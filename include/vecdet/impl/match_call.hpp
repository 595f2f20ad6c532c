// SPDX-License-Identifier: Apache-2.0
// A call of match_anchors: its arguments, their checks, and how the profiler names it.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/detail/apart.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/optional_view.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// What a region or box of the ground truth is to kernels.
inline match_truth truth_of(const float* box, index_t index) {
  // Each rounded: compilers may not contract the product with a sum.
  const volatile float area = (box[2] - box[0]) * (box[3] - box[1]);
  return {box[0], box[1], box[2], box[3], area, static_cast<std::int32_t>(index)};
}

inline boxes_view<const float> of_image(const boxes_view<const float>& boxes,
                                        const vector_view<const index_t>& offsets, index_t image) {
  if (offsets.empty()) return boxes;
  return {boxes[offsets[image]], offsets[image + 1] - offsets[image]};
}

struct match_call {
  const anchor_buffers& anchors;
  const ground_truth& truth;
  const match_results& results;
  const matcher_params& params;
  isa target;

  index_t images() const {
    return truth.image_offsets.empty() ? 1 : truth.image_offsets.size() - 1;
  }
  boxes_view<const float> truth_of_image(index_t k) const {
    return of_image(truth.boxes, truth.image_offsets, k);
  }
  boxes_view<const float> regions_of_image(index_t k) const {
    return of_image(truth.regions, truth.region_offsets, k);
  }

  void check_arguments() const {
    constexpr const char* function = "match_anchors";
    check(!is_nan(params.high_threshold), function, "params.high_threshold", params.high_threshold,
          "a number");
    check(!is_nan(params.low_threshold), function, "params.low_threshold", params.low_threshold,
          "a number");
    check(is_within(params.region_threshold, 0, 1), function, "params.region_threshold",
          params.region_threshold, "a number in [0, 1]");
    check(truth.classes.size() == 0 || truth.classes.size() == truth.boxes.size(), function,
          "truth.classes.size()", truth.classes.size(), "0 or the number of boxes");
    if (!truth.image_offsets.empty())
      check_offsets(function, "truth.image_offsets", truth.image_offsets, truth.boxes.size());
    if (!truth.region_offsets.empty())
      check_offsets(function, "truth.region_offsets", truth.region_offsets, truth.regions.size());
    check(truth.region_offsets.size() == (truth.regions.empty() && truth.region_offsets.empty()
                                              ? 0
                                              : truth.image_offsets.size()),
          function, "truth.region_offsets.size()", truth.region_offsets.size(),
          "the size of image_offsets");
    for (index_t k = 0; k < images(); ++k) {
      const index_t boxes = truth_of_image(k).size();
      check(boxes <= index_t{0x7fffffff}, function, "truth.boxes.size()", boxes,
            "at most 2^31 - 1 of an image");
    }
    const index_t total = images() * anchors.anchors;
    constexpr const char* expected = "0 or the number of anchors times that of images";
    check(results.matches.empty() || results.matches.size() == total, function,
          "results.matches.size()", results.matches.size(), expected);
    check(results.labels.empty() || results.labels.size() == total, function,
          "results.labels.size()", results.labels.size(), expected);
    check(results.best_ious.empty() || results.best_ious.size() == total, function,
          "results.best_ious.size()", results.best_ious.size(), expected);
    check(results.deltas.empty() || results.deltas.size() == total, function,
          "results.deltas.size()", results.deltas.size(), expected);
    check(results.foreground.empty() || results.foreground.size() == images(), function,
          "results.foreground.size()", results.foreground.size(), "0 or the number of images");
    check_memory();
    if (results.deltas.empty()) return;
    check_weight(function, "params.coder.weight_x", params.coder.weight_x);
    check_weight(function, "params.coder.weight_y", params.coder.weight_y);
    check_weight(function, "params.coder.weight_w", params.coder.weight_w);
    check_weight(function, "params.coder.weight_h", params.coder.weight_h);
    check(params.coder.anchors == box_format::xyxy, function, "params.coder.anchors",
          params.coder.anchors == box_format::xywh ? "xywh" : "cxcywh", "xyxy");
  }

  /// Results are written while other images are still matched.
  void check_memory() const {
    const struct {
      const char* name;
      address_range memory;
    } written[] = {{"results.matches", results.matches},
                   {"results.labels", results.labels},
                   {"results.best_ious", results.best_ious},
                   {"results.deltas", results.deltas},
                   {"results.foreground", results.foreground}},
      read[] = {{"truth.boxes", truth.boxes},
                {"truth.classes", truth.classes},
                {"truth.image_offsets", truth.image_offsets},
                {"truth.regions", truth.regions},
                {"truth.region_offsets", truth.region_offsets}};
    for (const auto& out : written) {
      for (const auto& in : read)
        check_apart("match_anchors", out.name, out.memory, in.name, in.memory);
      for (const auto& other : written) {
        if (&other < &out)
          check_apart("match_anchors", out.name, out.memory, other.name, other.memory);
      }
    }
  }

  profile::problem problem(const char* variant, int threads) const {
    const index_t total = images() * anchors.anchors;
    const index_t asked = (results.matches.empty() ? 0 : 8) + (results.labels.empty() ? 0 : 8) +
                          (results.best_ious.empty() ? 0 : 4);
    return {"match_anchors",
            variant,
            "f32",
            {images(), profile::rounded_count(truth.boxes.size()), anchors.anchors},
            isa_name(target),
            threads,
            total * asked + 16 * anchors.anchors};
  }
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

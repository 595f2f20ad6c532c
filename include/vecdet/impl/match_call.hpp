// SPDX-License-Identifier: Apache-2.0
// A call of match_anchors: its arguments, their checks, and the profiler's problem.
#pragma once

#include <vecdet/args/matching.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/matcher_checks.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A region or ground-truth box in the form that kernels take.
inline match_truth truth_of(const float* box, index_t index) {
  const float area = rounded((box[2] - box[0]) * (box[3] - box[1]));
  return {box[0], box[1], box[2], box[3], area, static_cast<std::int32_t>(index)};
}

struct match_call {
  const anchor_buffers& anchors;
  const ground_truth& truth;
  const match_results& results;
  const matcher_params& params;
  isa target;

  index_t images() const { return image_count(truth); }
  boxes_view<const float> image_truth(index_t k) const {
    return image_boxes(truth.boxes, truth.image_offsets, k);
  }
  boxes_view<const float> image_regions(index_t k) const {
    return image_boxes(truth.regions, truth.region_offsets, k);
  }

  void check_arguments() const {
    constexpr const char* function = "match_anchors";
    check_matcher(function, "params", params);
    check_optional_size(function, "truth.classes.size()", truth.classes.size(), truth.boxes.size(),
                        "the number of boxes");
    check_matched_truth(function, truth, images());
    const index_t total = images() * anchors.anchor_count;
    const auto check_result = [&](const char* argument, index_t size) {
      check_optional_size(function, argument, size, total, "images x anchors");
    };
    check_result("results.matches.size()", results.matches.size());
    check_result("results.labels.size()", results.labels.size());
    check_result("results.best_ious.size()", results.best_ious.size());
    check_result("results.deltas.size()", results.deltas.size());
    check_optional_size(function, "results.foreground.size()", results.foreground.size(), images(),
                        "the number of images");
    check_memory();
    if (results.deltas.empty()) return;
    check_corner_coder(function, "params.coder", params.coder);
  }

  /// Results are written while other images are still being matched.
  void check_memory() const {
    const struct {
      const char* name;
      address_range memory;
    } written[] = {{"results.matches", results.matches},
                   {"results.labels", results.labels},
                   {"results.best_ious", results.best_ious},
                   {"results.deltas", results.deltas},
                   {"results.foreground", results.foreground}};
    for (const auto& out : written) {
      for_each_memory_of(truth, [&](const char* truth_name, const address_range& memory) {
        check_apart("match_anchors", out.name, out.memory, truth_name, memory);
      });
      for (const auto& other : written) {
        if (&other < &out)
          check_apart("match_anchors", out.name, out.memory, other.name, other.memory);
      }
    }
  }

  profile::problem problem(const char* variant, int threads) const {
    const index_t total = images() * anchors.anchor_count;
    const index_t asked = (results.matches.empty() ? 0 : 8) + (results.labels.empty() ? 0 : 8) +
                          (results.best_ious.empty() ? 0 : 4);
    return {"match_anchors",
            variant,
            "f32",
            {images(), profile::rounded_count(truth.boxes.size()), anchors.anchor_count},
            isa_name(target),
            threads,
            total * asked + 16 * anchors.anchor_count};
  }
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

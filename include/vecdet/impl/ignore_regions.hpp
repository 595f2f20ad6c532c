// SPDX-License-Identifier: Apache-2.0
// Ignore regions in assigners: unmatched points inside a region, and unmatched anchors of which a
// region covers more than a fraction, as in matching.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

class ignore_regions {
 public:
  /// Points are ignored if they are inside a region.
  explicit ignore_regions(const ground_truth& truth) : truth_(truth) {}

  /// Anchors are ignored if a region covers more than `threshold` of their area. The points of
  /// `common` are their centres. `extents` is scratch memory.
  ignore_regions(const ground_truth& truth, const assigner_args& common,
                 const boxes_view<const float>& anchors, double threshold,
                 std::vector<float>& extents)
      : truth_(truth), anchors_(anchors), threshold_(static_cast<float>(threshold)) {
    if (truth.regions.empty()) return;
    index_t numbers = 0;
    for (index_t l = 0; l < common.level_count; ++l)
      numbers += 2 * (common.levels[l].width + common.levels[l].height);
    float* to = grown(extents, numbers);
    extents_ = to;
    for (index_t l = 0; l < common.level_count; ++l) {
      const point_level& level = common.levels[l];
      measure(level, to);
      to += 2 * (level.width + level.height);
    }
  }

  /// Sets the matches of unmatched points in the image's regions to -2.
  void mark(const assigner_args& common, const assigned_image& image) const {
    if (truth_.regions.empty()) return;
    const boxes_view<const float> regions =
        image_boxes(truth_.regions, truth_.region_offsets, image.image);
    for (index_t k = 0; k < regions.size(); ++k) {
      const float* const region = regions[k];
      if (!(region[0] < region[2] && region[1] < region[3])) continue;
      const float* extents = extents_;
      for (index_t l = 0; l < common.level_count; ++l) {
        const point_level& level = common.levels[l];
        mark_level(level, region, extents, image.matches);
        if (extents != nullptr) extents += 2 * (level.width + level.height);
      }
    }
  }

 private:
  /// Writes the least left and the greatest right side of each column's anchors, and the least top
  /// and greatest bottom side of each row's.
  void measure(const point_level& level, float* to) const {
    float* const left = to;
    float* const right = left + level.width;
    float* const top = right + level.width;
    float* const bottom = top + level.height;
    for (index_t r = 0; r < level.height; ++r) {
      for (index_t c = 0; c < level.width; ++c) {
        const float* const anchor = anchors_[level.first + r * level.width + c];
        left[c] = r == 0 ? anchor[0] : std::min(left[c], anchor[0]);
        right[c] = r == 0 ? anchor[2] : std::max(right[c], anchor[2]);
        top[r] = c == 0 ? anchor[1] : std::min(top[r], anchor[1]);
        bottom[r] = c == 0 ? anchor[3] : std::max(bottom[r], anchor[3]);
      }
    }
  }

  void mark_level(const point_level& level, const float* region, const float* extents,
                  index_t* matches) const {
    const float* const left = extents != nullptr ? extents : level.x;
    const float* const right = extents != nullptr ? left + level.width : level.x;
    const float* const top = extents != nullptr ? right + level.width : level.y;
    const float* const bottom = extents != nullptr ? top + level.height : level.y;
    for (index_t r = 0; r < level.height; ++r) {
      if (!(bottom[r] > region[1] && top[r] < region[3])) continue;
      for (index_t c = 0; c < level.width; ++c) {
        if (!(right[c] > region[0] && left[c] < region[2])) continue;
        const index_t i = level.first + r * level.width + c;
        if (matches[i] == -1 && (extents == nullptr || is_covered(anchors_[i], region)))
          matches[i] = -2;
      }
    }
  }

  bool is_covered(const float* anchor, const float* region) const {
    const float w = std::min(region[2], anchor[2]) - std::max(region[0], anchor[0]);
    const float h = std::min(region[3], anchor[3]) - std::max(region[1], anchor[1]);
    const float shared = rounded(std::max(w, 0.0f) * std::max(h, 0.0f));
    const float area = rounded((anchor[2] - anchor[0]) * (anchor[3] - anchor[1]));
    return quotient(shared, area) > threshold_;
  }

  const ground_truth& truth_;
  boxes_view<const float> anchors_;
  float threshold_ = 0;
  const float* extents_ = nullptr;  ///< null for points
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

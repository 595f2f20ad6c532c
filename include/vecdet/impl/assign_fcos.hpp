// SPDX-License-Identifier: Apache-2.0
// FCOS's assigner. It has no kernel, because a box is compared with only about ten points per
// level.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/assigners.hpp>

#include <algorithm>
#include <cstddef>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

class fcos_assigner {
 public:
  fcos_assigner(const assigner_args& common, const boxes_view<const float>& anchors, double radius,
                float* widest, float* best)
      : common_(common),
        anchors_(anchors),
        radius_(static_cast<float>(radius)),
        widest_(widest),
        best_(best) {
    for (index_t l = 0; l < common.level_count; ++l) {
      const point_level& level = common.levels[l];
      widest[l] = 0;
      for (index_t i = level.first; i < level.first + level.height * level.width; ++i)
        widest[l] = std::max(widest[l], width_of(i));
    }
  }

  /// Assigns each anchor of the image to the smallest box that accepts it. `rank` is 1e8 - area, as
  /// in torchvision.
  void match(const assigned_image& image) const {
    float* const best = best_ + image.image * common_.point_count;
    std::fill(best, best + common_.point_count, 0.0f);
    for (index_t box = image.first; box < image.last; ++box) {
      const float* const b = common_.truth + 4 * box;
      if (!is_finite(b[0]) || !is_finite(b[1]) || !is_finite(b[2]) || !is_finite(b[3])) continue;
      const float area = rounded((b[2] - b[0]) * (b[3] - b[1]));
      if (!is_finite(area)) continue;
      const float rank = 1e8f - area;
      if (!(rank >= 1e-5f)) continue;
      for (index_t l = 0; l < common_.level_count; ++l) {
        for_candidates(common_.levels[l], b, [&](index_t i) {
          if (!(rank > best[i]) || !accepts(i, l, b)) return;
          best[i] = rank;
          image.matches[i] = box;
        });
      }
    }
  }

 private:
  float width_of(index_t i) const { return anchors_(i, 2) - anchors_(i, 0); }

  /// Calls visit(i) for the anchors of the level whose centres may be inside the box and near its
  /// centre.
  template <class Visit>
  void for_candidates(const point_level& level, const float* b, const Visit& visit) const {
    if (level.height == 0 || level.width == 0) return;
    const auto begin = [](const float* axis, index_t size, float low) {
      return std::max<index_t>(0, std::lower_bound(axis, axis + size, low) - axis - 1);
    };
    const auto end = [](const float* axis, index_t size, float high) {
      return std::min<index_t>(size, std::upper_bound(axis, axis + size, high) - axis + 1);
    };
    const float reach = rounded(radius_ * widest_of(level));
    const float x = (b[0] + b[2]) / 2, y = (b[1] + b[3]) / 2;
    const index_t left = begin(level.x, level.width, std::max(b[0], x - reach));
    const index_t right = end(level.x, level.width, std::min(b[2], x + reach));
    const index_t top = begin(level.y, level.height, std::max(b[1], y - reach));
    const index_t bottom = end(level.y, level.height, std::min(b[3], y + reach));
    for (index_t r = top; r < bottom; ++r)
      for (index_t c = left; c < right; ++c) visit(level.first + r * level.width + c);
  }

  bool accepts(index_t i, index_t level, const float* b) const {
    const float x = common_.points[2 * i], y = common_.points[2 * i + 1], width = width_of(i);
    const float to_x = x - (b[0] + b[2]) / 2, to_y = y - (b[1] + b[3]) / 2;
    const float off = std::max(to_x < 0 ? -to_x : to_x, to_y < 0 ? -to_y : to_y);
    const float sides[] = {x - b[0], y - b[1], b[2] - x, b[3] - y};
    const float nearest = *std::min_element(sides, sides + 4);
    const float farthest = *std::max_element(sides, sides + 4);
    return off < radius_ * width && nearest > 0 && farthest > (level == 0 ? 0 : width * 4) &&
           (level + 1 == common_.level_count || farthest < width * 8);
  }

  float widest_of(const point_level& level) const {
    return widest_[static_cast<std::size_t>(&level - common_.levels)];
  }

  const assigner_args& common_;
  const boxes_view<const float>& anchors_;
  float radius_;
  const float* widest_;  ///< the width of each level's widest anchor
  float* best_;          ///< per anchor and image: the rank of the best box so far
};

/// Errors name `function`, the public function that was called.
inline void run_assign_fcos(const char* function, const boxes_view<const float>& anchors,
                            const vector_view<const grid_size>& levels, const ground_truth& truth,
                            const vector_view<index_t>& matches, const fcos_assigner_params& params,
                            assigner_buffers& buffers, threading policy) {
  const index_t points = anchors.size();
  const assigner_call call(function, points, "anchors", levels, truth, matches);
  check_float_from_0(function, "params.radius", params.radius);
  check_region_threshold(function, params.region_threshold);
  check_apart(function, "matches", matches, "anchors", anchors);
  const isa target = active_isa();
  const auto& kernels = detail::kernels<assigner_kernels>(target);
  const profile::scope timing([&] {
    profile::problem problem =
        call.problem("centers", 4 * points * index_t{sizeof(float)}, target, policy);
    problem.function = "assign_fcos";
    return problem;
  });
  const assigner_args args =
      call.prepare(kernels, anchor_centres(kernels, anchors, buffers, policy), 1, buffers, policy);
  const fcos_assigner assigner(args, anchors, params.radius, grown(buffers.widest, levels.size()),
                               grown(buffers.ranks, matches.size()));
  const ignore_regions regions(truth, args, anchors, params.region_threshold, buffers.extents);
  call.run(args, matches, nullptr, regions, policy, nullptr,
           [&](const assigned_image& image) { assigner.match(image); });
}

}  // namespace detail

inline void assign_fcos(boxes_view<const float> anchors, vector_view<const grid_size> levels,
                        const ground_truth& truth, vector_view<index_t> matches,
                        const fcos_assigner_params& params, assigner_workspace& workspace,
                        threading policy) {
  detail::run_assign_fcos("assign_fcos", anchors, levels, truth, matches, params,
                          detail::workspace_access::buffers(workspace), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet

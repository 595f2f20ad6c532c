// SPDX-License-Identifier: Apache-2.0
// Assigners: what the functions and their kernels agree on.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One level of points: x of its columns and y of its rows, ascending.
struct point_level {
  index_t first;  ///< index of its first point among all levels
  index_t height, width;
  const float* x;
  const float* y;
};

/// The arguments shared by all assigners.
struct assigner_args {
  const float* points;  ///< x and y of each point
  index_t point_count;
  const point_level* levels;
  index_t level_count;
  const float* truth;  ///< corners of the boxes of all images
  index_t most;        ///< the most points that a box can choose
  index_t* chosen;     ///< `most` per box
  float* values;       ///< the IoU or metric of the chosen points
  index_t* counts;     ///< the number of points that each box has chosen
};

struct atss_args {
  assigner_args common;
  const float* anchors;  ///< corners
  index_t candidates;    ///< per box and level
};

struct task_aligned_args {
  assigner_args common;
  const float* scores;  ///< image after image, one row per point
  index_t stride;
  const float* predictions;  ///< corners, image after image
  labels_view classes;       ///< of the boxes
  float alpha, beta;
  index_t final_top;  ///< 0: all
  /// The coordinates of the boxes in the search for points, with padding for 16 more.
  const float* planes[4];
  // Scratch memory: `most` elements per box; two per box in `greatest`.
  index_t* positives;
  float* metrics;
  float* greatest;
};

/// Boxes [first, last) of an image, and the results for the image's points.
struct assigned_image {
  index_t image, first, last;
  index_t* matches;
  float* targets;  ///< null except for the task-aligned assigner
};

struct assigner_kernels {
  /// Writes the centres of anchors [first, last), x and y of each.
  void (*centres)(const float* anchors, index_t first, index_t last, float* points);
  /// Returns the first point of a level that is not at its column's x and row's y, or the number of
  /// points.
  index_t (*find_off_grid)(const float* points, const point_level&);
  /// Chooses the points of box `box`.
  void (*atss_candidates)(const atss_args&, index_t box);
  void (*atss_matches)(const atss_args&, const assigned_image&);
  void (*task_aligned_candidates)(const task_aligned_args&, index_t image, index_t box);
  void (*task_aligned_matches)(const task_aligned_args&, const assigned_image&);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

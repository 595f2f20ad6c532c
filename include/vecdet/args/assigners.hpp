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
  index_t first;  ///< its first point among all levels'
  index_t height, width;
  const float* x;
  const float* y;
};

/// The arguments that all assigners have.
struct assigner_args {
  const float* points;  ///< x and y of each
  index_t point_count;
  const point_level* levels;
  index_t level_count;
  const float* truth;  ///< corners of the boxes of all images
  index_t most;        ///< points that a box chooses, at most
  index_t* chosen;     ///< `most` a box
  float* values;       ///< their IoU or metric
  index_t* counts;     ///< how many points each box has chosen
};

struct atss_args {
  assigner_args common;
  const float* anchors;  ///< corners
  index_t candidates;    ///< of each level
};

struct task_aligned_args {
  assigner_args common;
  const float* scores;  ///< image after image, a row a point
  index_t stride;
  const float* predictions;  ///< corners, image after image
  labels_view classes;       ///< of the boxes
  float alpha, beta;
  const float* planes[4];  ///< the coordinates of the boxes, and memory for 16 more
  // Memory: `most` elements a box, of `greatest` two.
  index_t* positives;
  float* metrics;
  float* greatest;
};

/// Boxes [first, last) of an image, and what the image's points are given.
struct assigned_image {
  index_t image, first, last;
  index_t* matches;
  float* targets;  ///< null but for the task-aligned assigner
};

struct assigner_kernels {
  /// The centres of anchors [first, last), x and y of each.
  void (*centres)(const float* anchors, index_t first, index_t last, float* points);
  /// The first point of a level that does not lie in its row and column; their number where there
  /// is none.
  index_t (*find_off_grid)(const float* points, const point_level&);
  /// What box `box` chooses.
  void (*atss_candidates)(const atss_args&, index_t box);
  void (*atss_matches)(const atss_args&, const assigned_image&);
  void (*task_aligned_candidates)(const task_aligned_args&, index_t image, index_t box);
  void (*task_aligned_matches)(const task_aligned_args&, const assigned_image&);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

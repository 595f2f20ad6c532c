// SPDX-License-Identifier: Apache-2.0
// Assigners: what the functions and their kernels agree on.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
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
  const float* truth;  ///< the boxes of all images: corners, or centre, size and angle
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
  const float* predictions;  ///< boxes, image after image
  labels_view classes;       ///< of the boxes
  float alpha, beta;
  index_t final_top;  ///< 0: all
  /// The coordinates of upright boxes in the search for points, with padding for 16 more.
  const float* planes[4];
  /// Of rotated boxes. In the search for points, sides below `least_side` are `grown_side`.
  index_t truth_stride, prediction_stride;
  angle_rule angles;
  float least_side, grown_side;
  void (*prob_ious)(const rotated_iou_args<float>&, index_t first, index_t last);
  /// Scratch memory: centre, half width, half height, cosine and sine of rotated boxes, with
  /// padding for 16 more.
  double* turned[6];
  // Scratch memory: `most` elements per box; two per box in `greatest`.
  index_t* positives;
  float* metrics;
  float* greatest;
};

struct sim_ota_args {
  assigner_args common;
  const float* logits;  ///< image after image, one row per point
  index_t stride, class_count;
  const float* objectness;   ///< logits, image after image
  const float* predictions;  ///< corners, image after image
  labels_view classes;       ///< of the boxes
  const float* reaches;      ///< of the centre prior, per level
  float iou_weight;
  // Scratch memory. Per image: the points near some box, with one element more; their predictions,
  // with room for 16 more; and the cost of background of each point.
  index_t* near;
  float* near_boxes;
  float* background;
  const index_t* near_counts;  ///< per image
  index_t* positives;          ///< `most` per box
};

/// Boxes [first, last) of an image, and the results for the image's points.
struct assigned_image {
  index_t image, first, last;
  index_t* matches;
  float* targets;  ///< null for ATSS and FCOS's assigner
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
  /// The same for rotated boxes.
  void (*rotated_task_aligned_candidates)(const task_aligned_args&, index_t image, index_t box);
  void (*rotated_task_aligned_matches)(const task_aligned_args&, const assigned_image&);
  /// Lists the points near boxes [first, last) of an image. Returns how many there are.
  index_t (*sim_ota_near)(const sim_ota_args&, index_t image, index_t first, index_t last);
  /// Computes the costs of background of points [first, last) of the image's list.
  void (*sim_ota_background)(const sim_ota_args&, index_t image, index_t first, index_t last);
  void (*sim_ota_choose)(const sim_ota_args&, index_t image, index_t box);
  /// Returns the number of assigned points.
  index_t (*sim_ota_matches)(const sim_ota_args&, const assigned_image&);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

// SPDX-License-Identifier: Apache-2.0
// Bipartite matching of a DETR's queries with the ground-truth boxes: one query per box, for all
// images, decoder layers and query groups in one call. Carion et al.: "End-to-End Object Detection
// with Transformers", arXiv 2005.12872, section 3.1.
//
// The cost of query q and box b of its image, with the predicted box p and the box t as cx cy w h:
//
//   cost   = (l1_weight L1 + class_weight C) - giou_weight GIoU
//   L1     = |p - t| of cx, cy, w and h, added in this order
//   GIoU   = IoU - (H - U) / (H + 1e-16), IoU = I / (U + 1e-16); iou.hpp defines the areas
//   focal  C = alpha q^gamma (-log(p + epsilon)) - (1 - alpha) p^gamma (-log(q + epsilon)),
//          p = sigmoid of the logit of the box's class, q = 1 - p
//   softmax  C = -p, the softmax probability of the box's class among all columns
//
// Corners are cx -+ w / 2 and cy -+ h / 2. Costs are computed in float, in this order and without
// contraction except in exp and log, so they are bit-identical on AVX2, AVX-512 and Arm; on the
// baseline, class costs may differ in the last digits. A cost that is NaN or above 1e6 counts as
// 1e6; a cost below -1e6 counts as -1e6. A NaN logit or coordinate makes the costs NaN.
//
// The assignment has the least total cost of all complete assignments. It is found by shortest
// augmenting paths in double: Crouse, "On implementing 2D rectangular assignment algorithms", 2016,
// as in SciPy's linear_sum_assignment. It is exact except for the rounding of sums in double. Boxes
// are assigned one after the other. The search for a box's query visits queries in order of their
// distance, the length of the shortest augmenting path. Among queries at the same distance, the
// search takes the first one without a box, or the first one if all have boxes.
#pragma once

#include <vecdet/detr_outputs.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/query_matching_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/query_class_cost.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct query_match_params {
  query_class_cost class_cost = query_class_cost::focal;
  double alpha = 0.25;    ///< focal: weight of positives, in [0, 1]
  double gamma = 2;       ///< focal: focusing exponent, 0 or more; 2 is fast
  double epsilon = 1e-8;  ///< focal: added to probabilities before the log, in [1e-18, 1]
  double class_weight = 2, l1_weight = 5, giou_weight = 2;  ///< weights of the costs
  /// The number of consecutive groups of equal size into which the queries of an image are divided;
  /// 1 or more. Each group is matched separately, as in Group DETR.
  index_t groups = 1;

  /// RT-DETR, DINO, Deformable DETR: focal cost, weights 2, 5, 2.
  static query_match_params rt_detr() { return {}; }
  /// DETR: softmax cost, weights 1, 5, 2.
  static query_match_params detr() {
    query_match_params params;
    params.class_cost = query_class_cost::softmax;
    params.class_weight = 1;
    return params;
  }
};

/// Scratch memory for match_queries, for the largest group of queries and the image with the most
/// boxes. Per thread, it is at most 1 KiB, 4 bytes per pair of a query and a box, 40 bytes per
/// query and 104 per box; queries and boxes are rounded up to multiples of 16. A group with fewer
/// queries than boxes needs the pairs twice, and the softmax cost of bfloat16 needs 64 bytes per
/// class. All threads share 16 bytes per box of the batch. The memory grows to the needs of the
/// largest call and is reused. Only one call at a time may use it.
class query_match_workspace {
  friend detail::workspace_access;
  detail::query_match_buffers buffers_;
};

/// Matches the queries of each layer, image and group with the boxes of the image. `truth.boxes`
/// are cx cy w h like the predicted boxes. `truth.classes` are columns of the logits; the softmax
/// cost excludes the last one. Without classes, all are 0. Layers may have different numbers of
/// queries and columns.
///
/// Writes one index per layer, group and box, in this order: the query in its image, from 0 to
/// queries - 1, or -1 for a box without a query, if the group has fewer queries than the image has
/// boxes. `matches` has layers x params.groups x boxes elements. T is float or bfloat16.
///
/// Throws std::invalid_argument, and writes nothing, if sizes differ, the rows of a layer are not a
/// multiple of images x groups, offsets do not ascend from 0 to the number of boxes, a class is not
/// a column, `truth` has regions, a parameter is out of range or not a finite float, or `matches`
/// shares memory with an input.
template <class T>
void match_queries(vector_view<const detr_outputs<T>> layers, const ground_truth& truth,
                   vector_view<index_t> matches, const query_match_params& params,
                   query_match_workspace& workspace, threading policy = threading::parallel);

/// Scratch memory for assign_least_cost: a copy of the costs, with the longer side rounded up to a
/// multiple of 16, and at most 40 bytes per row and column.
class assignment_workspace {
  friend detail::workspace_access;
  detail::assignment_buffers buffers_;
};

/// Assigns rows to columns at the least total cost, as described above, and returns that cost,
/// added row by row. Writes the column of each row to `columns`, or -1 for a row without a column
/// if there are more rows than columns. With more rows than columns, the columns are assigned one
/// after the other. Runs on the calling thread. T is float or double.
///
/// A cost of +infinity forbids a pair. Throws std::invalid_argument, and writes nothing, if a cost
/// is NaN, -infinity or a finite number beyond +-1e300, every complete assignment has a forbidden
/// pair, the size of `columns` is not the number of rows, or `columns` shares memory with the
/// costs.
template <class T>
double assign_least_cost(matrix_view<T> costs, vector_view<index_t> columns,
                         assignment_workspace& workspace);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/query_matching.hpp>
